"""A body comes in any portions, and takes up no more than it may."""

import pytest

from anyport.ingress.http.body import BODY_BYTES_MAX, Body
from anyport.protocol.room import Room
from anyport.wire.http import BadMessage, chunk


@pytest.fixture
def room() -> Room:
    return Room()


@pytest.mark.parametrize("step", [1, 3, 100])
def test_a_counted_body_is_whole_when_it_is_as_long_as_it_says(room: Room, step: int) -> None:
    body = Body(5, room, kept=True)
    raw = b"helloGET /"
    fed = 0
    while True:
        portion = raw[fed : fed + step]
        fed += step
        if body.feed(portion):
            break

    assert body.take() == b"hello"
    assert b"GET /".startswith(body.rest)


def test_a_body_of_nothing_is_whole_at_once(room: Room) -> None:
    body = Body(0, room, kept=True)

    assert body.feed(b"GET /")
    assert (body.take(), body.rest) == (b"", b"GET /")


def test_a_chunked_body_is_whole_when_it_says_so(room: Room) -> None:
    body = Body(-1, room, kept=True)

    assert not body.feed(chunk(b"hel"))
    assert not body.feed(chunk(b"lo")[:3])
    assert body.feed(chunk(b"lo")[3:] + b"0\r\n\r\nGET /")
    assert (body.take(), body.rest) == (b"hello", b"GET /")


def refusal(length: int, room: Room, *portions: bytes, kept: bool = True) -> int:
    with pytest.raises(BadMessage) as refused:
        body = Body(length, room, kept=kept)
        for portion in portions:
            body.feed(portion)
    return refused.value.status


def test_a_body_over_the_limit_is_refused_as_soon_as_that_is_known(room: Room) -> None:
    half = chunk(b"x" * (BODY_BYTES_MAX // 2))

    assert refusal(BODY_BYTES_MAX + 1, room) == 413
    assert refusal(-1, room, half, half, chunk(b"x")) == 413
    assert refusal(-1, room, half, half, chunk(b"x"), kept=False) == 413


def test_what_is_not_chunked_as_it_should_be_is_refused(room: Room) -> None:
    assert refusal(-1, room, b"zz\r\n") == 400


def test_all_bodies_together_have_a_limit_and_what_is_let_go_is_given_back(room: Room) -> None:
    room.bytes_max = 10
    first, second = Body(6, room, kept=True), Body(6, room, kept=True)
    first.feed(b"123456")
    with pytest.raises(BadMessage) as refused:
        second.feed(b"12345")
    assert refused.value.status == 503

    second.let_go()
    assert room.taken_bytes == 6
    assert first.take() == b"123456"
    first.let_go()

    assert room.taken_bytes == 0


def test_a_body_that_nobody_will_read_takes_up_nothing(room: Room) -> None:
    body = Body(5, room, kept=False)

    assert body.feed(b"hello")
    assert room.taken_bytes == 0
    assert body.take() == b""

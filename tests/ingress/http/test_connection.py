"""Request bodies arrive in any portions and stay within limits; timeouts have names."""

import pytest

from anyport.ingress.http.connection import (
    AGE_SECONDS_MAX,
    AGE_SPREAD,
    BODY_BYTES_MAX,
    BODY_SECONDS_MAX,
    HEAD_SECONDS_MAX,
    IDLE_SECONDS_MAX,
    RequestBody,
    retirement_time,
    timeout_kind,
    timeout_message,
)
from anyport.protocol.errors import Timeout
from anyport.protocol.memory_budget import MemoryBudget
from anyport.wire.http1 import CHUNKS_MAX, BadMessage, encode_chunk


@pytest.fixture
def room() -> MemoryBudget:
    return MemoryBudget()


@pytest.mark.parametrize("step", [1, 3, 100])
def test_a_counted_body_is_complete_at_its_length(room: MemoryBudget, step: int) -> None:
    body = RequestBody(5, room)
    raw = b"helloGET /"
    fed = 0
    while True:
        portion = raw[fed : fed + step]
        fed += step
        if body.feed(portion):
            break

    assert body.take_bytes() == b"hello"
    assert b"GET /".startswith(body.rest)


def test_a_body_of_nothing_is_whole_at_once(room: MemoryBudget) -> None:
    body = RequestBody(0, room)

    assert body.feed(b"GET /")
    assert (body.take_bytes(), body.rest) == (b"", b"GET /")


def test_a_chunked_body_is_complete_after_its_last_chunk(room: MemoryBudget) -> None:
    body = RequestBody(-1, room)

    assert not body.feed(encode_chunk(b"hel"))
    assert not body.feed(encode_chunk(b"lo")[:3])
    assert body.feed(encode_chunk(b"lo")[3:] + b"0\r\n\r\nGET /")
    assert (body.take_bytes(), body.rest) == (b"hello", b"GET /")


def refusal(length: int, room: MemoryBudget, *portions: bytes) -> int:
    with pytest.raises(BadMessage) as refused:
        body = RequestBody(length, room)
        for portion in portions:
            body.feed(portion)
    return refused.value.status


def test_a_body_over_the_limit_is_refused_as_soon_as_that_is_known(room: MemoryBudget) -> None:
    half = encode_chunk(b"x" * (BODY_BYTES_MAX // 2))

    assert refusal(BODY_BYTES_MAX + 1, room) == 413
    assert refusal(-1, room, half, half, encode_chunk(b"x")) == 413


def test_what_is_not_chunked_as_it_should_be_is_refused(room: MemoryBudget) -> None:
    assert refusal(-1, room, b"zz\r\n") == 400


def test_all_bodies_together_have_a_limit_and_what_is_let_go_is_given_back(
    room: MemoryBudget,
) -> None:
    room.bytes_max = 10
    first, second = RequestBody(6, room), RequestBody(6, room)
    first.feed(b"123456")
    with pytest.raises(BadMessage) as refused:
        second.feed(b"12345")
    assert refused.value.status == 503

    second.release()
    assert room.used_bytes == 6
    assert first.take_bytes() == b"123456"
    first.release()

    assert room.used_bytes == 0


def test_of_thousands_of_chunks_some_are_taken_at_a_time(room: MemoryBudget) -> None:
    body = RequestBody(-1, room)

    whole, turns = body.feed(encode_chunk(b"x") * 10_000 + b"0\r\n\r\nGET /"), 1
    while not whole:
        assert body.has_more_chunks
        whole, turns = body.feed(b""), turns + 1

    assert turns >= 10_000 // CHUNKS_MAX
    assert (body.take_bytes(), body.rest, body.has_more_chunks) == (b"x" * 10_000, b"GET /", False)


# Timeouts.


@pytest.mark.parametrize(
    ("head_read", "begun", "open_seconds", "timeout"),
    [
        (True, False, HEAD_SECONDS_MAX, Timeout.BODY),
        (True, True, 1000.0, Timeout.BODY),
        (False, True, 1000.0, Timeout.HEAD),
        (False, False, HEAD_SECONDS_MAX, Timeout.HEAD),
        (False, False, IDLE_SECONDS_MAX, Timeout.IDLE),
        (False, False, 1000.0, Timeout.IDLE),
    ],
)
def test_which_time_is_over(
    head_read: bool, begun: bool, open_seconds: float, timeout: Timeout
) -> None:
    assert timeout_kind(head_read=head_read, begun=begun, open_seconds=open_seconds) is timeout


def test_a_request_timeout_names_its_limit() -> None:
    assert f"{HEAD_SECONDS_MAX:g} s" in timeout_message(Timeout.HEAD)
    assert f"{BODY_SECONDS_MAX:g} s" in timeout_message(Timeout.BODY)


def test_connections_that_were_opened_together_are_not_all_closed_together() -> None:
    assert retirement_time(5.0, 0.0) == 5.0 + AGE_SECONDS_MAX
    assert retirement_time(5.0, 1.0) == 5.0 + AGE_SECONDS_MAX * (1 - AGE_SPREAD)

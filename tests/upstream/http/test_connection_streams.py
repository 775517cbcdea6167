"""One connection to a server: streams, giving up, and how long one waits."""

import pytest

from anyport.protocol.errors import Timeout
from anyport.upstream.http.connection import (
    INTERIM_REPLIES_MAX,
    KEPT_SECONDS_MAX,
    HttpFailure,
    HttpFailureKind,
)
from tests.upstream.http.connections import BODY, OK, STREAM, WHOLE, FakeHttpClient, Scene, chunk


def test_a_stream_is_told_as_it_comes() -> None:
    scene = Scene()
    scene.hear(STREAM)
    assert scene.told.calls == ["opened"]

    scene.hear(chunk(b"data: 1\n\n"), chunk(b"data: 2\n\n"))
    assert scene.told.body == b"data: 1\n\ndata: 2\n\n"

    scene.hear(b"0\r\n\r\n")
    assert scene.told.calls == ["opened", "portion", "portion", "closed"]
    assert scene.told.trouble is None
    assert scene.pool.released == 1


def test_a_stream_may_be_longer_than_any_body() -> None:
    scene = Scene(FakeHttpClient(bytes_max=10))

    scene.hear(STREAM, *[chunk(b"data: 1\n\n")] * 50)

    assert scene.told.trouble is None
    assert len(scene.told.body) == 450


def test_a_stream_that_is_cut_says_so() -> None:
    scene = Scene()
    scene.hear(STREAM, chunk(b"data: 1\n\n"))

    scene.connection.connection_lost(None)

    assert scene.told.calls[-1] == "closed"
    assert scene.trouble[0] is HttpFailureKind.CUT_OFF


def test_giving_up_closes_the_connection_and_nobody_is_called() -> None:
    scene = Scene()
    scene.hear(STREAM)

    scene.connection.cancel(scene.told)
    scene.connection.cancel(scene.told)
    scene.connection.connection_lost(None)

    assert scene.told.calls == ["opened"]
    assert scene.transport.closing == "aborted"


def test_giving_up_in_the_middle_of_a_stream_leaves_no_line_to_use_again() -> None:
    scene = Scene()
    scene.told.on_portion = lambda: scene.connection.cancel(scene.told)

    scene.hear(STREAM + chunk(b"data: 1\n\n") + b"0\r\n\r\n")

    assert scene.told.calls == ["opened", "portion"]
    assert scene.pool.released == 0


def test_giving_up_after_the_reply_leaves_the_line_to_others() -> None:
    scene = Scene()
    scene.hear(WHOLE)
    scene.ask()

    scene.connection.cancel(scene.told)

    assert scene.transport.closing is None


def test_a_few_interim_replies_are_passed_over_and_more_are_an_attack() -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    patient, flooded = Scene(), Scene()

    patient.hear(interim * INTERIM_REPLIES_MAX + WHOLE)
    flooded.hear(interim * (INTERIM_REPLIES_MAX + 1) + WHOLE)

    assert patient.told.body == BODY
    assert flooded.trouble[0] is HttpFailureKind.MALFORMED


def test_the_count_of_interim_replies_begins_anew_with_each_request() -> None:
    scene = Scene()
    for _ in range(INTERIM_REPLIES_MAX + 1):
        scene.hear(b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE)
        assert scene.told.body == BODY
        scene.told = scene.ask()


def test_an_idle_line_is_used_again_only_while_it_is_young() -> None:
    scene = Scene()
    scene.hear(WHOLE)
    scene.connection.idle_since = 100.0

    assert scene.connection.usable(100.0 + KEPT_SECONDS_MAX)
    assert not scene.connection.usable(100.1 + KEPT_SECONDS_MAX)
    assert scene.transport.closing == "aborted"
    assert not scene.connection.open


def test_a_reply_that_does_not_begin_is_given_up() -> None:
    scene = Scene()
    scene.connection.check_timeouts(0.0)
    scene.connection.check_timeouts(4.9)
    assert not scene.told.calls

    scene.connection.check_timeouts(5.0)

    words = "no reply began within 5 s (firstByteSeconds)"
    assert scene.told.trouble == HttpFailure(
        HttpFailureKind.TIMEOUT, words, timeout=Timeout.FIRST_BYTE
    )
    assert scene.transport.closing == "aborted"
    assert scene.pool.late == [Timeout.FIRST_BYTE]


@pytest.mark.parametrize("begun", [OK, OK + b"Content-Length: 9\r\n\r\n{", STREAM])
def test_a_reply_that_stops_is_given_up(begun: bytes) -> None:
    scene = Scene()
    scene.connection.check_timeouts(0.0)
    scene.hear(begun)
    scene.connection.check_timeouts(4.0)
    scene.connection.check_timeouts(23.9)
    assert scene.told.trouble is None

    scene.connection.check_timeouts(24.0)

    words = "it sent nothing for 20 s (streamIdleSeconds)"
    assert scene.told.trouble == HttpFailure(
        HttpFailureKind.TIMEOUT, words, timeout=Timeout.STREAM_IDLE
    )
    assert scene.pool.late == [Timeout.STREAM_IDLE]


def test_a_comment_now_and_then_keeps_a_stream_open() -> None:
    scene = Scene()
    scene.hear(STREAM)
    for now in range(0, 200, 10):
        scene.connection.check_timeouts(float(now))
        scene.hear(chunk(b": \n"))

    assert scene.told.trouble is None
    assert scene.connection.open
    assert scene.pool.late == []


@pytest.mark.parametrize(("waits", "given_up"), [(Timeout.STREAM_IDLE, True), (None, False)])
def test_whoever_asks_decides_how_long_a_reply_may_take_to_begin(
    waits: Timeout | None, given_up: bool
) -> None:
    scene = Scene()
    scene.told.wait_timeout = waits
    scene.connection.check_timeouts(0.0)
    scene.connection.check_timeouts(19.9)
    assert scene.connection.open

    scene.connection.check_timeouts(20.0)

    assert (scene.told.trouble is not None) is given_up

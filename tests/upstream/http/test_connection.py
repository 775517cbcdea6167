"""One connection to a server: replies in any pieces, and nothing that is not one."""

import gzip
from math import inf

import pytest

from anyport.config.model import CONNECT_SECONDS_DEFAULT, STREAM_IDLE_SECONDS_DEFAULT, ServerConfig
from anyport.protocol.errors import Timeout
from anyport.protocol.memory_budget import LARGE_BYTES
from anyport.protocol.scheduler import HEAVY_BYTES, FairScheduler, WorkSteps, cost_of
from anyport.upstream.http.connection import (
    AGE_SECONDS_MAX,
    AGE_SPREAD,
    SWEEP_SECONDS_MAX,
    HttpFailureKind,
    HttpTimeouts,
    http_timeouts_of,
)
from anyport.wire.http1 import HEAD_BYTES_MAX
from tests.upstream.http.connections import BODY, CHUNKED, OK, WHOLE, FakeHttpClient, Scene, chunk


def test_a_whole_reply_is_given_to_its_taker_and_the_line_is_free() -> None:
    scene = Scene()

    told = scene.hear(WHOLE)

    assert (told.calls, told.body) == (["answered"], BODY)
    assert told.head is not None
    assert told.head.status == 200
    assert scene.pool.released == 1
    assert scene.transport.written == b"POST / HTTP/1.1\r\n\r\n"


@pytest.mark.parametrize(
    ("reply", "body"),
    [
        (WHOLE, BODY),
        (CHUNKED + chunk(BODY[:7]) + chunk(BODY[7:]) + b"0\r\n\r\n", BODY),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE, BODY),
        (b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
)
@pytest.mark.parametrize("known", [False, True])
def test_a_reply_split_anywhere_is_the_same_reply(reply: bytes, body: bytes, known: bool) -> None:
    pool = FakeHttpClient()
    if known:
        Scene(pool).hear(reply)
    for at in range(1, len(reply)):
        scene = Scene(pool)

        told = scene.hear(reply[:at], reply[at:])

        assert (told.calls, told.body) == (["answered"], body), at
        assert scene.transport.closing is None


def test_a_body_as_long_as_its_head_is_not_taken_from_the_head() -> None:
    lengths = range(len(OK), len(OK) + 60)
    for length in lengths:
        head = OK + b"Content-Length: %d" % length
        pool = FakeHttpClient()
        Scene(pool).hear(head + b"\r\n\r\n" + b"y" * length)

        told = Scene(pool).hear(head + b"\r", b"\n\r\n" + b"y" * length)

        assert told.body == b"y" * length


def test_a_line_is_used_for_one_request_after_the_other() -> None:
    scene = Scene()
    first = scene.hear(WHOLE)
    second = scene.ask()
    scene.hear(CHUNKED, chunk(b"{}"), b"0\r\n\r\n")
    third = scene.ask()
    scene.hear(WHOLE)

    assert [told.body for told in (first, second, third)] == [BODY, b"{}", BODY]
    assert scene.pool.released == 3


def test_a_server_that_closes_after_its_reply_is_believed() -> None:
    scene = Scene()

    told = scene.hear(OK + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}")

    assert told.body == b"{}"
    assert scene.transport.closing == "closed"
    assert scene.pool.released == 0


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    scene = Scene()
    told = scene.hear(OK + b"\r\n", b'{"a"', b":1}")
    assert not told.calls

    scene.connection.eof_received()

    assert told.body == b'{"a":1}'
    assert scene.transport.closing == "closed"


@pytest.mark.parametrize(
    "reply", [b"", WHOLE[:10], WHOLE[:-1], CHUNKED, CHUNKED + chunk(BODY), CHUNKED + b"5\r\nab"]
)
def test_a_reply_that_is_cut_short_is_no_reply(reply: bytes) -> None:
    scene = Scene()
    scene.hear(*[reply] * bool(reply))

    scene.connection.eof_received()
    scene.connection.connection_lost(None)

    assert scene.told.calls == ["failed"]
    assert scene.trouble[0] is HttpFailureKind.CUT_OFF
    assert scene.pool.forgotten == 1


@pytest.mark.parametrize("after", [WHOLE, b"\r\n", b"x"])
def test_a_reply_that_nobody_asked_for_costs_the_connection(after: bytes) -> None:
    scene = Scene()
    told = scene.hear(WHOLE)

    scene.hear(after)

    assert told.calls == ["answered"]
    assert scene.transport.closing == "aborted"


def test_two_replies_at_once_are_none() -> None:
    scene = Scene()

    scene.hear(WHOLE + WHOLE)

    assert scene.told.calls == ["failed"]
    assert scene.trouble[0] is HttpFailureKind.MALFORMED
    assert scene.transport.closing == "aborted"


def test_what_follows_a_chunked_reply_costs_the_connection_but_not_the_reply() -> None:
    scene = Scene()

    told = scene.hear(CHUNKED + chunk(BODY) + b"0\r\n\r\n" + WHOLE)

    assert (told.calls, told.body) == (["answered"], BODY)
    assert scene.pool.released == 0
    assert scene.transport.closing == "closed"


@pytest.mark.parametrize(
    "reply",
    [
        b"SSH-2.0-OpenSSH_9.7\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\n{}",
        CHUNKED + b"zz\r\n",
        CHUNKED + b"2\r\n{}x\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-Long: y\r\n" * HEAD_BYTES_MAX,
        OK + b"Content-Length: 2\r\n\r\n{}x",
    ],
)
def test_what_is_not_http_is_an_error_and_costs_the_connection(reply: bytes) -> None:
    scene = Scene()

    scene.hear(reply)

    assert scene.told.calls == ["failed"]
    assert scene.trouble[0] is HttpFailureKind.MALFORMED
    assert scene.transport.closing == "aborted"


@pytest.mark.parametrize("framed", [True, False])
def test_a_body_over_the_limit_is_given_up(framed: bool) -> None:
    scene = Scene(FakeHttpClient(bytes_max=100))
    body = b"y" * 101

    if framed:
        scene.hear(OK + b"Content-Length: 101\r\n\r\n", body)
    else:
        scene.hear(CHUNKED, chunk(body[:60]), chunk(body[60:]))

    assert scene.trouble[0] is HttpFailureKind.TOO_LARGE
    assert "100 bytes" in scene.trouble[1]
    assert scene.transport.closing == "aborted"


@pytest.mark.parametrize("counted", [True, False])
def test_a_large_reply_takes_up_room_while_it_comes(counted: bool) -> None:
    pool = FakeHttpClient(1 << 20)
    scene = Scene(pool)
    body = b"x" * (2 * LARGE_BYTES)
    head = OK + b"Content-Length: %d\r\n\r\n" % len(body) if counted else CHUNKED
    half = len(body) // 2 + 1
    scene.hear(head, body[:half] if counted else chunk(body[:half]))
    assert pool.memory_budget.used_bytes == half

    scene.hear(body[half:] if counted else chunk(body[half:]) + b"0\r\n\r\n")

    assert scene.told.body == body
    assert pool.memory_budget.used_bytes == 0


@pytest.mark.parametrize("cut", [True, False])
def test_a_large_reply_for_which_there_is_no_room_fails_alone(cut: bool) -> None:
    pool = FakeHttpClient(1 << 20)
    pool.memory_budget.bytes_max = LARGE_BYTES + 10
    scene = Scene(pool)
    scene.hear(CHUNKED, chunk(b"x" * (LARGE_BYTES + 1)))
    assert pool.memory_budget.used_bytes == LARGE_BYTES + 1

    if not cut:
        scene.hear(chunk(b"x" * 10))
        assert scene.trouble[0] is HttpFailureKind.NO_MEMORY
        assert scene.transport.closing == "aborted"
    scene.connection.connection_lost(None)

    assert pool.memory_budget.used_bytes == 0
    assert scene.told.calls == ["failed"]


def squeezed(body: bytes, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (size, body)


def test_a_compressed_reply_is_unpacked() -> None:
    scene = Scene()

    assert scene.hear(squeezed(gzip.compress(BODY, mtime=0))).body == BODY
    assert scene.pool.released == 1


def test_a_compressed_reply_may_have_no_body_at_all() -> None:
    assert Scene().hear(squeezed(b"")).calls == ["answered"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (gzip.compress(bytes(5000), mtime=0), HttpFailureKind.TOO_LARGE),
        (b"not gzip", HttpFailureKind.MALFORMED),
        (gzip.compress(BODY, mtime=0)[:-4], HttpFailureKind.MALFORMED),
        (gzip.compress(BODY, mtime=0) + b"more", HttpFailureKind.MALFORMED),
    ],
)
def test_a_reply_that_does_not_unpack_is_an_error(body: bytes, kind: HttpFailureKind) -> None:
    scene = Scene()

    scene.hear(squeezed(body))

    assert scene.told.calls == ["failed"]
    assert scene.trouble[0] is kind
    assert scene.transport.closing == "aborted"


class Counting(FairScheduler):
    """Leaves all work for later, and remembers what it was said to cost."""

    def __init__(self) -> None:
        super().__init__()
        self.left: list[WorkSteps] = []
        self.costs: list[int] = []

    def run(self, peer: object, work: WorkSteps, on_done: object) -> bool:
        self.left.append(work)
        return False

    def go_on(self) -> None:
        """Do what was left."""
        self.costs += [cost for work in self.left for cost in work]
        self.left.clear()


@pytest.mark.parametrize("known", [False, True])
def test_a_large_reply_is_paid_for_before_it_is_given_to_its_taker(known: bool) -> None:
    body = b"y" * 2 * HEAVY_BYTES
    reply = OK + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    pool = FakeHttpClient(len(body))
    if known:
        Scene(pool).hear(reply)
    pool.scheduler = counting = Counting()
    scene = Scene(pool)

    scene.hear(reply)
    assert scene.told.calls == []
    counting.go_on()
    assert scene.told.calls == ["answered"]
    assert cost_of(len(body)) in counting.costs


def test_a_reply_may_take_as_long_as_its_call_unless_somebody_says_otherwise() -> None:
    timeouts = http_timeouts_of(
        ServerConfig(slug="s", name="s", url="http://x/"), lambda: 0.0, lambda _: None
    )

    assert timeouts.connect_seconds == CONNECT_SECONDS_DEFAULT
    assert timeouts.silence_seconds_max(Timeout.FIRST_BYTE) == inf
    assert timeouts.silence_seconds_max(Timeout.STREAM_IDLE) == STREAM_IDLE_SECONDS_DEFAULT
    assert timeouts.silence_seconds_max(None) == inf
    assert timeouts.sweep_seconds == SWEEP_SECONDS_MAX


def test_what_is_configured_counts() -> None:
    config = ServerConfig(
        slug="s",
        name="s",
        url="http://x/",
        connect_seconds=1.0,
        first_byte_seconds=0.2,
        stream_idle_seconds=3.0,
    )

    timeouts = http_timeouts_of(config, lambda: 0.0, lambda _: None)

    assert timeouts.connect_seconds == 1.0
    assert timeouts.silence_seconds_max(Timeout.FIRST_BYTE) == 0.2
    assert timeouts.silence_seconds_max(Timeout.STREAM_IDLE) == 3.0
    assert timeouts.sweep_seconds == pytest.approx(0.05)
    assert timeouts.describe(Timeout.FIRST_BYTE) == "no reply began within 0.2 s (firstByteSeconds)"
    assert timeouts.describe(Timeout.STREAM_IDLE) == "it sent nothing for 3 s (streamIdleSeconds)"


def test_connections_that_were_opened_together_are_not_all_closed_together() -> None:
    assert HttpTimeouts(random=lambda: 0.0).expires_at(100.0) == 100.0 + AGE_SECONDS_MAX
    assert HttpTimeouts(random=lambda: 1.0).expires_at(100.0) == 100.0 + AGE_SECONDS_MAX * (
        1 - AGE_SPREAD
    )

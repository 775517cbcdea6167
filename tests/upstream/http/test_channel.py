"""A call is one POST, and its failure is its own."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from anyport.protocol.errors import Situation, Timeout
from anyport.protocol.memory_budget import LARGE_BYTES
from anyport.protocol.scheduler import HEAVY_BYTES, MESSAGE_BYTES, cost_of
from anyport.upstream.connection import Connection
from anyport.upstream.http.channel import (
    ENDLESS_FACTOR,
    HttpCall,
    HttpChannel,
    continue_splitter,
    deliver_events,
)
from anyport.upstream.http.connection import HttpFailure, HttpFailureKind
from anyport.upstream.http.errors import answer_of_failure
from anyport.upstream.http.headers import REDIRECTS_MAX, RequestHeads
from anyport.upstream.http.url import HttpUrl
from anyport.upstream.pending_call import Answer, CallOutcome, NoAnswer, PendingCall, Retryable
from anyport.wire import jsonrpc
from anyport.wire.jsonrpc import Failure, Result
from anyport.wire.sse import EventSplitter
from tests.upstream.fakes import FakeClock, RecordingOwner, connected, run
from tests.upstream.http.fake_client import PLACE, STREAM, FakeClient, head

CUT = HttpFailure(HttpFailureKind.CUT_OFF, "it closed the connection")
UNREACHED = HttpFailure(HttpFailureKind.CONNECT, "no connection", sent=False)
RESULT = b'{"jsonrpc":"2.0","id":1,"result":{}}'


class Plain(HttpChannel):
    """Sends everything in the same way, and excuses what it is told to."""

    excuse = False
    closing_tells = True

    def send(self, frame: bytes, call: PendingCall | None) -> None:
        if not isinstance(call, HttpCall):
            self.send_one_way(self.request_heads.post(), frame)
            return
        call.channel, call.frame, call.head = self, frame, self.request_heads.post()
        self.resend(call)

    def cancel(self, call: PendingCall) -> bool:
        assert isinstance(call, HttpCall)
        call.close()
        return self.closing_tells

    def will_resend(self, post: HttpCall, reply: Any, body: bytes) -> bool:
        return self.excuse


class ChannelScene:
    """A channel to a client that sends nothing, and one call on it."""

    def __init__(self, bytes_max: int = 1000) -> None:
        self.client = FakeClient(bytes_max)
        self.owner = RecordingOwner()
        heads = RequestHeads(HttpUrl.parse(PLACE), {})
        self.channel = Plain(self.client.client, heads, self.owner)
        self.connection = Connection(
            self.channel, self.owner, jsonrpc.OUTBOUND, FakeClock(), HttpCall
        )
        self.channel.connection = self.connection
        self.answers: list[Answer] = []
        sent = self.connection.call("tools/call", b'{"name":"x"}', self.answers.append)
        assert isinstance(sent, HttpCall)
        self.post = sent

    @property
    def unreached(self) -> list[str]:
        return self.owner.unreachable

    @property
    def result(self) -> bytes:
        (answer,) = self.answers
        assert isinstance(answer, Result)
        return answer.result

    @property
    def lost(self) -> NoAnswer:
        (answer,) = self.answers
        assert isinstance(answer, NoAnswer)
        assert self.connection.open_calls == 0
        return answer


def play(scene: Callable[[ChannelScene], None], bytes_max: int = 1000) -> None:
    async def whole() -> None:
        scene(ChannelScene(bytes_max))

    run(whole)


# A whole reply.


@pytest.mark.parametrize("status", [200, 400, 404, 500])
def test_an_answer_ends_the_call_whatever_the_status(status: int) -> None:
    def scene(at: ChannelScene) -> None:
        at.post.on_response(head(status), RESULT)

        assert at.result == b"{}"

    play(scene)


def test_an_error_that_names_nobody_is_the_answer_to_what_was_asked() -> None:
    def scene(at: ChannelScene) -> None:
        at.post.on_response(head(400), b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"?"}}')

        (answer,) = at.answers
        assert isinstance(answer, Failure)

    play(scene)


@pytest.mark.parametrize(
    ("status", "media", "body", "words"),
    [
        (202, "", b"", "accepted the request (HTTP 202) but did not answer it"),
        (200, "text/html", b"<html>", "answered with HTTP 200 and text/html"),
        (200, "application/json", b"{", "answered with HTTP 200 and application/json"),
        (200, "application/json", b'{"jsonrpc":"2.0","method":"x"}', "answered with HTTP 200"),
        (502, "text/plain", b"Bad Gateway", "answered with HTTP 502 and text/plain"),
    ],
)
def test_a_reply_that_is_no_answer_is_described(
    status: int, media: str, body: bytes, words: str
) -> None:
    def scene(at: ChannelScene) -> None:
        at.post.on_response(head(status, media), body)

        assert at.lost.reason.startswith(words)
        assert at.lost.situation is Situation.MISBEHAVED
        assert at.owner.draining == [], "one bad reply is no outage"

    play(scene)


def test_a_call_that_is_excused_goes_on_waiting() -> None:
    def scene(at: ChannelScene) -> None:
        at.channel.excuse = True

        at.post.on_response(head(404), b"{}")
        assert at.answers == []
        at.post.on_response(head(200), RESULT)

        assert at.result == b"{}"

    play(scene)


def test_a_redirected_call_takes_its_body_along_but_not_for_ever() -> None:
    def scene(at: ChannelScene) -> None:
        for number in range(REDIRECTS_MAX + 1):
            assert at.answers == []
            at.post.on_response(head(307, location=f"/{number}"), b"")

        assert [asked.target for asked in at.client.asked] == ["/mcp", "/0", "/1", "/2"]
        assert len({asked.body for asked in at.client.asked}) == 1
        assert "redirect (HTTP 307)" in at.lost.reason

    play(scene)


# Sent once more.


def test_only_what_does_no_harm_twice_and_has_no_answer_is_sent_once_more() -> None:
    def scene(at: ChannelScene) -> None:
        def sent(method: str, reported: Any = None) -> HttpCall:
            post = at.connection.call(method, b"{}", at.answers.append, reported)
            assert isinstance(post, HttpCall)
            return post

        listed = sent("tools/list")
        assert listed.repeatable
        assert not at.post.repeatable, "it calls a tool"
        assert not sent("resources/read", lambda _: None).repeatable, "its id is that of reports"
        at.connection.cancel(listed, None)
        assert not listed.repeatable, "nobody waits for it"

    play(scene)


def test_what_is_sent_once_more_has_an_id_of_its_own_and_what_continues_a_stream_has_none() -> None:
    def scene(at: ChannelScene) -> None:
        listed = at.connection.call("tools/list", None, at.answers.append)
        assert isinstance(listed, HttpCall)

        again = json.loads(listed.renew_body() or b"")
        assert again == {"jsonrpc": "2.0", "id": 3, "method": "tools/list"}
        assert listed.frame is not None
        assert json.loads(listed.frame) == again

        listed.on_stream(STREAM)
        assert listed.renew_body() is None
        assert listed.number == 3

    play(scene)


# A stream.


def test_what_comes_on_the_stream_of_a_call_is_handed_over_message_by_message() -> None:
    def scene(at: ChannelScene) -> None:
        at.post.on_stream(STREAM)
        list(
            at.post.on_stream_data(
                b'data: {"jsonrpc":"2.0","method":"notifications/message"}\n\ndata: '
            )
        )
        assert len(at.owner.notifications) == 1
        list(at.post.on_stream_data(RESULT + b"\n\n"))
        at.post.on_stream_closed(CUT)

        assert at.result == b"{}", "what happens after the answer is no matter"

    play(scene)


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (None, "closed its stream before it had answered"),
        (CUT, "failed to answer: it closed the connection"),
    ],
)
def test_a_stream_that_is_cut_off_costs_its_call(trouble: HttpFailure | None, words: str) -> None:
    def scene(at: ChannelScene) -> None:
        at.post.on_stream(STREAM)
        list(at.post.on_stream_data(b"data: {"))

        at.post.on_stream_closed(trouble)

        assert at.lost == NoAnswer(
            words, Situation.MISBEHAVED, CallOutcome.CONNECTION_LOST, Retryable.IF_SAFE
        )
        assert at.unreached == []

    play(scene)


def test_an_event_that_never_ends_costs_its_call() -> None:
    def scene(at: ChannelScene) -> None:
        at.post.on_stream(STREAM)
        list(at.post.on_stream_data(b"data: "))
        for _ in range(ENDLESS_FACTOR * 50):
            list(at.post.on_stream_data(b"x"))

        assert "without an end" in at.lost.reason
        assert at.client.last.cancelled

    play(scene, bytes_max=50)


def test_a_message_on_the_stream_is_a_sign_of_life_and_a_mere_number_is_not() -> None:
    def scene(at: ChannelScene) -> None:
        at.post.resume_attempts = 3
        at.post.on_stream(STREAM)

        list(at.post.on_stream_data(b"id: 1\ndata:\n\n: comment\n\n"))
        assert at.post.resume_attempts == 3
        list(
            at.post.on_stream_data(b'data: {"jsonrpc":"2.0","method":"notifications/message"}\n\n')
        )

        assert at.post.resume_attempts == 0

    play(scene)


def test_a_stream_that_takes_up_another_knows_its_place_but_none_of_its_pieces() -> None:
    before = EventSplitter(100)
    before.feed(b"retry: 50\nid: 7\ndata: x\n\ndata: half")

    after = continue_splitter(before, 200)

    assert (after.last_id, after.retry_ms, after.bytes_max) == ("7", 50, 200)
    assert after.pending_bytes == 0
    assert continue_splitter(None, 200).last_id == ""


def test_what_a_call_reports_at_once_goes_on_its_way_together() -> None:
    async def scene() -> None:
        connection, _, listener = connected()
        told: list[list[int]] = []

        def reported(reports: Sequence[bytes]) -> None:
            told.append([json.loads(params)["progress"] for params in reports])

        connection.call("a", None, lambda _: told.append([]), reported)
        connection.call("b", None, lambda _: None, reported)

        def progress(token: int, number: int) -> bytes:
            params = b'{"progressToken":%d,"progress":%d}' % (token, number)
            note = b'{"jsonrpc":"2.0","method":"notifications/progress","params":%b}' % params
            return b"event: message\r\ndata: %b\r\n\r\n" % note

        message = b'data: {"jsonrpc":"2.0","method":"notifications/message"}\n\n'
        answer = b'data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n'
        splitter = EventSplitter(1000)
        of = connection._open[1]
        list(
            deliver_events(
                connection, splitter, progress(1, 1) + progress(1, 2) + progress(2, 3), of
            )
        )
        list(
            deliver_events(
                connection, splitter, progress(1, 4) + message + progress(1, 5) + answer, of
            )
        )
        list(deliver_events(connection, splitter, progress(1, 6) + progress(2, 7), None))

        assert told == [[1, 2], [3], [4], [5], [], [7]]
        assert len(listener.notifications) == 1

    run(scene)


def test_many_bytes_of_a_stream_are_paid_for_before_they_are_handed_over() -> None:
    async def scene() -> None:
        connection, _, listener = connected()

        def events(size: int, count: int) -> bytes:
            note = b'{"jsonrpc":"2.0","method":"n","params":{"x":"%b"}}' % (b"y" * size)
            return b"data: %b\n\n" % note * count

        def steps(portion: bytes) -> list[tuple[int, int]]:
            work = deliver_events(connection, EventSplitter(1 << 20), portion, None)
            before = len(listener.notifications)
            return [(len(listener.notifications) - before, cost) for cost in work]

        assert steps(events(10, 5)) == [(5, 5)]
        assert steps(events(MESSAGE_BYTES, 3)) == [(0, 2), (1, 2), (2, 2)]
        assert steps(events(2 * HEAVY_BYTES, 1)) == [(0, cost_of(2 * HEAVY_BYTES))]
        assert len(listener.notifications) == 9

    run(scene)


def test_a_taker_that_breaks_costs_no_other_message() -> None:
    async def scene() -> None:
        connection, _, listener = connected()
        told: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: told.append(what))
        receive, broken = connection.receive, [RuntimeError("broken")]

        def once(raw: Any, related_call: PendingCall | None = None) -> None:
            if broken:
                raise broken.pop()
            receive(raw, related_call)

        connection.receive = once  # type: ignore[method-assign]
        event = b'data: {"jsonrpc":"2.0","method":"notifications/message"}\n\n'

        list(deliver_events(connection, EventSplitter(1000), event * 2, None))

        assert len(told) == len(listener.notifications) == 1

    run(scene)


# No reply.


@pytest.mark.parametrize("kind", HttpFailureKind)
def test_only_a_server_that_cannot_be_reached_concerns_others(kind: HttpFailureKind) -> None:
    def scene(at: ChannelScene) -> None:
        trouble = HttpFailure(kind, "no luck")
        unreached = kind in (HttpFailureKind.CONNECT, HttpFailureKind.TLS)

        at.post.on_failure(trouble)

        assert at.lost == answer_of_failure(trouble)
        told = {
            HttpFailureKind.CONNECT: Situation.NOT_RUNNING,
            HttpFailureKind.TLS: Situation.NOT_RUNNING,
            HttpFailureKind.NO_MEMORY: Situation.OVERLOADED,
            HttpFailureKind.TIMEOUT: Situation.TIMED_OUT,
        }
        assert at.lost.situation is told.get(kind, Situation.MISBEHAVED)
        assert at.unreached == (["no luck"] if unreached else [])
        assert at.connection.draining_reason is None, "the next call may fare better"

    play(scene)


@pytest.mark.parametrize("begun", [False, True])
def test_a_server_that_is_given_up_while_it_may_be_at_work_is_told(begun: bool) -> None:
    def scene(at: ChannelScene) -> None:
        at.channel.closing_tells = False
        trouble = HttpFailure(HttpFailureKind.TIMEOUT, "too late", timeout=Timeout.STREAM_IDLE)
        if begun:
            at.post.on_stream(STREAM)
            at.post.on_stream_closed(trouble)
        else:
            at.post.on_failure(trouble)

        assert at.lost.timeout is Timeout.STREAM_IDLE
        assert at.lost.fault("s").message == "Server 's' failed to answer: too late"
        told = json.loads(at.client.last.body or b"")
        assert told["method"] == "notifications/cancelled"
        assert told["params"] == {"requestId": at.post.number, "reason": "too late"}

    play(scene)


def test_what_is_not_answered_tells_nobody_but_that_the_server_is_not_reached() -> None:
    def scene(at: ChannelScene) -> None:
        at.connection.notify("notifications/x", None)
        note = at.client.last.handler
        for said in (head(202), head(500), STREAM):
            note.on_response(said, b"{}")
        note.on_stream(STREAM)
        list(note.on_stream_data(b"data: " + RESULT + b"\n\n"))
        note.on_stream_closed(CUT)
        note.on_failure(CUT)
        assert (at.answers, at.unreached) == ([], [])

        note.on_failure(UNREACHED)
        note.on_failure(UNREACHED)

        assert at.unreached == ["no connection"] * 2
        assert at.answers == [], "what is under way may still be answered"

    play(scene)


def test_a_call_that_was_given_up_closes_its_request_and_hears_no_more() -> None:
    def scene(at: ChannelScene) -> None:
        at.connection.cancel(at.post, None)
        assert at.client.last.cancelled

        at.post.close()
        at.post.on_response(head(), RESULT)
        at.post.on_stream_closed(CUT)
        at.post.on_failure(CUT)

        assert at.answers == []
        assert len(at.client.asked) == 1, "closing said it; nothing was posted"

    play(scene)


def test_a_large_event_takes_up_room_while_it_comes() -> None:
    def scene(at: ChannelScene) -> None:
        room = at.connection.memory_budget
        at.post.on_stream(STREAM)
        list(at.post.on_stream_data(b"data: " + b"x" * (2 * LARGE_BYTES)))
        assert room.used_bytes > 2 * LARGE_BYTES

        list(at.post.on_stream_data(b"\n\n"))
        assert room.used_bytes == 0
        list(at.post.on_stream_data(b"data: " + b"x" * (2 * LARGE_BYTES)))
        at.post.on_stream_closed(None)

        assert room.used_bytes == 0

    play(scene, 1 << 20)


def test_a_large_event_for_which_there_is_no_room_is_told_as_that() -> None:
    def scene(at: ChannelScene) -> None:
        at.connection.memory_budget.bytes_max = LARGE_BYTES
        at.post.on_stream(STREAM)
        list(
            at.post.on_stream_data(
                b'data: {"jsonrpc":"2.0","id":1,"result":{"a":"' + b"x" * 2 * LARGE_BYTES
            )
        )
        assert at.connection.memory_budget.used_bytes == 0

        list(at.post.on_stream_data(b'"}}\n\n'))

        assert at.lost.situation is Situation.OVERLOADED

    play(scene, 1 << 20)

"""A call is one POST, and its failure is its own."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from anyport.protocol.errors import Situation
from anyport.protocol.timeouts import Timeout
from anyport.upstream.call import Answer, Call, Lost
from anyport.upstream.connection import Connection
from anyport.upstream.http.channel import (
    ENDLESS_FACTOR,
    HttpChannel,
    Post,
    continued,
    hand_over,
)
from anyport.upstream.http.line import Trouble, TroubleKind
from anyport.upstream.http.outgoing import REDIRECTS_MAX, Outgoing
from anyport.upstream.http.place import Place
from anyport.upstream.http.verdict import lost
from anyport.upstream.sign import Again, Sign
from anyport.wire import codec
from anyport.wire.events import EventSplitter
from anyport.wire.frame import Failure, Result
from tests.upstream.fakes import Ear, connected, run
from tests.upstream.http.asked import PLACE, STREAM, FakeClient, head

CUT = Trouble(TroubleKind.CUT, "it closed the connection")
UNREACHED = Trouble(TroubleKind.CONNECT, "no connection", sent=False)
RESULT = b'{"jsonrpc":"2.0","id":1,"result":{}}'


class Plain(HttpChannel):
    """Sends everything in the same way, and excuses what it is told to."""

    excuse = False
    closing_tells = True

    def send(self, frame: bytes, call: Call | None) -> None:
        if not isinstance(call, Post):
            self.note(self.outgoing.post(), frame)
            return
        call.channel, call.frame, call.head = self, frame, self.outgoing.post()
        self.send_again(call)

    def cancel(self, call: Call) -> bool:
        assert isinstance(call, Post)
        call.close()
        return self.closing_tells

    def excused(self, post: Post, reply: Any, body: bytes) -> bool:
        return self.excuse


class Bench:
    """A channel to a client that sends nothing, and one call on it."""

    def __init__(self, bytes_max: int = 1000) -> None:
        self.client = FakeClient(bytes_max)
        self.over: list[str] = []
        self.ear = Ear()
        self.channel = Plain(
            self.client.client, Outgoing(Place.parse(PLACE), {}), lambda _, why: self._over(why)
        )
        self.connection = Connection(self.channel, self.ear.hearer(), codec.OUTBOUND, Post)
        self.channel.connection = self.connection
        self.answers: list[Answer] = []
        sent = self.connection.call("tools/call", b'{"name":"x"}', self.answers.append)
        assert isinstance(sent, Post)
        self.post = sent

    def _over(self, why: str) -> None:
        self.connection.over = why
        self.over.append(why)

    @property
    def unreached(self) -> list[str]:
        return self.ear.unreached

    @property
    def result(self) -> bytes:
        (answer,) = self.answers
        assert isinstance(answer, Result)
        return answer.result

    @property
    def lost(self) -> Lost:
        (answer,) = self.answers
        assert isinstance(answer, Lost)
        assert self.connection.open_calls == 0
        return answer


def bench(scene: Callable[[Bench], None], bytes_max: int = 1000) -> None:
    async def whole() -> None:
        scene(Bench(bytes_max))

    run(whole)


# A whole reply.


@pytest.mark.parametrize("status", [200, 400, 404, 500])
def test_an_answer_ends_the_call_whatever_the_status(status: int) -> None:
    def scene(at: Bench) -> None:
        at.post.answered(head(status), RESULT)

        assert at.result == b"{}"

    bench(scene)


def test_an_error_that_names_nobody_is_the_answer_to_what_was_asked() -> None:
    def scene(at: Bench) -> None:
        at.post.answered(head(400), b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"?"}}')

        (answer,) = at.answers
        assert isinstance(answer, Failure)

    bench(scene)


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
    def scene(at: Bench) -> None:
        at.post.answered(head(status, media), body)

        assert at.lost.reason.startswith(words)
        assert at.lost.situation is Situation.MISBEHAVED
        assert at.over == [], "one bad reply is no outage"

    bench(scene)


def test_a_call_that_is_excused_goes_on_waiting() -> None:
    def scene(at: Bench) -> None:
        at.channel.excuse = True

        at.post.answered(head(404), b"{}")
        assert at.answers == []
        at.post.answered(head(200), RESULT)

        assert at.result == b"{}"

    bench(scene)


def test_a_redirected_call_takes_its_body_along_but_not_for_ever() -> None:
    def scene(at: Bench) -> None:
        for number in range(REDIRECTS_MAX + 1):
            assert at.answers == []
            at.post.answered(head(307, location=f"/{number}"), b"")

        assert [asked.target for asked in at.client.asked] == ["/mcp", "/0", "/1", "/2"]
        assert len({asked.body for asked in at.client.asked}) == 1
        assert "redirect (HTTP 307)" in at.lost.reason

    bench(scene)


# A stream.


def test_what_comes_on_the_stream_of_a_call_is_handed_over_message_by_message() -> None:
    def scene(at: Bench) -> None:
        at.post.opened(STREAM)
        at.post.portion(b'data: {"jsonrpc":"2.0","method":"notifications/message"}\n\ndata: ')
        assert len(at.ear.notifications) == 1
        at.post.portion(RESULT + b"\n\n")
        at.post.closed(CUT)

        assert at.result == b"{}", "what happens after the answer is no matter"

    bench(scene)


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (None, "closed its stream before it had answered"),
        (CUT, "failed to answer: it closed the connection"),
    ],
)
def test_a_stream_that_is_cut_off_costs_its_call(trouble: Trouble | None, words: str) -> None:
    def scene(at: Bench) -> None:
        at.post.opened(STREAM)
        at.post.portion(b"data: {")

        at.post.closed(trouble)

        assert at.lost == Lost(words, Situation.MISBEHAVED, Sign.ACCIDENT, Again.IF_SAFE)
        assert at.unreached == []

    bench(scene)


def test_an_event_that_never_ends_costs_its_call() -> None:
    def scene(at: Bench) -> None:
        at.post.opened(STREAM)
        at.post.portion(b"data: ")
        for _ in range(ENDLESS_FACTOR * 50):
            at.post.portion(b"x")

        assert "without an end" in at.lost.reason
        assert at.client.last.given_up

    bench(scene, bytes_max=50)


def test_a_message_on_the_stream_is_a_sign_of_life_and_a_mere_number_is_not() -> None:
    def scene(at: Bench) -> None:
        at.post.tries = 3
        at.post.opened(STREAM)

        at.post.portion(b"id: 1\ndata:\n\n: comment\n\n")
        assert at.post.tries == 3
        at.post.portion(b'data: {"jsonrpc":"2.0","method":"notifications/message"}\n\n')

        assert at.post.tries == 0

    bench(scene)


def test_a_stream_that_takes_up_another_knows_its_place_but_none_of_its_pieces() -> None:
    before = EventSplitter(100)
    before.feed(b"retry: 50\nid: 7\ndata: x\n\ndata: half")

    after = continued(before, 200)

    assert (after.last_id, after.retry_ms, after.bytes_max) == ("7", 50, 200)
    assert after.pending == 0
    assert continued(None, 200).last_id == ""


def test_what_a_call_reports_at_once_goes_on_its_way_together() -> None:
    async def scene() -> None:
        connection, _, ear = connected()
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
        hand_over(connection, splitter, progress(1, 1) + progress(1, 2) + progress(2, 3), of)
        hand_over(connection, splitter, progress(1, 4) + message + progress(1, 5) + answer, of)
        hand_over(connection, splitter, progress(1, 6) + progress(2, 7), None)

        assert told == [[1, 2], [3], [4], [5], [], [7]]
        assert len(ear.notifications) == 1

    run(scene)


def test_a_taker_that_breaks_costs_no_other_message() -> None:
    async def scene() -> None:
        connection, _, ear = connected()
        told: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: told.append(what))
        receive, broken = connection.receive, [RuntimeError("broken")]

        def once(raw: Any, of: Call | None = None) -> None:
            if broken:
                raise broken.pop()
            receive(raw, of)

        connection.receive = once  # type: ignore[method-assign]
        event = b'data: {"jsonrpc":"2.0","method":"notifications/message"}\n\n'

        assert hand_over(connection, EventSplitter(1000), event * 2, None)

        assert len(told) == len(ear.notifications) == 1

    run(scene)


# No reply.


@pytest.mark.parametrize("kind", TroubleKind)
def test_only_a_server_that_cannot_be_reached_concerns_others(kind: TroubleKind) -> None:
    def scene(at: Bench) -> None:
        trouble = Trouble(kind, "no luck")
        unreached = kind in (TroubleKind.CONNECT, TroubleKind.TLS)

        at.post.failed(trouble)

        assert at.lost == lost(trouble)
        told = {
            TroubleKind.CONNECT: Situation.NOT_RUNNING,
            TroubleKind.TLS: Situation.NOT_RUNNING,
            TroubleKind.CROWDED: Situation.OVERLOADED,
            TroubleKind.TIMEOUT: Situation.TIMED_OUT,
        }
        assert at.lost.situation is told.get(kind, Situation.MISBEHAVED)
        assert at.unreached == (["no luck"] if unreached else [])
        assert at.connection.over is None, "the next call may fare better"

    bench(scene)


@pytest.mark.parametrize("begun", [False, True])
def test_a_server_that_is_given_up_while_it_may_be_at_work_is_told(begun: bool) -> None:
    def scene(at: Bench) -> None:
        at.channel.closing_tells = False
        trouble = Trouble(TroubleKind.TIMEOUT, "too late", timeout=Timeout.STREAM_IDLE)
        if begun:
            at.post.opened(STREAM)
            at.post.closed(trouble)
        else:
            at.post.failed(trouble)

        assert at.lost.timeout is Timeout.STREAM_IDLE
        assert at.lost.fault("s").message == "Server 's' failed to answer: too late"
        told = json.loads(at.client.last.body or b"")
        assert told["method"] == "notifications/cancelled"
        assert told["params"] == {"requestId": at.post.number, "reason": "too late"}

    bench(scene)


def test_what_is_not_answered_tells_nobody_but_that_the_server_is_not_reached() -> None:
    def scene(at: Bench) -> None:
        at.connection.notify("notifications/x", None)
        note = at.client.last.taker
        for said in (head(202), head(500), STREAM):
            note.answered(said, b"{}")
        note.opened(STREAM)
        note.portion(b"data: " + RESULT + b"\n\n")
        note.closed(CUT)
        note.failed(CUT)
        assert (at.answers, at.unreached) == ([], [])

        note.failed(UNREACHED)
        note.failed(UNREACHED)

        assert at.unreached == ["no connection"] * 2
        assert at.answers == [], "what is under way may still be answered"

    bench(scene)


def test_a_call_that_was_given_up_closes_its_request_and_hears_no_more() -> None:
    def scene(at: Bench) -> None:
        at.connection.cancel(at.post, None)
        assert at.client.last.given_up

        at.post.close()
        at.post.answered(head(), RESULT)
        at.post.closed(CUT)
        at.post.failed(CUT)

        assert at.answers == []
        assert len(at.client.asked) == 1, "closing said it; nothing was posted"

    bench(scene)

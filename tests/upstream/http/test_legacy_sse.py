"""HTTP+SSE: one stream for the answers, and the end of everything when it ends."""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anyport.protocol.errors import Situation
from anyport.upstream.handshake import start_request
from anyport.upstream.http import legacy_sse
from anyport.upstream.http.headers import RequestHeads
from anyport.upstream.http.legacy_sse import LegacySseChannel, SseStream
from anyport.upstream.http.url import HttpUrl
from anyport.upstream.pending_call import BROKEN, Answer, PendingCall
from anyport.upstream.supervisor import ServerState
from anyport.wire.jsonrpc import Failure, Result
from tests.upstream.fakes import LEGACY, Message, RecordingOwner, connected, run, until
from tests.upstream.http.fake_client import PLACE, STREAM, FakeClient
from tests.upstream.web import Heard, Reply, Scene, Web, call, lost


class Events:
    """A server of the first revision."""

    def __init__(self, endpoint: str = "/messages?session_id=1") -> None:
        self.endpoint = endpoint
        self.streams: list[Reply] = []
        self.accepts: Callable[[Heard, Reply], None] = lambda _, reply: reply.whole(
            202, b"Accepted", "text/plain"
        )
        self.answers: Callable[[Message], Message | None] = lambda message: {
            "id": message["id"],
            "result": {"n": message["id"]},
        }

    def __call__(self, heard: Heard, reply: Reply) -> None:
        if heard.verb == "GET":
            self.streams.append(reply)
            reply.stream()
            reply.event(self.endpoint, name="endpoint")
        elif heard.target == "/mcp":
            reply.whole(405)
        else:
            self._take(heard, reply)

    def _take(self, heard: Heard, reply: Reply) -> None:
        method = heard.method
        if method == "initialize":
            told = {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}}
            reply.whole(202)
            self.streams[-1].event({"id": heard.id, "result": told})
        elif heard.id is None:
            reply.whole(202)
        else:
            self.accepts(heard, reply)
            found = self.answers(heard.message)
            if found is not None:
                self.streams[-1].event(found)


def play(
    site: Events, scene: Callable[[Web, Scene], Coroutine[Any, Any, None]], **settings: Any
) -> None:
    async def whole() -> None:
        async with Web(site) as web, Scene(web.url, **settings) as at:
            await at.connected()
            await scene(web, at)

    run(whole)


def test_messages_go_to_the_address_the_server_names_and_answers_come_on_the_stream() -> None:
    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        assert isinstance(await call(connection), Result)

        assert at.supervisor.transport.transport_name == "sse"
        assert connection.peer is not None
        assert connection.peer.revision.name == "2024-11-05"
        posted = [heard for heard in web.heard if heard.target.startswith("/messages")]
        assert [heard.method for heard in posted] == [
            "initialize",
            "notifications/initialized",
            "tools/call",
        ]
        assert {heard.target for heard in posted} == {"/messages?session_id=1"}

    play(Events(), scene)


@pytest.mark.parametrize("endpoint", ["messages?s=1", "/messages?s=1", "?s=1"])
def test_the_address_may_be_relative(endpoint: str) -> None:
    async def scene(web: Web, at: Scene) -> None:
        expected = "/mcp?s=1" if endpoint == "?s=1" else "/messages?s=1"
        assert web.heard[-1].target == expected

    play(Events(endpoint), scene)


def test_an_absolute_address_on_the_same_origin_is_fine() -> None:
    async def whole() -> None:
        site = Events()
        async with Web(site) as web:
            site.endpoint = f"http://127.0.0.1:{web.port}/messages"
            async with Scene(web.url) as at:
                await at.connected()

    run(whole)


@pytest.mark.parametrize(
    "endpoint",
    ["http://other.example/messages", "//other.example/x", "https://127.0.0.1/", "file:///x"],
)
def test_credentials_are_not_sent_to_another_origin(endpoint: str) -> None:
    async def whole() -> None:
        async with Web(Events(endpoint)) as web, Scene(web.url, transport="sse") as at:
            assert "address for messages" in await at.refused()
            assert web.methods() == []

    run(whole)


def test_the_server_may_ask_and_tell_on_the_stream() -> None:
    site = Events()

    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        site.streams[0].event({"id": "q", "method": "sampling/createMessage", "params": {}})
        site.streams[0].event({"method": "notifications/message", "params": {}})
        await until(lambda: bool(at.owner.requests and at.owner.notifications))
        connection.answer(at.owner.requests[0].id, Failure(b'"q"', b'{"code":-1,"message":"no"}'))
        await until(lambda: "error" in web.heard[-1].message)

        assert web.heard[-1].message["id"] == "q"

    play(site, scene)


def test_a_message_that_is_not_accepted_costs_one_call() -> None:
    site = Events()
    site.accepts = lambda _, reply: reply.whole(400, b"Bad", "text/plain")
    site.answers = lambda _: None

    async def scene(web: Web, at: Scene) -> None:
        found = await lost(await at.connected())

        assert "HTTP 400 and text/plain" in found.reason
        assert found.situation is Situation.MISBEHAVED
        assert at.supervisor.state is ServerState.READY

    play(site, scene)


def test_an_error_instead_of_an_acceptance_is_the_answer() -> None:
    site = Events()
    told = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"no"}}'
    site.accepts = lambda _, reply: reply.whole(404, told)
    site.answers = lambda _: None

    async def scene(web: Web, at: Scene) -> None:
        found = await call(await at.connected())

        assert isinstance(found, Failure)
        assert json.loads(found.error)["code"] == -32001

    play(site, scene)


def test_a_message_that_is_redirected_after_its_answer_is_not_sent_again() -> None:
    site = Events()
    site.accepts = lambda _, reply: None
    held: list[Reply] = []

    def late(heard: Heard, reply: Reply) -> None:
        site(heard, reply)
        if heard.method == "tools/call":
            held.append(reply)

    async def whole() -> None:
        async with Web(late) as web, Scene(web.url) as at:
            connection = await at.connected()
            assert isinstance(await call(connection), Result)
            held[0].whole(307, location="/messages?session_id=1")
            site.accepts = lambda _, reply: reply.whole(202)
            for _ in range(3):
                await start_request(connection, "ping", None)
            assert len(web.of("tools/call")) == 1

    run(whole)


def test_when_the_stream_ends_everything_ends_and_begins_anew() -> None:
    site = Events()
    site.answers = lambda _: None

    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        answers: list[Answer] = []
        connection.call("tools/call", b'{"name":"x"}', answers.append)
        await until(lambda: bool(web.of("tools/call")))
        web.heard.clear()
        site.streams[0].end()
        await until(lambda: bool(answers))

        assert answers == [BROKEN.result_for_sent("it closed its event stream")]
        await until(lambda: len(at.owner.ready) == 2)
        assert [heard.verb for heard in web.heard][:1] == ["GET"], "what it speaks is known"

    play(site, scene)


def test_a_server_is_told_that_a_call_is_cancelled() -> None:
    site = Events()
    site.answers = lambda _: None

    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        sent = connection.call("tools/call", b'{"name":"x"}', lambda _: None)
        assert isinstance(sent, PendingCall)
        await until(lambda: bool(web.of("tools/call")))

        connection.cancel(sent, None)

        await until(lambda: bool(web.of("notifications/cancelled")))

    play(site, scene)


def test_the_stream_is_closed_when_the_gateway_stops() -> None:
    site = Events()

    async def scene(web: Web, at: Scene) -> None:
        await at.supervisor.stop()
        await until(site.streams[0].gone.is_set)

    play(site, scene)


def pinged(web: Web) -> int:
    return sum(heard.method == "ping" for heard in web.heard)


def test_a_server_that_has_nothing_to_say_is_asked_whether_it_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(legacy_sse, "SILENCE_CHECK_SHARE", 0.001)

    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()

        await until(lambda: pinged(web) >= 2)

        assert at.broken == []
        assert at.supervisor.connection is connection

    play(Events(), scene, stream_idle_seconds=60.0)


def test_a_silent_server_is_asked_while_half_of_its_time_is_left() -> None:
    async def scene() -> None:
        client, planned = FakeClient(), deque[tuple[float, Callable[[], object]]]()
        channel = LegacySseChannel(
            client.client, RequestHeads(HttpUrl.parse(PLACE), {}), RecordingOwner()
        )
        channel.connection, wire, _ = connected(LEGACY)
        timers = SimpleNamespace(call_later=lambda *timer: planned.append(timer))
        channel.loop = cast(asyncio.AbstractEventLoop, timers)
        stream = SseStream(channel)
        stream.on_stream(STREAM)
        # What comes right after a check is noticed by the next one only.
        deque(stream.on_stream_data(b": the last that it says\n\n"), maxlen=0)

        silent_seconds = 0.0
        while not wire.sent:
            seconds, check = planned.popleft()
            silent_seconds += seconds
            check()

        assert wire.sent[-1]["method"] == "ping"
        assert silent_seconds <= client.timeouts.stream_idle_seconds / 2

    run(scene)


def test_a_server_that_has_gone_silent_is_given_up_after_its_time() -> None:
    site = Events()
    site.answers = lambda _: None

    async def scene(web: Web, at: Scene) -> None:
        reason = await at.refused()

        assert reason == "it sent nothing for 0.8 s (streamIdleSeconds)"
        assert pinged(web) >= 1

    play(site, scene, stream_idle_seconds=0.8)  # On a busy machine a handshake takes its time.


def test_a_stream_that_is_closed_is_not_looked_after() -> None:
    async def scene() -> None:
        client = FakeClient()
        channel = LegacySseChannel(
            client.client, RequestHeads(HttpUrl.parse(PLACE), {}), RecordingOwner()
        )
        stream = SseStream(channel)
        stream.on_stream(STREAM)
        timer = stream._timer
        assert timer is not None and not timer.cancelled()

        stream.close()

        assert timer.cancelled()

    run(scene)

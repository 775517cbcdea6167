"""Sessions over HTTP: found dead and opened again, streams broken and taken up again."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from anyport.protocol.errors import Situation
from anyport.upstream.call import Answer, Call
from anyport.upstream.handshake import ask
from anyport.upstream.http import session
from anyport.upstream.http.verdict import cut_off
from anyport.upstream.tender import State
from anyport.wire.frame import Failure, Result
from tests.upstream.fakes import run, until
from tests.upstream.web import Heard, Legacy, Reply, Scene, Web, call, lost

LOST_SESSIONS = 100


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "RESUME_SECONDS_DEFAULT", 0.001)
    monkeypatch.setattr(session, "RESUME_SECONDS_MIN", 0.001)
    monkeypatch.setattr("anyport.upstream.backoff.FIRST_SECONDS", 0.001)


def play(site: Legacy, scene: Callable[[Web, Scene], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        async with Web(site) as web, Scene(web.url) as at:
            await at.connected()
            await scene(web, at)

    run(whole)


def answer(heard: Heard, reply: Reply) -> None:
    reply.json({"id": heard.id, "result": {"n": heard.id}})


# A session's life.


def test_the_session_is_ended_when_the_gateway_stops() -> None:
    site = Legacy(answer)

    async def scene(web: Web, at: Scene) -> None:
        await call(await at.connected())
        await at.tender.stop()

        assert site.ended == ["session-1"]
        deleted = web.heard[-1]
        assert deleted.verb == "DELETE"
        assert deleted.fields["mcp-protocol-version"] == "2025-11-25"
        assert at.tender.state is State.STOPPED or at.tender.connection is None

    play(site, scene)


def test_a_server_without_sessions_works_too() -> None:
    def site(heard: Heard, reply: Reply) -> None:
        if heard.method == "initialize":
            told = {"protocolVersion": "2025-03-26", "capabilities": {}}
            reply.json({"id": heard.id, "result": told})
        elif heard.method == "tools/call":
            answer(heard, reply)
        elif heard.method == "notifications/initialized":
            reply.whole(202)
        else:
            reply.whole(404)

    async def whole() -> None:
        async with Web(site) as web, Scene(web.url) as at:
            assert isinstance(await call(await at.connected()), Result)
            await at.tender.stop()
            assert not any(heard.verb == "DELETE" for heard in web.heard)

    run(whole)


def test_requests_do_not_overtake_the_end_of_the_handshake() -> None:
    site = Legacy(answer)
    held: list[Reply] = []

    def slow(heard: Heard, reply: Reply) -> Any:
        if heard.method == "notifications/initialized":
            held.append(reply)
            return None
        return site(heard, reply)

    async def whole() -> None:
        async with Web(slow) as web, Scene(web.url) as at:
            await until(lambda: bool(held))
            assert at.tender.state is State.STARTING
            held[0].whole(202)
            await at.connected()

    run(whole)


# A session that is no more.


def test_a_lost_session_is_opened_once_for_all_and_no_call_is_lost() -> None:
    site = Legacy(answer)

    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        for time in range(1, LOST_SESSIONS + 1):
            site.dead.add(site.sessions[-1])
            answers = await asyncio.gather(*(call(connection) for _ in range(5)))
            assert all(isinstance(found, Result) for found in answers)
            assert len(site.sessions) == 1 + time, "one handshake for all that found out"

        assert at.broken == []
        assert at.tender.connection is connection
        assert len(at.ready) == 1 + LOST_SESSIONS, "who keeps subscriptions was told"
        assert len(web.of("notifications/initialized")) == 1 + LOST_SESSIONS
        for greeting in web.of("initialize"):
            assert "mcp-session-id" not in greeting.fields
            assert "mcp-protocol-version" not in greeting.fields
        ids = [heard.id for heard in web.of("initialize") + web.of("tools/call")]
        assert len(set(ids)) == 5 * LOST_SESSIONS + 1 + LOST_SESSIONS

    play(site, scene)


def test_the_words_of_a_widespread_example_mean_a_lost_session_too() -> None:
    site = Legacy(answer)

    def odd(heard: Heard, reply: Reply) -> Any:
        if heard.fields.get("mcp-session-id") in site.dead and heard.body:
            told = {"code": -32000, "message": "Bad Request: No valid session ID provided"}
            reply.json({"id": heard.id, "error": told}, 400)
            return None
        return site(heard, reply)

    async def whole() -> None:
        async with Web(odd) as web, Scene(web.url) as at:
            connection = await at.connected()
            site.dead.add("session-1")
            assert isinstance(await call(connection), Result)
            assert len(site.sessions) == 2

    run(whole)


def test_a_method_that_is_not_found_is_not_a_session_that_is_not_found() -> None:
    def missing(heard: Heard, reply: Reply) -> None:
        reply.json({"id": heard.id, "error": {"code": -32601, "message": "no such method"}}, 404)

    site = Legacy(missing)

    async def scene(web: Web, at: Scene) -> None:
        assert isinstance(await call(await at.connected()), Failure)
        assert len(site.sessions) == 1

    play(site, scene)


def test_a_session_that_dies_at_once_again_costs_the_call() -> None:
    site = Legacy()

    def dying(heard: Heard, reply: Reply) -> None:
        site.dead.add(site.sessions[-1])
        reply.json({"error": {"code": -32600, "message": "Session not found"}}, 404)

    site.call = dying

    async def scene(web: Web, at: Scene) -> None:
        found = await lost(await at.connected())

        assert found.situation is Situation.MISBEHAVED
        assert "session" in found.reason
        assert len(web.of("tools/call")) == 2

    play(site, scene)


def test_a_session_that_cannot_be_opened_again_ends_the_connection() -> None:
    site = Legacy(answer)

    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        site.dead.add("session-1")

        def closed(heard: Heard, reply: Reply) -> Any:
            if heard.method == "initialize":
                reply.whole(503)
                return None
            return site(heard, reply)

        web.site = closed
        found = await lost(connection)

        assert "HTTP 503" in found.reason
        assert at.broken[0] == found.reason
        web.site = site
        await until(lambda: at.tender.state is State.READY)
        assert at.tender.connection is not connection

    play(site, scene)


def test_what_belongs_to_a_lost_session_is_not_said_in_the_next_one() -> None:
    site = Legacy(answer)
    held: list[tuple[Heard, Reply]] = []

    def hold(heard: Heard, reply: Reply) -> Awaitable[None] | None:
        if heard.method != "initialize":
            return site(heard, reply)
        held.append((heard, reply))
        return None

    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        site.dead.add("session-1")
        web.site = hold
        async with asyncio.TaskGroup() as group:
            found = group.create_task(call(connection))
            await until(lambda: bool(held))
            connection.answer(b"1", Result(b"1", b'{"action":"accept"}'))
            site(*held[0])
        assert isinstance(found.result(), Result)
        assert not [heard for heard in web.heard if "action" in str(heard.body)]

    play(site, scene)


def test_a_handshake_that_is_never_answered_again_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Legacy(answer)

    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        monkeypatch.setattr(session, "HANDSHAKE_SECONDS_MAX", 0.02)
        site.dead.add("session-1")
        web.site = lambda heard, reply: None if heard.method == "initialize" else site(heard, reply)

        assert (await lost(connection)).reason == "it did not answer the handshake within 0.02 s"
        web.site = site

    play(site, scene)


# Streams that break.


def breaking(after: Callable[[Heard, Reply], None], events: int = 2) -> Callable[..., None]:
    """Answers a call with a stream that numbers its events and breaks before the answer."""

    def site(heard: Heard, reply: Reply) -> None:
        reply.stream()
        for number in range(events):
            reply.event("" if number == 0 else {"method": "notifications/message"}, id=str(number))
        after(heard, reply)

    return site


@pytest.mark.parametrize("how", ["cut", "end"])
def test_a_broken_stream_is_taken_up_where_it_broke_off(how: str) -> None:
    asked: list[Any] = []
    resumed: list[str] = []

    def broke(heard: Heard, reply: Reply) -> None:
        asked.append(heard.id)
        if how == "cut":
            asyncio.get_running_loop().call_later(0.01, reply.cut)
        else:
            reply.end()

    def resume(heard: Heard, reply: Reply) -> None:
        if "last-event-id" not in heard.fields:
            reply.whole(405)
            return
        resumed.append(heard.fields["last-event-id"])
        reply.stream()
        if len(resumed) < 3:
            reply.event({"method": "notifications/message"}, id=f"more-{len(resumed)}")
        else:
            reply.event({"id": asked[0], "result": {"after": "all"}}, id="last")
        reply.end()

    async def scene(web: Web, at: Scene) -> None:
        found = await call(await at.connected())

        assert isinstance(found, Result)
        assert json.loads(found.result) == {"after": "all"}
        assert resumed == ["1", "more-1", "more-2"]
        assert len(web.of("tools/call")) == 1, "it was not asked twice"

    play(Legacy(breaking(broke), stands=resume), scene)


def test_a_stream_without_numbers_cannot_be_taken_up() -> None:
    def site(heard: Heard, reply: Reply) -> None:
        reply.stream()
        reply.event({"method": "notifications/message"})
        reply.end()

    async def scene(web: Web, at: Scene) -> None:
        found = await lost(await at.connected())

        assert found == cut_off(None)

    play(Legacy(site), scene)


@pytest.mark.parametrize("retry", ["0", "1", "999999999"])
def test_a_stream_that_never_brings_the_answer_is_taken_up_so_many_times(
    retry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "RESUME_SECONDS_MAX", 0.002)

    def resume(heard: Heard, reply: Reply) -> None:
        if "last-event-id" not in heard.fields:
            reply.whole(405)
            return
        reply.stream()
        reply.chunk(f"retry: {retry}\n\n".encode())
        reply.end()

    async def scene(web: Web, at: Scene) -> None:
        found = await lost(await at.connected())

        assert found.situation is Situation.MISBEHAVED
        assert len(web.gets()) == 1 + session.RESUMES_MAX

    play(Legacy(breaking(lambda _, reply: reply.end()), stands=resume), scene)


@pytest.mark.parametrize("status", [400, 404, 405, 500])
def test_a_stream_that_is_refused_to_be_taken_up_costs_the_call(status: int) -> None:
    def resume(heard: Heard, reply: Reply) -> None:
        reply.whole(status if "last-event-id" in heard.fields else 405)

    async def scene(web: Web, at: Scene) -> None:
        found = await lost(await at.connected())

        assert found.situation is Situation.MISBEHAVED
        assert "session" in found.reason if status == 404 else f"HTTP {status}" in found.reason

    play(Legacy(breaking(lambda _, reply: reply.end()), stands=resume), scene)


def test_a_server_may_say_how_long_to_wait() -> None:
    assert session.resume_seconds(2500) == 2.5


@pytest.mark.parametrize(("retry_ms", "seconds"), [(0, 0.1), (999_999_999, 60.0), (None, 1.0)])
def test_a_wait_is_neither_none_nor_endless(
    retry_ms: int | None, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()

    assert session.resume_seconds(retry_ms) == seconds


def test_a_call_that_was_given_up_is_not_taken_up_again() -> None:
    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        answers: list[Answer] = []
        sent = connection.call("tools/call", b'{"name":"x"}', answers.append)
        assert isinstance(sent, Call)
        await until(lambda: bool(at.ear.notifications))

        connection.cancel(sent, b'"enough"')
        await until(lambda: bool(web.of("notifications/cancelled")))
        await ask(connection, "ping", None)

        (told,) = web.of("notifications/cancelled")
        assert told.message["params"] == {"requestId": sent.number, "reason": "enough"}
        assert all("last-event-id" not in heard.fields for heard in web.gets())
        assert answers == []

    def site(heard: Heard, reply: Reply) -> None:
        if heard.method == "tools/call":
            breaking(lambda _, __: None)(heard, reply)
        else:
            answer(heard, reply)

    play(Legacy(site), scene)

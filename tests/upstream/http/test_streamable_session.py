"""Sessions over HTTP: found dead and opened again, streams broken and taken up again."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from anyport.protocol.errors import Situation
from anyport.upstream.handshake import start_request
from anyport.upstream.http import streamable
from anyport.upstream.http.errors import stream_cut_off
from anyport.upstream.pending_call import Answer, NoAnswer, PendingCall, Retryable
from anyport.upstream.supervisor import ServerState
from anyport.wire.jsonrpc import Failure, Result
from tests.pairwise import pairwise
from tests.upstream.fakes import Message, run, until
from tests.upstream.web import Heard, Legacy, Reply, Scene, Web, call, lost

LOST_SESSIONS = 100


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamable, "RESUME_SECONDS_DEFAULT", 0.001)
    monkeypatch.setattr(streamable, "RESUME_SECONDS_MIN", 0.001)
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
        await at.supervisor.stop()

        assert site.ended == ["session-1"]
        deleted = web.heard[-1]
        assert deleted.verb == "DELETE"
        assert deleted.fields["mcp-protocol-version"] == "2025-11-25"
        assert at.supervisor.state is ServerState.STOPPED or at.supervisor.connection is None

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
            await at.supervisor.stop()
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
            assert at.supervisor.state is ServerState.STARTING
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
        assert at.supervisor.connection is connection
        assert len(at.owner.ready) == 1 + LOST_SESSIONS, "who keeps subscriptions was told"
        assert len(web.of("notifications/initialized")) == 1 + LOST_SESSIONS
        for greeting in web.of("initialize"):
            assert "mcp-session-id" not in greeting.fields
            assert "mcp-protocol-version" not in greeting.fields
        ids = [heard.id for heard in web.of("initialize") + web.of("tools/call")]
        assert len(set(ids)) == 5 * LOST_SESSIONS + 1 + LOST_SESSIONS

    play(site, scene)


def test_a_method_that_is_not_found_is_not_a_session_that_is_not_found() -> None:
    def missing(heard: Heard, reply: Reply) -> None:
        reply.json({"id": heard.id, "error": {"code": -32601, "message": "no such method"}}, 404)

    site = Legacy(missing)

    async def scene(web: Web, at: Scene) -> None:
        assert isinstance(await call(await at.connected()), Failure)
        assert len(site.sessions) == 1

    play(site, scene)


NOT_FOUND = {"code": -32603, "message": "Not found"}
NO_SESSION = {"code": -32600, "message": "Session not found"}


@pytest.mark.parametrize("error", [NOT_FOUND, NO_SESSION, None])
def test_an_answer_with_the_id_of_the_call_is_its_answer_whatever_its_status(
    error: Message | None,
) -> None:
    def odd(heard: Heard, reply: Reply) -> None:
        told = {"result": {}} if error is None else {"error": error}
        reply.json({"id": heard.id, **told}, 404)

    site = Legacy(odd)

    async def scene(web: Web, at: Scene) -> None:
        found = await call(await at.connected())

        assert isinstance(found, Result if error is None else Failure)
        assert len(web.of("tools/call")) == 1
        site.call = answer
        assert isinstance(await call(await at.connected()), Result)
        # One that says that the session is gone is believed.
        assert len(site.sessions) == (2 if error is NO_SESSION else 1)

    play(site, scene)


@pytest.mark.parametrize("body", [b"", b"<h1>Not found</h1>", b'{"error": "no such page"}'])
def test_a_call_is_not_sent_again_to_a_server_that_does_not_say_that_it_knows_no_session(
    body: bytes,
) -> None:
    site = Legacy(lambda _, reply: reply.whole(404, body))

    async def scene(web: Web, at: Scene) -> None:
        found = await lost(await at.connected())

        # The gateway makes it once more if it knows that this does no harm.
        assert found.retryable is Retryable.IF_SAFE
        assert len(web.of("tools/call")) == 1
        site.call = answer
        assert isinstance(await call(await at.connected()), Result)
        assert len(site.sessions) == 2

    play(site, scene)


DONE = '"result":{"content":[{"type":"text","text":"session removed"}]}'
REFUSED = '"error":{"code":-32000,"message":"the session of the calendar was deleted"}'
FRAME = '{"jsonrpc":"2.0","id":%s,%s}'


@pytest.mark.parametrize(
    ("written", "id", "said", "status"),
    pairwise(
        ["%s", "\n %s\n", "\ufeff%s", "[%s]", "\ufeff [ %s ]"],
        ["%d", '"%d"', "%d.0"],
        [DONE, REFUSED, DONE.replace("result", "re\\u0073ult", 1)],
        [200, 400, 404],
    ),
)
def test_an_answer_is_known_however_it_is_written(
    written: str, id: str, said: str, status: int
) -> None:
    def odd(heard: Heard, reply: Reply) -> None:
        reply.whole(status, (written % (FRAME % (id % heard.id, said))).encode())

    site = Legacy(odd)

    async def scene(web: Web, at: Scene) -> None:
        found = await call(await at.connected())

        assert isinstance(found, Failure if said is REFUSED else Result)
        assert b"session" in (found.error if isinstance(found, Failure) else found.result)
        assert len(web.of("tools/call")) == 1
        assert len(site.sessions) == 1, "it says nothing of the session"

    play(site, scene)


@pytest.mark.parametrize(
    "body",
    [
        "deleted; session notes are gone",
        "<html>Your session file was removed</html>",
        "<html>Session not found</html>",
        "session notes not found",
        "calendar session not found",
        FRAME % ("null", REFUSED),
        FRAME.replace('"id":%s,', "") % REFUSED,
        FRAME % ('"another"', '"error":{"code":-32001,"message":"Session not found"}'),
        FRAME % ("null", '"error":{"code":-32001,"message":"Request timed out"}'),
        FRAME % ("null", '"error":{"code":-1,"message":"Session terminated before it was done"}'),
        '{"id":ID,"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}',
        '{"jsonrpc":"2.0","Id":ID,"error":{"code":-32001,"message":"Session not found"}}',
        '{"result":{},"error":{"code":-32001,"message":"Session not found"}}',
        '[{"detail":"session not found"},{"detail":"session not found"}]',
        '{"detail":"session not found"',
    ],
)
def test_a_call_is_not_sent_again_for_words_that_may_be_about_something_else(body: str) -> None:
    site = Legacy(lambda heard, reply: reply.whole(404, body.replace("ID", f"{heard.id}").encode()))

    async def scene(web: Web, at: Scene) -> None:
        found = await call(await at.connected())

        # The gateway makes it once more if it knows that this does no harm.
        assert isinstance(found, NoAnswer)
        assert found.retryable is Retryable.IF_SAFE
        assert len(web.of("tools/call")) == 1

    play(site, scene)


NOT_KNOWN = '{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"%s"}}'
SAID_BY_SDKS = [
    (404, NOT_KNOWN % ("null", -32001, "Session not found")),  # TypeScript
    (404, NOT_KNOWN % ('"server-error"', -32600, "Session not found")),  # Python 1
    (404, NOT_KNOWN % ("null", -32600, "Not Found: Invalid or expired session ID")),  # Swift
    (404, NOT_KNOWN % ('"server-error"', -32600, "Not Found: Session has been terminated")),
    (404, NOT_KNOWN % ('""', -32600, "Session not found or has expired.")),  # PHP
    (404, NOT_KNOWN % ("null", -32000, "Session not found")),  # Kotlin
    (404, "session not found\n"),  # Go
    (404, "Not Found: Session not found"),  # Rust
    (404, "Invalid session ID"),  # mcp-go
    (404, "Session terminated"),
    (
        404,  # Java
        '{"cause":null,"stackTrace":[{"className":"org.example.Server"}'
        + ',{"className":"org.example.Server"}' * 50
        + '],"jsonRpcError":{"code":-32603,"message":"Session not found: 6fd7"}'
        ',"message":"Session not found: 6fd7"}',
    ),
    (404, '{"error":"Session not found"}'),
    (404, '{"detail": "Unknown session ID"}'),
    (404, NOT_KNOWN % ("null", -32600, "There is no such session; begin one with 'initialize'")),
    (404, NOT_KNOWN % ("null", -32600, "Session 6fd7-11 does not exist")),
    (404, "\ufeff" + NOT_KNOWN % ("null", -32001, "session expired")),
    (400, "Bad Request: No valid session ID provided"),  # Python 1.8
    (400, NOT_KNOWN % ("null", -32000, "Bad Request: No valid session ID provided")),
    (400, NOT_KNOWN % ("null", -32000, "Bad Request: Mcp-Session-Id header is required")),
    (400, NOT_KNOWN % ("null", -32000, "No valid session id; expected initialize")),
]


@pytest.mark.parametrize(("status", "body"), SAID_BY_SDKS)
def test_a_call_is_sent_again_to_a_server_that_says_in_its_own_words_that_it_knows_no_session(
    status: int, body: str
) -> None:
    site = Legacy(answer)

    def plain(heard: Heard, reply: Reply) -> Any:
        if heard.fields.get("mcp-session-id") in site.dead and heard.body:
            reply.whole(status, body.encode())
            return None
        return site(heard, reply)

    async def whole() -> None:
        async with Web(plain) as web, Scene(web.url) as at:
            connection = await at.connected()
            site.dead.add("session-1")
            assert isinstance(await call(connection), Result)
            assert len(site.sessions) == 2

    run(whole)


@pytest.mark.parametrize("repeatable", [True, False, None])
def test_a_tool_that_does_harm_twice_is_not_sent_again_whatever_its_server_says_of_the_session(
    repeatable: bool | None,
) -> None:
    done: list[Any] = []

    def carried_out(heard: Heard, reply: Reply) -> None:
        done.append(heard.id)
        if len(done) > 1:
            answer(heard, reply)
        else:
            site.dead.add("session-1")
            reply.whole(404, (NOT_KNOWN % ("null", -32001, "Session not found")).encode())

    site = Legacy(carried_out)

    async def scene(web: Web, at: Scene) -> None:
        if repeatable is not None:
            at.owner.repeatable["echo"] = repeatable
        found = await call(await at.connected())

        if repeatable is False:
            assert isinstance(found, NoAnswer)
            assert (found.situation, found.retryable) == (Situation.MISBEHAVED, Retryable.IF_SAFE)
            assert len(done) == 1
            assert isinstance(await call(await at.connected()), Result), "in a new session"
        else:
            assert isinstance(found, Result)
        assert len(done) == 2
        assert len(site.sessions) == 2

    play(site, scene)


@pytest.mark.parametrize(
    ("status", "pong"),
    [
        (200, None),  # An answer in that session.
        (200, {"error": {"code": -32601, "message": "Method not found"}}),
        (404, {"error": {"code": -32601, "message": "Method not found"}}),
        (404, {}),
        (500, {}),
    ],
)
def test_a_tool_is_not_sent_again_if_its_server_still_knows_the_session_that_it_denies(
    status: int, pong: Message | None
) -> None:
    """It may have carried the call out: words about some session prove nothing."""
    done: list[Any] = []

    def carried_out(heard: Heard, reply: Reply) -> None:
        if heard.method == "ping":
            reply.json({"id": heard.id, **({"result": {}} if pong is None else pong)}, status)
        else:
            done.append(heard.id)
            reply.whole(404, (NOT_KNOWN % ("null", -32001, "Session not found")).encode())

    site = Legacy(carried_out)

    async def scene(web: Web, at: Scene) -> None:
        found = await call(await at.connected())

        assert isinstance(found, NoAnswer)
        assert (found.situation, found.retryable) == (Situation.MISBEHAVED, Retryable.IF_SAFE)
        assert len(done) == 1
        await until(lambda: len(site.sessions) == 2)

    play(site, scene)


def test_a_tool_is_not_sent_again_if_nobody_says_whether_the_session_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streamable, "SESSION_CHECK_SECONDS_MAX", 0.01)
    done: list[Any] = []

    def silent(heard: Heard, reply: Reply) -> None:
        if heard.method != "ping":
            done.append(heard.id)
            reply.whole(404, b"Session not found")

    site = Legacy(silent)

    async def scene(web: Web, at: Scene) -> None:
        found = await call(await at.connected())

        assert isinstance(found, NoAnswer)
        assert found.retryable is Retryable.IF_SAFE
        assert len(done) == 1

    play(site, scene)


def test_one_look_at_the_session_serves_all_calls_that_found_it_dead() -> None:
    site = Legacy(answer)

    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        site.dead.add("session-1")
        answers = await asyncio.gather(*(call(connection) for _ in range(5)))

        assert all(isinstance(found, Result) for found in answers)
        assert len(web.of("ping")) == 1
        assert web.of("ping")[0].fields["mcp-session-id"] == "session-1"
        assert len(site.sessions) == 2

    play(site, scene)


def test_a_call_that_waits_for_a_look_at_its_session_is_told_if_no_other_can_be_opened() -> None:
    slow = asyncio.Event()

    async def plain(heard: Heard, reply: Reply) -> None:
        if heard.body and heard.method == "ping":
            await slow.wait()
        elif heard.body and heard.method == "initialize" and site.sessions:
            reply.whole(500)
        else:
            site(heard, reply)

    site = Legacy(answer)

    async def whole() -> None:
        async with Web(plain) as web, Scene(web.url) as at:
            connection = await at.connected()
            site.dead.add("session-1")
            found = await call(connection)

            assert isinstance(found, NoAnswer)
            assert found.retryable is Retryable.IF_SAFE
            assert len(web.of("tools/call")) == 1
            slow.set()

    run(whole)


def test_what_only_looks_is_sent_again_also_where_the_server_names_the_request() -> None:
    site = Legacy(answer)

    def naming(heard: Heard, reply: Reply) -> Any:
        if heard.fields.get("mcp-session-id") in site.dead and heard.body:
            told = {"code": -32001, "message": "Session not found"}  # C#
            reply.json({"id": heard.id, "error": told}, 404)
            return None
        return site(heard, reply)

    async def whole() -> None:
        async with Web(naming) as web, Scene(web.url) as at:
            connection = await at.connected()
            site.dead.add("session-1")
            assert isinstance(await start_request(connection, "tools/list", b"{}"), Result)
            site.dead.add("session-2")
            assert isinstance(await call(connection), Failure), "a tool may have said it"
            assert isinstance(await call(connection), Result)
            assert len(site.sessions) == 3

    run(whole)


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
        await until(lambda: at.supervisor.state is ServerState.READY)
        assert at.supervisor.connection is not connection

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
        monkeypatch.setattr(streamable, "HANDSHAKE_SECONDS_MAX", 0.02)
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

        assert found == stream_cut_off(None)

    play(Legacy(site), scene)


@pytest.mark.parametrize("retry", ["0", "1", "999999999"])
def test_a_stream_that_never_brings_the_answer_is_taken_up_so_many_times(
    retry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamable, "RESUME_SECONDS_MAX", 0.002)

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
        assert len(web.gets()) == 1 + streamable.RESUMES_MAX

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


def test_a_stream_that_is_redirected_does_not_make_the_call_again() -> None:
    def resume(heard: Heard, reply: Reply) -> None:
        if "last-event-id" in heard.fields:
            reply.whole(307, location="/elsewhere")
        else:
            reply.whole(405)

    async def scene(web: Web, at: Scene) -> None:
        found = await lost(await at.connected())

        assert "redirect" in found.reason
        assert len(web.of("tools/call")) == 1

    play(Legacy(breaking(lambda _, reply: reply.end()), stands=resume), scene)


def test_a_server_may_say_how_long_to_wait() -> None:
    assert streamable.resume_seconds(2500) == 2.5


@pytest.mark.parametrize(("retry_ms", "seconds"), [(0, 0.1), (999_999_999, 60.0), (None, 1.0)])
def test_a_wait_is_neither_none_nor_endless(
    retry_ms: int | None, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()

    assert streamable.resume_seconds(retry_ms) == seconds


def test_a_call_that_was_given_up_is_not_taken_up_again() -> None:
    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        answers: list[Answer] = []
        sent = connection.call("tools/call", b'{"name":"x"}', answers.append)
        assert isinstance(sent, PendingCall)
        await until(lambda: bool(at.owner.notifications))

        connection.cancel(sent, b'"enough"')
        await until(lambda: bool(web.of("notifications/cancelled")))
        await start_request(connection, "ping", None)

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

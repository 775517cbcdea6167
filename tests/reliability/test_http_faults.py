"""Links to servers over HTTP that fail in every way, and sessions that are lost, again and again.

Every call ends: with its answer, or with the reason that a person could act on.
"""

import asyncio
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.harness import WAIT_SECONDS
from tests.journeys.scripted_http_server import (
    ReceivedRequest,
    Reply,
    Script,
    ScriptedHttpServer,
    legacy,
    modern,
)
from tests.reliability.conftest import Serve
from tests.rig.http_probe import HttpProbe
from tests.rig.in_process import in_process_gateway, run_bounded
from tests.rig.invalid_replies import fine, nothing_else
from tests.rig.probe import MIB, RSS_GROWTH_BYTES_MAX, eventually, text_of
from tests.rig.raw_http_client import RawHttpClient
from tests.rig.scale import measured, scaled
from tests.rig.toxic_proxy import HEALTH, Toxic, ToxicProxy, toxic_proxy, unreachable

pytestmark = pytest.mark.slow

CALLS: Final = scaled(40, full=10_000)  # With each poison.
CALLERS: Final = scaled(8, full=100)
SESSIONS: Final = scaled(60, full=1_000)
LEFT_BYTES_MAX: Final = scaled(RSS_GROWTH_BYTES_MAX, full=20 * MIB)
"""A hundred callers at once fill every cache, and the allocator keeps some of its peak."""
LARGE_BYTES: Final = 20_000

CUT: Final = "Server 'far' failed to answer: it closed the connection before its reply was complete"
TIMED_OUT: Final = "Tool execution timeout (1s)"
NOT_RUNNING: Final = "Server 'far' is not running: "
REFUSED: Final = "no connection: connection refused"
EJECTED: Final = f"is not taking calls: 5 calls in a row failed (last: {REFUSED})"
GOOD: Final = "good"

ERAS: Final[dict[str, Callable[..., Script]]] = {"modern": modern, "legacy": legacy}


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> Callable[..., Script]:
    """What the server speaks."""
    return ERAS[request.param]


class Poisons:
    """Poisons that break a connection somewhere, a different place each time."""

    def __init__(self, then: str) -> None:
        self._then = then
        self._draw = random.Random(then)

    def __call__(self) -> Toxic:
        return Toxic(after_bytes=self._draw.randrange(1, 400), then=self._then)


POISONS: Final[dict[str, tuple[Callable[[], Toxic], set[str]]]] = {
    # What the link does, and how calls may end.
    "latency": (lambda: Toxic(latency_seconds=0.05), {GOOD}),
    "pieces": (lambda: Toxic(piece_bytes=1), {GOOD}),
    "a slow close": (lambda: Toxic(close_seconds=30), {GOOD}),
    "little bandwidth": (lambda: Toxic(piece_bytes=100, bytes_per_second=20_000), {GOOD}),
    "far too little": (lambda: Toxic(piece_bytes=1, bytes_per_second=20), {TIMED_OUT}),
    "cuts": (Poisons("cut"), {GOOD, CUT}),
    "resets": (Poisons("reset"), {GOOD, CUT}),
    "half-closes": (Poisons("half"), {GOOD, CUT}),
    "silence": (Poisons("hush"), {GOOD, TIMED_OUT}),
}


def outcome(visitor: RawHttpClient, nonce: str, slug: str = "far") -> str:
    """How a call ends."""
    answer = visitor.call(f"{slug}__fine", text=nonce)
    if "error" in answer:
        assert answer["error"]["code"] == -32000
        return str(answer["error"]["message"])
    assert text_of(answer) == nonce
    return GOOD


def outcomes(there: HttpProbe, calls: int, slug: str = "far") -> set[str]:
    """How many calls of several clients end."""
    nonces = [f"nonce-{number}" for number in range(calls)]
    with ThreadPoolExecutor(CALLERS) as pool, ExitStack() as stack:
        visitors = [RawHttpClient(there.port) for _ in range(CALLERS)]
        for visitor in visitors:
            stack.callback(visitor.leave)

        def work(number: int) -> list[str]:
            return [outcome(visitors[number], each, slug) for each in nonces[number::CALLERS]]

        there.calls_owed += calls
        return {each for share in pool.map(work, range(CALLERS)) for each in share}


def test_every_call_over_a_bad_link_ends_with_its_answer_or_the_right_reason(
    serve: Serve, era: Callable[..., Script]
) -> None:
    with ScriptedHttpServer(era(fine(nothing_else), "fine")) as web, toxic_proxy(web.url) as link:
        # Each failure is to be seen for itself, not only the first few.
        far = {"url": link.url, "timeout": 60, "breaker": False}
        with serve({"far": far, "hurried": {**far, "timeout": 1}}) as there:
            there.growth_bytes_max = LEFT_BYTES_MAX
            for slug in ("far", "hurried"):  # The first calls wait for a server that starts.
                eventually(lambda: outcomes(there, CALLERS, slug) == {GOOD}, slug)  # noqa: B023
            for name, (poison, allowed) in POISONS.items():
                slug = "hurried" if TIMED_OUT in allowed else "far"
                link.poison = poison
                link.cut_all()  # Connections from before are healthy.
                eventually(lambda: outcomes(there, 1, slug) <= allowed, "poison")  # noqa: B023
                ended = outcomes(there, CALLS, slug)
                assert ended <= allowed, (name, ended)
                assert ended - {GOOD} == allowed - {GOOD}, f"{name} did not happen"
                measured(**{name.replace(" ", "_"): CALLS})

                link.poison = lambda: HEALTH
                link.cut_all()
                eventually(lambda: outcomes(there, CALLERS, slug) == {GOOD}, name)  # noqa: B023


def test_a_server_that_cannot_be_reached_any_more_is_down_until_it_can(serve: Serve) -> None:
    with ScriptedHttpServer(modern(fine(nothing_else), "fine")) as web:
        link = ToxicProxy(web.url)
        try:
            with serve({"far": {"url": link.url, "timeout": 30}}) as there:
                assert outcomes(there, CALLERS) == {GOOD}

                link.close()

                (reason,) = outcomes(there, 1)
                assert reason in (CUT, f"{NOT_RUNNING}{REFUSED}")
                eventually(lambda: EJECTED in outcomes(there, 1).pop(), "the last refusal")
                backend = there.status()["backends"]["far"]
                assert (backend["status"], backend["last_error"]) == ("failed", REFUSED)

                link = ToxicProxy(web.url, port=link.port)

                eventually(lambda: outcomes(there, CALLERS) == {GOOD}, "it is back")
        finally:
            link.close()


def test_a_server_that_does_not_even_refuse_is_given_up_in_time(serve: Serve) -> None:
    with unreachable() as port:
        far = {"url": f"http://127.0.0.1:{port}/mcp", "timeout": 30}
        with serve({"far": far}, gateway={"listSeconds": 30}) as there:
            # It is waited for while it may still come, and for no longer.
            assert outcomes(there, CALLERS) == {f"{NOT_RUNNING}no connection within 5 s"}
            assert there.status()["backends"]["far"]["last_error"] == "no connection within 5 s"


def test_a_server_that_falls_silent_does_not_use_up_the_connections_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told of every call that was given up, and does not even take that."""
    monkeypatch.setattr("anyport.upstream.http.client.CONNECTIONS_MAX", 8)
    monkeypatch.setattr("anyport.upstream.http.channel.ONE_WAY_POSTS_MAX", 4)

    async def scene() -> None:
        with (
            ScriptedHttpServer(legacy(fine(nothing_else), "fine")) as web,
            toxic_proxy(web.url) as link,
        ):
            far = {"url": link.url, "timeout": 1, "breaker": False}
            async with in_process_gateway(tmp_path, {"far": far}) as at:
                visitor = await asyncio.to_thread(RawHttpClient, at.port)
                assert await asyncio.to_thread(outcome, visitor, "before") == GOOD
                link.poison = lambda: Toxic(after_bytes=0, then="hush")
                link.cut_all()
                visitors = [await asyncio.to_thread(RawHttpClient, at.port) for _ in range(20)]
                ended = await asyncio.gather(
                    *(asyncio.to_thread(outcome, each, "silence") for each in visitors)
                )
                assert set(ended) <= {TIMED_OUT, CUT}
                assert TIMED_OUT in ended

                link.poison = lambda: HEALTH

                give_up_at = time.monotonic() + WAIT_SECONDS
                while await asyncio.to_thread(outcome, visitor, "after") != GOOD:
                    assert time.monotonic() < give_up_at, "the connections are all in use"
                for each in (visitor, *visitors):
                    each.close()

    run_bounded(scene)


# Sessions.


class Forgetful:
    """A legacy server that loses its sessions."""

    def __init__(self) -> None:
        self.sessions: list[str] = []
        self.alive: set[str] = set()
        self.handled: list[str] = []
        """The nonces of all calls that it has looked at."""
        self._lock = threading.Lock()
        self._honest = legacy(self._call, "fine")

    def lose(self) -> None:
        """Forget everything."""
        with self._lock:
            self.alive.clear()

    def __call__(self, heard: ReceivedRequest, back: Reply) -> None:
        if heard.method == "initialize":
            with self._lock:
                id = f"session-{len(self.sessions)}"
                self.sessions.append(id)
                self.alive.add(id)
            told = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "forgetful", "version": "1"},
            }
            back.result(heard, told, Mcp_Session_Id=id)
        elif heard.method != "server/discover" and heard.fields["mcp-session-id"] not in self.alive:
            back.whole(404, b"Session not found")
        else:
            self._honest(heard, back)

    def _call(self, heard: ReceivedRequest, back: Reply) -> None:
        self.handled.append(heard.message["params"]["arguments"]["text"])
        fine(nothing_else)(heard, back)


def test_lost_sessions_are_opened_once_each_and_no_call_is_lost_or_made_twice(
    serve: Serve,
) -> None:
    server = Forgetful()
    with (
        ScriptedHttpServer(server) as web,
        serve({"far": {"url": web.url}}) as there,
        ExitStack() as stack,
    ):
        visitors = [RawHttpClient(there.port) for _ in range(CALLERS)]
        for visitor in visitors:
            stack.callback(visitor.leave)
        pool = stack.enter_context(ThreadPoolExecutor(CALLERS))
        nonces = [f"{lost}-{caller}" for lost in range(SESSIONS) for caller in range(CALLERS)]
        for lost in range(SESSIONS):
            server.lose()
            batch = nonces[lost * CALLERS : (lost + 1) * CALLERS]
            assert set(pool.map(outcome, visitors, batch)) == {GOOD}
            there.calls_owed += CALLERS
        assert sorted(server.handled) == sorted(nonces)
        assert len(server.sessions) == SESSIONS + 1
        backend = there.status()["backends"]["far"]
        assert (backend["status"], backend["restarts"]) == ("running", 0)
        measured(sessions_lost=SESSIONS, calls_lost=0)

"""Bad links: whatever happens on the way, every call ends in its time, and says what ended it."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Final

import pytest

from anyport.protocol.errors import Timeout
from tests.journeys.scripted_http_server import Script, ScriptedHttpServer, legacy, modern
from tests.reliability.conftest import Serve
from tests.rig.invalid_replies import fine, nothing_else
from tests.rig.probe import eventually
from tests.rig.raw_http_client import RawHttpClient
from tests.rig.scale import measured, scaled
from tests.rig.toxic_proxy import HEALTH, TOXICS, Toxic, toxic_proxy

pytestmark = pytest.mark.slow

CALLS: Final = scaled(2, full=10_000)  # With each toxic.
CALLERS: Final = scaled(1, full=25)  # More, and the link itself is late.
LATE_SECONDS_MAX: Final = scaled(20.0, full=1.0)
"""Every call is over within its time and this."""

FIRST_BYTE: Final = Timeout.FIRST_BYTE
REFUSED: Final = "no connection: connection refused"
CUT: Final = "failed to answer: it closed the connection before its reply was complete"

TOXIC: Final[dict[str, tuple[Toxic, set[Timeout | str]]]] = {
    "latency": (TOXICS["latency"](30), {FIRST_BYTE}),
    "bandwidth": (TOXICS["bandwidth"](20), {Timeout.TOTAL}),
    "slow_close": (TOXICS["slow_close"](30), {"good"}),
    "timeout": (TOXICS["timeout"](), {FIRST_BYTE}),
    "a silence in the middle": (Toxic(after_bytes=60, then="hush"), {Timeout.STREAM_IDLE}),
    "reset_peer": (TOXICS["reset_peer"](), {CUT}),
    "slicer": (TOXICS["slicer"](1), {"good"}),
    "limit_data": (TOXICS["limit_data"](60), {CUT}),
}
TOTAL_SECONDS: Final = scaled(4.0, full=2.0)
"""What comes slowly, but comes, has this long; on a busy machine it is slower still."""
ALLOWED_SECONDS: Final = {
    Timeout.TOTAL: TOTAL_SECONDS,
    FIRST_BYTE: TOTAL_SECONDS / 4,
    Timeout.STREAM_IDLE: TOTAL_SECONDS / 3,
}


Ending = tuple[Timeout | str, float]


def ending(visitor: RawHttpClient) -> Ending:
    """How a call ends, and after how long."""
    began = time.monotonic()
    answer = visitor.call("far__fine", text="x" * 200)
    took = time.monotonic() - began
    if "error" not in answer:
        return "good", took
    error = answer["error"]
    name = error["data"].get("timeout")
    return (Timeout(name) if name else error["message"].removeprefix("Server 'far' ")), took


def some(port: int, calls: int) -> list[Ending]:
    """How the calls of one caller end."""
    visitor = RawHttpClient(port)
    try:
        return [ending(visitor) for _ in range(calls)]
    finally:
        visitor.leave()


def endings(port: int) -> list[Ending]:
    """How the calls of all callers end."""
    with ThreadPoolExecutor(CALLERS) as pool:
        shares = pool.map(some, [port] * CALLERS, [CALLS // CALLERS] * CALLERS)
        return [each for share in shares for each in share]


def _same(poison: Toxic) -> Toxic:
    return poison


@pytest.mark.parametrize("era", [modern, legacy])
def test_every_call_over_a_bad_link_ends_in_its_time_and_says_which(
    serve: Serve, era: Callable[..., Script]
) -> None:
    with ExitStack() as stack:
        web = stack.enter_context(ScriptedHttpServer(era(fine(nothing_else), "fine")))
        link = stack.enter_context(toxic_proxy(web.url))
        far = {
            "url": link.url,
            "breaker": False,
            "retry": "never",
            "timeout": ALLOWED_SECONDS[Timeout.TOTAL],
            "firstByteSeconds": ALLOWED_SECONDS[FIRST_BYTE],
            "streamIdleSeconds": ALLOWED_SECONDS[Timeout.STREAM_IDLE],
        }
        there = stack.enter_context(serve({"far": far}))

        def now() -> Timeout | str:
            ((how, _),) = some(there.port, 1)
            return how

        assert now() == "good"
        for name, (poison, allowed) in TOXIC.items():
            link.poison = partial(_same, poison)
            link.cut_all()
            eventually(lambda: now() in allowed, name)  # noqa: B023
            ended = endings(there.port)
            assert {how for how, _ in ended} == allowed, name
            for how, took in ended:
                in_time = ALLOWED_SECONDS.get(how) if isinstance(how, Timeout) else None
                most = in_time or TOTAL_SECONDS
                assert took <= most + LATE_SECONDS_MAX, (name, how)
            measured(**{name.replace(" ", "_"): CALLS})
            there.calls_owed += CALLS

            link.poison = lambda: HEALTH
            link.cut_all()
            eventually(lambda: now() == "good", f"health after {name}")

        link.down()
        eventually(lambda: now() == f"is not running: {REFUSED}", "down")
        link.up()
        eventually(lambda: now() == "good", "it is up again")

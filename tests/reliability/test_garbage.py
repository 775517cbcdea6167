"""What clients leave behind is freed when they go: none of it waits for the garbage collector.

The collector counts objects, not bytes, and may be long in coming where most of them come and go.
"""

import asyncio
import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.harness import DEMO
from tests.rig.in_process import InProcessGateway, in_process_gateway, run_bounded
from tests.rig.load_clients import (
    BareLoadClient,
    Complain,
    LoadClient,
    ModernLoadClient,
    SessionLoadClient,
    SseLoadClient,
)
from tests.rig.raw_http_client import tool_call

CLIENTS: Final = 5
CALLS: Final = 20

Kind = Callable[[int, Complain], LoadClient]
KINDS: Final[dict[str, Kind]] = {
    "modern": ModernLoadClient,
    "without a session": BareLoadClient,
    "2025-03-26": partial(SessionLoadClient, revision="2025-03-26"),
    "2025-11-25": SessionLoadClient,
    "HTTP+SSE": SseLoadClient,
}


@contextmanager
def collecting() -> Iterator[Counter[str]]:
    """Meanwhile nothing is collected; afterwards, how much of ours there would have been."""
    found: Counter[str] = Counter()
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found.update(
            type(each).__qualname__
            for each in gc.garbage
            if type(each).__module__.startswith("anyport.")
        )
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


async def come_and_go(at: InProcessGateway, kind: Kind) -> None:
    """Clients that call, one with news on the way, and leave in good order."""
    complaints: list[str] = []
    clients = [kind(at.port, complaints.append) for _ in range(CLIENTS)]
    slow = tool_call("s__slow", {"seconds": 0.1, "steps": 2}, 1000, progressToken="p")
    async with asyncio.TaskGroup() as group:
        for client in clients:
            await client.open(group)
        for client in clients:
            for number in range(CALLS):
                await client.call("s__echo", {"text": str(number)})
            await client.call("s__nonexistent", {})
            await client.ask(slow)
        for client in clients:
            await client.close()
            client.rest()
    assert not complaints
    while not at.at_rest or at.ingress.connections:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_client_that_has_gone_leaves_nothing_to_the_collector(tmp_path: Path, kind: Kind) -> None:
    async def scene() -> None:
        async with in_process_gateway(tmp_path, {"s": DEMO}) as at:
            await come_and_go(at, kind)  # What is made once, at first use, is not looked at.
            with collecting() as found:
                await come_and_go(at, kind)
            assert not found

    run_bounded(scene)

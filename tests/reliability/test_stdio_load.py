"""Many calls at once over many servers on pipes: none is lost, none reaches somebody else."""

import random
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice
from typing import Final

import pytest

from tests.reliability.conftest import Serve, Watch
from tests.rig.probe import Probe
from tests.rig.raw_http_client import RawConnection, RawHttpClient, modern, tool_call
from tests.rig.scale import measured, scaled
from tests.rig.small_servers import MINIMAL

pytestmark = pytest.mark.slow

SERVERS: Final = scaled(8, full=20)
IN_FLIGHT: Final = scaled(150, full=1_000)
"""Twice as many at most: they are looked at when there are that many."""
CALLS: Final = scaled(3_000, full=1_000_000)
CLIENTS: Final = scaled(12, full=50)
CALLS_EACH: Final = scaled(60, full=2_000)

SHUFFLING: Final = (
    MINIMAL
    + """
import random

draw = random.Random(sys.argv[1])
waiting, rest = [], b""
while True:
    portion = os.read(0, 1 << 16)
    if not portion:
        break
    *lines, rest = (rest + portion).split(b"\\n")
    for line in lines:
        message = json.loads(line)
        method = message.get("method")
        if method == "initialize":
            shake_hands(message)
        elif method == "tools/list":
            offer(message, "name")
        elif method == "tools/call":
            waiting.append(message)
        elif "id" in message:
            answer(message, error={"code": -32601, "message": "Method not found"})
    draw.shuffle(waiting)
    for message in waiting:
        say(message, sys.argv[1] + " " + message["params"]["arguments"]["nonce"])
    waiting.clear()
"""
)
"""A server that answers all it has read in any order, with its own name and what it was given."""


def shuffling(number: int) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", SHUFFLING, f"s{number}"]


FLEET: Final = {f"s{number}": shuffling(number) for number in range(SERVERS)}


def test_calls_of_one_client_over_many_servers_are_all_answered_rightly(watch: Watch) -> None:
    draw = random.Random(8)
    with watch(FLEET) as probe:
        probe.growth_bytes_max *= 2
        client = probe.client
        begun: dict[str | int, str] = {}
        for number in range(CALLS):
            server, nonce = f"s{draw.randrange(SERVERS)}", f"nonce-{number}"
            id = client.start(
                "tools/call", {"name": f"{server}__name", "arguments": {"nonce": nonce}}
            )
            begun[id] = f"{server} {nonce}"
            if len(begun) == 2 * IN_FLIGHT:
                settle(probe, begun, IN_FLIGHT)
        settle(probe, begun, len(begun))
        measured(calls=CALLS, servers=SERVERS, in_flight=2 * IN_FLIGHT, lost=0, crossed=0)


def settle(probe: Probe, begun: dict[str | int, str], count: int) -> None:
    """The oldest calls have their answers, each its own; nothing of them is kept."""
    ids = list(islice(begun, count))
    for id in ids:
        assert probe.client.answer(id)["result"]["content"][0]["text"] == begun.pop(id)
    secret = probe.canary.encode()
    assert not [line for line in probe.client.forget(*ids) if secret in line]


def test_calls_of_many_clients_with_the_same_ids_are_all_answered_rightly(serve: Serve) -> None:
    def work(there_port: int, client: int) -> Counter[str]:
        draw, outcomes = random.Random(client), Counter[str]()
        visitor = RawHttpClient(there_port)
        with RawConnection(there_port) as wire:
            for number in range(CALLS_EACH):
                server, nonce = f"s{draw.randrange(SERVERS)}", f"{client}-{number}"
                call = tool_call(f"{server}__name", {"nonce": nonce}, number)
                reply = wire.ask(modern(call)) if draw.random() < 0.5 else visitor.send(call)
                message = reply.message
                assert message["id"] == number
                right = message["result"]["content"][0]["text"] == f"{server} {nonce}"
                outcomes["right" if right else "crossed"] += 1
        visitor.close()
        return outcomes

    with serve(FLEET) as there, ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(CLIENTS))
        outcomes = sum(pool.map(work, [there.port] * CLIENTS, range(CLIENTS)), Counter[str]())
        there.calls_owed += CLIENTS * CALLS_EACH
    assert outcomes == {"right": CLIENTS * CALLS_EACH}

"""More work than there is memory for: some are told to come later, and nothing breaks."""

import time
from collections import Counter
from contextlib import ExitStack
from typing import Final

import pytest

from tests.harness import LEGACY_DEMO
from tests.reliability.conftest import Serve
from tests.rig.probe import MIB, eventually, memory, text_of
from tests.rig.raw_http_client import RawConnection, post, tool_call
from tests.rig.scale import measured, scaled

pytestmark = pytest.mark.slow

MEMORY_BYTES_MAX: Final = scaled(384, full=512) * MIB
UNDER_WAY_BYTES_MAX: Final = scaled(60, full=150) * MIB
CLIENTS: Final = scaled(180, full=450)
"""Each asks for a mebibyte and reads it late: three times as much as may be under way."""
ROUND_SECONDS: Final = scaled(0.0, full=1800.0)
"""For so long it is done again; once in any case."""
ANSWER_BYTES: Final = MIB


def test_what_does_not_fit_in_memory_is_put_off_and_nothing_breaks(serve: Serve) -> None:
    outcomes: Counter[str] = Counter()
    most = 0
    gateway = {"bytesMax": UNDER_WAY_BYTES_MAX}
    with serve({"large": LEGACY_DEMO}, memory_bytes_max=MEMORY_BYTES_MAX, gateway=gateway) as there:
        there.turns_away = True
        there.growth_bytes_max *= 3
        call = post(tool_call("large__big", {"bytes": ANSWER_BYTES}))
        over = time.monotonic() + ROUND_SECONDS
        while not outcomes or time.monotonic() < over:
            with ExitStack() as stack:
                wires = [
                    stack.enter_context(RawConnection(there.port, receive_bytes=262_144))
                    for _ in range(CLIENTS)
                ]
                for wire in wires:
                    wire.send(call)
                for wire in wires:
                    outcomes[outcome(wire)] += 1
                most = max(most, memory(there.pid, "VmPeak"))
            assert there.process.poll() is None
        there.calls_owed += outcomes["whole"]
        # Those who can wait for memory wait; only the others are told to come later.
        assert outcomes["whole"] >= outcomes.total() // 2
        assert most < MEMORY_BYTES_MAX
        measured(calls=outcomes.total(), put_off=outcomes["put off"], most_mib=most / MIB)
        with RawConnection(there.port) as wire:
            small = post(tool_call("large__echo", {"text": "as before"}))
            eventually(lambda: wire.ask(small).status == 200, "there is room again")


def outcome(wire: RawConnection) -> str:
    """How a call ended."""
    reply = wire.reply()
    if reply.status == 200 and "result" in reply.message:
        assert len(text_of(reply.message)) == ANSWER_BYTES
        return "whole"
    assert "error" in reply.message, reply
    assert reply.status == 200 or int(reply.get("retry-after") or "") > 0, reply
    return "put off"

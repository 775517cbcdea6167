"""A clock that is set while the gateway runs: calls, sessions and the record go on."""

import os
import time
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from anyport.gateway.recording.maintenance import MAINTENANCE_SECONDS
from anyport.record.journal.segments import segments
from anyport.record.tamper.verify import ExternalEvidence, verify
from tests.harness import WAIT_SECONDS, gateway
from tests.reliability.conftest import Serve
from tests.rig.faulty_disk import FaultyDisk
from tests.rig.raw_http_client import RawHttpClient
from tests.rig.recorded import noted
from tests.rig.small_servers import text_of
from tests.rig.takeovers import LEGACY, fresh, takeovers

pytestmark = pytest.mark.slow

YEAR_SECONDS: Final = 365 * 86400.0
HOURS_SECONDS: Final = 5 * 3600.0
DAY_SECONDS: Final = 86400.0
CALL_SECONDS: Final = 1.5


def wait_noted(state: Path, kind: str, count: int) -> None:
    give_up_at = time.monotonic() + MAINTENANCE_SECONDS + WAIT_SECONDS
    while len(noted(state, kind)) < count:
        assert time.monotonic() < give_up_at, f"{kind} was not noted"
        time.sleep(0.1)


@pytest.mark.parametrize("jump", [YEAR_SECONDS, -YEAR_SECONDS, HOURS_SECONDS, -HOURS_SECONDS])
def test_a_call_in_flight_does_not_notice_that_the_clock_was_set(
    tmp_path: Path, shim: FaultyDisk, jump: float
) -> None:
    with gateway(tmp_path) as client:
        client.initialize()
        text_of(client.call("demo__echo", {"text": "before"}))
        slow = {"name": "demo__slow", "arguments": {"seconds": CALL_SECONDS, "steps": 1}}
        id = client.start("tools/call", slow)
        shim.set_clock(jump)
        assert text_of(client.call("demo__echo", {"text": "meanwhile"})) == "meanwhile"
        assert text_of(client.answer(id)) == "Done after 1 steps."
        shim.set_clock(0.0)
        assert text_of(client.call("demo__echo", {"text": "after"})) == "after"
        assert client.finish() == 0
    calls = noted(tmp_path / "state", "gateway.tool_call")
    (ending,) = [
        call for call in calls if call["metadata"]["tool"] == "slow" and call["status"] == "success"
    ]
    assert CALL_SECONDS * 1000 <= ending["duration_ms"] < WAIT_SECONDS * 1000
    assert verify(tmp_path / "state", ExternalEvidence()).faults == ()


def test_a_year_forward_removes_nothing_and_is_noted(serve: Serve, shim: FaultyDisk) -> None:
    """Sessions go on, too: the neighbour has one all the while."""
    with serve({}, record={"keepDays": 30}) as there:
        with closing(RawHttpClient(there.port)) as visitor:
            text_of(visitor.call("neighbour__echo", text="old"))
            before = noted(there.state, "gateway.tool_call")
            shim.set_clock(YEAR_SECONDS)
            wait_noted(there.state, "gateway.clock_jumped", 1)
            text_of(visitor.call("neighbour__echo", text="new"))
            shim.set_clock(0.0)
            wait_noted(there.state, "gateway.clock_jumped", 2)
            text_of(visitor.call("neighbour__echo", text="newer"))
        there.calls_owed += 3
        jumps = [e["metadata"]["seconds"] for e in noted(there.state, "gateway.clock_jumped")]
        assert [round(seconds / YEAR_SECONDS) for seconds in jumps] == [1, -1]
        after = noted(there.state, "gateway.tool_call")
        assert after[: len(before)] == before
        assert noted(there.state, "gateway.journal_pruned") == []


def test_a_clock_that_was_wrong_at_the_start_removes_nothing(
    tmp_path: Path, shim: FaultyDisk
) -> None:
    """Gateways that live for a moment, one after the other, and one of them in another year."""
    for ahead in (0.0, YEAR_SECONDS, YEAR_SECONDS, 0.0):
        shim.set_clock(ahead)
        with gateway(tmp_path, record={"keepDays": 30}) as client:
            client.initialize()
            text_of(client.call("demo__echo", {"text": f"{ahead}"}))
            assert client.finish() == 0
        for file in segments(tmp_path / "state" / "events"):
            os.utime(file, (file.stat().st_atime, file.stat().st_mtime - 60))  # At rest.
    assert len(noted(tmp_path / "state", "gateway.tool_call")) == 4
    assert verify(tmp_path / "state", ExternalEvidence()).faults == ()


@pytest.mark.parametrize("jump", [DAY_SECONDS, -DAY_SECONDS])
def test_sessions_outlive_a_crash_after_the_clock_was_set(
    tmp_path: Path, shim: FaultyDisk, jump: float
) -> None:
    """Also if the gateway had no time to notice that it was."""
    with takeovers(tmp_path, {"s": LEGACY}) as running:
        visitor = running.visitor()
        text_of(visitor.call("s__echo", text="before"))
        shim.set_clock(jump)
        running.crash()
        assert text_of(fresh(visitor).call("s__echo", text="after")) == "after"

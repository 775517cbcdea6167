"""A disk that is full, slow, hanging, failing or not there: calls go on, or are refused, as told.

The figures in the comments are the goals on a machine of its own; the constants are what a busy
one can prove on every commit.
"""

import time
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from anyport.record.journal.segments import segments
from anyport.record.tamper.verify import ExternalEvidence, verify
from tests.harness import WAIT_SECONDS, LineClient, gateway
from tests.reliability.conftest import Serve
from tests.rig.faulty_disk import ALL, SYNCS, FaultyDisk
from tests.rig.raw_http_client import RawConnection, RawHttpClient, head
from tests.rig.recorded import calls_of, monitoring, noted, recovered
from tests.rig.scale import FULL, scaled
from tests.rig.small_servers import MINIMAL, python, text_of

pytestmark = pytest.mark.slow

BATCH: Final = 100
BURST: Final = 90 * BATCH  # More than there is room for in memory while the disk is full.
RECOVERY_SECONDS_MAX: Final = scaled(60.0, full=5.0)
OUTAGE_CALLS: Final = 20
SLOW_SECONDS: Final = 0.3
SLOW_WRITES: Final = 10
STALL_SECONDS_MAX: Final = 0.15
"""In full: for 99 of 100 answers that need no record."""
HUNG_SECONDS: Final = 2 * WAIT_SECONDS
"""Longer than anybody here waits for an answer."""

COUNTING: Final = (
    MINIMAL
    + """
def count(message):
    with open(sys.argv[1], "a") as file:
        file.write(message["params"]["arguments"]["text"] + "\\n")
    say(message, "here")

serve(["count"], count)
"""
)
"""A server that keeps a list of its own of the calls that it has carried out."""


def echo_all(client: LineClient, numbers: range) -> None:
    """Call a tool many times at once; each call has its own answer."""
    asked = {
        client.start("tools/call", {"name": "demo__echo", "arguments": {"text": f"{n}"}}): f"{n}"
        for n in numbers
    }
    for id, text in asked.items():
        assert text_of(client.answer(id)) == text
    client.seen.clear()


# A full disk


def test_degrade_serves_every_call_and_the_gap_is_told_exactly(
    tmp_path: Path, shim: FaultyDisk
) -> None:
    with gateway(tmp_path) as client:
        client.initialize()
        text_of(client.call("demo__echo", {"text": "before"}))
        with shim.disk(error="ENOSPC", where="/events/"):
            for first in range(0, BURST, BATCH):
                echo_all(client, range(first, first + BATCH))
            told = monitoring(client)
            assert told["enabled"] is False
            assert told["last_error"].endswith("No space left on device")
            assert told["lost"] > 0
        assert recovered(client) < RECOVERY_SECONDS_MAX
        lost = monitoring(client)["lost"]
        assert client.finish() == 0
    assert b"calls are served, and not recorded" in client.stderr
    assert b"the event journal can be written again" in client.stderr
    gaps = noted(tmp_path / "state", "gateway.journal_gap")
    assert sum(gap["metadata"]["lost"] for gap in gaps) == lost
    # Nothing but calls was noted meanwhile, of `gateway_status` too.
    calls = BURST + 1 + sum("id" in message for message in client.seen)
    assert len(noted(tmp_path / "state", "gateway.tool_call")) + lost == calls
    assert verify(tmp_path / "state", ExternalEvidence()).faults == ()


def test_block_leaves_no_call_without_a_record(tmp_path: Path, shim: FaultyDisk) -> None:
    carried_out = tmp_path / "carried-out"
    servers = {"s": python(COUNTING, str(carried_out))}
    with gateway(tmp_path, servers, record={"onFailure": "block"}) as client:
        client.initialize()
        for number in range(OUTAGE_CALLS):
            assert text_of(client.call("s__count", {"text": f"good {number}"})) == "here"
        with shim.disk(error="ENOSPC", where="/events/"):
            answers = [
                client.call("s__count", {"text": f"bad {number}"}) for number in range(OUTAGE_CALLS)
            ]
            told = monitoring(client)
            assert (told["on_failure"], told["blocking"]) == ("block", True)
        assert recovered(client) < RECOVERY_SECONDS_MAX
        assert text_of(client.call("s__count", {"text": "after"})) == "here"
        assert client.finish() == 0

    # The first found out; it was carried out, its answer was withheld, and its record came later.
    withheld, *refused = [answer["error"] for answer in answers]
    assert withheld["message"].startswith("The call was made, but its answer is withheld")
    assert {error["message"] for error in refused} == {
        "The event journal cannot be written: No space left on device; "
        "calls are refused until it can"
    }
    assert {error["code"] for error in (withheld, *refused)} == {-32603}
    done = carried_out.read_text().splitlines()
    assert done == [f"good {n}" for n in range(OUTAGE_CALLS)] + ["bad 0", "after"]
    endings = [call["status"] for call in calls_of(tmp_path / "state", "count")]
    assert endings.count("success") == len(done)
    assert endings.count("failure") == OUTAGE_CALLS - 1
    assert b"calls are refused" in client.stderr


def test_a_gateway_that_blocks_is_not_ready(serve: Serve, shim: FaultyDisk) -> None:
    with serve({}, record={"onFailure": "block"}) as there:
        with RawConnection(there.port) as wire:
            assert wire.ask(head("GET", "/readyz", {})).status == 200
        there._over.set()  # The neighbour would be refused, too.
        there._neighbour.join()
        with (
            shim.disk(error="ENOSPC", where="/events/"),
            closing(RawHttpClient(there.port)) as visitor,
        ):
            assert "error" in visitor.call("neighbour__echo", text="anybody")
            with RawConnection(there.port) as wire:
                reply = wire.ask(head("GET", "/readyz", {}))
                assert (reply.status, reply.message) == (503, {"status": "blocking"})
                assert wire.ask(head("GET", "/healthz", {})).status == 200
            assert b"anyport_blocking 1.0" in there.page("/metrics")
            assert len(visitor.send({"jsonrpc": "2.0", "id": 9, "method": "tools/list"}).messages)
        began = time.monotonic()
        with closing(RawHttpClient(there.port)) as visitor:
            while "error" in visitor.call("neighbour__echo", text="anybody"):
                assert time.monotonic() - began < RECOVERY_SECONDS_MAX
                time.sleep(0.05)
        there.calls_owed += 2


def test_a_disk_that_takes_nothing_at_all_costs_no_call(tmp_path: Path, shim: FaultyDisk) -> None:
    """Payloads, lists, keys, heads and the spool of a hook, beside the journal."""
    hooks = [{"name": "h", "on": "tool:echo", "post": "http://127.0.0.1:9/"}]
    with (
        shim.disk(error="ENOSPC", calls=ALL),
        gateway(tmp_path, record={"capture": "full"}, hooks=hooks) as client,
    ):
        client.initialize()
        for number in range(OUTAGE_CALLS):
            assert text_of(client.call("demo__echo", {"text": f"{number}"})) == f"{number}"
        told = monitoring(client)
        assert not told["enabled"]
        assert "Payloads cannot be written: No space left on device" in told["warnings"]
        events = client.call("get_events", {"limit": 5})
        assert "result" in events, events
        assert client.finish() == 0


# A slow disk


def test_on_a_slow_disk_only_answers_to_calls_wait(serve: Serve, shim: FaultyDisk) -> None:
    """The first slow write is waited for by all; then none is: another thread than the loop's has
    them. What needs no record goes on."""
    with serve({}) as there, shim.disk(seconds=SLOW_SECONDS, where="/events/"):
        with closing(RawHttpClient(there.port)) as visitor:
            text_of(visitor.call("neighbour__echo", text="the first"))
            text_of(visitor.call("neighbour__echo", text="the second"))
            assert there.status()["gateway"]["event_monitoring"]["slow"] is True
            before = len(shim.spoilt)
            took: list[float] = []
            while len(shim.spoilt) < before + SLOW_WRITES:
                began = time.monotonic()
                with RawConnection(there.port) as wire:
                    assert wire.ask(head("GET", "/healthz", {})).status == 200
                took.append(time.monotonic() - began)
            assert {thread for _, thread in shim.spoilt[before:]} == {"other"}
            if FULL:
                assert sorted(took)[int(len(took) * 0.99)] < STALL_SECONDS_MAX
        there.calls_owed += 2


def test_nobody_waits_for_a_disk_that_hangs(tmp_path: Path, shim: FaultyDisk) -> None:
    with gateway(tmp_path) as client:
        client.initialize()
        text_of(client.call("demo__echo", {"text": "before"}))
        with shim.disk(seconds=SLOW_SECONDS, where="/events/"):
            text_of(client.call("demo__echo", {"text": "slow"}))
        with shim.disk(seconds=HUNG_SECONDS, where="/events/"):
            for number in range(OUTAGE_CALLS):
                assert text_of(client.call("demo__echo", {"text": f"{number}"})) == f"{number}"
            assert "has not answered for 1 s" in monitoring(client)["last_error"]
        recovered(client)
        assert monitoring(client)["lost"] == 0
        assert client.finish() == 0
    assert len(calls_of(tmp_path / "state", "echo")) == OUTAGE_CALLS + 2
    assert verify(tmp_path / "state", ExternalEvidence()).faults == ()


def test_kill_9_on_a_slow_disk_loses_no_event_whose_answer_was_seen(
    tmp_path: Path, shim: FaultyDisk
) -> None:
    with gateway(tmp_path) as client:
        client.initialize()
        with shim.disk(seconds=0.1, where="/events/"):
            text_of(client.call("demo__echo", {"text": "first"}))
            ids = [
                client.start("tools/call", {"name": "demo__echo", "arguments": {"text": f"{n}"}})
                for n in range(OUTAGE_CALLS)
            ]
            seen = [text_of(client.answer(id)) for id in ids[: OUTAGE_CALLS // 2]]
            client.process.kill()
            client.process.wait(WAIT_SECONDS)
    assert len(calls_of(tmp_path / "state", "echo")) >= len(seen) + 1


# A failing disk


def test_a_disk_that_fails_on_a_file_is_never_trusted_with_it_again(
    tmp_path: Path, shim: FaultyDisk
) -> None:
    with gateway(tmp_path) as client:
        client.initialize()
        text_of(client.call("demo__echo", {"text": "before"}))
        with shim.disk(error="EIO", where="/events/"):
            text_of(client.call("demo__echo", {"text": "meanwhile"}))
            assert monitoring(client)["last_error"].endswith("Input/output error")
        recovered(client)
        text_of(client.call("demo__echo", {"text": "after"}))
        assert client.finish() == 0
    assert [file.name for file in segments(tmp_path / "state" / "events")] == [
        "events-0001.jsonl",
        "events.jsonl",
    ]
    assert verify(tmp_path / "state", ExternalEvidence()).faults == ()


def test_a_disk_that_cannot_sync_is_told_of(tmp_path: Path, shim: FaultyDisk) -> None:
    with gateway(tmp_path) as client, shim.disk(error="EIO", calls=SYNCS):
        client.initialize()
        text_of(client.call("demo__echo", {"text": "before"}))
        began = time.monotonic()
        while "warnings" not in monitoring(client):  # The first look is after ten seconds.
            assert time.monotonic() - began < WAIT_SECONDS
            time.sleep(0.2)
        text_of(client.call("demo__echo", {"text": "after"}))
        assert client.finish() == 0
    assert b"a new one was begun" in client.stderr
    assert len(segments(tmp_path / "state" / "events")) == 2

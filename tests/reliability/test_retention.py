"""The record within its bounds while it is written, verified and asked all the time.

Every figure is there twice: what a busy machine can prove on every commit, and what is proved in
full on one of its own.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from anyport.clock import Clock
from anyport.record import retention as retention_module
from anyport.record.journal import segments as segments_module
from anyport.record.journal.journal import Journal
from anyport.record.journal.segments import segments
from anyport.record.retention import Retention, RetentionLimits
from anyport.record.tamper.checkpoints import CheckpointWriter
from anyport.record.tamper.verify import ExternalEvidence, StillChanging, verify
from tests.harness import gateway
from tests.rig.scale import measured, scaled
from tests.rig.small_servers import ECHO, PATIENCE_SECONDS, python, text_of

EVENTS: Final = scaled(40_000, full=10_000_000)
SEGMENT_BYTES: Final = scaled(1, full=64) * 1024 * 1024
KEPT_BYTES: Final = scaled(8, full=16) * SEGMENT_BYTES
BATCH_EVENTS: Final = 100
SPARE_BYTES: Final = BATCH_EVENTS * 1024
FILLED_EVENTS: Final = 20_000


class Writer:
    """Writes a journal, as a gateway does under load."""

    def __init__(self, state: Path) -> None:
        self.journal = Journal(state, source="anyport", now=time.time, redact=str)
        about = {"server": "s", "tool": "t", "padding": "x" * 200}
        self._line = self.journal.encode_template("gateway.tool_call", about, "result_bytes")

    def write(self) -> None:
        moment = self.journal.timestamp()
        line = self._line % (moment, b"1" * 32, b"2" * 16, 300, 1.25)
        self.journal.append_encoded([line] * BATCH_EVENTS)
        self.journal.flush()


@contextmanager
def over_and_over(work: Callable[[], None]) -> Iterator[threading.Thread]:
    """Something that is done all the time, beside what else is done."""
    done = threading.Event()

    def go_on() -> None:
        while not done.is_set():
            work()

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield thread
    finally:
        done.set()
        thread.join(60)


def size_of(state: Path) -> int:
    total = 0
    for path in segments(state / "events"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total


@pytest.mark.slow
def test_a_journal_stays_within_its_bounds_and_verifies_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments_module, "SEGMENT_BYTES_MAX", SEGMENT_BYTES)
    monkeypatch.setattr("anyport.record.journal.writer.RETRY_SECONDS", 0.0)
    monkeypatch.setattr(retention_module, "QUIET_SECONDS", 0.1)
    clock = Clock(lambda error: None)
    checkpoints = CheckpointWriter(tmp_path, anchor=None, clock=clock)
    retention = Retention(
        tmp_path,
        journal=RetentionLimits(days=90, bytes=KEPT_BYTES),
        payloads=RetentionLimits(days=7, bytes=KEPT_BYTES),
        checkpoints=checkpoints,
        clock=clock,
    )
    writers = [Writer(tmp_path), Writer(tmp_path)]
    pruned: list[int] = []
    faults: list[str] = []
    looks: list[int] = []

    def look_after() -> None:
        pruned.append(retention.enforce().segments)

    def check() -> None:
        with suppress(StillChanging):
            report = verify(tmp_path, ExternalEvidence())
            faults.extend(str(fault) for fault in report.faults)
            looks.append(report.records)

    with over_and_over(look_after) as keeper, over_and_over(check):
        for written in range(0, EVENTS, BATCH_EVENTS):
            writers[written // BATCH_EVENTS % 2].write()
            while size_of(tmp_path) > KEPT_BYTES + SEGMENT_BYTES and keeper.is_alive():
                time.sleep(0.001)  # Retention is a thread of a busy machine, too.
    for writer in writers:
        writer.journal.close()
        assert writer.journal.head is not None
        checkpoints.sign(writer.journal.head)
    assert faults == []
    measured(looks=len(looks), pruned=sum(pruned))
    assert len(looks) > 3
    assert sum(pruned) > 10
    assert size_of(tmp_path) <= KEPT_BYTES + SEGMENT_BYTES + SPARE_BYTES
    report = verify(tmp_path, ExternalEvidence())
    assert (report.faults, report.unsigned) == ((), 0)
    assert report.records + report.removed == EVENTS


@pytest.mark.slow
def test_calls_go_on_while_the_journal_is_verified_and_asked(tmp_path: Path) -> None:
    state = tmp_path / "state"
    old = Writer(state)
    for _ in range(FILLED_EVENTS // BATCH_EVENTS):
        old.write()
    old.journal.close()
    reports: list[dict[str, Any]] = []

    def ask() -> None:
        command = [sys.executable, "-m", "anyport", "verify", "--json", "--state-dir", str(state)]
        ran = subprocess.run(command, capture_output=True, timeout=60)
        reports.append(json.loads(ran.stdout))

    with gateway(
        tmp_path, {"s": python(ECHO)}, gateway={"listSeconds": PATIENCE_SECONDS}
    ) as client:
        client.initialize()
        with over_and_over(ask) as asker:
            while len(reports) < 3 and asker.is_alive():
                assert text_of(client.call("s__echo")) == "here"
                assert len(json.loads(text_of(client.call("get_events", {"limit": 10})))) == 10
        assert client.finish() == 0
    assert [report["faults"] for report in reports] == [[]] * len(reports)
    assert reports[-1]["records"] > reports[0]["records"] > FILLED_EVENTS

import asyncio
import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from anyport.config.model import RecordConfig
from anyport.gateway.recording import maintenance as maintenance_module
from anyport.gateway.recording.maintenance import (
    CHECKPOINT_RECORDS,
    CHECKPOINT_SECONDS,
    MAINTENANCE_SECONDS,
    RecordMaintenance,
)
from anyport.record.journal.journal import DISTRUSTED_MESSAGE
from anyport.record.journal.segments import segments
from anyport.record.tamper.checkpoints import HEADS_FILE, KEY_FILE, CheckpointWriter
from anyport.record.tamper.verify import ExternalEvidence, verify
from anyport.record.wall_clock import DOUBT_SECONDS
from tests.record.story import ManualClock, file_of, note, opened


class Stage:
    def __init__(self, directory: Path, config: RecordConfig) -> None:
        self.directory = directory
        self.clock = ManualClock()
        self.journal = opened(directory, self.clock)
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.maintenance = RecordMaintenance(
            directory,
            config,
            self.journal,
            self.note,
            self.clock,
        )

    def note(
        self,
        event: str,
        status: str = "success",
        /,
        *,
        error_message: str | None = None,
        **metadata: Any,
    ) -> None:
        self.events.append((event, metadata))

    def write(self, count: int) -> None:
        for n in range(count):
            note(self.journal, n=n)
        self.journal.flush()

    def run_due(self, *, after: float) -> None:
        self.clock.seconds += after
        asyncio.run(self.maintenance.run_due())

    def signed(self) -> list[int]:
        path = self.directory / HEADS_FILE
        lines = path.read_bytes().splitlines() if path.exists() else []
        return [json.loads(line).get("seq") for line in lines]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path, RecordConfig())


def test_a_head_is_signed_when_enough_was_written_or_after_a_while(stage: Stage) -> None:
    stage.run_due(after=CHECKPOINT_SECONDS)
    assert stage.signed() == []  # Nothing to sign.
    stage.write(CHECKPOINT_RECORDS - 1)
    stage.run_due(after=0)
    stage.clock.seconds += CHECKPOINT_SECONDS
    stage.write(1)
    stage.run_due(after=MAINTENANCE_SECONDS)
    assert stage.signed()[-1] == CHECKPOINT_RECORDS
    stage.write(1)
    before = stage.signed()
    stage.run_due(after=MAINTENANCE_SECONDS)
    assert stage.signed() == before
    stage.run_due(after=CHECKPOINT_SECONDS)
    assert stage.signed() == [*before, CHECKPOINT_RECORDS + 1]
    stage.run_due(after=CHECKPOINT_SECONDS)
    assert stage.signed() == [*before, CHECKPOINT_RECORDS + 1]


def test_the_last_head_is_signed_at_the_end(stage: Stage) -> None:
    stage.write(3)
    stage.journal.close()
    asyncio.run(stage.maintenance.finish())
    asyncio.run(stage.maintenance.finish())
    assert stage.signed() == [3]
    report = verify(stage.directory, ExternalEvidence())
    assert (report.faults, report.unsigned) == ((), 0)


def test_a_gateway_that_noted_nothing_signs_nothing(stage: Stage) -> None:
    asyncio.run(stage.maintenance.finish())
    assert list(stage.directory.iterdir()) == []


def test_what_was_pruned_is_noted(tmp_path: Path) -> None:
    stage = Stage(tmp_path, RecordConfig(keep_days=30))
    stage.write(3)
    size = file_of(tmp_path).stat().st_size
    os.utime(file_of(tmp_path), (stage.clock.seconds, stage.clock.seconds))
    stage.clock.seconds += 40 * 86400
    stage.write(1)
    stage.run_due(after=MAINTENANCE_SECONDS)
    until = "2026-07-28T12:00:00.250000+00:00"
    assert stage.events == [
        ("gateway.journal_pruned", {"segments": 1, "bytes": size, "until": until})
    ]
    assert verify(tmp_path, ExternalEvidence()).faults == ()
    stage.run_due(after=MAINTENANCE_SECONDS)
    assert len(stage.events) == 1


def test_heads_go_to_the_anchor_too(tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    stage = Stage(tmp_path / "state", RecordConfig(anchor=str(anchor)))
    stage.write(1)
    asyncio.run(stage.maintenance.finish())
    assert anchor.read_bytes() == (tmp_path / "state" / HEADS_FILE).read_bytes()


def test_what_does_not_work_is_told_and_tried_again(tmp_path: Path) -> None:
    anchor = tmp_path / "no" / "anchor"
    stage = Stage(tmp_path / "state", RecordConfig(anchor=str(anchor)))
    stage.write(CHECKPOINT_RECORDS)
    stage.run_due(after=0)
    trouble = "The journal cannot be signed: No such file or directory"
    assert stage.journal.troubles == {"upkeep": trouble}
    anchor.parent.mkdir()
    stage.run_due(after=MAINTENANCE_SECONDS)
    assert stage.journal.troubles == {}
    assert anchor.exists()

    (tmp_path / "state" / KEY_FILE).write_text("?")
    stage.write(CHECKPOINT_RECORDS)
    stage.run_due(after=MAINTENANCE_SECONDS)
    trouble = "The journal cannot be signed: it does not contain keys"
    assert stage.journal.troubles == {"upkeep": trouble}


def test_two_looks_at_once_are_one(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.write(CHECKPOINT_RECORDS)
    signed = []
    monkeypatch.setattr(CheckpointWriter, "sign", lambda heads, link: signed.append(link))

    async def look_twice() -> None:
        await asyncio.gather(stage.maintenance.run_due(), stage.maintenance.run_due())

    asyncio.run(look_twice())
    assert len(signed) == 1


def test_a_disk_that_hangs_holds_up_neither_a_look_nor_the_end(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance_module, "WAIT_SECONDS_MAX", 0.05)
    goes_on, signed = threading.Event(), []

    def hang(heads: CheckpointWriter, link: Any) -> None:
        goes_on.wait(60)
        signed.append(link)

    monkeypatch.setattr(CheckpointWriter, "sign", hang)
    stage.write(CHECKPOINT_RECORDS)

    async def look_and_end() -> None:
        await stage.maintenance.run_due()
        await stage.maintenance.run_due()
        await stage.maintenance.finish()

    asyncio.run(look_and_end())
    assert signed == []
    goes_on.set()


def test_a_disk_that_does_not_keep_what_it_took_is_given_another_file(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    stage.journal.on_trouble = told.append

    def fail(heads: CheckpointWriter, link: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(CheckpointWriter, "sign", fail)
    for _ in range(2):  # The second time comes too soon for a third file.
        stage.write(CHECKPOINT_RECORDS)
        stage.run_due(after=MAINTENANCE_SECONDS)
    stage.write(1)

    assert [path.name for path in segments(stage.directory / "events")] == [
        "events-0001.jsonl",
        "events.jsonl",
    ]
    assert DISTRUSTED_MESSAGE in stage.journal.troubles.values()
    assert told == ["The journal cannot be signed: Input/output error", DISTRUSTED_MESSAGE]
    monkeypatch.undo()
    stage.run_due(after=CHECKPOINT_SECONDS)
    assert list(stage.journal.troubles) == ["disk"]
    assert verify(stage.directory, ExternalEvidence()).faults == ()


# The clock


def test_a_clock_that_jumped_is_noted_and_nothing_goes_for_its_age(tmp_path: Path) -> None:
    stage = Stage(tmp_path, RecordConfig(keep_days=30))
    stage.write(3)
    os.utime(file_of(tmp_path), (stage.clock.seconds, stage.clock.seconds))
    stage.run_due(after=MAINTENANCE_SECONDS)
    year = 365 * 86400.0

    stage.clock.jump(year)
    stage.write(1)
    stage.run_due(after=MAINTENANCE_SECONDS)
    assert stage.events == [("gateway.clock_jumped", {"seconds": year})]
    assert file_of(tmp_path).exists()

    stage.run_due(after=DOUBT_SECONDS)
    assert [event for event, _ in stage.events[1:]] == ["gateway.journal_pruned"]


def test_a_jump_there_and_back_leaves_everything_as_it_was(tmp_path: Path) -> None:
    stage = Stage(tmp_path, RecordConfig(keep_days=30))
    stage.write(3)
    os.utime(file_of(tmp_path), (stage.clock.seconds, stage.clock.seconds))
    for seconds in (365 * 86400.0, -365 * 86400.0):
        stage.clock.jump(seconds)
        stage.run_due(after=MAINTENANCE_SECONDS)
    stage.run_due(after=2 * DOUBT_SECONDS)
    assert [event for event, _ in stage.events] == ["gateway.clock_jumped"] * 2
    (file,) = segments(tmp_path / "events")
    assert len(file.read_bytes().splitlines()) == 3


def test_what_is_too_much_goes_whatever_the_clock_says(tmp_path: Path) -> None:
    stage = Stage(tmp_path, RecordConfig(keep_bytes=1000))
    stage.write(20)
    os.utime(file_of(tmp_path), (stage.clock.seconds, stage.clock.seconds))
    stage.clock.jump(86400.0)
    stage.run_due(after=MAINTENANCE_SECONDS)
    assert [event for event, _ in stage.events] == [
        "gateway.clock_jumped",
        "gateway.journal_pruned",
    ]


def test_nothing_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, anyport.gateway.recording.maintenance\n"
        "late = {'cryptography', 'anyport.record.tamper.checkpoints', 'anyport.record.retention'}\n"
        "sys.exit(bool(late & sys.modules.keys()))"
    )
    source = str(Path(maintenance_module.__file__).parents[3])
    subprocess.run(
        [sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": source}
    )


def test_who_does_not_live_long_prunes_at_the_end(tmp_path: Path) -> None:
    def lived(*, looked: bool) -> None:
        stage = Stage(tmp_path, RecordConfig(keep_days=30))
        stage.clock.seconds += 80 * 86400
        stage.write(1)
        if looked:
            stage.maintenance._has_run = True
        stage.journal.close()
        asyncio.run(stage.maintenance.finish())

    first = Stage(tmp_path, RecordConfig())
    first.write(3)
    first.journal.close()
    os.utime(file_of(tmp_path), (first.clock.seconds, first.clock.seconds))
    lived(looked=True)
    assert file_of(tmp_path).exists()
    lived(looked=False)
    assert not file_of(tmp_path).exists()
    assert verify(tmp_path, ExternalEvidence()).faults == ()

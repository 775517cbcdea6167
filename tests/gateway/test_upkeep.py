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

from anyport.config.schema import RecordConfig
from anyport.gateway import upkeep as upkeep_module
from anyport.gateway.upkeep import (
    DISTRUSTED,
    HEAD_RECORDS,
    HEAD_SECONDS,
    LOOK_SECONDS,
    Upkeep,
)
from anyport.record.heads import FILE, KEY_FILE, Heads
from anyport.record.segments import segments
from anyport.record.timekeeping import DOUBT_SECONDS
from anyport.record.verify import Outside, verify
from tests.record.story import ManualClock, file_of, note, opened


class Stage:
    def __init__(self, directory: Path, config: RecordConfig) -> None:
        self.directory = directory
        self.clock = ManualClock()
        self.journal = opened(directory, self.clock)
        self.noted: list[tuple[str, dict[str, Any]]] = []
        self.jumped = 0.0
        """What the clock on the wall is ahead of the one that only runs."""
        self.upkeep = Upkeep(
            directory,
            config,
            self.journal,
            self.note,
            self.clock,
            lambda: self.clock.now - self.jumped,
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
        self.noted.append((event, metadata))

    def write(self, count: int) -> None:
        for n in range(count):
            note(self.journal, n=n)
        self.journal.flush()

    def look(self, *, after: float) -> None:
        self.clock.now += after
        asyncio.run(self.upkeep.look())

    def signed(self) -> list[int]:
        path = self.directory / FILE
        lines = path.read_bytes().splitlines() if path.exists() else []
        return [json.loads(line).get("seq") for line in lines]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path, RecordConfig())


def test_a_head_is_signed_when_enough_was_written_or_after_a_while(stage: Stage) -> None:
    stage.look(after=HEAD_SECONDS)
    assert stage.signed() == []  # Nothing to sign.
    stage.write(HEAD_RECORDS - 1)
    stage.look(after=0)
    stage.clock.now += HEAD_SECONDS
    stage.write(1)
    stage.look(after=LOOK_SECONDS)
    assert stage.signed()[-1] == HEAD_RECORDS
    stage.write(1)
    before = stage.signed()
    stage.look(after=LOOK_SECONDS)
    assert stage.signed() == before
    stage.look(after=HEAD_SECONDS)
    assert stage.signed() == [*before, HEAD_RECORDS + 1]
    stage.look(after=HEAD_SECONDS)
    assert stage.signed() == [*before, HEAD_RECORDS + 1]


def test_the_last_head_is_signed_at_the_end(stage: Stage) -> None:
    stage.write(3)
    stage.journal.close()
    asyncio.run(stage.upkeep.end())
    asyncio.run(stage.upkeep.end())
    assert stage.signed() == [3]
    report = verify(stage.directory, Outside())
    assert (report.faults, report.unsigned) == ((), 0)


def test_a_gateway_that_noted_nothing_signs_nothing(stage: Stage) -> None:
    asyncio.run(stage.upkeep.end())
    assert list(stage.directory.iterdir()) == []


def test_what_was_pruned_is_noted(tmp_path: Path) -> None:
    stage = Stage(tmp_path, RecordConfig(keep_days=30))
    stage.write(3)
    size = file_of(tmp_path).stat().st_size
    os.utime(file_of(tmp_path), (stage.clock.now, stage.clock.now))
    stage.clock.now += 40 * 86400
    stage.write(1)
    stage.look(after=LOOK_SECONDS)
    until = "2026-07-28T12:00:00.250000+00:00"
    assert stage.noted == [
        ("gateway.journal_pruned", {"segments": 1, "bytes": size, "until": until})
    ]
    assert verify(tmp_path, Outside()).faults == ()
    stage.look(after=LOOK_SECONDS)
    assert len(stage.noted) == 1


def test_heads_go_to_the_anchor_too(tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    stage = Stage(tmp_path / "state", RecordConfig(anchor=str(anchor)))
    stage.write(1)
    asyncio.run(stage.upkeep.end())
    assert anchor.read_bytes() == (tmp_path / "state" / FILE).read_bytes()


def test_what_does_not_work_is_told_and_tried_again(tmp_path: Path) -> None:
    anchor = tmp_path / "no" / "anchor"
    stage = Stage(tmp_path / "state", RecordConfig(anchor=str(anchor)))
    stage.write(HEAD_RECORDS)
    stage.look(after=0)
    trouble = "The journal cannot be signed: No such file or directory"
    assert stage.journal.troubles == {"upkeep": trouble}
    anchor.parent.mkdir()
    stage.look(after=LOOK_SECONDS)
    assert stage.journal.troubles == {}
    assert anchor.exists()

    (tmp_path / "state" / KEY_FILE).write_text("?")
    stage.write(HEAD_RECORDS)
    stage.look(after=LOOK_SECONDS)
    trouble = "The journal cannot be signed: it does not hold keys"
    assert stage.journal.troubles == {"upkeep": trouble}


def test_two_looks_at_once_are_one(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.write(HEAD_RECORDS)
    signed = []
    monkeypatch.setattr(Heads, "sign", lambda heads, link: signed.append(link))

    async def look_twice() -> None:
        await asyncio.gather(stage.upkeep.look(), stage.upkeep.look())

    asyncio.run(look_twice())
    assert len(signed) == 1


def test_a_disk_that_hangs_holds_up_neither_a_look_nor_the_end(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep_module, "WAIT_SECONDS_MAX", 0.05)
    goes_on, signed = threading.Event(), []

    def hang(heads: Heads, link: Any) -> None:
        goes_on.wait(60)
        signed.append(link)

    monkeypatch.setattr(Heads, "sign", hang)
    stage.write(HEAD_RECORDS)

    async def look_and_end() -> None:
        await stage.upkeep.look()
        await stage.upkeep.look()
        await stage.upkeep.end()

    asyncio.run(look_and_end())
    assert signed == []
    goes_on.set()


def test_a_disk_that_does_not_keep_what_it_took_is_given_another_file(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    stage.journal.on_trouble = told.append

    def fail(heads: Heads, link: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Heads, "sign", fail)
    for _ in range(2):  # The second time comes too soon for a third file.
        stage.write(HEAD_RECORDS)
        stage.look(after=LOOK_SECONDS)
    stage.write(1)

    assert [path.name for path in segments(stage.directory / "events")] == [
        "events-0001.jsonl",
        "events.jsonl",
    ]
    assert DISTRUSTED in stage.journal.troubles.values()
    assert told == ["The journal cannot be signed: Input/output error", DISTRUSTED]
    monkeypatch.undo()
    stage.look(after=HEAD_SECONDS)
    assert list(stage.journal.troubles) == ["disk"]
    assert verify(stage.directory, Outside()).faults == ()


# The clock


def test_a_clock_that_jumped_is_noted_and_nothing_goes_for_its_age(tmp_path: Path) -> None:
    stage = Stage(tmp_path, RecordConfig(keep_days=30))
    stage.write(3)
    os.utime(file_of(tmp_path), (stage.clock.now, stage.clock.now))
    stage.look(after=LOOK_SECONDS)
    year = 365 * 86400.0

    stage.clock.now += year
    stage.jumped += year
    stage.write(1)
    stage.look(after=LOOK_SECONDS)
    assert stage.noted == [("gateway.clock_jumped", {"seconds": year})]
    assert file_of(tmp_path).exists()

    stage.look(after=DOUBT_SECONDS)
    assert [event for event, _ in stage.noted[1:]] == ["gateway.journal_pruned"]


def test_a_jump_there_and_back_leaves_everything_as_it_was(tmp_path: Path) -> None:
    stage = Stage(tmp_path, RecordConfig(keep_days=30))
    stage.write(3)
    os.utime(file_of(tmp_path), (stage.clock.now, stage.clock.now))
    for seconds in (365 * 86400.0, -365 * 86400.0):
        stage.clock.now += seconds
        stage.jumped += seconds
        stage.look(after=LOOK_SECONDS)
    stage.look(after=2 * DOUBT_SECONDS)
    assert [event for event, _ in stage.noted] == ["gateway.clock_jumped"] * 2
    (file,) = segments(tmp_path / "events")
    assert len(file.read_bytes().splitlines()) == 3


def test_what_is_too_much_goes_whatever_the_clock_says(tmp_path: Path) -> None:
    stage = Stage(tmp_path, RecordConfig(keep_bytes=1000))
    stage.write(20)
    os.utime(file_of(tmp_path), (stage.clock.now, stage.clock.now))
    stage.clock.now += 86400.0
    stage.jumped += 86400.0
    stage.look(after=LOOK_SECONDS)
    assert [event for event, _ in stage.noted] == ["gateway.clock_jumped", "gateway.journal_pruned"]


def test_nothing_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, anyport.gateway.upkeep\n"
        "late = {'cryptography', 'anyport.record.heads', 'anyport.record.retention'}\n"
        "sys.exit(bool(late & sys.modules.keys()))"
    )
    source = str(Path(upkeep_module.__file__).parents[2])
    subprocess.run(
        [sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": source}
    )


def test_who_does_not_live_long_prunes_at_the_end(tmp_path: Path) -> None:
    def lived(*, looked: bool) -> None:
        stage = Stage(tmp_path, RecordConfig(keep_days=30))
        stage.clock.now += 80 * 86400
        stage.write(1)
        if looked:
            stage.upkeep._looked = True
        stage.journal.close()
        asyncio.run(stage.upkeep.end())

    first = Stage(tmp_path, RecordConfig())
    first.write(3)
    first.journal.close()
    os.utime(file_of(tmp_path), (first.clock.now, first.clock.now))
    lived(looked=True)
    assert file_of(tmp_path).exists()
    lived(looked=False)
    assert not file_of(tmp_path).exists()
    assert verify(tmp_path, Outside()).faults == ()

import fcntl
import os
from pathlib import Path

import pytest

from anyport.record.journal.segments import segments
from anyport.record.retention import (
    ACTIVE_FILE_PARTS,
    DAY_SECONDS,
    QUIET_SECONDS,
    PruneResult,
    RecordFile,
    Retention,
    RetentionLimits,
    select_expired,
)
from anyport.record.tamper import checkpoints as heads_module
from anyport.record.tamper.checkpoints import HEADS_FILE, KEY_FILE, CheckpointWriter
from anyport.record.tamper.keys import DamagedKeys
from anyport.record.tamper.verify import ExternalEvidence, verify
from tests.record.story import NOON, ManualClock, file_of, heads_of, note, opened

MUCH = RetentionLimits(days=1000, bytes=10**9)


# What is planned


def kept(size: int, *, days: float, quiet: float = 3600) -> RecordFile:
    at = NOON - days * DAY_SECONDS
    return RecordFile(path=Path(str(days)), bytes=size, last_event_at=at, modified_at=NOON - quiet)


@pytest.mark.parametrize(
    ("files", "keeping", "gone"),
    [
        ([], MUCH, 0),
        ([kept(5, days=3), kept(5, days=2)], MUCH, 0),
        ([kept(5, days=3), kept(5, days=2)], RetentionLimits(days=2.5, bytes=100), 1),
        ([kept(5, days=3), kept(5, days=2)], RetentionLimits(days=1, bytes=100), 2),
        ([kept(5, days=3), kept(5, days=2), kept(5, days=1)], RetentionLimits(days=9, bytes=10), 1),
        ([kept(5, days=3), kept(5, days=2), kept(5, days=1)], RetentionLimits(days=9, bytes=9), 2),
        ([kept(5, days=3), kept(5, days=2), kept(5, days=1)], RetentionLimits(days=9, bytes=0), 3),
        # The oldest go first, and none between them.
        ([kept(5, days=1), kept(5, days=3)], RetentionLimits(days=2, bytes=100), 0),
        # What was just written to stays, and all after it.
        ([kept(5, days=3), kept(5, days=2, quiet=1)], RetentionLimits(days=1, bytes=0), 1),
        ([kept(5, days=3, quiet=-1), kept(5, days=2)], RetentionLimits(days=1, bytes=0), 0),
    ],
)
def test_the_oldest_files_go(files: list[RecordFile], keeping: RetentionLimits, gone: int) -> None:
    assert select_expired(files, keeping, NOON) == files[:gone]


# What is done


class Stage:
    """A state directory in which time passes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = ManualClock()
        self.journal = opened(directory, self.clock, writer="0badcafe")
        self.n = 0

    def write(self, count: int = 5, *, days: float = 0.0) -> None:
        """Some records, and then nothing for a while."""
        for _ in range(count):
            self.n += 1
            note(self.journal, n=self.n)
        self.journal.flush()
        active = segments(self.directory / "events")[-1]
        os.utime(active, (self.clock.seconds, self.clock.seconds))
        self.clock.seconds += days * DAY_SECONDS + QUIET_SECONDS

    def retention(
        self, journal: RetentionLimits = MUCH, payloads: RetentionLimits = MUCH
    ) -> Retention:
        return Retention(
            self.directory,
            journal=journal,
            payloads=payloads,
            checkpoints=self.heads(),
            clock=self.clock,
        )

    def heads(self) -> CheckpointWriter:
        return heads_of(self.directory)

    def enforce(self, **bounds: RetentionLimits) -> PruneResult:
        return self.retention(**bounds).enforce()

    def names(self) -> list[str]:
        return [path.name for path in segments(self.directory / "events")]

    def faults(self) -> list[str]:
        return [str(fault) for fault in verify(self.directory, ExternalEvidence()).faults]

    def payload(self, name: str, size: int) -> Path:
        path = self.directory / "payloads" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
        os.utime(path, (self.clock.seconds - 60, self.clock.seconds - 60))
        return path


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_a_journal_within_its_bounds_is_left_alone(stage: Stage) -> None:
    assert stage.enforce() == PruneResult()  # Nothing is there at all.
    stage.write(days=3)
    assert stage.enforce() == PruneResult()
    assert stage.names() == ["events.jsonl"]
    assert not (stage.directory / HEADS_FILE).exists()


def test_a_file_that_is_too_old_goes_and_is_signed_for(stage: Stage) -> None:
    keeping = RetentionLimits(days=8, bytes=10**9)
    stage.write(days=5)
    stage.enforce(journal=keeping)  # Turned over: it is older than a part of what is kept.
    assert stage.names() == ["events-0001.jsonl"]
    stage.write(days=4)
    size = (file_of(stage.directory).parent / "events-0001.jsonl").stat().st_size
    pruned = stage.enforce(journal=keeping)
    assert pruned == PruneResult(segments=1, bytes=size, until="2026-07-28T12:00:00.250000+00:00")
    assert stage.names() == ["events-0001.jsonl"]
    assert stage.faults() == []
    report = verify(stage.directory, ExternalEvidence())
    assert (report.records, report.removed, report.removed_until) == (5, 5, pruned.until)
    stage.write()
    assert stage.faults() == []


def test_what_is_too_much_goes(stage: Stage) -> None:
    keeping = RetentionLimits(days=1000, bytes=8000)
    for _ in range(20):
        stage.write(5)
        stage.enforce(journal=keeping)
    files = segments(stage.directory / "events")
    total = sum(path.stat().st_size for path in files)
    assert 8000 * (1 - 2 / ACTIVE_FILE_PARTS) < total <= 8000 + 8000 / ACTIVE_FILE_PARTS + 2000
    assert stage.faults() == []
    report = verify(stage.directory, ExternalEvidence())
    assert report.records + report.removed == 100


def test_the_file_that_is_written_to_stays_and_empty_months_go(stage: Stage) -> None:
    stage.write(days=100)
    stage.write(1)
    assert stage.names() == ["events.jsonl", "events.jsonl"]
    pruned = stage.enforce(journal=RetentionLimits(days=1, bytes=10**9))
    assert pruned.segments == 1
    assert stage.names() == ["events.jsonl"]
    assert [folder.name for folder in (stage.directory / "events").iterdir()] == ["2026-11"]
    stage.write()
    assert stage.faults() == []


def test_all_goes_where_nobody_writes_any_more(stage: Stage) -> None:
    stage.write(days=100)
    keeping = RetentionLimits(days=1, bytes=10**9)
    assert stage.enforce(journal=keeping).segments == 1
    assert stage.names() == []
    stage.write()
    assert stage.names() == ["events.jsonl"]
    assert stage.faults() == []


def test_two_processes_do_not_prune_at_once(stage: Stage) -> None:
    stage.write(days=100)
    stage.write()
    lock = os.open(stage.directory / "events", os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert stage.enforce(journal=RetentionLimits(days=1, bytes=10**9)) == PruneResult()
    os.close(lock)
    assert stage.enforce(journal=RetentionLimits(days=1, bytes=10**9)).segments == 1


def test_a_kill_between_signing_and_removing_is_made_good(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.write(days=100)
    assert stage.journal.head is not None
    stage.heads().sign(stage.journal.head)
    stage.write()

    def killed(path: Path, *, missing_ok: bool = False) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            stage.enforce(journal=RetentionLimits(days=1, bytes=10**9))
    assert stage.faults() == []
    assert stage.enforce(journal=RetentionLimits(days=1, bytes=10**9)).segments == 1
    assert stage.faults() == []


def test_a_full_disk_does_not_keep_files_from_going(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.write(days=100)
    stage.write()
    bury = CheckpointWriter.sign_removal

    def no_room(heads: CheckpointWriter, name: str, *said: object) -> None:
        if (stage.directory / name).exists():
            raise OSError(28, "No space left on device")
        bury(heads, name, *said)  # type: ignore[arg-type]

    monkeypatch.setattr(CheckpointWriter, "sign_removal", no_room)
    assert stage.enforce(journal=RetentionLimits(days=1, bytes=10**9)).segments == 1
    assert stage.faults() == []


def test_what_cannot_be_signed_for_stays(stage: Stage) -> None:
    stage.write(days=100)
    stage.write()
    (stage.directory / KEY_FILE).write_text("no key")
    (stage.directory / KEY_FILE).chmod(0o600)
    with pytest.raises(DamagedKeys):
        stage.enforce(journal=RetentionLimits(days=1, bytes=1))
    assert len(stage.names()) == 2


def test_a_fault_is_remembered_when_its_file_has_gone(stage: Stage) -> None:
    stage.write(days=100)
    stage.write()
    path = file_of(stage.directory)
    path.write_bytes(path.read_bytes().replace(b'"n":3', b'"n":7'))
    os.utime(path, (NOON, NOON))
    stage.enforce(journal=RetentionLimits(days=1, bytes=10**9))
    assert stage.faults() == [
        "events/2026-07/events.jsonl, removed since: "
        "record 3 of writer 0badcafe was changed, or the one before it was"
    ]


def test_a_forged_old_file_does_not_make_retention_vouch_for_it(stage: Stage) -> None:
    stage.write(days=1)
    stage.heads().sign(stage.journal.head)  # type: ignore[arg-type]
    forged = opened(stage.directory / "forged", ManualClock(NOON - 9e6), writer="0badcafe")
    for n in range(9):
        note(forged, n=n)
    forged.close()
    (stage.directory / "forged" / "events" / "2026-04").rename(
        stage.directory / "events" / "2026-04"
    )
    os.utime(file_of(stage.directory, "2026-04"), (NOON - 9e6, NOON - 9e6))
    stage.enforce(journal=RetentionLimits(days=30, bytes=10**9))
    assert any("is not the one that was signed" in fault for fault in stage.faults())


def test_payloads_go_by_the_hour_they_are_of(stage: Stage) -> None:
    stage.write()
    old = stage.payload("2026-07-20/11-0badcafe-0.jsonl", 10)
    young = stage.payload("2026-07-21/13-0badcafe-0.jsonl", 20)
    pruned = stage.enforce(payloads=RetentionLimits(days=7, bytes=1000))
    assert (pruned.payload_files, pruned.payload_bytes, pruned.segments) == (1, 10, 0)
    assert not old.parent.exists()
    assert young.exists()


def test_payloads_that_are_too_much_go_and_the_journal_stays(stage: Stage) -> None:
    stage.write()
    for hour in range(10):
        stage.payload(f"2026-07-28/{hour:02}-0badcafe-0.jsonl", 100)
    odd = stage.payload("2026-07-28/odd.jsonl", 1)
    pruned = stage.enforce(payloads=RetentionLimits(days=7, bytes=350))
    assert pruned.payload_files == 7
    assert len(list((stage.directory / "payloads" / "2026-07-28").iterdir())) == 4
    assert odd.exists()
    assert stage.faults() == []


def test_heads_are_summarised_with_what_is_left(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = opened(stage.directory, stage.clock, writer="deadbeef")
    note(gone, n=0)
    gone.close()
    stage.write(days=100)
    stage.heads().sign(gone.head)  # type: ignore[arg-type]
    stage.write()
    stage.heads().sign(stage.journal.head)  # type: ignore[arg-type]
    monkeypatch.setattr(heads_module, "HEADS_BYTES_MAX", 100)
    stage.enforce(journal=RetentionLimits(days=50, bytes=10**9))
    (line,) = (stage.directory / HEADS_FILE).read_bytes().splitlines()
    assert b"deadbeef" not in line
    report = verify(stage.directory, ExternalEvidence())
    assert (report.faults, report.removed, report.records) == ((), 6, 5)
    stage.write()
    assert stage.faults() == []

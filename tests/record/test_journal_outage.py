"""A journal that cannot be written: what is kept, what is lost, and what is said of it."""

import json
import multiprocessing
import resource
from pathlib import Path
from typing import Any

from anyport.record.chain import link_of
from anyport.record.event import Metadata
from anyport.record.outflow import PENDING_BYTES_MAX, RETRY_SECONDS
from tests.record.story import ONE, ManualClock, events, file_of, note, numbers_in, opened


def test_a_full_disk_keeps_events_for_later(tmp_path: Path) -> None:
    clock = ManualClock()
    path = file_of(tmp_path)
    path.parent.mkdir(parents=True)
    path.symlink_to("/dev/full")
    journal = opened(tmp_path, clock)
    note(journal, n=1)
    journal.flush()
    assert journal.last_error == "The event journal cannot be written: No space left on device"

    path.unlink()
    note(journal, n=2)
    journal.flush()  # Too early to try again.
    assert not path.exists()
    clock.now += RETRY_SECONDS
    note(journal, n=3)
    journal.flush()
    assert numbers_in(tmp_path) == [1, 2, 3]
    assert journal.last_error is None
    assert journal.lost_count == 0
    journal.close()


def test_a_clock_that_is_set_back_does_not_prolong_an_outage(tmp_path: Path) -> None:
    clock = ManualClock()
    (tmp_path / "events").write_bytes(b"in the way")
    journal = opened(tmp_path, clock)
    note(journal, n=1)
    journal.flush()
    (tmp_path / "events").unlink()
    clock.now -= 3600
    note(journal, n=2)
    journal.flush()
    assert numbers_in(tmp_path) == [1, 2]
    journal.close()


def test_a_note_during_an_outage_asks_for_a_flush_again(tmp_path: Path) -> None:
    asked: list[None] = []
    (tmp_path / "events").write_bytes(b"in the way")
    journal = opened(tmp_path, on_pending=lambda: asked.append(None))
    for _ in range(3):
        note(journal)
        journal.flush()
    assert len(asked) == 3
    journal.close()


def test_a_directory_that_cannot_be_made_is_no_crash(tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(b"a file in the way")
    journal = opened(tmp_path / "state")
    note(journal)
    journal.flush()
    assert journal.last_error is not None
    assert str(tmp_path) not in journal.last_error
    assert journal.lost_count == 0
    journal.close()
    assert journal.lost_count == 1


def test_what_no_longer_fits_in_memory_is_counted_and_the_gap_is_recorded(tmp_path: Path) -> None:
    clock = ManualClock()
    (tmp_path / "events").write_bytes(b"in the way")
    journal = opened(tmp_path, clock)
    padding = "x" * 2000
    rounds = PENDING_BYTES_MAX // 2000 + 500
    for n in range(rounds):
        note(journal, n=n, padding=padding)
        journal.flush()
    lost = journal.lost_count
    assert 0 < lost < rounds
    assert journal.outflow._bytes < PENDING_BYTES_MAX + 4096

    (tmp_path / "events").unlink()
    clock.now += RETRY_SECONDS
    note(journal, n=rounds)
    journal.flush()
    *kept, gap, last = events(tmp_path)
    assert [event["metadata"]["n"] for event in kept] == list(range(rounds - lost))
    assert last["metadata"] == {"n": rounds}
    assert gap["event_type"] == "gateway.journal_gap"
    assert gap["trace_id"] == ONE
    assert gap["status"] == "failure"
    assert gap["metadata"] == {"lost": lost, "first_lost": "2026-07-28T12:00:00.250000+00:00"}
    assert "cannot be written" in gap["error_message"]
    assert journal.last_error is None

    note(journal, n=rounds + 1)
    journal.close()
    assert events(tmp_path)[-1]["metadata"] == {"n": rounds + 1}
    assert journal.lost_count == lost


def write_beyond_a_limit(directory: Path, told: Any) -> None:
    """In a process of its own: a limit on file sizes holds for all of it."""
    clock = ManualClock()
    journal = opened(directory, clock)
    note(journal, n=0)
    journal.flush()
    size = file_of(directory).stat().st_size
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (size * 3 + size // 2, hard))
    for n in range(1, 6):
        note(journal, n=n)
    journal.flush()
    told.send((journal.last_error, file_of(directory).stat().st_size == size * 3 + size // 2))
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    clock.now += RETRY_SECONDS
    note(journal, n=6)
    journal.close()
    told.send(journal.lost_count)


def test_a_write_cut_short_is_mended_and_loses_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    writer = context.Process(target=write_beyond_a_limit, args=(tmp_path, theirs))
    writer.start()
    assert ours.poll(60)
    assert ours.recv() == ("The event journal cannot be written: File too large", True)
    assert ours.poll(60)
    assert ours.recv() == 0
    writer.join(60)
    assert writer.exitcode == 0
    lines = file_of(tmp_path).read_bytes().splitlines()
    torn = lines.pop(3)
    assert lines[3].startswith(torn)
    seqs = [link.seq for line in lines if (link := link_of(line))]
    assert seqs == list(range(1, 8))
    assert [json.loads(line)["metadata"]["n"] for line in lines] == list(range(7))


def test_a_burst_larger_than_the_buffer_is_written_in_between(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    big: Metadata = {"padding": "x" * 2000}
    for _ in range(PENDING_BYTES_MAX // 2000 + 100):
        journal.note("gateway.stderr", "success", trace_id=ONE, metadata=big)
    journal.close()
    assert len(events(tmp_path)) == PENDING_BYTES_MAX // 2000 + 100
    assert journal.lost_count == 0

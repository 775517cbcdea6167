import json
import multiprocessing
import os
import random
import resource
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from anyport.record.event import Metadata
from anyport.record.journal import journal as journal_module
from anyport.record.journal.journal import LISTENERS_MAX
from anyport.record.journal.writer import PENDING_BYTES_MAX, RETRY_SECONDS
from anyport.record.tamper.chain import INITIAL_HASH, is_linked_to, parse_link, strip_link
from tests.record.story import ONE, ManualClock, events, file_of, note, numbers, numbers_in, opened

AUGUST = 1_785_542_400.0  # 2026-08-01T00:00:00Z


# Writing


def test_an_event_is_written_by_the_flush_and_not_before(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.record(
        "gateway.tool_call",
        "timeout",
        trace_id=ONE,
        metadata={"span_id": "00f067aa0ba902b7", "server": "github", "tool": "search"},
        duration_ms=60000.12345,
        error_code=-32000,
        error_message="Tool execution timeout (60s)",
    )
    assert list(tmp_path.iterdir()) == []

    journal.flush()
    (line,) = file_of(tmp_path).read_bytes().splitlines(keepends=True)
    assert line.endswith(b"\n")
    assert strip_link(line[:-1]) == (
        b'{"timestamp":"2026-07-28T12:00:00.250000+00:00",'
        b'"trace_id":"11111111111111111111111111111111","status":"timeout",'
        b'"schema_version":"1.0","event_type":"gateway.tool_call","source":"anyport",'
        b'"metadata":{"span_id":"00f067aa0ba902b7","server":"github","tool":"search"},'
        b'"duration_ms":60000.123,"error_code":-32000,'
        b'"error_message":"Tool execution timeout (60s)"}'
    )
    assert journal.last_error is None
    journal.close()


def test_files_and_folders_are_private_to_the_user(tmp_path: Path) -> None:
    journal = opened(tmp_path / "a" / "state")
    note(journal)
    journal.close()
    path = file_of(tmp_path / "a" / "state")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in list(path.parents)[:4]:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_each_month_has_its_folder(tmp_path: Path) -> None:
    clock = ManualClock(AUGUST - 0.5)
    journal = opened(tmp_path, clock)
    note(journal, n=1)
    clock.seconds = AUGUST + 0.5
    note(journal, n=2)
    journal.flush()  # One flush, two months.
    note(journal, n=3)
    journal.close()
    assert numbers_in(tmp_path, "2026-07") == [1]
    assert numbers_in(tmp_path, "2026-08") == [2, 3]
    assert events(tmp_path, "2026-08")[0]["timestamp"] == "2026-08-01T00:00:00.500000+00:00"


def test_a_clock_that_is_set_back_does_not_reopen_a_month(tmp_path: Path) -> None:
    clock = ManualClock(AUGUST + 0.5)
    journal = opened(tmp_path, clock)
    note(journal, n=1)
    journal.flush()
    clock.seconds = AUGUST - 0.5
    note(journal, n=2)
    journal.close()
    assert numbers_in(tmp_path, "2026-08") == [1, 2]


def test_each_record_is_linked_to_the_one_before_it(tmp_path: Path) -> None:
    journal = opened(tmp_path, ManualClock(AUGUST - 0.5), writer="0badcafe")
    assert journal.head is None
    note(journal, n=1)
    note(journal, n=2)
    journal.flush()
    note(journal, n=3)
    assert journal.head is not None
    assert journal.head[:2] == ("0badcafe", 2)
    journal.close()
    last = INITIAL_HASH
    for number, line in enumerate(file_of(tmp_path).read_bytes().splitlines(), 1):
        link = parse_link(line)
        assert link is not None
        assert link[:2] == ("0badcafe", number)
        assert is_linked_to(line, link, last)
        last = link.hash
    assert journal.head is not None
    assert journal.head == ("0badcafe", 3, last)


def test_two_journals_draw_two_names(tmp_path: Path) -> None:
    assert opened(tmp_path).writer != opened(tmp_path).writer


def test_one_flush_is_one_system_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = opened(tmp_path)
    writes: list[int] = []
    write = os.write

    def counted(fd: int, block: bytes) -> int:
        writes.append(len(block))
        return write(fd, block)

    monkeypatch.setattr(os, "write", counted)
    for n in range(50):
        note(journal, n=n)
    journal.flush()
    journal.flush()
    assert len(writes) == 1
    assert numbers_in(tmp_path) == list(range(50))
    journal.close()


def test_the_first_note_of_a_turn_asks_for_a_flush(tmp_path: Path) -> None:
    asked: list[None] = []
    journal = opened(tmp_path, on_pending=lambda: asked.append(None))
    note(journal)
    note(journal)
    assert len(asked) == 1
    journal.flush()
    note(journal)
    assert len(asked) == 2
    journal.close()


def test_what_is_expected_is_noted_before_anything_after_it(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.defer(lambda: note(journal, n=1))
    note(journal, n=2)
    journal.defer(lambda: note(journal, n=3))
    journal.defer(lambda: note(journal, n=4))  # Another's: the first is not forgotten for it.
    journal.flush()
    journal.defer(lambda: note(journal, n=5))
    journal.close()
    assert numbers_in(tmp_path) == [1, 2, 3, 4, 5]


def test_who_is_expected_asks_for_a_flush(tmp_path: Path) -> None:
    asked: list[None] = []
    journal = opened(tmp_path, on_pending=lambda: asked.append(None))
    journal.defer(lambda: None)
    assert len(asked) == 1
    journal.close()


def test_a_listener_waits_for_nobody(tmp_path: Path) -> None:
    told: list[bytes] = []
    journal = opened(tmp_path)
    journal.subscribe(told.append)
    journal.defer(lambda: note(journal, n=1))

    assert numbers(told) == [1]
    journal.close()


def test_what_was_prepared_is_told_and_lost_like_all_else(tmp_path: Path) -> None:
    told: list[bytes] = []
    journal = opened(tmp_path)
    prepared = journal.encode_template("gateway.tool_call", {"server": "50 %"}, "n")

    def line(number: int) -> bytes:
        return prepared % (journal.timestamp(), ONE.encode(), b"2" * 16, number, 1.25)

    leave = journal.subscribe(told.append)
    journal.append_encoded([line(1)])
    leave()
    journal.append_encoded([line(2), line(3)])
    journal.flush()

    assert numbers(told) == [1]
    assert numbers_in(tmp_path) == [1, 2, 3]
    event = events(tmp_path)[2]
    assert event["metadata"] == {"span_id": "2" * 16, "server": "50 %", "n": 3}
    assert (event["trace_id"], event["duration_ms"], event["status"]) == (ONE, 1.25, "success")
    journal.close()


def test_secrets_are_redacted_in_every_text(tmp_path: Path) -> None:
    journal = opened(tmp_path, redact=lambda text: text.replace("hunter2", "[redacted]"))
    told: list[bytes] = []
    journal.subscribe(told.append)
    for _ in range(2):  # The second time from what is remembered.
        journal.record(
            "gateway.config_reloaded",
            "failure",
            trace_id=ONE,
            metadata={"tool": "hunter2", "added": ["a", "hunter2"], "n": 1, "none": None},
            error_message="x" * 100_000 if told else "wrong: hunter2",
        )
    journal.close()
    assert b"hunter2" not in file_of(tmp_path).read_bytes() + b"".join(told)
    for event in events(tmp_path):
        assert event["metadata"] == {
            "tool": "[redacted]",
            "added": ["a", "[redacted]"],
            "n": 1,
            "none": None,
        }


def test_what_redaction_remembers_is_bounded(tmp_path: Path) -> None:
    asked: list[str] = []

    def redact(text: str) -> str:
        asked.append(text)
        return text

    journal = opened(tmp_path, redact=redact)
    for n in range(journal_module.REMEMBERED_TEXTS_MAX + 10):
        note(journal, tool=str(n))
        note(journal, tool=str(n))
    assert len(journal._redacted_texts) <= journal_module.REMEMBERED_TEXTS_MAX
    assert len(asked) == journal_module.REMEMBERED_TEXTS_MAX + 10
    journal.close()


# Listening


def test_a_listener_gets_each_event_until_it_leaves(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    told: list[bytes] = []
    leave = journal.subscribe(told.append)
    note(journal, n=1)
    leave()
    leave()
    note(journal, n=2)
    journal.close()
    assert [json.loads(line)["metadata"]["n"] for line in told] == [1]
    assert told[0] == strip_link(file_of(tmp_path).read_bytes().splitlines()[0])


def test_a_listener_that_fails_is_not_called_again_and_harms_no_one(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    calls: list[bytes] = []
    told: list[bytes] = []

    def broken(line: bytes) -> None:
        calls.append(line)
        raise RuntimeError

    journal.subscribe(broken)
    journal.subscribe(told.append)
    note(journal, n=1)
    note(journal, n=2)
    journal.close()
    assert (len(calls), len(told)) == (1, 2)
    assert numbers_in(tmp_path) == [1, 2]


def test_there_are_not_more_listeners_than_the_limit(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for _ in range(LISTENERS_MAX):
        journal.subscribe(lambda line: None)
    with pytest.raises(ValueError, match="64 is the limit"):
        journal.subscribe(lambda line: None)
    journal.close()


# Crashes, and other processes


def test_a_line_torn_by_a_crash_is_closed_first(tmp_path: Path) -> None:
    path = file_of(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_bytes(b'{"whole":1}\n{"timest')
    journal = opened(tmp_path)
    note(journal, n=1)
    journal.flush()
    note(journal, n=2)
    journal.close()
    lines = path.read_bytes().splitlines()
    assert lines[:2] == [b'{"whole":1}', b'{"timest']
    assert [json.loads(line)["metadata"]["n"] for line in lines[2:]] == [1, 2]


def test_a_journal_that_was_deleted_or_moved_is_begun_again(tmp_path: Path) -> None:
    clock = ManualClock()
    journal = opened(tmp_path, clock)
    note(journal, n=1)
    journal.flush()
    file_of(tmp_path).unlink()

    clock.seconds += RETRY_SECONDS
    note(journal, n=2)
    journal.flush()
    assert numbers_in(tmp_path) == [2]
    file_of(tmp_path).rename(tmp_path / "old")
    file_of(tmp_path).write_bytes(b"")

    clock.seconds += RETRY_SECONDS
    note(journal, n=3)
    journal.close()
    assert numbers_in(tmp_path) == [3]


def append_many(directory: Path, writer: int, rounds: int) -> None:
    journal = opened(directory)
    for number in range(rounds):
        for part in range(5):
            note(journal, n=number * 5 + part, writer=writer, padding="x" * (number % 700))
        journal.flush()
    journal.close()


def test_processes_that_share_a_journal_lose_nothing(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=append_many, args=(tmp_path, w, 200)) for w in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    written = [event["metadata"] for event in events(tmp_path)]
    for number in range(3):
        mine = [metadata["n"] for metadata in written if metadata["writer"] == number]
        assert mine == list(range(1000))


ACKNOWLEDGE = """
import sys, time
from pathlib import Path
from anyport.record.journal.journal import Journal

journal = Journal(Path(sys.argv[1]), source="test", now=time.time, redact=str)
for n in range(int(sys.argv[2]), 10**9):
    journal.record("gateway.tool_call", "success", trace_id="1" * 32, metadata={"n": n})
    journal.flush()
    sys.stdout.write(f"{n}\\n")
    sys.stdout.flush()
"""


@pytest.mark.slow
def test_kill_9_loses_no_event_that_was_acknowledged(tmp_path: Path) -> None:
    chance = random.Random(20260728)
    first = 0
    acknowledged: list[int] = []
    for _ in range(20):
        child = subprocess.Popen(
            [sys.executable, "-c", ACKNOWLEDGE, str(tmp_path), str(first)],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(Path(journal_module.__file__).parents[3])},
        )
        assert child.stdout is not None
        wanted = chance.randrange(1, 2000)
        seen = [int(child.stdout.readline()) for _ in range(wanted)]
        child.send_signal(signal.SIGKILL)
        seen += [int(line) for line in child.stdout.read().splitlines(keepends=True)]
        child.stdout.close()
        child.wait()
        acknowledged += seen
        first = acknowledged[-1] + 2  # One may be written and not yet acknowledged.
    written: set[int] = set()
    for path in tmp_path.glob("events/*/events.jsonl"):
        for line in path.read_bytes().splitlines():
            with suppress(ValueError):  # A kill within a write leaves a part of a line.
                written.add(json.loads(line)["metadata"]["n"])
    assert len(acknowledged) > 1000
    assert set(acknowledged) <= written


def test_the_journal_needs_no_database() -> None:
    code = (
        "import sys, anyport.record.journal.journal, anyport.record.redact.redactor\n"
        "import anyport.record.journal.stderr\n"
        "sys.exit('sqlite3' in sys.modules or 'asyncio' in sys.modules)"
    )
    source = str(Path(journal_module.__file__).parents[3])
    subprocess.run(
        [sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": source}
    )


# While the disk is full


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
    clock.seconds += RETRY_SECONDS
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
    clock.seconds -= 3600
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
    assert journal.file_writer._held_bytes < PENDING_BYTES_MAX + 4096

    (tmp_path / "events").unlink()
    clock.seconds += RETRY_SECONDS
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
    clock.seconds += RETRY_SECONDS
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
    seqs = [link.seq for line in lines if (link := parse_link(line))]
    assert seqs == list(range(1, 8))
    assert [json.loads(line)["metadata"]["n"] for line in lines] == list(range(7))


def test_a_burst_larger_than_the_buffer_is_written_in_between(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    big: Metadata = {"padding": "x" * 2000}
    for _ in range(PENDING_BYTES_MAX // 2000 + 100):
        journal.record("gateway.stderr", "success", trace_id=ONE, metadata=big)
    journal.close()
    assert len(events(tmp_path)) == PENDING_BYTES_MAX // 2000 + 100
    assert journal.lost_count == 0

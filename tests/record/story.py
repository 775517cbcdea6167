"""What the tests of the record share: a clock, a journal and its files, and how to read them."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anyport.clock import Clock
from anyport.record.journal.journal import Journal
from anyport.record.tamper.chain import Link
from anyport.record.tamper.checkpoints import CheckpointWriter

NOON = 1_785_240_000.25  # 2026-07-28T12:00:00.25Z
ONE = "1" * 32
TWO = "2" * 32


class ManualClock(Clock):
    """A clock that tests set."""

    def __init__(self, seconds: float = NOON) -> None:
        self.seconds = seconds
        """The time of day."""
        self.jumped = 0.0
        """By how many seconds the time of day was set forwards."""

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds - self.jumped

    def boottime(self) -> float:
        return self.seconds - self.jumped

    def jump(self, seconds: float) -> None:
        """Set the time of day."""
        self.seconds += seconds
        self.jumped += seconds


class KeyClock(ManualClock):
    """A clock whose random bytes are all the same: equal numbers make equal keys."""

    def __init__(self, byte: int) -> None:
        super().__init__()
        self._byte = byte

    def random_bytes(self, size: int) -> bytes:
        return bytes([self._byte]) * size


def opened(directory: Path, clock: Clock | None = None, **options: Any) -> Journal:
    options = {"source": "anyport", "redact": lambda text: text, **options}
    return Journal(directory, now=(clock or ManualClock()).now, **options)


def note(journal: Journal, **metadata: Any) -> None:
    journal.record("gateway.tool_call", "success", trace_id=ONE, metadata=metadata)


def file_of(directory: Path, month: str = "2026-07") -> Path:
    return directory / "events" / month / "events.jsonl"


def events(directory: Path, month: str = "2026-07") -> list[dict[str, Any]]:
    # Who begins while another writes may close that one's line, and leaves an empty one.
    lines = file_of(directory, month).read_bytes().splitlines()
    return [json.loads(line) for line in lines if line]


def numbers(lines: list[bytes]) -> list[int]:
    return [json.loads(line)["metadata"]["n"] for line in lines]


def numbers_in(directory: Path, month: str = "2026-07") -> list[int]:
    return numbers(file_of(directory, month).read_bytes().splitlines())


class Story:
    """A journal of calls, with a hand on its clock."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = ManualClock()
        self.journal = opened(directory, self.clock)

    def call(self, n: int, **fields: Any) -> None:
        metadata = {"n": n, "server": fields.pop("server", "s"), "tool": fields.pop("tool", "t")}
        fields = {"trace_id": ONE, "status": "success", "type": "gateway.tool_call"} | fields
        self.journal.record(fields.pop("type"), fields.pop("status"), metadata=metadata, **fields)
        self.journal.flush()

    @property
    def file(self) -> Path:
        return file_of(self.directory)


def heads_of(
    directory: Path, *, anchor: Path | None = None, key: int = 1, syncs: bool = True
) -> CheckpointWriter:
    """Who signs for a journal; the same `key` makes the same signatures."""
    return CheckpointWriter(
        directory,
        anchor=anchor,
        clock=KeyClock(key),
        syncs=syncs,
    )


def written(directory: Path, count: int, *, writer: str = "0badcafe", first: int = 1) -> Link:
    """A journal of some records; where its chain ends."""
    journal = opened(directory, writer=writer)
    for n in range(first, first + count):
        note(journal, n=n)
    journal.close()
    assert journal.head is not None
    return journal.head


CPU_SECONDS_MAX = 10.0
"""Far more than linear work takes on any machine, and far less than quadratic work does: time of
the processor, which a busy machine does not change."""


def cpu_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def repeated(piece: str, chars: int) -> str:
    return (piece * (chars // len(piece) + 1))[:chars]

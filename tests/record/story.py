"""What the tests of the record share: a clock, a journal and its files, and how to read them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anyport.record.chain import Link
from anyport.record.heads import Heads
from anyport.record.journal import Journal

NOON = 1_785_240_000.25  # 2026-07-28T12:00:00.25Z
ONE = "1" * 32
TWO = "2" * 32


class ManualClock:
    def __init__(self, now: float = NOON) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def opened(directory: Path, clock: Callable[[], float] | None = None, **options: Any) -> Journal:
    options = {"source": "anyport", "redact": lambda text: text, **options}
    return Journal(directory, clock=clock or ManualClock(), **options)


def note(journal: Journal, **metadata: Any) -> None:
    journal.note("gateway.tool_call", "success", trace_id=ONE, metadata=metadata)


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
        self.journal.note(fields.pop("type"), fields.pop("status"), metadata=metadata, **fields)
        self.journal.flush()

    @property
    def file(self) -> Path:
        return file_of(self.directory)


def heads_of(directory: Path, *, anchor: Path | None = None, key: int = 1) -> Heads:
    """Who signs for a journal; the same `key` makes the same signatures."""
    return Heads(
        directory,
        anchor=anchor,
        clock=ManualClock(),
        random_bytes=lambda size: bytes([key]) * size,
    )


def written(directory: Path, count: int, *, writer: str = "0badcafe", first: int = 1) -> Link:
    """A journal of some records; where its chain ends."""
    journal = opened(directory, writer=writer)
    for n in range(first, first + count):
        note(journal, n=n)
    journal.close()
    assert journal.head is not None
    return journal.head

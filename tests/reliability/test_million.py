"""A record that has grown large is as quick to ask as a small one, while it is being written.

In full: a million exchanges, and a question about the last hour answered within 200 ms at the 95th
percentile; `python tools/million.py` prints the figures. Here ratios count, of processor time or of
times taken in turns, on a tenth of that unless it is done in full.
"""

import multiprocessing
import os
import random
import signal
import time
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from anyport.record.index.index import Index
from anyport.record.journal.journal import Journal
from tests.rig.scale import measured, scaled
from tools.million import QUESTIONS, a_writer, ask, exchanges, resident_bytes, write_journal

EXCHANGES: Final = scaled(50_000, full=1_000_000)
HOURS: Final = 24
ROUNDS: Final = 10

LAST_HOUR_RATIO_MAX: Final = 5.0
"""Between a day's journal and one hour's, of the same hour; without an index it would be 24."""
GROWTH_BYTES_MAX: Final = 8 * 1024 * 1024
WRITING_ROUNDS: Final = 5
WRITING_RATIO_MAX: Final = 20.0
"""In full: 1.1, on a machine with cores to spare. Who waited for a question would take a thousand
times as long."""


@pytest.mark.slow
def test_the_last_hour_is_as_quick_to_ask_whatever_lies_before_it(tmp_path: Path) -> None:
    now = time.time()
    write_journal(tmp_path / "day", EXCHANGES, now - HOURS * 3600, now)
    write_journal(tmp_path / "hour", EXCHANGES // HOURS, now - 3600, now)
    with (
        a_writer(tmp_path / "day"),
        closing(Index(tmp_path / "day")) as day,
        closing(Index(tmp_path / "hour")) as hour,
    ):
        for text in QUESTIONS:  # Both catch up.
            ask(day, text)
            ask(hour, text)
        memory = resident_bytes()
        for text in QUESTIONS:
            long = min(asking_seconds(day, text) for _ in range(ROUNDS))
            short = min(asking_seconds(hour, text) for _ in range(ROUNDS))
            # What a look at the files costs, both pay; a few of the writer's events come along.
            assert long < LAST_HOUR_RATIO_MAX * short + 0.01, text
        assert resident_bytes() - memory < GROWTH_BYTES_MAX


def asking_seconds(index: Index, text: str) -> float:
    """The processor time of one question."""
    before = time.thread_time()
    ask(index, text)
    return time.thread_time() - before


@pytest.mark.slow
def test_whoever_writes_is_not_held_up_by_those_who_ask(tmp_path: Path) -> None:
    now = time.time()
    write_journal(tmp_path, EXCHANGES // 10, now - 3600, now)
    alone, asked = [], []
    context = multiprocessing.get_context("spawn")
    asking = context.Process(target=_go_on_asking, args=(tmp_path,), daemon=True)
    asking.start()
    try:
        while not (tmp_path / "asked").exists():
            assert asking.is_alive()
            time.sleep(0.01)
        assert asking.pid is not None
        for _ in range(WRITING_ROUNDS):  # In turns: whatever else goes on, goes on in both.
            asked.append(_writing_seconds(tmp_path))
            os.kill(asking.pid, signal.SIGSTOP)
            alone.append(_writing_seconds(tmp_path))
            os.kill(asking.pid, signal.SIGCONT)
    finally:
        asking.kill()
        asking.join()
    measured(writing_times_alone=round(min(asked) / min(alone), 2))
    assert min(asked) < WRITING_RATIO_MAX * min(alone)


def _go_on_asking(state_dir: Path) -> None:
    with closing(Index(state_dir)) as index:
        while True:
            for text in QUESTIONS:
                ask(index, text)
            (state_dir / "asked").touch()


def _writing_seconds(state_dir: Path) -> float:
    """The median of writing one event."""
    now = time.time()
    times = []
    with closing(Journal(state_dir, source="anyport", now=time.time, redact=str)) as journal:
        for line in exchanges(2000, now, now, random.Random(1)):
            journal.append_encoded([line])
            before = time.perf_counter()
            journal.flush()
            times.append(time.perf_counter() - before)
    return sorted(times)[len(times) // 2]

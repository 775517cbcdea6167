"""What it costs a call to be in the journal before it is answered.

The yardstick is this machine's own disk: the same bytes, written by nobody but this test, in turns
with the events, so that whatever else goes on there goes on for both.
"""

import os
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from anyport.record.journal.journal import Journal
from tests.rig.scale import FULL, measured, scaled

pytestmark = pytest.mark.slow

TURNS: Final = scaled(3_000, full=60_000)
"""In full a minute of a thousand calls a second, each in a turn of its own."""
MEDIAN_SECONDS_MAX: Final = 0.0003
P99_SECONDS_MAX: Final = 0.003
RATIO_MAX: Final = 100.0
"""Between an event and a bare write of as many bytes; a synchronous one would be a thousand."""


def timed(write: Callable[[], object]) -> float:
    """How long one turn takes."""
    began = time.perf_counter()
    write()
    return time.perf_counter() - began


def test_an_event_costs_little_more_than_its_bytes(tmp_path: Path) -> None:
    with closing(Journal(tmp_path, source="anyport", now=time.time, redact=str)) as journal:
        about = {"server": "s", "tool": "t", "client": "a client"}
        line = journal.encode_template("gateway.tool_call", about, "result_bytes")

        def note() -> None:
            moment = journal.timestamp()
            journal.append_encoded([line % (moment, b"1" * 32, b"2" * 16, 300, 1.25)])
            journal.flush()

        note()
        raw = b"x" * sum(file.stat().st_size for file in tmp_path.rglob("*.jsonl"))
        with (tmp_path / "bare").open("ab", buffering=0) as bare:
            turns = [
                (timed(note), timed(lambda: os.write(bare.fileno(), raw))) for _ in range(TURNS)
            ]
    noted, plain = (sorted(taken) for taken in zip(*turns, strict=True))
    median, late = noted[TURNS // 2], noted[int(0.99 * TURNS)]
    times_plain = round(median / plain[TURNS // 2], 1)
    measured(events=TURNS, median_us=median * 1e6, p99_us=late * 1e6, times_plain=times_plain)
    assert median < RATIO_MAX * plain[TURNS // 2]
    if FULL:
        assert median <= MEDIAN_SECONDS_MAX
        assert late <= P99_SECONDS_MAX

"""What is full of what looks like secrets takes no more of the loop than any other text."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Final

import pytest

from anyport.record.redact.redactor import Redactor
from tests.harness import LEGACY_DEMO
from tests.record.adversarial_texts import PIECES, PROSE, STRUCTURES, as_lines, as_text, filled
from tests.reliability.conftest import Serve
from tests.rig.http_probe import HttpProbe
from tests.rig.probe import MIB, eventually
from tests.rig.raw_http_client import RawHttpClient
from tests.rig.scale import FULL, measured, scaled

pytestmark = pytest.mark.slow

CHARS: Final = scaled(400_000, full=3_500_000)
CALLS: Final = scaled(60, full=1_000)
"""Of the neighbour, beside each kind."""
KINDS: Final = scaled(
    ("assignments", "keys of code hosts", "names", "web tokens"), full=tuple(PIECES)
)
STRUCTURED: Final = ("members", "tokens", "JSON in JSON")
RATIO_MAX: Final = scaled(10, full=3)
SECONDS_MAX: Final = 0.1
"""Three quarters of a neighbour's calls take no longer than so many times that beside as much
prose, or than this: by the clock in full, of the gateway's processor time on every commit, when
others use the machine, too."""
RATIO_CHARS: Final = scaled(1_000_000, full=3_700_000)
RATIO_OF_PROSE_MAX: Final = 10
"""Redaction of anything takes no longer than so many times that of as much prose."""
GROWTH_BYTES_MAX: Final = 192 * MIB
"""Messages of this size, on their way to several places."""


@pytest.mark.parametrize("wrap", [as_text, as_lines])
def test_lookalikes_take_no_longer_than_ten_times_prose(wrap: Callable[[str], bytes]) -> None:
    prose = cpu_seconds(wrap(prose_of(RATIO_CHARS)))
    texts = {kind: filled(RATIO_CHARS, piece, kind) for kind, piece in PIECES.items()}
    found = {kind: round(cpu_seconds(wrap(text)) / prose, 1) for kind, text in texts.items()}
    measured(prose_ms=round(1e3 * prose, 1), most=max(found.values()))
    assert not {kind: ratio for kind, ratio in found.items() if ratio > RATIO_OF_PROSE_MAX}, found


def test_payloads_of_many_small_parts_take_no_longer_than_ten_times_prose() -> None:
    prose = cpu_seconds(as_text(prose_of(RATIO_CHARS)))
    payloads = {kind: made(RATIO_CHARS) for kind, made in STRUCTURES.items()}
    found = {kind: round(cpu_seconds(raw) / prose, 1) for kind, raw in payloads.items()}
    measured(prose_ms=round(1e3 * prose, 1), most=max(found.values()))
    assert not {kind: ratio for kind, ratio in found.items() if ratio > RATIO_OF_PROSE_MAX}, found


def test_lookalikes_delay_a_neighbour_no_more_than_prose_does(serve: Serve) -> None:
    texts = {kind: filled(CHARS, PIECES[kind], kind) for kind in KINDS}
    texts |= {kind: made(CHARS).decode() for kind, made in STRUCTURES.items() if kind in STRUCTURED}
    loud = {"command": LEGACY_DEMO[0], "args": LEGACY_DEMO[1:], "capture": "full"}
    with serve({"loud": loud}) as there:
        there.growth_bytes_max = GROWTH_BYTES_MAX
        prose = beside(there, prose_of(CHARS))
        found = {kind: beside(there, text) for kind, text in texts.items()}
    shown = {kind: round(1e3 * seconds, 1) for kind, seconds in found.items()}
    measured(prose_ms=round(1e3 * prose, 1), most_ms=max(shown.values()))
    most = max(RATIO_MAX * prose, SECONDS_MAX)
    assert not {kind for kind, seconds in found.items() if seconds > most}, (prose, shown)


def beside(there: HttpProbe, text: str) -> float:
    """How long a neighbour's call takes while somebody says this again and again."""
    clock = time.monotonic if FULL else there.cpu_seconds
    with closing(RawHttpClient(there.port, there.fields)) as visitor, saying(there, text):
        taken = []
        for number in range(CALLS):
            began = clock()
            answer = visitor.call("neighbour__echo", text=f"{number}")
            taken.append(clock() - began)
            assert answer["result"]["content"][0]["text"] == f"{number}"
    return sorted(taken)[CALLS * 3 // 4]


@contextmanager
def saying(there: HttpProbe, text: str) -> Iterator[None]:
    """Have a text echoed, one call after the other."""
    over = threading.Event()
    said: list[int] = []

    def say() -> None:
        with closing(RawHttpClient(there.port, there.fields)) as visitor:
            while not over.is_set():
                answer = visitor.call("loud__echo", text=text)
                said.append(len(json.dumps(answer)) > len(text))
                there.calls_owed += 1

    speaker = threading.Thread(target=say, daemon=True)
    speaker.start()
    eventually(lambda: len(said) > 1 or not speaker.is_alive(), "a call that is answered")
    yield
    assert speaker.is_alive()
    over.set()
    speaker.join()
    assert all(said)


def cpu_seconds(raw: bytes) -> float:
    """What redaction takes, at best: another program may be in the caches."""
    redact, best = Redactor(["correct-horse-battery"]), 60.0
    for _ in range(3):
        before = time.thread_time()
        redact.redact_payload(raw)
        best = min(best, time.thread_time() - before)
    return best


def prose_of(size: int) -> str:
    return (PROSE * (size // len(PROSE) + 1))[:size]

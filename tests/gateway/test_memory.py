import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest

from anyport.gateway.memory import Memory

SCRIPT = """
from pathlib import Path
from anyport.gateway.memory import Memory

def rss():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))

def use_much():
    large = [b"x" * size for size in (16 << 20, 16 << 20, *[200_000] * 100)]
    pieces = [(b"y" * 60_000, b"z" * 1_000) for _ in range(500)]
    return [small for _, small in pieces]

memory = Memory()
before = rss()
kept = [use_much(), use_much()]
unaided = rss() - before
memory.give_back()
first = rss() - before
kept.append(use_much())
memory.give_back()
print(unaided, first, rss() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_what_large_messages_took_is_given_back() -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    unaided, *aided = map(int, ran.stdout.split())
    assert max(aided) <= 12, f"{unaided} MiB before, {aided} MiB after"


class Knot:
    """Holds itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def patient() -> Iterator[None]:
    """The collector does not come by itself."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("patient")
def test_what_holds_itself_is_looked_for_only_where_some_is_to_be_expected() -> None:
    memory = Memory()
    first, second = weakref.ref(Knot()), weakref.ref(Knot())

    memory.give_back()
    assert first() is not None

    memory.littered()
    memory.give_back()
    assert (first(), second()) == (None, None)

    third = weakref.ref(Knot())
    memory.give_back()
    assert third() is not None

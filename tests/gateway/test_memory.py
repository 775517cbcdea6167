"""Memory pressure, and memory that goes back to the system."""

import gc
import resource
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from anyport.gateway.memory import MemoryAllocator, MemoryGauge, MemoryPressure, find_memory_gauges

SCRIPT = """
from pathlib import Path
from anyport.gateway.memory import MemoryAllocator

def rss():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))

def use_much():
    large = [b"x" * size for size in (16 << 20, 16 << 20, *[200_000] * 100)]
    pieces = [(b"y" * 60_000, b"z" * 1_000) for _ in range(500)]
    return [small for _, small in pieces]

memory = MemoryAllocator()
before = rss()
kept = [use_much(), use_much()]
unaided = rss() - before
memory.return_idle()
first = rss() - before
kept.append(use_much())
memory.return_idle()
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
    memory = MemoryAllocator()
    first, second = weakref.ref(Knot()), weakref.ref(Knot())

    memory.return_idle()
    assert first() is not None

    memory.request_collection()
    memory.return_idle()
    assert (first(), second()) == (None, None)

    third = weakref.ref(Knot())
    memory.return_idle()
    assert third() is not None


# Memory that runs short, as files of Linux tell it.


MIB = 1 << 20


def pressure(*used: int) -> MemoryPressure:
    readings: Iterator[int] = iter(used)
    return MemoryPressure(lambda: [MemoryGauge(100, lambda: next(readings))])


@pytest.mark.parametrize(
    ("used", "short"),
    [
        ((84,), [False]),
        ((85, 85), [True]),
        ((90, 90, 80, 79), [True, True, False]),
        ((79, 84, 86, 86, 84, 81), [False, False, True, True, True]),
        ((90, 90, 79, 84), [True, False, False]),
    ],
)
def test_memory_is_short_from_one_mark_on_until_it_is_below_another(
    used: tuple[int, ...], short: list[bool]
) -> None:
    watch = pressure(*used)

    assert [watch.is_short() for _ in short] == short


def test_what_lies_idle_is_given_back_before_anybody_is_refused() -> None:
    used = 90

    def relieve() -> None:
        nonlocal used
        used = 50

    watch = MemoryPressure(lambda: [MemoryGauge(100, lambda: used)], relieve)

    assert not watch.is_short()
    assert used == 50


def test_the_nearest_end_counts() -> None:
    assert MemoryPressure(
        lambda: [MemoryGauge(100, lambda: 10), MemoryGauge(1000, lambda: 900)]
    ).is_short()


@pytest.mark.parametrize("gauges", [[], [MemoryGauge(100, lambda: int("nothing"))]])
def test_where_nothing_is_known_nothing_is_short(gauges: list[MemoryGauge]) -> None:
    assert not MemoryPressure(lambda: gauges).is_short()


def system(root: Path, group: str, **files: str) -> Path:
    """A machine of a gigabyte, and what its files say."""
    written = {
        "proc/meminfo": "MemTotal: 1048576 kB\nMemFree: 1 kB\n",
        "proc/self/statm": "4096 2048 0 0 0 0 0",
        "proc/self/cgroup": group,
        **{name.replace("__", "/"): text for name, text in files.items()},
    }
    for name, text in written.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def read(root: Path) -> list[tuple[int, int]]:
    return [(gauge.limit, gauge.read()) for gauge in find_memory_gauges(root)]


PAGES = resource.getpagesize()
MACHINE = (1024 * MIB, 2048 * PAGES)


def test_without_a_group_it_is_the_machine(tmp_path: Path) -> None:
    assert read(system(tmp_path, "0::/\n")) == [MACHINE]


@pytest.mark.parametrize("group", ["/ours", "/as/the/host/calls/it"])
def test_the_group_says_how_much_it_may_use_and_what_of_it_matters(
    tmp_path: Path, group: str
) -> None:
    folder = tmp_path / "sys/fs/cgroup" / ("ours" if group == "/ours" else "")
    system(tmp_path, f"0::{group}\n")
    folder.mkdir(parents=True)
    (folder / "memory.max").write_text(f"{512 * MIB}\n")
    (folder / "memory.current").write_text(f"{300 * MIB}\n")
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {100 * MIB}\n")

    assert read(tmp_path) == [(512 * MIB, 200 * MIB), MACHINE]


def test_an_older_group_says_it_elsewhere(tmp_path: Path) -> None:
    folder = tmp_path / "sys/fs/cgroup/memory/ours"
    system(tmp_path, "5:cpu,cpuacct:/\n4:memory:/ours\n0::/\n")
    folder.mkdir(parents=True)
    (folder / "memory.limit_in_bytes").write_text(f"{256 * MIB}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{100 * MIB}\n")
    (folder / "memory.stat").write_text(f"inactive_file 7\ntotal_inactive_file {MIB}\n")

    assert read(tmp_path) == [(256 * MIB, 99 * MIB), MACHINE]


@pytest.mark.parametrize("limit", ["max", str((1 << 63) - 4096)])
def test_a_group_without_a_limit_says_nothing(tmp_path: Path, limit: str) -> None:
    folder = tmp_path / "sys/fs/cgroup"
    system(tmp_path, "0::/\n")
    folder.mkdir(parents=True)
    (folder / "memory.max").write_text(limit)

    assert read(tmp_path) == [MACHINE]


def test_what_may_be_mapped_can_be_limited_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64 * MIB, 64 * MIB))

    assert read(system(tmp_path, "")) == [MACHINE, (64 * MIB, 4096 * PAGES)]


def test_elsewhere_there_are_no_such_files(tmp_path: Path) -> None:
    assert find_memory_gauges(tmp_path) == []

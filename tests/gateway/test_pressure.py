"""Memory that runs short, as files of Linux tell it."""

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from anyport.gateway.pressure import Gauge, Pressure, find_gauges

MIB = 1 << 20


def pressure(*used: int) -> Pressure:
    readings: Iterator[int] = iter(used)
    return Pressure(lambda: [Gauge(100, lambda: next(readings))])


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

    watch = Pressure(lambda: [Gauge(100, lambda: used)], relieve)

    assert not watch.is_short()
    assert used == 50


def test_the_nearest_end_counts() -> None:
    assert Pressure(lambda: [Gauge(100, lambda: 10), Gauge(1000, lambda: 900)]).is_short()


@pytest.mark.parametrize("gauges", [[], [Gauge(100, lambda: int("nothing"))]])
def test_where_nothing_is_known_nothing_is_short(gauges: list[Gauge]) -> None:
    assert not Pressure(lambda: gauges).is_short()


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
    return [(gauge.limit, gauge.read()) for gauge in find_gauges(root)]


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
    assert find_gauges(tmp_path) == []

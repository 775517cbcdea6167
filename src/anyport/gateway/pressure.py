"""How near the process is to the end of its memory.

The end is what the control group allows, what `ulimit -v` allows, or what the machine has,
whichever is nearest. Knows files of Linux; elsewhere, and where there are none, nothing is short.
"""

import os
import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

SHORT_SHARE: Final = 0.85
"""Of what there is; from here on nothing new is begun."""
ENOUGH_SHARE: Final = 0.80
"""Below this it is again; in between it stays as it was, lest it changes all the time."""
UNLIMITED: Final = 1 << 60
"""What old control groups say when there is no limit is above this."""


class Gauge(NamedTuple):
    """One kind of memory: how much of it there is, and how much is in use."""

    limit: int
    read: Callable[[], int]


class Pressure:
    """Whether memory is short."""

    def __init__(
        self,
        find: Callable[[], list[Gauge]],
        relieve: Callable[[], None] = lambda: None,
    ) -> None:
        """`relieve` gives back what lies idle; that may be enough."""
        self._find = find
        self._relieve = relieve
        self._short = False

    def is_short(self) -> bool:
        """Look, and remember until the next look. Limits may have changed since the last."""
        gauges = self._find()
        share = self._share(gauges)
        if share >= SHORT_SHARE:
            self._relieve()
            share = self._share(gauges)
        self._short = share >= (ENOUGH_SHARE if self._short else SHORT_SHARE)
        return self._short

    def _share(self, gauges: list[Gauge]) -> float:
        with suppress(OSError, ValueError):
            return max((gauge.read() / gauge.limit for gauge in gauges), default=0.0)
        return 0.0


def find_gauges(root: Path = Path("/")) -> list[Gauge]:
    """What bounds the memory of this process."""
    gauges = [*_group_gauges(root)]
    with suppress(OSError, ValueError, StopIteration):
        lines = (root / "proc/meminfo").read_text().splitlines()
        total = next(int(line.split()[1]) for line in lines if line.startswith("MemTotal:"))
        gauges.append(Gauge(total * 1024, lambda: _own_pages(root, 1)))
    space, _ = resource.getrlimit(resource.RLIMIT_AS)
    if space != resource.RLIM_INFINITY:
        gauges.append(Gauge(space, lambda: _own_pages(root, 0)))
    return gauges


def _own_pages(root: Path, column: int) -> int:
    """From the first columns of `statm`: all that is mapped, and what of it is in memory."""
    columns = (root / "proc/self/statm").read_text().split()
    return int(columns[column]) * os.sysconf("SC_PAGE_SIZE")


def _group_gauges(root: Path) -> list[Gauge]:
    """The limit of the control group that we are in. Those around it are others' as well."""
    gauges: list[Gauge] = []
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                names = ("memory.max", "memory.current", "inactive_file")
                folder = root / "sys/fs/cgroup"
            elif "memory" in controllers.split(","):
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
                folder = root / "sys/fs/cgroup/memory"
            else:
                continue
            own = folder / path.lstrip("/")
            # In a container the path may be that of the host, while its own group is the root.
            gauges += _group_gauge(own if own.is_dir() else folder, *names)
    return gauges


def _group_gauge(group: Path, limit: str, usage: str, idle: str) -> list[Gauge]:
    try:
        most = int((group / limit).read_text())
    except (OSError, ValueError):  # There is none; `max` is not a number.
        return []
    if most >= UNLIMITED:
        return []

    def read() -> int:
        # Pages of files that nobody uses go first; they count, but they are no danger.
        kept = 0
        for line in (group / "memory.stat").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == idle:
                kept = int(value)
        return int((group / usage).read_text()) - kept

    return [Gauge(most, read)]

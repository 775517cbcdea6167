"""Memory of the process: how close it is to its limit, and returning freed memory to the system.

glibc keeps freed memory, and after each large block it raises the threshold for keeping more, so a
few answers of some megabytes would stay allocated for good. It also reserves 64 MiB of addresses
per thread, which count against `ulimit -v`. With other allocators there is nothing to do.
"""

import gc
import os
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

# Memory pressure: usage against the limit of the control group, of `ulimit -v`, or of the machine,
# whichever is closest. It reads Linux files; where there are none, memory is never short.

MEMORY_SHORT_SHARE: Final = 0.85
"""Share of the limit at which new work is refused."""
MEMORY_ENOUGH_SHARE: Final = 0.80
"""Share below which work is accepted again; the gap keeps the state from flapping."""
UNLIMITED: Final = 1 << 60
"""Control groups v1 report a value above this when there is no limit."""


class MemoryGauge(NamedTuple):
    """One kind of memory: its limit, and how to read its usage."""

    limit: int
    read: Callable[[], int]


class MemoryPressure:
    """Whether memory is short."""

    def __init__(
        self, find: Callable[[], list[MemoryGauge]], relieve: Callable[[], None] = lambda: None
    ) -> None:
        """`relieve` returns idle memory to the system, which may be enough."""
        self._find_gauges = find
        self._relieve = relieve
        self._short = False

    def is_short(self) -> bool:
        """Measure. The limits may have changed since the last time."""
        gauges = self._find_gauges()
        share = self._used_share(gauges)
        if share >= MEMORY_SHORT_SHARE:
            self._relieve()
            share = self._used_share(gauges)
        self._short = share >= (MEMORY_ENOUGH_SHARE if self._short else MEMORY_SHORT_SHARE)
        return self._short

    def _used_share(self, gauges: list[MemoryGauge]) -> float:
        with suppress(OSError, ValueError):
            return max((gauge.read() / gauge.limit for gauge in gauges), default=0.0)
        return 0.0


def find_memory_gauges(root: Path = Path("/")) -> list[MemoryGauge]:
    """The limits of this process."""
    gauges = [*_cgroup_gauges(root)]
    with suppress(OSError, ValueError, StopIteration):
        lines = (root / "proc/meminfo").read_text().splitlines()
        total = next(int(line.split()[1]) for line in lines if line.startswith("MemTotal:"))
        gauges.append(MemoryGauge(total * 1024, lambda: _process_bytes(root, 1)))
    space, _ = resource.getrlimit(resource.RLIMIT_AS)
    if space != resource.RLIM_INFINITY:
        gauges.append(MemoryGauge(space, lambda: _process_bytes(root, 0)))
    return gauges


def _process_bytes(root: Path, column: int) -> int:
    """A column of `statm`, in bytes: 0 is the address space, 1 the resident memory."""
    columns = (root / "proc/self/statm").read_text().split()
    return int(columns[column]) * os.sysconf("SC_PAGE_SIZE")


def _cgroup_gauges(root: Path) -> list[MemoryGauge]:
    """The limit of our own control group. Its parents are shared with others."""
    gauges: list[MemoryGauge] = []
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
            # In a container the path may be the host's, while the group itself is the root.
            gauges += _cgroup_gauge(own if own.is_dir() else folder, *names)
    return gauges


def _cgroup_gauge(group: Path, limit: str, usage: str, idle_key: str) -> list[MemoryGauge]:
    try:
        limit_bytes = int((group / limit).read_text())
    except (OSError, ValueError):  # No limit: the file is missing or says `max`.
        return []
    if limit_bytes >= UNLIMITED:
        return []

    def read() -> int:
        # Usage counts the inactive page cache, which the kernel drops first: it is no danger.
        inactive = 0
        for line in (group / "memory.stat").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == idle_key:
                inactive = int(value)
        return int((group / usage).read_text()) - inactive

    return [MemoryGauge(limit_bytes, read)]


MMAP_BYTES_MIN: Final = 1024 * 1024
"""Blocks of this size go back to the system when freed. A read from a pipe is well below."""
FREE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Free memory that may stay allocated; less than this is soon needed again."""

ARENAS_MAX: Final = 1
"""Arenas of the allocator; our threads allocate little and can share one."""

_M_ARENA_MAX: Final = -8
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_MALLINFO_FIELDS: Final = 10
"""Number of fields in `struct mallinfo2`."""
_MALLINFO_FREE: Final = 8
"""Index of `fordblks`, the number of free bytes."""


class MemoryAllocator:
    """The allocator of this process."""

    def __init__(self) -> None:
        """Call this before there are threads: arenas that exist are never removed."""
        self._trim = _set_thresholds()
        self._is_collection_due = False

    def request_collection(self) -> None:
        """Run the garbage collector soon: something large and cyclic has ended."""
        self._is_collection_due = True

    def collect(self) -> None:
        """Run the garbage collector, and return idle memory to the system."""
        self._is_collection_due = False
        gc.collect()
        self._trim()

    def return_idle(self) -> None:
        """Return idle memory to the system, if it is a lot."""
        if self._is_collection_due:
            self.collect()
        else:
            self._trim()


def _set_thresholds() -> Callable[[], None]:
    """Set the allocator's thresholds; returns a function that trims it."""
    if sys.platform != "linux":
        return lambda: None
    import ctypes  # noqa: PLC0415 - only Linux needs it

    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):  # Not the GNU library, or an old one.
        return lambda: None

    class Report(ctypes.Structure):
        _fields_ = (("numbers", ctypes.c_size_t * _MALLINFO_FIELDS),)

    library.mallinfo2.restype = Report
    library.mallopt(_M_ARENA_MAX, ARENAS_MAX)
    library.mallopt(_M_MMAP_THRESHOLD, MMAP_BYTES_MIN)
    library.mallopt(_M_TRIM_THRESHOLD, FREE_BYTES_MAX)

    def trim() -> None:
        if library.mallinfo2().numbers[_MALLINFO_FREE] > FREE_BYTES_MAX:
            library.malloc_trim(0)

    return trim

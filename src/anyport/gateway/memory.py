"""Giving memory back: after large messages the process is as small as before.

The C library of most Linux systems keeps what was freed, and after each large block it decides
to keep more, so that a few answers of some megabytes would be held for good. It also sets 64 MiB of
addresses aside for each thread, which count where `ulimit -v` bounds the process. Elsewhere there
is nothing to do. This file knows the allocator, not who uses the memory.
"""

import gc
import sys
from collections.abc import Callable
from typing import Final

MMAP_BYTES_MIN: Final = 1024 * 1024
"""Blocks from here on go back to the system when freed. A read of a pipe stays well below."""
FREE_BYTES_MAX: Final = 4 * 1024 * 1024
"""What may lie idle between blocks that are in use; less is soon needed again."""

ARENAS_MAX: Final = 1
"""Places to allocate from; threads that do little can share one."""

_M_ARENA_MAX: Final = -8
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_NUMBERS: Final = 10
"""What `mallinfo2` tells."""
_FREE: Final = 8
"""Which of them is how much is free, `fordblks`."""


class Memory:
    """The allocator of this process."""

    def __init__(self) -> None:
        """Before there are threads: what was set aside for them is never given back."""
        self._trim = _prepare()
        self._littered = False

    def littered(self) -> None:
        """Something that may be large has ended, and parts of it hold each other."""
        self._littered = True

    def collect(self) -> None:
        """Find what nobody can reach any more, and return all that lies idle."""
        self._littered = False
        gc.collect()
        self._trim()

    def give_back(self) -> None:
        """Return what lies idle to the system, if that is much."""
        if self._littered:
            self.collect()
        else:
            self._trim()


def _prepare() -> Callable[[], None]:
    """Set the thresholds; what is to be done from time to time."""
    if sys.platform != "linux":
        return lambda: None
    import ctypes  # noqa: PLC0415 - it is of use here alone

    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):  # Not the GNU library, or an old one.
        return lambda: None

    class Report(ctypes.Structure):
        _fields_ = (("numbers", ctypes.c_size_t * _NUMBERS),)

    library.mallinfo2.restype = Report
    library.mallopt(_M_ARENA_MAX, ARENAS_MAX)
    library.mallopt(_M_MMAP_THRESHOLD, MMAP_BYTES_MIN)
    library.mallopt(_M_TRIM_THRESHOLD, FREE_BYTES_MAX)

    def trim() -> None:
        if library.mallinfo2().numbers[_FREE] > FREE_BYTES_MAX:
            library.malloc_trim(0)

    return trim

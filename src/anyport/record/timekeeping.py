"""Whether the clock on the wall can be trusted, and with what.

It may be set while we run, forwards or back, by a year or by an hour. What lasts a while is
measured by a clock that only runs; what has to mean the same to others, such as when something
happened, by the one on the wall. Nothing is thrown away because of its age right after the clock
has jumped: it may be wrong, and what is gone is gone. That is remembered in a small file, for
those who come next.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from anyport.record.segments import make_private_directory

FILE: Final = "clock.json"

JUMP_SECONDS: Final = 5.0
"""A clock that is off by less is pulled right without a jump; nobody is hurt by so little."""

AWAY_SECONDS: Final = 7 * 24 * 3600.0
"""A state directory that nobody used for longer may have been left, or the clock may be wrong."""

DOUBT_SECONDS: Final = 24 * 3600.0
"""So long after a jump nothing is removed for its age; people notice a wrong clock within a day."""

SEEN_SECONDS: Final = 3600.0
"""How often the file is told that the clock still runs."""


def running() -> float:
    """Seconds on a clock that nobody sets; where there is one, it also runs while we sleep."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Steady:
    """The time on the wall as of the start, and how long it is since then: it never jumps."""

    def __init__(self, wall: Callable[[], float], runs: Callable[[], float] = running) -> None:
        self._runs = runs
        self._ahead = wall() - runs()

    def __call__(self) -> float:
        return self._runs() + self._ahead


def prudent(state_dir: Path, now: float) -> float:
    """The time by which something may be too old: long ago, while the clock is not trusted."""
    known = _read(state_dir / FILE)
    if known is None:
        return now
    away = now - known.seen
    strange = away > AWAY_SECONDS or away < -JUMP_SECONDS
    return 0.0 if strange or _is_doubted(known, now) else now


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of the clock."""

    seen: float
    """What it last showed."""
    doubted: float | None = None
    """What it showed when it had jumped, if it ever has."""


class Timekeeping:
    """Keeps an eye on the clock, for one state directory."""

    def __init__(
        self, state_dir: Path, wall: Callable[[], float], runs: Callable[[], float] = running
    ) -> None:
        self._path = state_dir / FILE
        self._wall = wall
        self._runs = runs
        self._ahead = wall() - runs()
        self._known: Seen | None = None
        """None before the first look."""

    def look(self) -> float | None:
        """By how many seconds the clock has jumped since the last look; None if it has not.

        Reads and writes a small file: call it in a thread.
        """
        now = self._wall()
        ahead = now - self._runs()
        jump, self._ahead = ahead - self._ahead, ahead
        jumped = abs(jump) >= JUMP_SECONDS
        known = self._known or _read(self._path) or Seen(seen=now)
        away = now - known.seen
        if jumped or away > AWAY_SECONDS or away < -JUMP_SECONDS:
            self._keep(Seen(seen=now, doubted=now))
        elif self._known is None or away >= SEEN_SECONDS:
            self._keep(Seen(seen=now, doubted=known.doubted))
        return jump if jumped else None

    @property
    def doubted(self) -> bool:
        """Whether what seems too old must stay, because the clock may be wrong."""
        return self._known is not None and _is_doubted(self._known, self._wall())

    def _keep(self, known: Seen) -> None:
        self._known = known
        scratch = self._path.with_suffix(f".{os.getpid()}.tmp")
        with suppress(OSError):  # It is remembered for as long as we live.
            make_private_directory(self._path.parent)
            scratch.touch(mode=0o600)
            scratch.write_bytes(msgspec.json.encode(known))
            scratch.replace(self._path)


def _is_doubted(known: Seen, now: float) -> bool:
    return known.doubted is not None and abs(now - known.doubted) < DOUBT_SECONDS


def _read(path: Path) -> Seen | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Seen)
    except (OSError, msgspec.DecodeError):
        return None

"""Jumps of the wall clock, and whether it is trusted enough to delete what looks too old.

The time of day can be set while the gateway runs, by an hour or by a year. Right after a jump it
may be wrong, and deleted data cannot be restored. So nothing is deleted for its age until the
operator has had a day to notice. A small file in the state directory remembers the last jump across
restarts.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from anyport.clock import Clock
from anyport.record.journal.segments import make_private_directory

CLOCK_FILE: Final = "clock.json"

JUMP_SECONDS: Final = 5.0
"""Smaller corrections are harmless; time daemons make them gradually."""

UNUSED_SECONDS_MAX: Final = 7 * 24 * 3600.0
"""After a longer gap the state directory was left unused, or the clock is wrong."""

DOUBT_SECONDS: Final = 24 * 3600.0
"""How long after a jump the clock stays doubtful; people notice a wrong clock within a day."""

SAVE_SECONDS: Final = 3600.0
"""How often the time last seen is saved."""


class ClockState(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the clock file, in seconds of the wall clock."""

    seen: float
    doubted: float | None = None
    """The time right after the last jump; None without one."""


class ClockMonitor:
    """Detects jumps of the wall clock by comparing it with the boot-time clock."""

    def __init__(self, state_dir: Path, clock: Clock) -> None:
        self._path = state_dir / CLOCK_FILE
        self._clock = clock
        self._offset = clock.now() - clock.boottime()
        self._state: ClockState | None = None
        """None before the first check."""

    def check_jump(self) -> float | None:
        """By how many seconds the clock has jumped since the last check; None if it has not.

        Reads and writes a small file: call it in a thread.
        """
        now = self._clock.now()
        offset = now - self._clock.boottime()
        jump, self._offset = offset - self._offset, offset
        jumped = abs(jump) >= JUMP_SECONDS
        state = self._state or _read_state(self._path) or ClockState(seen=now)
        # Between two runs there is no boot-time clock to compare with: a long gap, or one that goes
        # backwards, raises doubt but is not reported as a jump.
        if jumped or _is_strange_gap(now - state.seen):
            self._save(ClockState(seen=now, doubted=now))
        elif self._state is None or now - state.seen >= SAVE_SECONDS:
            self._save(ClockState(seen=now, doubted=state.doubted))
        return jump if jumped else None

    @property
    def is_doubtful(self) -> bool:
        """Whether the wall clock may be wrong, so that nothing may be deleted for its age."""
        return self._state is not None and _is_doubtful(self._state, self._clock.now())

    def _save(self, state: ClockState) -> None:
        self._state = state
        scratch = self._path.with_suffix(f".{os.getpid()}.tmp")
        with suppress(OSError):  # Then the state lasts as long as the process.
            make_private_directory(self._path.parent)
            scratch.touch(mode=0o600)
            scratch.write_bytes(msgspec.json.encode(state))
            scratch.replace(self._path)


def expiry_time(state_dir: Path, now: float) -> float:
    """The time to compare ages with: `now`, or 1970 while the wall clock is doubtful."""
    state = _read_state(state_dir / CLOCK_FILE)
    if state is None:
        return now
    is_trusted = not _is_strange_gap(now - state.seen) and not _is_doubtful(state, now)
    return now if is_trusted else 0.0


def _is_strange_gap(unused_seconds: float) -> bool:
    return unused_seconds > UNUSED_SECONDS_MAX or unused_seconds < -JUMP_SECONDS


def _is_doubtful(state: ClockState, now: float) -> bool:
    return state.doubted is not None and abs(now - state.doubted) < DOUBT_SECONDS


def _read_state(path: Path) -> ClockState | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=ClockState)
    except (OSError, msgspec.DecodeError):
        return None

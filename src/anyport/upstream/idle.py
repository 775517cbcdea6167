"""Since when nobody has used a connection, and whether that is long enough to close it.

Nothing is noted when a connection is used: each has a count of its requests, and who looks now
and then sees whether it has risen. Pure: the clock is an argument. What counts as use, and how a
connection is closed, is known elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from anyport.upstream.key import LeaseKey

LOOKS: Final = 4
"""How often a connection is looked at in the time that it may be idle."""
LOOK_SECONDS_MAX: Final = 15.0
"""Between two looks, however long it may be idle: it is closed at most so much too late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Glimpse:
    """A connection at one moment."""

    uses: int
    """How often clients have used it so far."""
    busy: bool
    """Whether it is in use now, or somebody counts on what the server keeps there."""


@dataclass(frozen=True, slots=True)
class _Seen:
    uses: int
    since: float
    """When it was last seen in use."""


class Idleness:
    """The connections of one server, as they were last seen."""

    def __init__(self, idle_seconds: float) -> None:
        self._idle_seconds = idle_seconds
        self._seen: dict[LeaseKey, _Seen] = {}

    @property
    def look_seconds(self) -> float | None:
        """Until the next look; None if no connection is ever closed for want of use."""
        if self._idle_seconds <= 0:
            return None
        return min(self._idle_seconds / LOOKS, LOOK_SECONDS_MAX)

    def began(self, key: LeaseKey, uses: int, now: float) -> None:
        """A connection was opened: somebody may be about to use it."""
        self._seen[key] = _Seen(uses, now)

    def forget(self, key: LeaseKey) -> None:
        """A connection is not needed any more."""
        self._seen.pop(key, None)

    def has_seen(self, key: LeaseKey) -> bool:
        """Whether a connection has ever been open."""
        return key in self._seen

    def look(self, open: Mapping[LeaseKey, Glimpse], now: float) -> list[LeaseKey]:
        """Which of the open connections are to be closed.

        The first is the one through which lists are read: it stays as long as any other does.
        """
        for key, glimpse in open.items():
            seen = self._seen.get(key)
            if seen is None or glimpse.busy or glimpse.uses != seen.uses:
                self._seen[key] = _Seen(glimpse.uses, now)
        idle = [key for key in open if not self.is_recent(key, now)]
        return idle if len(idle) == len(open) else [key for key in idle if key != next(iter(open))]

    def is_recent(self, key: LeaseKey, now: float) -> bool:
        """Whether a connection was used so lately that it is worth having."""
        seen = self._seen.get(key)
        return seen is not None and now - seen.since < self._idle_seconds

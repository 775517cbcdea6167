"""When to start a server again after it has gone. Pure: the clock and chance are arguments."""

from dataclasses import dataclass
from typing import Final

FIRST_SECONDS: Final = 1.0
GROWTH: Final = 3.0
GROWTHS_MAX: Final = 10
"""Far beyond the longest delay, far below where numbers end: a server may be down for weeks."""
DELAY_SECONDS_MAX: Final = 60.0
"""It never gives up: a repaired server is back within this time."""
HEALTHY_SECONDS: Final = 60.0
"""Running this long wipes out what went wrong before."""
AFTER_HEALTH_SECONDS_MAX: Final = 0.2
"""A server that worked and died is started again at once."""
JITTER: Final = 0.2
"""Up to this share is taken off, so that servers that died together do not return together."""


@dataclass(slots=True)
class Backoff:
    """How often a server has failed in a row."""

    failures: int = 0

    def delay(self, ready_seconds: float | None, chance: float) -> float:
        """Seconds to wait before the next start.

        `ready_seconds` is how long it was ready this time, None if it never was; `chance` is a
        number from 0 to 1.
        """
        if ready_seconds is not None and (ready_seconds >= HEALTHY_SECONDS or not self.failures):
            self.failures = 1
            return AFTER_HEALTH_SECONDS_MAX * chance
        growth = GROWTH ** min(max(self.failures - 1, 0), GROWTHS_MAX)
        delay = min(DELAY_SECONDS_MAX, FIRST_SECONDS * growth)
        self.failures += 1
        return delay * (1 - JITTER * chance)

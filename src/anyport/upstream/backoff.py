"""Exponential back-off between restarts of a server. Pure: time and randomness are arguments."""

from dataclasses import dataclass
from typing import Final

FIRST_SECONDS: Final = 1.0
GROWTH: Final = 3.0
GROWTHS_MAX: Final = 10
"""Well beyond the longest delay, and well below overflow: a server may be down for weeks."""
DELAY_SECONDS_MAX: Final = 60.0
"""Retries never stop, so a repaired server is back within this time."""
HEALTHY_SECONDS: Final = 60.0
"""A server that ran this long starts over with the shortest delay."""
AFTER_HEALTH_SECONDS_MAX: Final = 0.2
"""A server that worked and then died is restarted almost at once."""
JITTER: Final = 0.2
"""Up to this share is subtracted, so that servers that died together do not restart together."""


@dataclass(slots=True)
class Backoff:
    """Restart delays of one server; `failures` counts failures in a row."""

    failures: int = 0

    def delay(self, ready_seconds: float | None, chance: float) -> float:
        """Seconds to wait before the next start.

        `ready_seconds` is how long the server was ready this time, None if it never was; `chance`
        is a number from 0 to 1.
        """
        if ready_seconds is not None and (ready_seconds >= HEALTHY_SECONDS or not self.failures):
            self.failures = 1
            return AFTER_HEALTH_SECONDS_MAX * chance
        growth = GROWTH ** min(max(self.failures - 1, 0), GROWTHS_MAX)
        delay = min(DELAY_SECONDS_MAX, FIRST_SECONDS * growth)
        self.failures += 1
        return delay * (1 - JITTER * chance)

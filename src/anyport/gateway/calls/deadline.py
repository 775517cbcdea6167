"""The deadline of a call. Pure: the clock is an argument.

Progress extends a deadline, but never beyond the hard limit. The time in which a person is asked
does not count.
"""

from typing import Final

from anyport.config.model import CALL_SECONDS_DEFAULT
from anyport.protocol.errors import Timeout

USER_INPUT_SECONDS_MAX: Final = 600.0
"""How long a person may take to answer before the call is given up."""

SLOW_CALL_SECONDS: Final = 1.0
"""A call that takes longer is recorded before it ends."""


class Deadline:
    """When one call must be over."""

    __slots__ = (
        "_asking_credited_until",
        "_asking_since",
        "_capped_at",
        "_due_at",
        "_is_slow",
        "_paused_at",
        "_started_at",
        "seconds",
        "seconds_max",
    )

    def __init__(
        self, seconds: float, started_at: float, seconds_max: float = CALL_SECONDS_DEFAULT
    ) -> None:
        self.seconds = seconds
        self.seconds_max = max(seconds, seconds_max)
        self._started_at = started_at
        self._due_at = started_at + seconds
        self._capped_at = started_at + self.seconds_max
        self._asking_since: float | None = None
        """Since when a person has been asked something."""
        self._asking_credited_until = 0.0
        """Up to when the time of asking has been added to the hard limit."""
        self._paused_at = 0.0
        self._is_slow = False

    def seconds_for(self, timeout: Timeout) -> float:
        """The length of the time that is over."""
        seconds = {Timeout.CAP: self.seconds_max, Timeout.ANSWER: USER_INPUT_SECONDS_MAX}
        return seconds.get(timeout, self.seconds)

    def extend(self, now: float) -> None:
        """Start the call's time anew: the server has shown that it is at work."""
        self._due_at = min(now + self.seconds, self._capped_at)

    def pause(self, now: float) -> None:
        """Stop the clock while the client is away to fetch an answer."""
        self._paused_at = now

    def resume(self, now: float) -> None:
        """Go on where `pause` stopped."""
        self._capped_at += now - self._paused_at
        self.extend(now)

    def becomes_slow(self, now: float) -> bool:
        """Whether the call takes a while now; true once."""
        if self._is_slow or now - self._started_at < SLOW_CALL_SECONDS:
            return False
        self._is_slow = True
        return True

    def check(self, now: float, *, asking: bool) -> Timeout | None:
        """Which timeout is over, if any; `asking` while a person is being asked."""
        if not asking:
            self._asking_since = None
            if now < self._due_at:
                return None
            capped = self._due_at >= self._capped_at and self.seconds < self.seconds_max
            return Timeout.CAP if capped else Timeout.TOTAL
        if self._asking_since is None:
            self._asking_since = self._asking_credited_until = now
        self._capped_at += now - self._asking_credited_until
        self._asking_credited_until = now
        # The call's own time starts anew when the person has answered.
        self._due_at = now + self.seconds
        self._capped_at = max(self._capped_at, self._due_at)
        return Timeout.ANSWER if now - self._asking_since >= USER_INPUT_SECONDS_MAX else None

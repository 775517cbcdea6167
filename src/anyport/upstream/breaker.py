"""Whether a server gets calls at all, after calls to it have failed one after the other.

Pure: the clock and chance are arguments, and what counts as a failure is said by whoever saw it.
After so many failures in a row it opens: every call is turned away at once. When its time is over
it is half open: one call at a time goes through as a probe, and what becomes of that decides. A
server may also say itself when it wants to be asked again; that is no failure.
"""

from enum import Enum
from typing import Final

import msgspec

from anyport.protocol.errors import Situation
from anyport.upstream.sign import Sign

FAILURES_MAX: Final = 5
"""Failures in a row after which a server gets no calls for a while."""
OPEN_SECONDS: Final = 30.0
"""For that long; twice as long the second time in a row, and so on."""
OPEN_SECONDS_MAX: Final = 300.0
"""But no longer than that: a repaired server is found."""
JITTER: Final = 0.2
"""More or less, so that servers that failed together are not tried together."""
ACCIDENT_SECONDS: Final = 0.25
"""Calls that are lost within this time were lost by one accident: a process that dies takes all
its calls along."""
WAIT_SECONDS_MAX: Final = 60.0
"""How long a server may keep calls away by saying when it wants to be asked again."""
TRYING_SECONDS: Final = 1.0
"""What callers are told to wait for while a probe is under way."""


class Turned(msgspec.Struct, frozen=True, gc=False):
    """A call is turned away."""

    situation: Situation
    reason: str
    seconds: float
    """When it is worth another try."""


class Passed(Enum):
    """A call may be made."""

    FREE = "free"
    PROBE = "probe"
    """And what becomes of it decides; until then no other may."""


class Breaker:
    """The calls of one server, as far as they failed."""

    __slots__ = (
        "_accident_at",
        "_enabled",
        "_held_until",
        "_probing",
        "_since",
        "_times",
        "_until",
        "_words",
        "failures",
        "shut",
        "unreached",
    )

    def __init__(self, *, enabled: bool = True) -> None:
        self.shut = False
        """Whether a call has to ask first; one that does not need not know of this at all."""
        self.failures = 0
        """In a row."""
        self.unreached = False
        """Whether none of these came as far as the server."""
        self._enabled = enabled
        self._until: float | None = None
        """When it is half open; None while it is closed."""
        self._probing = False
        self._times = 0
        """How often in a row it has opened."""
        self._since = float("-inf")
        """When it last opened or closed: what was asked before says nothing of now."""
        self._accident_at = float("-inf")
        self._held_until = float("-inf")
        self._words = ""

    @property
    def is_open(self) -> bool:
        """Whether the server is taken for one that fails, half open included."""
        return self._until is not None

    def open_seconds(self, now: float) -> float:
        """For how long it has been open, while it is."""
        return now - self._since if self._until is not None else 0.0

    def admit(self, now: float) -> Passed | Turned:
        """Whether a call may be made now."""
        if not self.shut:
            return Passed.FREE
        if now < self._held_until:
            return Turned(Situation.BUSY, self.reason(now), self._held_until - now)
        if self._until is None:
            self.shut = False
            return Passed.FREE
        if now < self._until or self._probing:
            return Turned(Situation.EJECTED, self.reason(now), self._left(now))
        self._probing = True
        return Passed.PROBE

    def reason(self, now: float) -> str:
        """Why calls are turned away, and when they will not be."""
        if now < self._held_until:
            seconds = _shown(self._held_until - now)
            return f"it was asked too often, and wants to be asked again in {seconds} s"
        if self._until is None or now >= self._until:
            when = "it is being tried now" if self._probing else "the next call tries it again"
        else:
            when = f"it is tried again in {_shown(self._left(now))} s"
        return f"{self.failures} calls in a row failed (last: {self._words}); {when}"

    def succeeded(self, now: float, *, own: bool = False) -> bool:
        """The server has answered; whether that ends a time without calls.

        A probe of the gateway's own only shows that the server is there: the first call that
        fails after it opens the breaker again, for longer.
        """
        was_open = self._until is not None
        self._until, self._probing = None, False
        self.shut = now < self._held_until
        if was_open:
            self._since = now
        if own and was_open and not self.unreached:
            self.failures = FAILURES_MAX - 1
        else:
            self.failures = self._times = 0
        self.unreached = False
        return was_open

    def failed(self, now: float, words: str, asked_at: float, sign: Sign = Sign.BAD) -> bool:
        """A call that was made at some time has failed; whether the breaker has to open."""
        if not self._enabled or self._until is not None or asked_at < self._since:
            return False
        if sign is Sign.ACCIDENT:
            lately, self._accident_at = now - self._accident_at < ACCIDENT_SECONDS, now
            if lately:
                return False
        self.unreached = sign is Sign.UNREACHED and (self.unreached or not self.failures)
        self.failures += 1
        self._words = words
        return self.failures >= FAILURES_MAX

    def open(self, now: float, chance: float) -> float:
        """Turn calls away from now on; for how many seconds."""
        self._times += 1
        seconds = min(OPEN_SECONDS * self._times, OPEN_SECONDS_MAX)
        seconds *= 1 + JITTER * (2 * chance - 1)
        self._until, self._probing, self._since, self.shut = now + seconds, False, now, True
        return seconds

    def probe_failed(self, words: str, sign: Sign = Sign.BAD) -> bool:
        """The one call that went through has failed; whether the breaker has to open again."""
        if not self._probing:
            return False  # Another call has been answered meanwhile.
        self._probing = False
        self.unreached = self.unreached and sign is Sign.UNREACHED
        self.failures += 1
        self._words = words
        return True

    def release(self) -> None:
        """The probe has ended without telling anything."""
        self._probing = False

    def hold(self, now: float, seconds: float) -> None:
        """The server has said when it wants to be asked again."""
        self._held_until = max(self._held_until, now + min(seconds, WAIT_SECONDS_MAX))
        self.shut = True

    def _left(self, now: float) -> float:
        """Until a call may be made."""
        return TRYING_SECONDS if self._until is None else max(self._until - now, TRYING_SECONDS)


def _shown(seconds: float) -> int:
    """Whole seconds, never too few."""
    return int(-(-seconds // 1))

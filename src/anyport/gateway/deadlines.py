"""When a call has taken too long. Pure: the clock is an argument.

Progress starts a call's time anew, but never beyond the hard limit; time in which a person is
being asked does not count.
"""

from collections.abc import Callable
from typing import Final, Protocol

from anyport.protocol.exchange import Exchange

CALL_SECONDS_MAX: Final = 600.0
"""The hard limit of one call, whatever progress it reports."""

ASKING_SECONDS_MAX: Final = 600.0
"""How long a person may be asked without the call being given up."""

SWEEP_SECONDS: Final = 0.25
"""How often overdue calls are looked for; a timer for each call would cost more than the call."""

LINGER_SECONDS: Final = 1.0
"""A call that takes longer is noted before it ends."""


class Term:
    """When one exchange must be over, and what happens then."""

    __slots__ = ("_asking_since", "_begun", "_due", "_limit", "_lingers", "exchange", "seconds")

    def __init__(self, exchange: Exchange, seconds: float, now: float) -> None:
        self.exchange = exchange
        self.seconds = seconds
        self._begun = now
        self._due = now + seconds
        self._limit = now + (seconds if seconds > CALL_SECONDS_MAX else CALL_SECONDS_MAX)
        self._asking_since: float | None = None
        """Since when a person has been asked something."""
        self._lingers = False

    def overdue(self) -> None:
        """The time is over."""

    def linger(self) -> None:
        """It takes a while. Told once."""

    def extend(self, now: float) -> None:
        """The server has shown that it is at work."""
        self._due = min(now + self.seconds, self._limit)

    def look(self, now: float) -> bool:
        """Whether the time is over; told on the way if it merely takes a while."""
        if not self._lingers and now - self._begun >= LINGER_SECONDS:
            self._lingers = True
            self.linger()
        if not any(question.open for question in self.exchange.questions):
            self._asking_since = None
            return now >= self._due
        if self._asking_since is None:
            self._asking_since = now
        # The call's own time begins anew when the person has answered.
        self._due = now + self.seconds
        self._limit = max(self._limit, self._due)
        return now - self._asking_since >= ASKING_SECONDS_MAX


class Timed(Protocol):
    """Something that must be over at some time."""

    def look(self, now: float) -> bool:
        """Whether the time is over."""

    def overdue(self) -> None:
        """What happens then."""


class Deadlines:
    """The terms of all open calls."""

    def __init__(self) -> None:
        self.terms: dict[object, Timed] = {}
        """By exchange; what has none stands for itself."""
        self.asleep = True
        """Nobody sweeps, because there was nothing to sweep."""
        self.on_wake: Callable[[], None] = _nothing

    def __len__(self) -> int:
        return len(self.terms)

    def start(self, term: Term) -> None:
        """A call begins."""
        self.terms[term.exchange] = term
        if self.asleep:
            self.wake()

    def wake(self) -> None:
        """There is something to sweep again."""
        self.asleep = False
        self.on_wake()

    def clear(self, exchange: Exchange) -> None:
        """The call has ended."""
        self.terms.pop(exchange, None)

    def sweep(self, now: float) -> None:
        """End every call that is overdue."""
        for key, term in list(self.terms.items()):
            if key in self.terms and term.look(now):  # What ends one may have ended another.
                self.terms.pop(key, None)
                term.overdue()


def _nothing() -> None:
    """Nobody waits to be woken."""

"""When a call has taken too long. Pure: the clock is an argument.

Progress starts a call's time anew, but never beyond the hard limit; time in which a person is
being asked does not count.
"""

from collections.abc import Callable
from typing import Final, Protocol

from anyport.config.schema import CALL_SECONDS_DEFAULT
from anyport.protocol.exchange import Ending, Exchange
from anyport.protocol.timeouts import Timeout

ASKING_SECONDS_MAX: Final = 600.0
"""How long a person may be asked without the call being given up."""

SWEEP_SECONDS: Final = 0.25
"""How often overdue calls are looked for; a timer for each call would cost more than the call."""

LINGER_SECONDS: Final = 1.0
"""A call that takes longer is noted before it ends."""


class Term:
    """When one exchange must be over, and what happens then."""

    __slots__ = (
        *("_asked", "_asking_since", "_begun", "_due", "_limit", "_lingers", "_rested"),
        *("exchange", "seconds", "seconds_max"),
    )

    def __init__(
        self,
        exchange: Exchange,
        seconds: float,
        now: float,
        seconds_max: float = CALL_SECONDS_DEFAULT,
    ) -> None:
        self.exchange = exchange
        self.seconds = seconds
        self.seconds_max = max(seconds, seconds_max)
        self._begun = now
        self._due = now + seconds
        self._limit = now + self.seconds_max
        self._asking_since: float | None = None
        """Since when a person has been asked something."""
        self._asked = 0.0
        """Until when that has been made up for."""
        self._rested = 0.0
        self._lingers = False

    def overdue(self, timeout: Timeout) -> None:
        """The time is over: which one."""

    def allowed(self, timeout: Timeout) -> float:
        """How many seconds there are for it."""
        allowed = {Timeout.CAP: self.seconds_max, Timeout.ANSWER: ASKING_SECONDS_MAX}
        return allowed.get(timeout, self.seconds)

    def linger(self) -> None:
        """It takes a while. Told once."""

    def extend(self, now: float) -> None:
        """The server has shown that it is at work."""
        self._due = min(now + self.seconds, self._limit)

    def stand_still(self, now: float) -> None:
        """Nobody waits for it: somebody has gone to fetch an answer."""
        self._rested = now

    def go_on(self, now: float) -> None:
        """Somebody waits for it again."""
        self._limit += now - self._rested
        self.extend(now)

    def look(self, now: float) -> Timeout | None:
        """Which time is over, if one is; told on the way if it merely takes a while."""
        if not self._lingers and now - self._begun >= LINGER_SECONDS:
            self._lingers = True
            self.linger()
        if not any(question.open for question in self.exchange.questions):
            self._asking_since = None
            if now < self._due:
                return None
            capped = self._due >= self._limit and self.seconds < self.seconds_max
            return Timeout.CAP if capped else Timeout.TOTAL
        if self._asking_since is None:
            self._asking_since = self._asked = now
        self._limit += now - self._asked
        self._asked = now
        # The call's own time begins anew when the person has answered.
        self._due = now + self.seconds
        self._limit = max(self._limit, self._due)
        return Timeout.ANSWER if now - self._asking_since >= ASKING_SECONDS_MAX else None


class Timed(Protocol):
    """Something that must be over at some time."""

    def look(self, now: float) -> Timeout | None:
        """Which time is over, if one is."""

    def overdue(self, timeout: Timeout) -> None:
        """What happens then."""


class Deadlines:
    """The terms of all open calls."""

    def __init__(self) -> None:
        self.terms: dict[object, Timed] = {}
        """By exchange; what has none stands for itself."""
        self.asleep = True
        """Nobody sweeps, because there was nothing to sweep."""
        self.on_wake: Callable[[], None] = _nothing
        self.on_sweep: Callable[[float], None] = lambda _: None
        """Told the time whenever calls are looked at, which is while there are any."""
        self.on_timeout: Callable[[Timeout], None] = lambda _: None
        """Told whenever the time of a call is over."""

    def __len__(self) -> int:
        return len(self.terms)

    def start(self, term: Term) -> None:
        """A call begins."""
        self.terms[term.exchange] = term
        if self.asleep:
            self.wake()

    def lend(self, term: Term) -> None:
        """A call begins that somebody ends who knows nothing of its term."""
        self.start(term)
        noted = term.exchange.on_end

        def over(exchange: Exchange, ending: Ending | None) -> None:
            self.clear(exchange)
            if noted is not None:
                noted(exchange, ending)

        term.exchange.on_end = over

    def wake(self) -> None:
        """There is something to sweep again."""
        self.asleep = False
        self.on_wake()

    def clear(self, exchange: Exchange) -> None:
        """The call has ended."""
        self.terms.pop(exchange, None)

    def sweep(self, now: float) -> None:
        """End every call that is overdue."""
        self.on_sweep(now)
        for key, term in list(self.terms.items()):
            if key not in self.terms:
                continue  # What ends one may have ended another.
            timeout = term.look(now)
            if timeout is not None:
                self.terms.pop(key, None)
                term.overdue(timeout)

    def give_up(self, timeout: Timeout) -> None:
        """End every call there is."""
        for _ in range(2):  # What is on a track leaves it the first time.
            for key, term in list(self.terms.items()):
                if key in self.terms:
                    term.overdue(timeout)


def _nothing() -> None:
    """Nobody waits to be woken."""

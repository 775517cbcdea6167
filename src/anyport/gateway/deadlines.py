"""When a call has taken too long. Pure: the clock is an argument.

Progress starts a call's time anew, but never beyond the hard limit; time in which a person is
being asked does not count.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from anyport.protocol.exchange import Exchange

CALL_SECONDS_MAX: Final = 600.0
"""The hard limit of one call, whatever progress it reports."""

ASKING_SECONDS_MAX: Final = 600.0
"""How long a person may be asked without the call being given up."""

SWEEP_SECONDS: Final = 0.25
"""How often overdue calls are looked for; a timer for each call would cost more than the call."""


@dataclass(slots=True)
class _Term:
    """When one exchange must be over."""

    seconds: float
    due: float
    limit: float
    on_due: Callable[[], None]
    asking_since: float | None = None
    """Since when a person has been asked something."""

    def is_due(self, now: float, *, asking: bool) -> bool:
        if not asking:
            self.asking_since = None
            return now >= self.due
        if self.asking_since is None:
            self.asking_since = now
        # The call's own time begins anew when the person has answered.
        self.due = now + self.seconds
        self.limit = max(self.limit, self.due)
        return now - self.asking_since >= ASKING_SECONDS_MAX


class Deadlines:
    """The terms of all open calls."""

    def __init__(self) -> None:
        self._terms: dict[Exchange, _Term] = {}

    def __len__(self) -> int:
        return len(self._terms)

    def start(
        self, exchange: Exchange, seconds: float, now: float, on_due: Callable[[], None]
    ) -> None:
        """Give a call its term."""
        limit = now + max(seconds, CALL_SECONDS_MAX)
        self._terms[exchange] = _Term(seconds, now + seconds, limit, on_due)

    def extend(self, exchange: Exchange, now: float) -> None:
        """The server has shown that it is at work."""
        term = self._terms.get(exchange)
        if term is not None:
            term.due = min(now + term.seconds, term.limit)

    def clear(self, exchange: Exchange) -> None:
        """The call has ended."""
        self._terms.pop(exchange, None)

    def sweep(self, now: float) -> None:
        """End every call that is overdue."""
        for exchange, term in list(self._terms.items()):
            asking = any(question.open for question in exchange.questions)
            if term.is_due(now, asking=asking):
                del self._terms[exchange]
                term.on_due()

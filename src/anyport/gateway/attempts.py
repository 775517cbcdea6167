"""How often one errand asks its server, and what that tells the server's guard.

Decides whether a call is let through and whether it is made once more. What is asked, and what
becomes of an answer, is the errand's business.
"""

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Final, Protocol

from anyport.gateway.retries import (
    ATTEMPTS_MAX,
    LOOK_SECONDS,
    PATIENCE_SECONDS_MAX,
    Budget,
    may_repeat,
    pause,
)
from anyport.protocol.errors import Fault, lost
from anyport.protocol.exchange import Exchange
from anyport.upstream.breaker import Passed, Turned
from anyport.upstream.call import Answer, Lost
from anyport.upstream.server import Server
from anyport.upstream.sign import Again, Postponed
from anyport.upstream.tender import State

_ON_ITS_WAY: Final = frozenset({State.BROKEN, State.STARTING})


class Errand(Protocol):
    """The call, as far as it is made at all."""

    exchange: Exchange
    server: Server
    native: str

    def repeat(self) -> None:
        """Ask for a connection, then the server, as if for the first time."""

    def answered(self, answer: Answer) -> None:
        """The server has answered, or will not."""


class Retries:
    """What the errands of a gateway share: the budget of each server, time and chance."""

    def __init__(
        self,
        clock: Callable[[], float],
        chance: Callable[[], float],
        later: Callable[[float, Callable[[], None]], object],
        count: Callable[[Server], int],
    ) -> None:
        self.clock = clock
        self.chance = chance
        self.later = later
        self.repeated: dict[str, int] = {}
        """How many calls of each server were made once more."""
        self._count = count
        self._budgets: dict[str, Budget] = {}

    def grant(self, server: Server) -> Budget | None:
        """Where one more repeated call is to be given back, if there may be one."""
        budget = self._budgets.setdefault(server.slug, Budget())
        if not budget.take(partial(self._count, server), self.clock()):
            return None
        self.repeated[server.slug] = self.repeated.get(server.slug, 0) + 1
        return budget


class Attempts:
    """The attempts of one errand. Knows it only when told: neither holds on to the other."""

    __slots__ = ("_budget", "_lost", "_patience", "_probe", "committed")

    def __init__(self) -> None:
        self.committed = False
        """Whether somebody has been told something that a second attempt could contradict."""
        self._probe = False
        """Whether what becomes of it decides if its server gets calls again."""
        self._budget: Budget | None = None
        """While it is made once more."""
        self._lost: Lost | None = None
        """What became of it the first time."""
        self._patience = 0.0
        """Until when it waits for a server that has to be started first."""

    def admit(self, server: Server) -> Fault | None:
        """Why the call is not made, if it is not."""
        if not server.guard.breaker.shut:
            return None
        entry = server.guard.enter()
        if isinstance(entry, Turned):
            return lost(server.slug, entry.situation, entry.reason, entry.seconds)
        self._probe = entry is Passed.PROBE
        return None

    def hear(self, answer: Answer, asked_at: float, errand: Errand, retries: Retries) -> bool:
        """The server has answered, or will not; whether it is asked once more."""
        guard = errand.server.guard
        if guard.breaker.failures or isinstance(answer, Lost | Postponed):
            probe, self._probe = self._probe, False
            guard.tell(answer, asked_at, probe=probe)
        if not isinstance(answer, Lost) or self.committed or not _is_repeatable(answer, errand):
            return False
        self._budget = retries.grant(errand.server)
        if self._budget is None:
            return False
        wait = pause(retries.chance())
        self._lost, self._patience = answer, retries.clock() + wait + PATIENCE_SECONDS_MAX
        retries.later(wait, partial(self._again, errand))
        return True

    def overdue(self, words: str, asked_at: float, server: Server) -> None:
        """The server has had its time."""
        probe, self._probe = self._probe, False
        server.guard.failed(words, asked_at, probe=probe)

    def waits(self, errand: Errand, retries: Retries) -> bool:
        """Whether a call that finds no server waits for it: only one that is made once more."""
        starting = errand.server.state in _ON_ITS_WAY
        if self._budget is None or not starting or retries.clock() >= self._patience:
            return False
        retries.later(LOOK_SECONDS, partial(self._look, errand))
        return True

    def end(self, server: Server) -> None:
        """The errand is over, however it ended."""
        probe, self._probe = self._probe, False
        if probe:
            server.guard.leave()
        budget, self._budget = self._budget, None
        if budget is not None:
            budget.give_back()

    def _again(self, errand: Errand) -> None:
        if errand.exchange.ended or self._lost is None:
            return
        if self.admit(errand.server) is not None:
            errand.answered(self._lost)  # That others failed since says less of this one.
            return
        errand.exchange.attempts += 1
        errand.repeat()

    def _look(self, errand: Errand) -> None:
        if not errand.exchange.ended:
            errand.repeat()


def _is_repeatable(answer: Lost, errand: Errand) -> bool:
    """Whether a lost call may be made once more, and its client has not been told anything."""
    server, exchange = errand.server, errand.exchange
    if answer.again is Again.NEVER or exchange.attempts >= ATTEMPTS_MAX or exchange.ended:
        return False
    if server.config.retry == "never" or server.guard.breaker.is_open:
        return False
    if exchange.reached > -inf or exchange.questions or exchange.rounds:
        return False
    return may_repeat(answer, exchange.method.name, errand.native, server.listings)

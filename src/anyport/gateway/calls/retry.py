"""The retry rule, and the retry budget of each server.

A call is sent again only if its server cannot have seen it, or if it does no harm to do the same
thing twice; and never so often that retries make matters worse for a server in trouble.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from anyport.catalog.offers import Listing, is_repeatable
from anyport.clock import Clock
from anyport.protocol.methods import OfferKind
from anyport.protocol.request import TOOLS_CALL
from anyport.upstream.pending_call import NoAnswer, Retryable
from anyport.upstream.server import Server

ATTEMPTS_MAX: Final = 2
"""Of one call, the first included."""
RETRY_DELAY_SECONDS_MAX: Final = 0.05
"""Before a retry, times a random number: calls that failed together must not return together."""
BUDGET_SHARE: Final = 0.2
"""The share of a server's open calls that may be retries."""
BUDGET_CALLS_MIN: Final = 3
"""Retries that are always allowed; a share of few calls would be none."""
OPEN_CALLS_COUNT_SECONDS: Final = 0.1
"""How long a count of the open calls is used: a process that dies may fail a thousand calls at
once, and the share is of these."""
RESTART_WAIT_SECONDS_MAX: Final = 5.0
"""How long a retry waits for a server that has to be started first."""
RESTART_POLL_SECONDS: Final = 0.05
"""Between two checks whether the server has started."""

READ_ONLY_METHODS: Final = frozenset({"resources/read", "prompts/get", "completion/complete"})
"""Methods that change nothing at any server."""


class RetryBudget:
    """The retries of one server."""

    __slots__ = ("_counted_at", "_open_calls", "open_count")

    def __init__(self) -> None:
        self.open_count = 0
        """Retries that have not ended."""
        self._open_calls = 0
        self._counted_at = float("-inf")

    def acquire(self, count: Callable[[], int], now: float) -> bool:
        """Take one retry, if the budget allows it; `count` counts the open calls."""
        if now - self._counted_at >= OPEN_CALLS_COUNT_SECONDS:
            self._open_calls, self._counted_at = count(), now
        if self.open_count >= max(BUDGET_CALLS_MIN, int(self._open_calls * BUDGET_SHARE)):
            return False
        self.open_count += 1
        return True

    def release(self) -> None:
        """Give a retry back that has ended."""
        self.open_count -= 1


class RetryBudgets:
    """The retry budgets of all servers."""

    def __init__(self, clock: Clock, count_open: Callable[[Server], int]) -> None:
        self._clock = clock
        self._count_open = count_open
        self.retried_counts: dict[str, int] = {}
        """How many calls of each server were sent again, for the metrics."""
        self._budgets: dict[str, RetryBudget] = {}

    def acquire(self, server: Server) -> RetryBudget | None:
        """The budget that one more retry was taken from, to be given back; None if it is spent."""
        budget = self._budgets.setdefault(server.slug, RetryBudget())
        if not budget.acquire(partial(self._count_open, server), self._clock.monotonic()):
            return None
        self.retried_counts[server.slug] = self.retried_counts.get(server.slug, 0) + 1
        return budget


def retry_delay(chance: float) -> float:
    """Seconds before a retry; `chance` is a random number from 0 to 1."""
    return RETRY_DELAY_SECONDS_MAX * chance


def is_safe_to_repeat(method: str, name: str, tools: Listing | None) -> bool:
    """Whether a call is read-only or idempotent, by its method or by the tool's annotations."""
    return method in READ_ONLY_METHODS or (
        method == TOOLS_CALL and is_repeatable(tools, name) is True
    )


def may_repeat(
    lost: NoAnswer, method: str, name: str, listings: Mapping[OfferKind, Listing]
) -> bool:
    """The retry rule: whether a call that got no answer may be sent again."""
    if lost.retryable is Retryable.IF_SAFE:
        return is_safe_to_repeat(method, name, listings.get(OfferKind.TOOLS))
    return lost.retryable is Retryable.ALWAYS

"""Which calls that failed may be made once more, and how many such calls there may be.

Pure: what was seen of the failure, the number of open calls and chance are arguments. A call is
repeated only if its server cannot have seen it, or if it does no harm to do the same thing twice;
and never so often that repeating makes matters worse for a server that is already in trouble.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from anyport.protocol.method import Kind
from anyport.protocol.reading import CALL
from anyport.routing.offers import Listing
from anyport.upstream.call import Lost
from anyport.upstream.sign import Again
from anyport.wire import members

ATTEMPTS_MAX: Final = 2
"""For one call, the first included."""
PAUSE_SECONDS_MAX: Final = 0.05
"""Before the second; anything up to that, lest calls that failed together return together."""
BUDGET_SHARE: Final = 0.2
"""Of a server's open calls, those that may be repeated ones."""
BUDGET_CALLS_MIN: Final = 3
"""But that many in any case: where there are few calls, none would ever be repeated."""
COUNT_SECONDS: Final = 0.1
"""How long a count of the open calls holds: a process that dies takes a thousand along at once,
and they are what the share is of."""
PATIENCE_SECONDS_MAX: Final = 5.0
"""How long a repeated call waits for a server that has to be started first."""
LOOK_SECONDS: Final = 0.05
"""Between two looks whether it has been."""

READS: Final = frozenset({"resources/read", "prompts/get", "completion/complete"})
"""Methods that change nothing, whichever server is asked."""


class Budget:
    """The repeated calls of one server."""

    __slots__ = ("_counted", "_counted_at", "open")

    def __init__(self) -> None:
        self.open = 0
        """Repeated calls that have not ended."""
        self._counted = 0
        self._counted_at = float("-inf")

    def take(self, count: Callable[[], int], now: float) -> bool:
        """Have one more call repeated, if there may be; `count` gives the open ones."""
        if now - self._counted_at >= COUNT_SECONDS:
            self._counted, self._counted_at = count(), now
        if self.open >= max(BUDGET_CALLS_MIN, int(self._counted * BUDGET_SHARE)):
            return False
        self.open += 1
        return True

    def give_back(self) -> None:
        """A repeated call has ended."""
        self.open -= 1


def pause(chance: float) -> float:
    """Seconds before a call is made once more; `chance` is a number from 0 to 1."""
    return PAUSE_SECONDS_MAX * chance


def is_safe(method: str, name: str, tools: Listing | None) -> bool:
    """Whether doing it twice is as good as doing it once, as far as its server says.

    "Clients MUST consider tool annotations to be untrusted unless they come from trusted servers"
    (server/tools): here they decide about nothing but asking that very server again.
    """
    if method in READS:
        return True
    if method != CALL or tools is None:
        return False
    raw = next((offer.raw for offer in tools.offers if offer.native == name), None)
    return raw is not None and _harmless(raw)


def may_repeat(lost: Lost, method: str, name: str, listings: dict[Kind, Listing]) -> bool:
    """Whether a call that was lost may be made once more at all."""
    if lost.again is Again.IF_SAFE:
        return is_safe(method, name, listings.get(Kind.TOOLS))
    return lost.again is Again.ALWAYS


def _harmless(tool: bytes) -> bool:
    if b'"annotations"' not in tool:
        return False
    try:
        hints = members.members(members.members(tool)["annotations"])
    except (msgspec.DecodeError, KeyError):
        return False
    said = {name for name, value in hints.items() if bytes(value) == b"true"}
    if "idempotentHint" in said:
        return True
    return "readOnlyHint" in said and "destructiveHint" not in said

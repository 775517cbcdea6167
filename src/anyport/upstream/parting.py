"""How a connection ended, as far as its calls are concerned: who is to blame, what may be repeated.

What was waiting, or was never written, the server cannot have seen. What had been sent it may have
carried out before it was lost.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from anyport.upstream.call import Lost
from anyport.upstream.sign import Again, Sign

_REQUEST: Final = re.compile(rb'\{"jsonrpc":"2\.0","id":([0-9]{1,19}),"method":')
"""As we write it. What we answer to a server's own requests bears ids of its own."""


class Parting(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one connection."""

    wanted: bool = False
    """Whether it was the gateway that ended it: then there is nothing to learn from it."""
    unwritten: frozenset[int] = frozenset()
    """The calls that never left the gateway."""

    def sent(self, reason: str) -> Lost:
        """What becomes of a call that was sent."""
        if self.wanted:
            return Lost(reason)
        return Lost(reason, sign=Sign.ACCIDENT, again=Again.IF_SAFE)

    def unsent(self, reason: str) -> Lost:
        """What becomes of one that was not, or comes too late."""
        return Lost(reason) if self.wanted else Lost(reason, again=Again.ALWAYS)


BROKEN: Final = Parting()
STOPPED: Final = Parting(wanted=True)


def numbers(lines: Iterable[bytes]) -> frozenset[int]:
    """Of which calls these lines are."""
    return frozenset(int(found[1]) for found in map(_REQUEST.match, lines) if found is not None)

"""How long an answer may be used again, and by whom: `ttlMs` and `cacheScope`. Pure.

What servers said is read here, and what the gateway says is written here. Which answers are
kept, and for how long, is not known here.
"""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Raw

from anyport.protocol.shape import ABSENT, Shape

HINTS: Final = ("ttlMs", "cacheScope")
OF_ITSELF: Final = ("resultType", *HINTS)
"""What a modern result says of itself, and a session's does not."""

_TTL_DIGITS_MAX: Final = 15
"""More is no time that anybody meant, and no integer to many a client."""
_PUBLIC: Final = b'"public"'
_PRIVATE: Final = b'"private"'


class Freshness(msgspec.Struct, frozen=True, gc=False):
    """What may be done with an answer. What says nothing of itself: use it once, alone."""

    ttl_ms: int = 0
    public: bool = False
    """Whether it holds nothing that is only for the one who asked."""

    def after(self, seconds: float) -> "Freshness":
        """What is left of it by then."""
        return Freshness(int(max(0.0, self.ttl_ms - seconds * 1000)), self.public)

    def stamped(self, result: bytes) -> bytes:
        """A result, not empty and without hints, with these in front."""
        return b"".join((self._opening, memoryview(result)[1:]))

    def restamped(self, result: bytes, before: "Freshness") -> bytes:
        """A result that was stamped before, with these in their place."""
        return b"".join((self._opening, memoryview(result)[len(before._opening) :]))

    @property
    def _opening(self) -> bytes:
        scope = _PUBLIC if self.public else _PRIVATE
        return b'{"ttlMs":%d,"cacheScope":%b,' % (self.ttl_ms, scope)


STALE: Final = Freshness()


def read_freshness(ttl: Raw = ABSENT, scope: Raw = ABSENT) -> Freshness:
    """What raw hints say; those that are missing or make no sense say the least.

    "If `ttlMs` is negative, clients SHOULD ignore it and treat it as 0" (server/utilities/caching).
    """
    return Freshness(int(bytes(ttl)) if _is_time(ttl) else 0, bytes(scope) == _PUBLIC)


def repaired(shape: Shape) -> dict[str, bytes]:
    """What is to be said in place of hints that a result lacks, or that make no sense.

    It is safe for any answer: use it once, keep it yourself.
    """
    found: dict[str, bytes] = {}
    if not _is_time(shape.ttl):
        found["ttlMs"] = b"0"
    if bytes(shape.scope) not in (_PUBLIC, _PRIVATE):
        found["cacheScope"] = _PRIVATE
    return found


def least(parts: Iterable[Freshness]) -> Freshness:
    """What may be done with an answer that is made of others: only what may be done with each."""
    found = list(parts)
    if not found:
        return STALE
    return Freshness(min(part.ttl_ms for part in found), all(part.public for part in found))


def hinted(shape: Shape) -> Shape:
    """The shape of a result whose hints are put in later."""
    return msgspec.structs.replace(shape, ttl=Raw(b"0"), scope=Raw(_PRIVATE))


def _is_time(ttl: Raw) -> bool:
    digits = bytes(ttl)
    return digits.isdigit() and len(digits) <= _TTL_DIGITS_MAX

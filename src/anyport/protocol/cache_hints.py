"""Cache hints of results: `ttlMs` and `cacheScope`, read from servers and written for clients."""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Raw

from anyport.protocol.result import ABSENT, ResultShape

HINTS: Final = ("ttlMs", "cacheScope")
MODERN_RESULT_MEMBERS: Final = ("resultType", *HINTS)
"""Members that a modern result has and a legacy one has not."""

_TTL_DIGITS_MAX: Final = 15
"""More digits are no plausible time, and no integer to many clients."""
_PUBLIC: Final = b'"public"'
_PRIVATE: Final = b'"private"'


class Freshness(msgspec.Struct, frozen=True, gc=False):
    """Cache hints of a result. The default: use it once, for its caller only."""

    ttl_ms: int = 0
    public: bool = False
    """Whether other callers may get it, too."""

    def remaining_after(self, seconds: float) -> "Freshness":
        """The hints after some seconds."""
        return Freshness(int(max(0.0, self.ttl_ms - seconds * 1000)), self.public)

    def stamp(self, result: bytes) -> bytes:
        """Prepend these hints to a result that is not empty and has none."""
        return b"".join((self._prefix, memoryview(result)[1:]))

    def restamp(self, result: bytes, previous: "Freshness") -> bytes:
        """Replace the hints that `stamp` prepended."""
        return b"".join((self._prefix, memoryview(result)[len(previous._prefix) :]))

    @property
    def _prefix(self) -> bytes:
        scope = _PUBLIC if self.public else _PRIVATE
        return b'{"ttlMs":%d,"cacheScope":%b,' % (self.ttl_ms, scope)


STALE: Final = Freshness()


def read_freshness(ttl: Raw = ABSENT, scope: Raw = ABSENT) -> Freshness:
    """Read raw hints; missing and invalid ones count as not cacheable.

    "If `ttlMs` is negative, clients SHOULD ignore it and treat it as 0" (MCP 2026-07-28,
    server/utilities/caching).
    """
    return Freshness(int(bytes(ttl)) if _is_time(ttl) else 0, bytes(scope) == _PUBLIC)


def missing_hints(shape: ResultShape) -> dict[str, bytes]:
    """Defaults for missing and invalid hints: use it once, for its caller only. Safe for any
    result."""
    hints: dict[str, bytes] = {}
    if not _is_time(shape.ttl):
        hints["ttlMs"] = b"0"
    if bytes(shape.scope) not in (_PUBLIC, _PRIVATE):
        hints["cacheScope"] = _PRIVATE
    return hints


def least_fresh(parts: Iterable[Freshness]) -> Freshness:
    """The hints of a result merged from others: the shortest time, public if all are."""
    hints = list(parts)
    if not hints:
        return STALE
    return Freshness(min(part.ttl_ms for part in hints), all(part.public for part in hints))


def with_placeholder_hints(shape: ResultShape) -> ResultShape:
    """The shape of a result whose hints are added later."""
    return msgspec.structs.replace(shape, ttl=Raw(b"0"), scope=Raw(_PRIVATE))


def _is_time(ttl: Raw) -> bool:
    digits = bytes(ttl)
    return digits.isdigit() and len(digits) <= _TTL_DIGITS_MAX

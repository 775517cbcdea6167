"""What servers have said and allow to be said again: the results of reads.

A result is kept under exactly what its server was asked, and unless the server called it public,
under whose request that was: "Caches MUST NOT be shared across authorization contexts"
(server/utilities/caching). It is forgotten when its time is over, when the server says that
something has changed, and whenever that could have been missed. No I/O, no clock.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Raw

from anyport.protocol import meta
from anyport.protocol.back import COMPLETE
from anyport.protocol.freshness import read_freshness
from anyport.protocol.principal import Principal
from anyport.protocol.shape import read_shape
from anyport.wire import members
from anyport.wire.frame import Result

KEPT_RESULTS_MAX: Final = 1024
"""Results that are kept at a time; the one that was not used for longest makes room."""
KEPT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of all of them together."""
KEPT_RESULT_BYTES_MAX: Final = 1024 * 1024
"""Of one: it must not take the place of too many others."""

_NEUTRAL: Final = frozenset(
    {meta.PROGRESS_TOKEN, meta.LOG_LEVEL, meta.TRACEPARENT, meta.TRACESTATE}
)
"""What says how a request is to be accompanied, and not what is asked."""
_NOTHING: Final = Raw(b"{}")
_RETRIED: Final = frozenset({"inputResponses", "requestState"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One question to a server whose answer may be kept."""

    slug: str
    uri: str
    asked: bytes
    """The params, in a form that is the same for the same question."""
    principal: Principal
    turn: int
    """How often something of this server had been forgotten when it was asked."""


Key = tuple[str, bytes, Principal | None]
"""The server, what it was asked, and for whom; None for a result that is for everybody."""


class Kept(msgspec.Struct, frozen=True, gc=False):
    """A result, cut open where its time stands."""

    uri: str
    head: bytes
    tail: bytes
    until: float
    size: int


class Shelf:
    """The results of all servers of a gateway."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, Kept] = OrderedDict()
        self._of: dict[str, set[Key]] = {}
        self._turns: dict[str, int] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size_bytes(self) -> int:
        """What is kept, and the questions it is kept under."""
        return self._bytes

    def reading(self, slug: str, uri: str, params: bytes, principal: Principal) -> Reading | None:
        """A read that a server is about to be asked for; None if its answer must not be kept.

        "Results produced by retrying a request [...] MUST NOT be cached, as they depend on inputs
        that are not part of the cache key" (server/utilities/caching).
        """
        found = members.members(params)
        if found.keys() & _RETRIED:
            return None
        return Reading(
            slug=slug,
            uri=uri,
            asked=_asked(found),
            principal=principal,
            turn=self._turns.get(slug, 0),
        )

    def find(self, reading: Reading, now: float) -> Result | None:
        """What the server has answered before, with the time that is left of it."""
        for principal in (None, reading.principal):
            key = (reading.slug, reading.asked, principal)
            kept = self._kept.get(key)
            if kept is None:
                continue
            left_ms = int((kept.until - now) * 1000)
            if left_ms > 0:
                self._kept.move_to_end(key)
                return Result(b"", b"%b%d%b" % (kept.head, left_ms, kept.tail))
            self._forget(key)
        return None

    def keep(self, reading: Reading, result: bytes, now: float) -> None:
        """Keep an answer for as long as it may be used, if it is whole and may be used at all.

        Raises:
            Ambiguous: it names a member twice.
        """
        shape = read_shape(result)
        freshness = read_freshness(shape.ttl, shape.scope)
        if not freshness.ttl_ms or bytes(shape.kind) not in (b"", COMPLETE):
            return
        size = len(result) + len(reading.asked)
        # Something was forgotten meanwhile: this may have been said before that.
        outdated = reading.turn != self._turns.get(reading.slug, 0)
        if size > KEPT_RESULT_BYTES_MAX or outdated:
            return
        start, end = members.spans(result)["ttlMs"]
        kept = Kept(
            uri=reading.uri,
            head=result[:start],
            tail=result[end:],
            until=now + freshness.ttl_ms / 1000,
            size=size,
        )
        principal = None if freshness.public else reading.principal
        self._put((reading.slug, reading.asked, principal), kept)

    def changed(self, slug: str, params: bytes | None) -> None:
        """A server says that a resource has changed, and so has what it is a part of."""
        self._turn(slug)
        try:
            uri = members.string(members.members(params or b"{}").get("uri"))
        except msgspec.DecodeError:
            uri = None
        for key in list(self._of.get(slug, ())):
            if uri is None or _related(self._kept[key].uri, uri):
                self._forget(key)

    def clear(self, slug: str) -> None:
        """Anything of a server may have changed."""
        self._turn(slug)
        for key in list(self._of.get(slug, ())):
            self._forget(key)

    def _turn(self, slug: str) -> None:
        self._turns[slug] = self._turns.get(slug, 0) + 1

    def _put(self, key: Key, kept: Kept) -> None:
        self._forget(key)
        self._kept[key] = kept
        self._of.setdefault(key[0], set()).add(key)
        self._bytes += kept.size
        while len(self._kept) > KEPT_RESULTS_MAX or self._bytes > KEPT_BYTES_MAX:
            self._forget(next(iter(self._kept)))

    def _forget(self, key: Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._of[key[0]].discard(key)
            self._bytes -= kept.size


def _asked(params: Mapping[str, Raw]) -> bytes:
    """Params in an order of ours, without what makes no difference to the answer."""
    about = members.members(params.get("_meta", _NOTHING))
    asked = {name: bytes(about[name]) for name in about.keys() - _NEUTRAL}
    whole = {name: bytes(value) for name, value in params.items()}
    whole["_meta"] = members.join(sorted(asked.items()))
    return members.join(sorted(whole.items()))


def _related(one: str, other: str) -> bool:
    """Whether two URIs are the same, or one is below the other."""
    if one == other:
        return True
    return one.startswith(other.rstrip("/") + "/") or other.startswith(one.rstrip("/") + "/")

"""Cache of `resources/read` results, for as long as their servers allow.

A result is stored under the params of its request and, unless the server called it public, under
the principal: "Caches MUST NOT be shared across authorization contexts" (server/utilities/caching).
It is dropped when its TTL is over, when the server reports a change, and whenever such a report
could have been missed. No I/O, no clock.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Raw

from anyport.protocol import meta
from anyport.protocol.adapters.server import RAW_COMPLETE
from anyport.protocol.cache_hints import read_freshness
from anyport.protocol.principal import Principal
from anyport.protocol.result import read_shape
from anyport.wire import raw_json
from anyport.wire.jsonrpc import Result

KEPT_RESULTS_MAX: Final = 1024
"""The least recently used result makes room."""
KEPT_BYTES_MAX: Final = 16 * 1024 * 1024
"""All results together."""
KEPT_RESULT_BYTES_MAX: Final = 1024 * 1024
"""A larger result would displace too many others."""

_IGNORED_META: Final = frozenset(
    {meta.PROGRESS_TOKEN, meta.LOG_LEVEL, meta.TRACEPARENT, meta.TRACESTATE}
)
"""Members of `_meta` that do not change the result."""
_EMPTY_OBJECT: Final = Raw(b"{}")
_RETRY_PARAMS: Final = frozenset({"inputResponses", "requestState"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """A read whose result may be cached."""

    slug: str
    uri: str
    params_key: bytes
    """The params in canonical form."""
    principal: Principal
    private: bool
    """Whether the result is for this principal alone, whatever the server says."""
    generation: int
    """The server's generation when the read was prepared; each invalidation begins a new one."""


ReadCacheKey = tuple[str, bytes, Principal | None]
"""Server, canonical params and principal; None for a public result."""


class CachedResult(msgspec.Struct, frozen=True, gc=False):
    """A result, split around the value of its `ttlMs`."""

    uri: str
    before_ttl: bytes
    after_ttl: bytes
    expires_at: float
    size: int


class ReadCache:
    """The results of all servers of a gateway."""

    def __init__(self) -> None:
        self._results: OrderedDict[ReadCacheKey, CachedResult] = OrderedDict()
        self._keys_by_server: dict[str, set[ReadCacheKey]] = {}
        self._generations: dict[str, int] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._results)

    def prepare(
        self, slug: str, uri: str, params: bytes, principal: Principal, *, alone: bool = False
    ) -> ReadRequest | None:
        """Prepare a read of a server; None if its result must not be cached.

        `alone` says that each principal has a process of its own, which cannot know what is public
        to others.

        "Results produced by retrying a request [...] MUST NOT be cached, as they depend on inputs
        that are not part of the cache key" (server/utilities/caching).
        """
        found = raw_json.members(params)
        if found.keys() & _RETRY_PARAMS:
            return None
        return ReadRequest(
            slug=slug,
            uri=uri,
            params_key=_canonical_params(found),
            principal=principal,
            private=alone,
            generation=self._generations.get(slug, 0),
        )

    def find(self, request: ReadRequest, now: float) -> Result | None:
        """The cached result, with the TTL that remains."""
        for principal in (request.principal,) if request.private else (None, request.principal):
            key = (request.slug, request.params_key, principal)
            cached = self._results.get(key)
            if cached is None:
                continue
            left_ms = int((cached.expires_at - now) * 1000)
            if left_ms > 0:
                self._results.move_to_end(key)
                return Result(b"", b"%b%d%b" % (cached.before_ttl, left_ms, cached.after_ttl))
            self._forget(key)
        return None

    def store(self, request: ReadRequest, result: bytes, now: float) -> None:
        """Store a result, if it is complete and has a TTL.

        Raises:
            AmbiguousObject: it has a member twice.
        """
        shape = read_shape(result)
        freshness = read_freshness(shape.ttl, shape.scope)
        if not freshness.ttl_ms or bytes(shape.result_type) not in (b"", RAW_COMPLETE):
            return
        size = len(result) + len(request.params_key)
        # An invalidation came meanwhile, and the result may be older than that.
        outdated = request.generation != self._generations.get(request.slug, 0)
        if size > KEPT_RESULT_BYTES_MAX or outdated:
            return
        start, end = raw_json.spans(result)["ttlMs"]
        cached = CachedResult(
            uri=request.uri,
            before_ttl=result[:start],
            after_ttl=result[end:],
            expires_at=now + freshness.ttl_ms / 1000,
            size=size,
        )
        principal = None if freshness.public and not request.private else request.principal
        self._put((request.slug, request.params_key, principal), cached)

    def on_resource_changed(self, slug: str, params: bytes | None) -> None:
        """Drop a resource that has changed, what it is part of, and what is part of it."""
        self._next_generation(slug)
        try:
            uri = raw_json.decode_string(raw_json.members(params or b"{}").get("uri"))
        except msgspec.DecodeError:
            uri = None
        for key in list(self._keys_by_server.get(slug, ())):
            if uri is None or _is_related(self._results[key].uri, uri):
                self._forget(key)

    def clear(self, slug: str) -> None:
        """Drop everything of a server."""
        self._next_generation(slug)
        for key in list(self._keys_by_server.get(slug, ())):
            self._forget(key)

    def _next_generation(self, slug: str) -> None:
        self._generations[slug] = self._generations.get(slug, 0) + 1

    def _put(self, key: ReadCacheKey, cached: CachedResult) -> None:
        self._forget(key)
        self._results[key] = cached
        self._keys_by_server.setdefault(key[0], set()).add(key)
        self._bytes += cached.size
        while len(self._results) > KEPT_RESULTS_MAX or self._bytes > KEPT_BYTES_MAX:
            self._forget(next(iter(self._results)))

    def _forget(self, key: ReadCacheKey) -> None:
        cached = self._results.pop(key, None)
        if cached is not None:
            self._keys_by_server[key[0]].discard(key)
            self._bytes -= cached.size


def _canonical_params(params: Mapping[str, Raw]) -> bytes:
    """Params in a fixed order, without members that do not change the result."""
    request_meta = raw_json.members(params.get("_meta", _EMPTY_OBJECT))
    compared_meta = {
        name: bytes(request_meta[name]) for name in request_meta.keys() - _IGNORED_META
    }
    fields = {name: bytes(value) for name, value in params.items()}
    fields["_meta"] = raw_json.encode_object(sorted(compared_meta.items()))
    return raw_json.encode_object(sorted(fields.items()))


def _is_related(one: str, other: str) -> bool:
    """Whether two URIs are equal, or one is below the other."""
    if one == other:
        return True
    return one.startswith(other.rstrip("/") + "/") or other.startswith(one.rstrip("/") + "/")

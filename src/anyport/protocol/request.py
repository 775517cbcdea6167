"""Parsed requests: params and `_meta`, parsed once.

Everything later works on this result, so nothing can be judged by one reading and forwarded by
another.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import msgspec
from msgspec import Raw

from anyport.protocol import meta
from anyport.protocol.errors import Fault, invalid_params
from anyport.wire import jsonrpc as wire_jsonrpc
from anyport.wire import raw_json
from anyport.wire.jsonrpc import Request

PARAMETER_NAMES: Final = frozenset({"name", "uri", "arguments", "_meta"})
"""Members used for routing and policy; a spelling in another case could bypass them."""

METAS_CACHED_MAX: Final = 256
META_BYTES_CACHED_MAX: Final = 1024
"""The cache of `_meta` members takes half a megabyte at most."""

NO_MEMBERS: Final[Mapping[str, Raw]] = {}


class ParsedRequest(msgspec.Struct, frozen=True):
    """A request with the members of its params and `_meta`."""

    frame: Request
    params: bytes
    """`{}` if the client sent none."""
    param_members: Mapping[str, Raw]
    meta_members: Mapping[str, Raw]
    trace_headers: Mapping[str, str] = MappingProxyType({})
    """The trace context in the header fields of the request."""

    @property
    def progress_token(self) -> bytes | None:
        """The progress token; a token of an invalid type counts as none."""
        token = self.meta_members.get(meta.PROGRESS_TOKEN)
        if token is None or not wire_jsonrpc.is_legal_id(bytes(token)):
            return None
        return bytes(token)


class PlainCall(msgspec.Struct, frozen=True, gc=False):
    """A `tools/call` that has only the usual members, each once: a candidate for the fast path."""

    key: str | int
    """Its id, as a dictionary key."""
    id: bytes
    name: str
    arguments: Raw
    raw_meta: bytes
    """The raw `_meta`, empty if there is none. A progress token in it is replaced by 0, so that it
    is the same for every call of a client."""
    token: bytes | None

    @property
    def is_modern(self) -> bool:
        """Whether `_meta` describes the client, as modern requests do."""
        return _VERSION in self.raw_meta

    @property
    def params(self) -> bytes:
        """As the client wrote them."""
        raw_meta = self.raw_meta
        if self.token is not None:
            raw_meta = raw_meta.replace(_NO_TOKEN, _TOKEN_NAME + self.token)
        closing = b',"_meta":%b' % raw_meta if raw_meta else b""
        return b'{"name":"%b","arguments":%b%b}' % (self.name.encode(), self.arguments, closing)


class _PlainCallParams(msgspec.Struct, gc=False, rename={"raw_meta": "_meta"}):
    name: str
    arguments: Raw
    raw_meta: Raw = Raw()


class _PlainCallMessage(msgspec.Struct, gc=False):
    jsonrpc: Literal["2.0"]
    id: int | str
    method: Literal["tools/call"]
    params: _PlainCallParams


TOOLS_CALL: Final = "tools/call"
_read_call: Final = msgspec.json.Decoder(_PlainCallMessage).decode
_BARE_BYTES: Final = len('{"jsonrpc":"2.0","id":,"method":"tools/call","params":}')
_PARAMS_BYTES: Final = len('{"name":"","arguments":}')
_META_BYTES: Final = len(',"_meta":')
_METHOD_FIRST_BYTES: Final = len('{"method":"tools/call","params":')
_NAME: Final = b'{"name":'
_ARGUMENTS: Final = b'","arguments":'
ID_BYTES_MAX: Final = 200
"""Longer ids do not occur."""
_VERSION: Final = b'"%b":' % meta.PROTOCOL_VERSION.encode()
_TOKEN_NAME: Final = b'"progressToken":'
_NO_TOKEN: Final = _TOKEN_NAME + b"0"
_TOKEN_VALUE: Final = rb'(-?(?:0|[1-9][0-9]{0,17})|"[!#-\[\]-~ ]{1,200}")'
_TOKEN_FIRST: Final = re.compile(rb'\{"progressToken":' + _TOKEN_VALUE + rb"[,}]")
_TOKEN_LAST: Final = re.compile(rb',"progressToken":' + _TOKEN_VALUE + rb"\}\Z")
_TOKEN_BYTES_MAX: Final = 224


def read_plain_call(raw: bytes) -> PlainCall | None:
    """Parse a plain `tools/call`; None if it is anything else.

    Duplicates, other members, whitespace and escapes in names make a message longer than the sum of
    its parts, so its length shows that there are none.
    """
    try:
        message = _read_call(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    key, params = message.id, message.params
    name = params.name
    id = b"%d" % key if isinstance(key, int) else b'"%b"' % key.encode()
    start = _BARE_BYTES - 1 + len(id)
    size = start + _PARAMS_BYTES + len(name) + len(params.arguments) + 1
    raw_meta, token = b"", None
    if len(params.raw_meta):
        raw_meta = bytes(params.raw_meta)
        size += _META_BYTES + len(raw_meta)
        if _TOKEN_NAME in raw_meta:
            raw_meta, token = split_token(raw_meta)
            if token is None:
                return None
    if size != len(raw) or len(id) > ID_BYTES_MAX or not name:
        return None
    # SDKs write the params last, or right after a method that comes first.
    if not raw.startswith(_NAME, start):
        start = _METHOD_FIRST_BYTES
        if not raw.startswith(_NAME, start):
            return None
    if not raw.startswith(_ARGUMENTS, start + 9 + len(name)):
        return None
    if (
        not wire_jsonrpc.is_clearly_within_limits(raw)
        and wire_jsonrpc.check_limits(raw, wire_jsonrpc.INBOUND) is not None
    ):
        return None
    return PlainCall(key, id, name, params.arguments, raw_meta, token)


def split_token(raw_meta: bytes) -> tuple[bytes, bytes | None]:
    """Replace the progress token in a raw `_meta` by 0, and return it.

    Unchanged if there is none, or not where clients write it.
    """
    start = max(0, len(raw_meta) - _TOKEN_BYTES_MAX)
    found = _TOKEN_FIRST.match(raw_meta) or _TOKEN_LAST.search(raw_meta, start)
    if found is None or raw_meta.count(_TOKEN_NAME) != 1:
        return raw_meta, None
    return b"%b0%b" % (raw_meta[: found.start(1)], raw_meta[found.end(1) :]), found[1]


def read_request(frame: Request) -> ParsedRequest | Fault:
    """Parse a request, or say what is wrong with it."""
    params = frame.params or b"{}"
    if params[:1] == b"[":
        return invalid_params("Invalid params: MCP takes parameters by name, not by position")
    try:
        param_members = raw_json.unique_members(params)
    except raw_json.AmbiguousObject as error:
        return invalid_params(f"Invalid params: {error}")
    if not param_members.keys() <= PARAMETER_NAMES:
        misspelt = raw_json.find_lookalike(param_members, PARAMETER_NAMES)
        if misspelt is not None:
            return invalid_params(f"Invalid params: {misspelt!r} is a misspelt parameter")
    raw = param_members.get("_meta")
    if raw is None:
        return ParsedRequest(frame, params, param_members, NO_MEMBERS)
    try:
        meta_members = _read_meta(bytes(raw))
    except raw_json.AmbiguousObject as error:
        return invalid_params(f"Invalid params: in _meta {error}")
    except msgspec.DecodeError:
        return invalid_params("Invalid params: _meta must be an object")
    if isinstance(meta_members, Fault):
        return meta_members
    request = ParsedRequest(frame, params, param_members, meta_members)
    token = meta_members.get(meta.PROGRESS_TOKEN)
    if token is None or request.progress_token is not None or bytes(token) == b"null":
        return request
    # Passed on, it could be the number that the gateway gave to another call of that server.
    params = meta.edit_meta(params, {meta.PROGRESS_TOKEN: None})
    return read_request(msgspec.structs.replace(frame, params=params))


def _read_meta(raw: bytes) -> Mapping[str, Raw] | Fault:
    """The members of a `_meta`; clients send the same one with most requests."""
    meta_members = _META_CACHE.get(raw)
    if meta_members is None:
        meta_members = raw_json.unique_members(raw)
        if not meta_members.keys() <= meta.KNOWN_KEYS:
            misspelt = raw_json.find_lookalike(meta_members, meta.KNOWN_KEYS)
            if misspelt is not None:
                return invalid_params(f"Invalid params: {misspelt!r} is a misspelt key of _meta")
        is_cacheable = (
            meta.PROGRESS_TOKEN not in meta_members and meta.TRACEPARENT not in meta_members
        )
        if is_cacheable and len(raw) <= META_BYTES_CACHED_MAX:
            if len(_META_CACHE) >= METAS_CACHED_MAX:
                _META_CACHE.clear()
            _META_CACHE[raw] = meta_members
    return meta_members


_META_CACHE: Final[dict[bytes, Mapping[str, Raw]]] = {}

"""A request taken apart, once: its params, its `_meta`, who says it is asking.

Whatever reads a request later reads what was found here, so that nothing can be judged by one
reading and forwarded by another.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import msgspec
from msgspec import Raw

from anyport.protocol import meta
from anyport.protocol.errors import Fault, invalid_params
from anyport.wire import codec, members
from anyport.wire.frame import Request

PARAMETERS: Final = frozenset({"name", "uri", "arguments", "_meta"})
"""What routing and policy look at; a variant in another case could slip past them."""

ABOUTS_REMEMBERED_MAX: Final = 256
ABOUT_BYTES_REMEMBERED_MAX: Final = 1024
"""What is remembered of `_meta` members takes half a megabyte at most."""

NOTHING: Final[Mapping[str, Raw]] = {}


class Reading(msgspec.Struct, frozen=True):
    """What stands in a request."""

    frame: Request
    params: bytes
    """`{}` where the client sent none."""
    found: Mapping[str, Raw]
    """The members of the params."""
    about: Mapping[str, Raw]
    """The members of `_meta`."""
    carried: Mapping[str, str] = MappingProxyType({})
    """The trace that the header fields of its request name."""

    @property
    def progress_token(self) -> bytes | None:
        """The token to report progress under; one of a type that MCP does not have is none."""
        token = self.about.get(meta.PROGRESS_TOKEN)
        if token is None or not codec.legal_id(bytes(token)):
            return None
        return bytes(token)


class PlainCall(msgspec.Struct, frozen=True, gc=False):
    """A call of a tool that has nothing in it but what such a call needs, each thing once."""

    key: str | int
    """Its id, as something to look up by."""
    id: bytes
    name: str
    arguments: Raw
    about: bytes
    """The raw `_meta`, empty where there is none; a progress token in it is given as 0, so that it
    is the same for every call of a client."""
    token: bytes | None

    @property
    def is_modern(self) -> bool:
        """Whether it says everything that a call without a session has to say."""
        return _VERSION in self.about

    @property
    def params(self) -> bytes:
        """As the client wrote them."""
        about = self.about
        if self.token is not None:
            about = about.replace(_NO_TOKEN, _TOKEN_NAME + self.token)
        closing = b',"_meta":%b' % about if about else b""
        return b'{"name":"%b","arguments":%b%b}' % (self.name.encode(), self.arguments, closing)


class _Params(msgspec.Struct, gc=False, rename={"about": "_meta"}):
    name: str
    arguments: Raw
    about: Raw = Raw()


class _Call(msgspec.Struct, gc=False):
    jsonrpc: Literal["2.0"]
    id: int | str
    method: Literal["tools/call"]
    params: _Params


CALL: Final = "tools/call"
_read_call: Final = msgspec.json.Decoder(_Call).decode
_BARE_BYTES: Final = len('{"jsonrpc":"2.0","id":,"method":"tools/call","params":}')
_PARAMS_BYTES: Final = len('{"name":"","arguments":}')
_ABOUT_BYTES: Final = len(',"_meta":')
_METHOD_FIRST_BYTES: Final = len('{"method":"tools/call","params":')
_NAME: Final = b'{"name":'
_ARGUMENTS: Final = b'","arguments":'
ID_BYTES_MAX: Final = 200
"""Of an id in a plain call; nobody writes longer ones."""
_VERSION: Final = b'"%b":' % meta.PROTOCOL_VERSION.encode()
_TOKEN_NAME: Final = b'"progressToken":'
_NO_TOKEN: Final = _TOKEN_NAME + b"0"
_TOKEN_VALUE: Final = rb'(-?(?:0|[1-9][0-9]{0,17})|"[!#-\[\]-~ ]{1,200}")'
_TOKEN_FIRST: Final = re.compile(rb'\{"progressToken":' + _TOKEN_VALUE + rb"[,}]")
_TOKEN_LAST: Final = re.compile(rb',"progressToken":' + _TOKEN_VALUE + rb"\}\Z")
_TOKEN_BYTES_MAX: Final = 224


def read_plain_call(raw: bytes) -> PlainCall | None:
    """The call in a message, if it is one of the plain ones; None says nothing of any other.

    Members that stand twice, under another name, or with anything between them, and names with
    escapes in them, make a message longer than what is found in it: so its length tells that there
    are none.
    """
    try:
        found = _read_call(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    key, params = found.id, found.params
    name = params.name
    id = b"%d" % key if isinstance(key, int) else b'"%b"' % key.encode()
    start = _BARE_BYTES - 1 + len(id)
    size = start + _PARAMS_BYTES + len(name) + len(params.arguments) + 1
    about, token = b"", None
    if len(params.about):
        about = bytes(params.about)
        size += _ABOUT_BYTES + len(about)
        if _TOKEN_NAME in about:
            about, token = split_token(about)
            if token is None:
                return None
    if size != len(raw) or len(id) > ID_BYTES_MAX or not name:
        return None
    # The SDKs have the params last in the message, or behind the method that comes first.
    if not raw.startswith(_NAME, start):
        start = _METHOD_FIRST_BYTES
        if not raw.startswith(_NAME, start):
            return None
    if not raw.startswith(_ARGUMENTS, start + 9 + len(name)):
        return None
    if not codec.is_modest(raw) and codec.refuse(raw, codec.INBOUND) is not None:
        return None
    return PlainCall(key, id, name, params.arguments, about, token)


def split_token(about: bytes) -> tuple[bytes, bytes | None]:
    """A raw `_meta` with 0 as its progress token, and that token.

    Without one, or with one that stands where clients do not write it, the `_meta` as it is.
    """
    start = max(0, len(about) - _TOKEN_BYTES_MAX)
    found = _TOKEN_FIRST.match(about) or _TOKEN_LAST.search(about, start)
    if found is None or about.count(_TOKEN_NAME) != 1:
        return about, None
    return b"%b0%b" % (about[: found.start(1)], about[found.end(1) :]), found[1]


def read_request(frame: Request) -> Reading | Fault:
    """Take a request apart, or say what is wrong with it."""
    params = frame.params or b"{}"
    if params[:1] == b"[":
        return invalid_params("Invalid params: MCP takes parameters by name, not by position")
    try:
        found = members.distinct(params)
    except members.Ambiguous as error:
        return invalid_params(f"Invalid params: {error}")
    if not found.keys() <= PARAMETERS:
        misspelt = members.lookalike(found, PARAMETERS)
        if misspelt is not None:
            return invalid_params(f"Invalid params: {misspelt!r} is a misspelt parameter")
    raw = found.get("_meta")
    if raw is None:
        return Reading(frame, params, found, NOTHING)
    try:
        return Reading(frame, params, found, _read_about(bytes(raw)))
    except members.Ambiguous as error:
        return invalid_params(f"Invalid params: in _meta {error}")
    except msgspec.DecodeError:
        return invalid_params("Invalid params: _meta must be an object")


def _read_about(raw: bytes) -> Mapping[str, Raw]:
    """The members of a `_meta`; a client sends the same one with most of its requests."""
    about = _ABOUTS.get(raw)
    if about is None:
        about = members.distinct(raw)
        lasting = meta.PROGRESS_TOKEN not in about and meta.TRACEPARENT not in about
        if lasting and len(raw) <= ABOUT_BYTES_REMEMBERED_MAX:
            if len(_ABOUTS) >= ABOUTS_REMEMBERED_MAX:
                _ABOUTS.clear()
            _ABOUTS[raw] = about
    return about


_ABOUTS: Final[dict[bytes, Mapping[str, Raw]]] = {}

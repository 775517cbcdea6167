"""A request taken apart, once: its params, its `_meta`, who says it is asking.

Whatever reads a request later reads what was found here, so that nothing can be judged by one
reading and forwarded by another.
"""

import re
from collections.abc import Mapping
from typing import Final

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

    @property
    def progress_token(self) -> bytes | None:
        """The token to report progress under; one of a type that MCP does not have is none."""
        token = self.about.get(meta.PROGRESS_TOKEN)
        if token is None or not codec.legal_id(bytes(token)):
            return None
        return bytes(token)


class PlainCall(msgspec.Struct, frozen=True, gc=False):
    """A call of a tool that has nothing in it but what such a call needs, each thing once."""

    id: bytes
    params: bytes
    name: str
    about: bytes
    """The raw `_meta`; empty where there is none."""


class _Params(msgspec.Struct, gc=False, rename={"about": "_meta"}):
    name: str = ""
    arguments: Raw = Raw()
    about: Raw = Raw()


CALL: Final = "tools/call"
_ID: Final = rb'(-?(?:0|[1-9][0-9]{0,17})|"[!#-\[\]-~ ]{1,200}")'
_ID_FIRST: Final = re.compile(
    rb'\{"jsonrpc":"2\.0","id":' + _ID + rb',"method":"tools/call","params":(?=\{)'
)
"""How the Python SDK of today writes it, and most who write it by hand."""
_METHOD_FIRST: Final = b'{"method":"tools/call","params":{'
_ID_LAST: Final = re.compile(rb',"jsonrpc":"2\.0","id":' + _ID + rb"\}\Z")
"""How the TypeScript SDK and older ones of Python do."""
_TAIL_BYTES_MAX: Final = 232
_decode_params: Final = msgspec.json.Decoder(_Params).decode
_PARAMS_BYTES: Final = len('{"name":"","arguments":}')
_ABOUT_BYTES: Final = len(',"_meta":')


def read_plain_call(raw: bytes) -> PlainCall | None:
    """The call in a message, if it is one of the plain ones; None says nothing of any other.

    What stands between the envelope's known beginning and its known end is decoded as one value:
    that it is one proves that nothing else is in the message. Members of it that stand twice,
    under another name, or with anything between them, make it longer than what is found in it: so
    its length tells that there are none.
    """
    if not codec.is_modest(raw) and codec.refuse(raw, codec.INBOUND) is not None:
        return None
    envelope = _ID_FIRST.match(raw)
    if envelope is not None and raw.endswith(b"}"):
        params = raw[envelope.end() : -1]
    elif raw.startswith(_METHOD_FIRST):
        envelope = _ID_LAST.search(raw, max(0, len(raw) - _TAIL_BYTES_MAX))
        if envelope is None:
            return None
        params = raw[len(_METHOD_FIRST) - 1 : envelope.start()]
    else:
        return None
    try:
        found = _decode_params(params)
    except (msgspec.DecodeError, RecursionError):
        return None
    about = bytes(found.about)
    size = _PARAMS_BYTES + len(found.name) + len(found.arguments)
    if about:
        size += _ABOUT_BYTES + len(about)
    # Another member could be just as long as one that is missing.
    if size != len(params) or not found.name or not len(found.arguments):
        return None
    return PlainCall(envelope[1], params, found.name, about)


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
        if len(raw) <= ABOUT_BYTES_REMEMBERED_MAX and meta.PROGRESS_TOKEN not in about:
            if len(_ABOUTS) >= ABOUTS_REMEMBERED_MAX:
                _ABOUTS.clear()
            _ABOUTS[raw] = about
    return about


_ABOUTS: Final[dict[bytes, Mapping[str, Raw]]] = {}

"""JSON-RPC 2.0 frames and batches, decoded from bytes and encoded to bytes.

Messages are checked against size, depth and member limits before they are parsed. A malformed
message is a value (`BadFrame`), not an exception: peers send them all the time. The meaning of
methods, and which revision has batches, is left to `protocol`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import msgspec
from msgspec import Raw

from anyport.wire.lines import EDGE_BYTES
from anyport.wire.raw_json import AmbiguousObject, encode_string, find_lookalike, unique_members

# The four kinds of frame, with raw payloads.
#
# Ids keep their bytes, so `1`, `"1"` and 10^40 come back as they came.

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

NULL: Final = b"null"


class Request(msgspec.Struct, frozen=True, gc=False):
    """A method to run, and the id of its response."""

    id: bytes
    method: str
    params: bytes | None = None
    """The raw object or array; None if the member is absent or null."""


class Notification(msgspec.Struct, frozen=True, gc=False):
    """A method without a response."""

    method: str
    params: bytes | None = None


class Result(msgspec.Struct, frozen=True, gc=False):
    """The successful response to a request."""

    id: bytes
    result: bytes


class Failure(msgspec.Struct, frozen=True, gc=False):
    """The error response to a request; the raw error object has a code and a message."""

    id: bytes | None
    """None if the peer could not tell which request failed."""
    error: bytes


class BadFrame(msgspec.Struct, frozen=True, gc=False):
    """A message that is not a valid frame."""

    code: int
    message: str
    id: bytes | None = None
    """The id to answer with, if one could be read."""
    answerable: bool = True
    """False for malformed responses and notifications, which must not be answered."""


Frame = Request | Notification | Result | Failure


ENVELOPE_MEMBERS: Final = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
NUMBER_DIGITS_MAX: Final = 1000
"""A longer number is an attack on some parser behind the gateway; MCP has no use for it."""

_ARRAY: Final = msgspec.json.Decoder(list[Raw])
_ERROR: Final = msgspec.json.Decoder(dict[str, Raw])
_TEXT: Final = msgspec.json.Decoder(str)
_ID: Final = msgspec.json.Decoder(str | int)
_STRING: Final = re.compile(rb'"[^"]*"?')
"""A string without its escapes, or the start of an unfinished one."""
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_DIGITS: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER: Final = b"0" * (NUMBER_DIGITS_MAX + 1)
_DEPTH_CHANGES: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""A bracket as a step in depth: 1 down, or -1 (as a signed byte) up."""
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b'[]{}"'))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits of one message."""

    bytes_max: int
    depth_max: int
    nodes_max: int
    """Objects, arrays and members together: they cost a parser time without costing bytes."""


INBOUND: Final = Bounds(bytes_max=4 * 1024 * 1024, depth_max=128, nodes_max=200_000)
"""From clients. 4 MiB is the limit of the official SDK; no known payload nests 128 deep."""

SHALLOW_BYTES: Final = 2 * INBOUND.depth_max
"""A shorter message cannot nest too deep."""
OUTBOUND: Final = Bounds(bytes_max=16 * 1024 * 1024, depth_max=128, nodes_max=2_000_000)
"""From servers, whose answers are larger. The size is configurable per server."""


class _Envelope(msgspec.Struct, gc=False):
    """The members of a frame. Duplicates and whitespace do not show here."""

    jsonrpc: str = ""
    id: Raw = Raw()
    method: str = ""
    params: Raw = Raw()
    result: Raw = Raw()
    error: Raw = Raw()


_decode_envelope: Final = msgspec.json.Decoder(_Envelope).decode
_REQUEST_BYTES: Final = len('{"jsonrpc":"2.0","id":,"method":"","params":}')
_RESULT_BYTES: Final = len('{"jsonrpc":"2.0","id":,"result":}')


def decode(raw: bytes, bounds: Bounds = INBOUND) -> Frame | BadFrame:
    """Decode a message that is not a batch.

    Nearly every message is exactly as long as its members in compact form. Then nothing is in it
    twice or under another name, and one parse is enough.
    """
    if not is_clearly_within_limits(raw):
        refusal = check_limits(raw, bounds)
        if refusal is not None:
            return refusal
    try:
        envelope = _decode_envelope(raw)
    except (msgspec.DecodeError, RecursionError):
        return decode_checked(raw)
    id = bytes(envelope.id)
    if envelope.jsonrpc != "2.0" or not is_legal_id(id):
        return decode_checked(raw)
    if envelope.method:
        params = bytes(envelope.params)
        size = _REQUEST_BYTES + len(id) + len(envelope.method) + len(params)
        if size == len(raw) and params[:1] == b"{":
            return Request(id, envelope.method, params)
    else:
        result = bytes(envelope.result)
        if _RESULT_BYTES + len(id) + len(result) == len(raw) and result:
            return Result(id, result)
    return decode_checked(raw)


def is_clearly_within_limits(raw: bytes) -> bool:
    """Whether a message is too small to exceed any limit. Cheap; False means "not known"."""
    return (
        len(raw) <= NUMBER_DIGITS_MAX
        and raw.isascii()
        # Every bracket that opens must close, so the depth is at most half of the size.
        and (len(raw) <= SHALLOW_BYTES or raw.count(b"{") + raw.count(b"[") <= INBOUND.depth_max)
    )


def split_batch(raw: bytes, batch_max: int, bounds: Bounds = INBOUND) -> list[bytes] | BadFrame:
    """Split a JSON array into messages for `decode_checked`, or say why it is not a batch."""
    refusal = check_limits(raw, bounds)
    if refusal is not None:
        return refusal
    try:
        items = _ARRAY.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return BadFrame(PARSE_ERROR, "Parse error: the batch is not valid JSON")
    if not items:
        return BadFrame(INVALID_REQUEST, "Invalid Request: a batch must not be empty")
    if len(items) > batch_max:
        message = f"Invalid Request: a batch holds at most {batch_max} messages, not {len(items)}"
        return BadFrame(INVALID_REQUEST, message)
    return [bytes(item) for item in items]


def is_batch(raw: bytes) -> bool:
    return raw.lstrip(b" \t\r\n")[:1] == b"["


def check_limits(raw: bytes, bounds: Bounds) -> BadFrame | None:
    """The reason to reject a message before it is parsed, or None."""
    if len(raw) > bounds.bytes_max:
        return too_large_error(len(raw), bounds.bytes_max)
    try:
        raw.isascii() or raw.decode()
    except UnicodeDecodeError as error:
        return BadFrame(PARSE_ERROR, f"Parse error: invalid UTF-8 at byte {error.start}")
    opening_brackets = _count_up_to(raw, b"[", bounds.depth_max) + _count_up_to(
        raw, b"{", bounds.depth_max
    )
    if len(raw) > bounds.nodes_max and (
        raw.count(b",") + raw.count(b"[") + raw.count(b"{") > bounds.nodes_max
        and _count_nodes(raw) > bounds.nodes_max
    ):
        message = f"Invalid Request: more than {bounds.nodes_max} values in one message"
        return BadFrame(INVALID_REQUEST, message, id=id_at_edge(raw))
    if opening_brackets > bounds.depth_max and nesting_depth(raw) > bounds.depth_max:
        message = f"Invalid Request: nested deeper than {bounds.depth_max} levels"
        return BadFrame(INVALID_REQUEST, message, id=id_at_edge(raw))
    if len(raw) > NUMBER_DIGITS_MAX and _has_long_number(raw):
        message = f"Invalid Request: a number of more than {NUMBER_DIGITS_MAX} digits"
        return BadFrame(INVALID_REQUEST, message, id=id_at_edge(raw))
    return None


def decode_checked(raw: bytes) -> Frame | BadFrame:
    """Decode a message that `check_limits` accepted."""
    try:
        envelope = unique_members(raw)
    except AmbiguousObject as error:
        return BadFrame(INVALID_REQUEST, f"Invalid Request: {error}", id=id_at_edge(raw))
    except msgspec.ValidationError:
        return BadFrame(INVALID_REQUEST, "Invalid Request: a message is a JSON object")
    except (msgspec.DecodeError, RecursionError):
        # Half of a surrogate pair, which JavaScript writes for a cut emoji, is JSON by its grammar:
        # the id is known then. Of a message that is not JSON nothing is known.
        id = id_at_edge(raw) if _SURROGATE.search(raw) else None
        return BadFrame(PARSE_ERROR, "Parse error: not valid JSON", id=id)
    if not envelope.keys() <= ENVELOPE_MEMBERS:
        name = find_lookalike(envelope, ENVELOPE_MEMBERS)
        if name is not None:
            message = f"Invalid Request: the member {name!r} is a misspelt envelope member"
            answerable = "result" not in envelope and "error" not in envelope
            return BadFrame(
                INVALID_REQUEST, message, id=_readable_id(envelope), answerable=answerable
            )
    if "method" in envelope and "result" not in envelope and "error" not in envelope:
        return _decode_call(envelope)
    return _decode_response(envelope)


def nesting_depth(raw: bytes) -> int:
    """Nesting depth of brackets. Linear time for any bytes: they come from strangers."""
    marks = _strip_escapes(raw).translate(None, _NO_BRACKETS).replace(b'""', b"")
    brackets = _STRING.sub(b"", marks)
    return max(accumulate(memoryview(brackets.translate(_DEPTH_CHANGES)).cast("b")), default=0)


def encode_request(id: bytes, method: str, params: bytes | None) -> bytes:
    if params is None:
        return b'{"jsonrpc":"2.0","id":%b,"method":%b}' % (id, encode_string(method))
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (
        id,
        encode_string(method),
        params,
    )


def encode_notification(method: str, params: bytes | None) -> bytes:
    if params is None:
        return b'{"jsonrpc":"2.0","method":%b}' % encode_string(method)
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (encode_string(method), params)


def encode_result(id: bytes, payload: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (id, payload)


def encode_failure(id: bytes | None, error: bytes, *, null_id: bool = True) -> bytes:
    """Encode an error response.

    An id that could not be read is `null` (JSON-RPC 2.0, 5) or left out (newer MCP revisions).
    """
    if id is None and not null_id:
        return b'{"jsonrpc":"2.0","error":%b}' % error
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id or NULL, error)


def encode_error(code: int, message: str, data: bytes | None = None) -> bytes:
    if data is None:
        return b'{"code":%d,"message":%b}' % (code, encode_string(message))
    return b'{"code":%d,"message":%b,"data":%b}' % (code, encode_string(message), data)


def too_large_error(size: int, bytes_max: int, id: bytes | None = None) -> BadFrame:
    """The error for a message over the size limit."""
    message = f"Invalid Request: the message has {size} bytes, the limit is {bytes_max}"
    return BadFrame(INVALID_REQUEST, message, id=id)


def is_legal_id(raw: bytes) -> bool:
    """Whether a JSON value is an id that MCP allows: a string or an integer, never null."""
    return raw.isdigit() or raw[:1] == b'"' or raw.removeprefix(b"-").isdigit()


def id_value(raw: bytes) -> str | int:
    """An id as a dictionary key: `1` and `"1"` differ, `"a"` and `"\\u0061"` do not."""
    return int(raw) if raw.isdigit() and len(raw) < 20 else _ID.decode(raw)


def parse_own_id(raw: bytes | None) -> int:
    """An id that the gateway may have assigned, as a number; -1 for any other."""
    return int(raw) if raw is not None and raw.isdigit() and len(raw) < 20 else -1


_HEAD_ID: Final = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*'
    rb'(-?[0-9]{1,1000}|"(?:[^"\\]|\\.){0,1000}")\s*,'
)
_TAIL_ID: Final = re.compile(
    rb',\s*"id"\s*:\s*(-?[0-9]{1,1000}|"(?:[^"\\]|\\.){0,1000}")\s*\}\s*\Z'
)


def id_at_edge(raw: bytes) -> bytes | None:
    """The id of a message that will not be parsed, if it comes first or last."""
    found = _HEAD_ID.match(raw[:EDGE_BYTES]) or _TAIL_ID.search(raw[-EDGE_BYTES:])
    if found is None:
        return None
    try:
        _ID.decode(found[1])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # Echoed, it would break our own answer.
    return found[1]


def _count_up_to(raw: bytes, mark: bytes, enough: int) -> int:
    """Count a byte, but stop once the limit is exceeded. Faster than `count` on most messages."""
    count, at = 0, raw.find(mark)
    while at >= 0 and count <= enough:
        count += 1
        at = raw.find(mark, at + 1)
    return count


def _count_nodes(raw: bytes) -> int:
    # Commas inside strings, such as a table in a text argument, do not count.
    bare = _STRING.sub(b"", _strip_escapes(raw))
    return bare.count(b"[") + bare.count(b"{") + bare.count(b",")


def _has_long_number(raw: bytes) -> bool:
    # A number of that length has a digit at some multiple of it. So most messages are cleared
    # without reading every byte.
    sample = raw[NUMBER_DIGITS_MAX::NUMBER_DIGITS_MAX]
    places = (at * NUMBER_DIGITS_MAX for at, byte in enumerate(sample, 1) if 48 <= byte <= 57)
    if not any(_digit_run_length(raw, at) > NUMBER_DIGITS_MAX for at in places):
        return False
    return _LONG_NUMBER in _STRING.sub(b"", _strip_escapes(raw)).translate(_DIGITS)


def _digit_run_length(raw: bytes, at: int) -> int:
    """Length of the run of digits around a position."""
    before = raw[at - NUMBER_DIGITS_MAX : at]
    after = raw[at : at + NUMBER_DIGITS_MAX + 1]
    left = len(before) - len(before.rstrip(b"0123456789"))
    return left + len(after) - len(after.lstrip(b"0123456789"))


def _strip_escapes(raw: bytes) -> bytes:
    """The bytes without escapes that could hide the end of a string."""
    return raw.replace(rb"\\", b"").replace(rb"\"", b"")


def _decode_call(envelope: Mapping[str, Raw]) -> Frame | BadFrame:
    id = _readable_id(envelope)
    method = _raw_member(envelope, "method")
    if id is None and "id" not in envelope and method[:1] == b'"':
        return _decode_notification(envelope)
    if _raw_member(envelope, "jsonrpc") != b'"2.0"':
        return BadFrame(INVALID_REQUEST, 'Invalid Request: "jsonrpc" must be "2.0"', id=id)
    if method[:1] != b'"':
        return BadFrame(INVALID_REQUEST, 'Invalid Request: "method" must be a string', id=id)
    if id is None:
        message = 'Invalid Request: "id" must be a string or an integer'
        return BadFrame(INVALID_REQUEST, message)
    params = _raw_member(envelope, "params")
    if params[:1] not in (b"{", b"[") and params not in (b"", NULL):
        message = 'Invalid Request: "params" must be an object or an array'
        return BadFrame(INVALID_REQUEST, message, id=id)
    return Request(id, _TEXT.decode(method), _structured_params(params))


def _decode_notification(envelope: Mapping[str, Raw]) -> Frame | BadFrame:
    params = _raw_member(envelope, "params")
    is_valid = _raw_member(envelope, "jsonrpc") == b'"2.0"' and params[:1] in (
        b"",
        b"{",
        b"[",
        b"n",
    )
    if not is_valid:
        # JSON-RPC 2.0, 4.1: a notification is never answered, not even a malformed one.
        return BadFrame(INVALID_REQUEST, "Invalid notification", answerable=False)
    return Notification(_TEXT.decode(_raw_member(envelope, "method")), _structured_params(params))


def _decode_response(envelope: Mapping[str, Raw]) -> Frame | BadFrame:
    id = _readable_id(envelope)
    result, failure = _raw_member(envelope, "result"), _raw_member(envelope, "error")
    if not result and not failure:
        message = 'Invalid Request: neither "method" nor "result" nor "error"'
        return BadFrame(INVALID_REQUEST, message, id=id)
    # Some libraries write `null` for the absent one of `result` and `error`.
    if result and failure in (b"", NULL):
        if id is None:
            return BadFrame(INVALID_REQUEST, "a result without an id", answerable=False)
        return Result(id, result)
    if result not in (b"", NULL):
        message = 'a response has either "result" or "error", not both'
        return BadFrame(INVALID_REQUEST, message, answerable=False)
    if not _is_valid_error(failure):
        failure = encode_error(INTERNAL_ERROR, "The server answered with a malformed error")
    return Failure(id, failure)


def _is_valid_error(raw: bytes) -> bool:
    if raw[:1] != b"{":
        return False
    error_members = _ERROR.decode(raw)
    code, message = _raw_member(error_members, "code"), _raw_member(error_members, "message")
    return code.removeprefix(b"-").isdigit() and message[:1] == b'"'


def _readable_id(envelope: Mapping[str, Raw]) -> bytes | None:
    id = _raw_member(envelope, "id")
    return id if is_legal_id(id) else None


def _raw_member(envelope: Mapping[str, Raw], name: str) -> bytes:
    value = envelope.get(name)
    return b"" if value is None else bytes(value)


def _structured_params(params: bytes) -> bytes | None:
    return params if params[:1] in (b"{", b"[") else None

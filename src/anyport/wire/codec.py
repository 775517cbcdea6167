"""One JSON-RPC message, or a batch of them, to and from bytes.

JSON-RPC 2.0 to the letter, with the limits a gateway needs in front of it. Refusals are values
(`BadFrame`), never exceptions: a peer's broken message is an ordinary thing to receive. What the
methods mean, and which revision has batches, is not known here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import msgspec
from msgspec import Raw

from anyport.wire.frame import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    NULL,
    PARSE_ERROR,
    BadFrame,
    Failure,
    Frame,
    Notification,
    Request,
    Result,
)
from anyport.wire.framing import EDGE_BYTES
from anyport.wire.members import Ambiguous, distinct, lookalike, text

ENVELOPE: Final = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
NUMBER_DIGITS_MAX: Final = 1000
"""A longer literal is an attack on some parser behind us; none has a meaning in MCP."""

_ARRAY: Final = msgspec.json.Decoder(list[Raw])
_ERROR: Final = msgspec.json.Decoder(dict[str, Raw])
_TEXT: Final = msgspec.json.Decoder(str)
_ID: Final = msgspec.json.Decoder(str | int)
_STRING: Final = re.compile(rb'"[^"]*"?')
"""A string once its escapes are gone, or what an unfinished one has of it."""
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_DIGITS: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER: Final = b"0" * (NUMBER_DIGITS_MAX + 1)
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""A bracket as the step it takes: one down, or, as a signed byte, one up."""
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b'[]{}"'))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much one message may hold."""

    bytes_max: int
    depth_max: int
    nodes_max: int
    """Objects, arrays and members together: what costs a parser time without costing bytes."""


INBOUND: Final = Bounds(bytes_max=4 * 1024 * 1024, depth_max=128, nodes_max=200_000)
"""From clients. 4 MiB is what the official SDK takes; 128 is deeper than any known payload."""

SHALLOW_BYTES: Final = 2 * INBOUND.depth_max
"""Fewer cannot be too deep."""
OUTBOUND: Final = Bounds(bytes_max=16 * 1024 * 1024, depth_max=128, nodes_max=2_000_000)
"""From servers, whose answers are larger; the size can be raised for a server."""


class _Envelope(msgspec.Struct, gc=False):
    """The members a frame may have. What stands between them, or twice, does not show here."""

    jsonrpc: str = ""
    id: Raw = Raw()
    method: str = ""
    params: Raw = Raw()
    result: Raw = Raw()
    error: Raw = Raw()


_envelope: Final = msgspec.json.Decoder(_Envelope).decode
_REQUEST_BYTES: Final = len('{"jsonrpc":"2.0","id":,"method":"","params":}')
_RESULT_BYTES: Final = len('{"jsonrpc":"2.0","id":,"result":}')


def decode(raw: bytes, bounds: Bounds = INBOUND) -> Frame | BadFrame:
    """The frame in one message that is not a batch.

    Nearly every message is exactly what its members need and not a byte more: then nothing can
    stand in it twice or under another name, and one look at it is enough.
    """
    if not is_modest(raw):
        refusal = refuse(raw, bounds)
        if refusal is not None:
            return refusal
    try:
        found = _envelope(raw)
    except (msgspec.DecodeError, RecursionError):
        return decode_checked(raw)
    id = bytes(found.id)
    if found.jsonrpc != "2.0" or not legal_id(id):
        return decode_checked(raw)
    if found.method:
        params = bytes(found.params)
        size = _REQUEST_BYTES + len(id) + len(found.method) + len(params)
        if size == len(raw) and params[:1] == b"{":
            return Request(id, found.method, params)
    else:
        result = bytes(found.result)
        if _RESULT_BYTES + len(id) + len(result) == len(raw) and result:
            return Result(id, result)
    return decode_checked(raw)


def is_modest(raw: bytes) -> bool:
    """Whether a message is so small that it cannot be over any of the bounds. Costs next to
    nothing; False says nothing."""
    return (
        len(raw) <= NUMBER_DIGITS_MAX
        and raw.isascii()
        # What is opened must be closed, too: half of the bytes is as deep as it can be.
        and (len(raw) <= SHALLOW_BYTES or raw.count(b"{") + raw.count(b"[") <= INBOUND.depth_max)
    )


def decode_batch(
    raw: bytes, batch_max: int, bounds: Bounds = INBOUND
) -> list[Frame | BadFrame] | BadFrame:
    """The frames of a JSON array. One that is no batch as a whole is a single `BadFrame`."""
    refusal = refuse(raw, bounds)
    if refusal is not None:
        return refusal
    try:
        items = _ARRAY.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return BadFrame(PARSE_ERROR, "Parse error: the batch is not valid JSON")
    if not items:
        return BadFrame(INVALID_REQUEST, "Invalid Request: a batch must not be empty")
    if len(items) > batch_max:
        words = f"Invalid Request: a batch holds at most {batch_max} messages, not {len(items)}"
        return BadFrame(INVALID_REQUEST, words)
    return [decode_checked(bytes(item)) for item in items]


def is_batch(raw: bytes) -> bool:
    """Whether the message is a JSON array."""
    return raw.lstrip(b" \t\r\n")[:1] == b"["


def refuse(raw: bytes, bounds: Bounds) -> BadFrame | None:
    """Why these bytes are not worth parsing, or None. Costs no parse."""
    if len(raw) > bounds.bytes_max:
        return too_large(len(raw), bounds.bytes_max)
    try:
        raw.isascii() or raw.decode()
    except UnicodeDecodeError as error:
        return BadFrame(PARSE_ERROR, f"Parse error: invalid UTF-8 at byte {error.start}")
    opened = _count(raw, b"[", bounds.depth_max) + _count(raw, b"{", bounds.depth_max)
    if len(raw) > bounds.nodes_max and (
        raw.count(b",") + raw.count(b"[") + raw.count(b"{") > bounds.nodes_max
        and _nodes(raw) > bounds.nodes_max
    ):
        words = f"Invalid Request: more than {bounds.nodes_max} values in one message"
        return BadFrame(INVALID_REQUEST, words, id=id_at_edge(raw))
    if opened > bounds.depth_max and depth(raw) > bounds.depth_max:
        words = f"Invalid Request: nested deeper than {bounds.depth_max} levels"
        return BadFrame(INVALID_REQUEST, words, id=id_at_edge(raw))
    if len(raw) > NUMBER_DIGITS_MAX and _has_long_number(raw):
        words = f"Invalid Request: a number of more than {NUMBER_DIGITS_MAX} digits"
        return BadFrame(INVALID_REQUEST, words, id=id_at_edge(raw))
    return None


def decode_checked(raw: bytes) -> Frame | BadFrame:
    """The frame in bytes that `refuse` let pass."""
    try:
        found = distinct(raw)
    except Ambiguous as error:
        return BadFrame(INVALID_REQUEST, f"Invalid Request: {error}", id=id_at_edge(raw))
    except msgspec.ValidationError:
        return BadFrame(INVALID_REQUEST, "Invalid Request: a message is a JSON object")
    except (msgspec.DecodeError, RecursionError):
        # Half a surrogate pair, as JavaScript writes for a cut emoji, is JSON by its grammar:
        # there the id is known. Nothing can be known of what is no JSON at all.
        id = id_at_edge(raw) if _SURROGATE.search(raw) else None
        return BadFrame(PARSE_ERROR, "Parse error: not valid JSON", id=id)
    if not found.keys() <= ENVELOPE:
        name = lookalike(found, ENVELOPE)
        if name is not None:
            words = f"Invalid Request: the member {name!r} is a misspelt envelope member"
            answerable = "result" not in found and "error" not in found
            return BadFrame(INVALID_REQUEST, words, id=_readable_id(found), answerable=answerable)
    if "method" in found and "result" not in found and "error" not in found:
        return _call(found)
    return _response(found)


def depth(raw: bytes) -> int:
    """How deep brackets nest. Linear in C whatever the bytes are: they come from strangers."""
    marks = _unescaped(raw).translate(None, _NO_BRACKETS).replace(b'""', b"")
    brackets = _STRING.sub(b"", marks)
    return max(accumulate(memoryview(brackets.translate(_STEPS)).cast("b")), default=0)


def request(id: bytes, method: str, params: bytes | None) -> bytes:
    """A request's bytes."""
    if params is None:
        return b'{"jsonrpc":"2.0","id":%b,"method":%b}' % (id, text(method))
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (id, text(method), params)


def notification(method: str, params: bytes | None) -> bytes:
    """A notification's bytes."""
    if params is None:
        return b'{"jsonrpc":"2.0","method":%b}' % text(method)
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (text(method), params)


def result(id: bytes, payload: bytes) -> bytes:
    """A result's bytes."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (id, payload)


def failure(id: bytes | None, error: bytes, *, null_id: bool = True) -> bytes:
    """A failure's bytes.

    An id that could not be read is `null`, as JSON-RPC 5 has it, or absent, as newer revisions
    of MCP have it.
    """
    if id is None and not null_id:
        return b'{"jsonrpc":"2.0","error":%b}' % error
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id or NULL, error)


def error(code: int, message: str, data: bytes | None = None) -> bytes:
    """A raw error object."""
    if data is None:
        return b'{"code":%d,"message":%b}' % (code, text(message))
    return b'{"code":%d,"message":%b,"data":%b}' % (code, text(message), data)


def too_large(size: int, bytes_max: int, id: bytes | None = None) -> BadFrame:
    """The refusal of a message over the size limit."""
    words = f"Invalid Request: the message has {size} bytes, the limit is {bytes_max}"
    return BadFrame(INVALID_REQUEST, words, id=id)


def legal_id(raw: bytes) -> bool:
    """Whether this JSON value is an id MCP allows: a string or an integer, never null."""
    return raw.isdigit() or raw[:1] == b'"' or raw.removeprefix(b"-").isdigit()


def id_value(raw: bytes) -> str | int:
    """An id as something to look up by: `1` and `"1"` differ, `"a"` and `"\\u0061"` do not."""
    return int(raw) if raw.isdigit() and len(raw) < 20 else _ID.decode(raw)


def own_number(raw: bytes | None) -> int:
    """An id that we may have counted ourselves; a number below any of ours for all others."""
    return int(raw) if raw is not None and raw.isdigit() and len(raw) < 20 else -1


_HEAD_ID: Final = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*'
    rb'(-?[0-9]{1,1000}|"(?:[^"\\]|\\.){0,1000}")\s*,'
)
_TAIL_ID: Final = re.compile(
    rb',\s*"id"\s*:\s*(-?[0-9]{1,1000}|"(?:[^"\\]|\\.){0,1000}")\s*\}\s*\Z'
)


def id_at_edge(raw: bytes) -> bytes | None:
    """The id of a message that will not be parsed, if it stands first or last in it."""
    found = _HEAD_ID.match(raw[:EDGE_BYTES]) or _TAIL_ID.search(raw[-EDGE_BYTES:])
    if found is None:
        return None
    try:
        _ID.decode(found[1])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # Echoed, it would break our own answer.
    return found[1]


def _count(raw: bytes, mark: bytes, enough: int) -> int:
    """How often a mark stands there, as far as it matters. Finding is faster than counting."""
    count, at = 0, raw.find(mark)
    while at >= 0 and count <= enough:
        count += 1
        at = raw.find(mark, at + 1)
    return count


def _nodes(raw: bytes) -> int:
    # A table in a text argument has commas too; they cost nobody anything.
    bare = _STRING.sub(b"", _unescaped(raw))
    return bare.count(b"[") + bare.count(b"{") + bare.count(b",")


def _has_long_number(raw: bytes) -> bool:
    # A number that long has a digit at every place that is a multiple of its length: most
    # messages are seen to have none without being read as a whole.
    sample = raw[NUMBER_DIGITS_MAX::NUMBER_DIGITS_MAX]
    places = (at * NUMBER_DIGITS_MAX for at, byte in enumerate(sample, 1) if 48 <= byte <= 57)
    if not any(_run(raw, at) > NUMBER_DIGITS_MAX for at in places):
        return False
    return _LONG_NUMBER in _STRING.sub(b"", _unescaped(raw)).translate(_DIGITS)


def _run(raw: bytes, at: int) -> int:
    """How many digits stand together at a place."""
    before = raw[at - NUMBER_DIGITS_MAX : at]
    after = raw[at : at + NUMBER_DIGITS_MAX + 1]
    left = len(before) - len(before.rstrip(b"0123456789"))
    return left + len(after) - len(after.lstrip(b"0123456789"))


def _unescaped(raw: bytes) -> bytes:
    """The bytes without what could hide the end of a string."""
    return raw.replace(rb"\\", b"").replace(rb"\"", b"")


def _call(found: Mapping[str, Raw]) -> Frame | BadFrame:
    id = _readable_id(found)
    method = _raw(found, "method")
    if id is None and "id" not in found and method[:1] == b'"':
        return _notification(found)
    if _raw(found, "jsonrpc") != b'"2.0"':
        return BadFrame(INVALID_REQUEST, 'Invalid Request: "jsonrpc" must be "2.0"', id=id)
    if method[:1] != b'"':
        return BadFrame(INVALID_REQUEST, 'Invalid Request: "method" must be a string', id=id)
    if id is None:
        words = 'Invalid Request: "id" must be a string or an integer'
        return BadFrame(INVALID_REQUEST, words)
    params = _raw(found, "params")
    if params[:1] not in (b"{", b"[") and params not in (b"", NULL):
        words = 'Invalid Request: "params" must be an object or an array'
        return BadFrame(INVALID_REQUEST, words, id=id)
    return Request(id, _TEXT.decode(method), _structured(params))


def _notification(found: Mapping[str, Raw]) -> Frame | BadFrame:
    params = _raw(found, "params")
    sound = _raw(found, "jsonrpc") == b'"2.0"' and params[:1] in (b"", b"{", b"[", b"n")
    if not sound:
        # JSON-RPC 4.1: a notification is not answered, not even to say what is wrong with it.
        return BadFrame(INVALID_REQUEST, "Invalid notification", answerable=False)
    return Notification(_TEXT.decode(_raw(found, "method")), _structured(params))


def _response(found: Mapping[str, Raw]) -> Frame | BadFrame:
    id = _readable_id(found)
    result, failure = _raw(found, "result"), _raw(found, "error")
    if not result and not failure:
        words = 'Invalid Request: neither "method" nor "result" nor "error"'
        return BadFrame(INVALID_REQUEST, words, id=id)
    # A null beside the other is how some libraries write "absent".
    if result and failure in (b"", NULL):
        if id is None:
            return BadFrame(INVALID_REQUEST, "a result without an id", answerable=False)
        return Result(id, result)
    if result not in (b"", NULL):
        words = 'a response has either "result" or "error", not both'
        return BadFrame(INVALID_REQUEST, words, answerable=False)
    if not _sound_error(failure):
        failure = error(INTERNAL_ERROR, "The server answered with a malformed error")
    return Failure(id, failure)


def _sound_error(raw: bytes) -> bool:
    if raw[:1] != b"{":
        return False
    found = _ERROR.decode(raw)
    code, message = _raw(found, "code"), _raw(found, "message")
    return code.removeprefix(b"-").isdigit() and message[:1] == b'"'


def _readable_id(found: Mapping[str, Raw]) -> bytes | None:
    id = _raw(found, "id")
    return id if legal_id(id) else None


def _raw(found: Mapping[str, Raw], name: str) -> bytes:
    value = found.get(name)
    return b"" if value is None else bytes(value)


def _structured(params: bytes) -> bytes | None:
    return params if params[:1] in (b"{", b"[") else None

"""Results and other messages of servers: shape, lookalike members, content kinds.

Some SDK parsers (Go, .NET) ignore case: their clients would read `IsError` as `isError`, which the
gateway has not judged. So variants of members that the gateway reads or writes are removed, and
nothing else.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw

from anyport.protocol import meta
from anyport.protocol.meta import PROGRESS
from anyport.protocol.revisions import Revision
from anyport.wire import jsonrpc, raw_json
from anyport.wire.jsonrpc import Failure, Frame, Notification, Request, Result

# Whether a payload may hold content that a revision does not have. A quick check: it may say yes
# too often, but never no by mistake.

LONG_RESULT_BYTES: Final = 4096
"""From this size on, the quick check for a single text pays."""
BRACES_CHECKED_MAX: Final = 64
"""Braces checked one by one; a text with more is searched like any other."""

_ONE_TEXT: Final = re.compile(rb'\{(?:"resultType":"complete",)?"content":\[(?=\{"type":"text",)')
_BEFORE_OBJECTS: Final = b",:[ \t\r\n"


def may_hold_unknown_content(result: bytes, revision: Revision) -> bool:
    """Whether a result may hold a kind of content that the revision does not have."""
    if len(result) >= LONG_RESULT_BYTES and _is_one_text(result):
        return False
    return revision.other_content.search(result) is not None


def _is_one_text(result: bytes) -> bool:
    """Whether a long result is a single text in the usual form and holds no other object.

    An object is preceded by a bracket, comma, colon or whitespace. Looking for single bytes is many
    times faster than a search by pattern.
    """
    head = _ONE_TEXT.match(result)
    at = -1 if head is None else head.end()
    for _ in range(BRACES_CHECKED_MAX if head is not None else 0):
        at = result.find(b"{", at + 1)
        if at < 0:
            return True
        if result[at - 1] in _BEFORE_OBJECTS:
            return False
    return False


# The members of a result that the gateway reads, in one pass; the rest stays raw.

ABSENT: Final = Raw()
"""The value of a member that the result does not have; always the same object."""


_NAMES: Final = {
    "result_type": "resultType",
    "is_error": "isError",
    "raw_meta": "_meta",
    "structured": "structuredContent",
    "ttl": "ttlMs",
    "scope": "cacheScope",
}
_READ_NAMES: Final = frozenset(_NAMES.values()) | {
    "content",
    "contents",
    "messages",
    "inputRequests",
    "requestState",
    "skill",
    "task",
    "taskId",
    "status",
    "statusMessage",
    "createdAt",
    "lastUpdatedAt",
    "ttl",
    "pollInterval",
    "pollIntervalMs",
    "result",
    "error",
    "nextCursor",
    "tools",
    "prompts",
    "resources",
    "resourceTemplates",
    "skills",
}
"""Members of results, of any method, that the gateway reads or writes."""


class ResultShape(msgspec.Struct, gc=False, rename=_NAMES):
    """Raw members of a result; `ABSENT` if there is none."""

    result_type: Raw = ABSENT
    is_error: Raw = ABSENT
    raw_meta: Raw = ABSENT
    structured: Raw = ABSENT
    ttl: Raw = ABSENT
    scope: Raw = ABSENT

    @property
    def is_tool_error(self) -> bool:
        return self.is_error is not ABSENT and bytes(self.is_error) == b"true"


GATEWAY_SHAPE: Final = ResultShape()
"""The shape of results that the gateway has made: there is nothing to look for in them."""

COMPLETE_SHAPE: Final = ResultShape()
"""The shape of results that the gateway has made complete for their readers."""


class _PlainResultShape(ResultShape, gc=False, rename=_NAMES, forbid_unknown_fields=True):
    """A result that has only the usual members."""

    content: Raw = ABSENT
    contents: Raw = ABSENT
    messages: Raw = ABSENT
    description: Raw = ABSENT


_SHAPE_DECODER: Final = msgspec.json.Decoder(ResultShape)
_PLAIN_DECODER: Final = msgspec.json.Decoder(_PlainResultShape)
read_shape: Final = _SHAPE_DECODER.decode
"""Parse the shape of a raw result.

Raises:
    msgspec.DecodeError: not an object.
"""


RESULT_MEMBERS_MAX: Final = 16_384
"""Members of a result: some methods that the gateway does not know answer with a map of many."""


def clean_result(result: bytes) -> tuple[bytes, ResultShape]:
    """Remove lookalikes of known members from a server's result; returns it with its shape.

    Raises:
        msgspec.DecodeError: not an object.
        AmbiguousObject: too many members.
    """
    try:
        shape: ResultShape = _PLAIN_DECODER.decode(result)
    except msgspec.ValidationError:
        result = raw_json.remove_lookalikes(result, _READ_NAMES, RESULT_MEMBERS_MAX)
        shape = _SHAPE_DECODER.decode(result)
    if shape.raw_meta is ABSENT:
        return result, shape
    cleaned = meta.remove_lookalike_keys(result, bytes(shape.raw_meta))
    return (result, shape) if cleaned is result else (cleaned, _SHAPE_DECODER.decode(cleaned))


class ShapedResult(Result, frozen=True, gc=False):
    """A result with its parsed shape."""

    shape: ResultShape


_ID_FIRST: Final = re.compile(rb'\{"jsonrpc":"2\.0","id":([1-9][0-9]{0,17}),"result":(?=\{)')
_RESULT_FIRST: Final = b'{"result":{'
_ID_LAST: Final = re.compile(rb',"jsonrpc":"2\.0","id":([1-9][0-9]{0,17})\}\Z')
_TAIL_BYTES_MAX: Final = 48


def read_result(raw: bytes, bounds: jsonrpc.Bounds) -> ShapedResult | None:
    """Parse a result message in the form that SDKs write; None if it is anything else.

    The bytes between the known beginning and end of the envelope are decoded as one object, which
    proves that the message holds nothing else.

    Raises:
        AmbiguousObject: too many members in the result.
    """
    if not jsonrpc.is_clearly_within_limits(raw) and jsonrpc.check_limits(raw, bounds) is not None:
        return None
    envelope = _ID_FIRST.match(raw)
    if envelope is not None:
        result = raw[envelope.end() : -1]
    elif raw.startswith(_RESULT_FIRST):
        envelope = _ID_LAST.search(raw, max(0, len(raw) - _TAIL_BYTES_MAX))
        if envelope is None:
            return None
        result = raw[len(_RESULT_FIRST) - 1 : envelope.start()]
    else:
        return None
    if not raw.endswith(b"}") or not result.endswith(b"}"):
        return None  # Nothing may follow it, not even whitespace.
    try:
        return ShapedResult(envelope[1], *clean_result(result))
    except (msgspec.DecodeError, RecursionError):
        return None


_META_NAME: Final = frozenset({"_meta"})
_PARAM_NAMES: Final[Mapping[str, frozenset[str]]] = {
    PROGRESS: _META_NAME | {meta.PROGRESS_TOKEN},
    "notifications/message": _META_NAME | {"level", "logger"},
    "notifications/resources/updated": _META_NAME | {"uri"},
    "notifications/elicitation/complete": _META_NAME | {"elicitationId"},
    "sampling/createMessage": _META_NAME | {"messages", "tools", "toolChoice", "task"},
    "elicitation/create": _META_NAME
    | {"mode", "message", "url", "elicitationId", "requestedSchema", "task"},
}
"""Members of params of a server's messages that the gateway reads or writes."""
_ERROR_NAMES: Final = frozenset({"code", "message", "data"})
_QUESTION_NAMES: Final = frozenset({"method", "params"})


def clean_frame(frame: Frame) -> Frame:
    """Remove lookalikes of known members from a server's message.

    Raises:
        AmbiguousObject: too many members somewhere in it.
    """
    try:
        return _clean_frame(frame)
    except (msgspec.DecodeError, RecursionError):
        return frame  # A name that is not valid text: clients cannot read it either.


def has_lookalikes(entry: Mapping[str, object], method: str, params: bytes | None) -> bool:
    """Whether a question in a result, or its params, has lookalikes of known members."""
    if raw_json.find_lookalike(entry, _QUESTION_NAMES) is not None:
        return True
    return params is not None and _clean_params(method, params) is not params


def _clean_frame(frame: Frame) -> Frame:
    match frame:
        case Result(id=id, result=result) if result[:1] == b"{":
            cleaned = clean_result(result)[0]
            return frame if cleaned is result else Result(id, cleaned)
        case Failure(id=id, error=error):
            cleaned = raw_json.remove_lookalikes(error, _ERROR_NAMES)
            return frame if cleaned is error else Failure(id, cleaned)
        case Request(id=id, method=method, params=params) if params is not None:
            cleaned = _clean_params(method, params)
            return frame if cleaned is params else Request(id, method, cleaned)
        case Notification(method=method, params=params) if params is not None:
            cleaned = _clean_params(method, params)
            return frame if cleaned is params else Notification(method, cleaned)
    return frame


def _clean_params(method: str, params: bytes) -> bytes:
    if params[:1] != b"{":
        return params
    params = raw_json.remove_lookalikes(params, _PARAM_NAMES.get(method, _META_NAME))
    raw_meta = raw_json.members(params).get("_meta")
    return params if raw_meta is None else meta.remove_lookalike_keys(params, bytes(raw_meta))

"""The keys of the filter language: a row for each, with the members it asks for and its values."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, get_args

from anyport.protocol.revisions import Era
from anyport.record.event import EVENT_DESCRIPTIONS, Status

ValueKind: TypeAlias = Literal[
    "name", "start", "word", "text", "duration", "bytes", "code", "moment"
]
"""How the values of a key are read, and what a plain value means:

- `name`: the whole text, or a glob
- `start`: the beginning of the text, or a glob of the whole
- `word`: one of `FilterKey.words`, or a glob
- `text`: a part of any text of the event, ignoring case
- `duration`, `bytes`: a number of milliseconds or bytes, a comparison or a range
- `code`: a whole number, a comparison or a range; or a word, or a glob
- `moment`: a point in time
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterKey:
    """A key, and where its values are in an event."""

    meaning: str
    where: tuple[str, ...]
    """Members of the event; `metadata.server` is a member of `metadata`. Any of them may match; of
    numbers the largest counts."""
    kind: ValueKind
    words: tuple[str, ...] = ()
    """The valid values of a `word`."""


TYPE_PREFIX: Final = "gateway."
"""Common prefix of event types, which a filter may leave out."""

TRANSPORTS: Final = ("stdio", "streamable-http", "sse", "auto", "hook", "command")
"""Transports of servers and clients; the last two are those of hooks and of commands."""
FRAME_KINDS: Final = (
    "request",
    "response",
    "client-notification",
    "server-notification",
    "server-request",
    "client-response",
    "stderr",
    "not-json-rpc",
)
LONE_FRAME_KINDS: Final = FRAME_KINDS[1:]
"""Kinds of frames outside exchanges. A request always makes an exchange; a response may belong to
none."""
OUTCOMES: Final = ("ok", "tool_error", "server_error", "gateway_error", "cancelled", "timeout")

EXCHANGE_TYPES: Final = frozenset(
    {*("gateway.tool_call", "gateway.resource_read"), *("gateway.prompt_get", "gateway.exchange")}
)
"""Types of events that describe a request."""

IMPLIED_VALUES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "method": {
            "gateway.tool_call": "tools/call",
            "gateway.resource_read": "resources/read",
            "gateway.prompt_get": "prompts/get",
        },
        "kind": {"gateway.stderr": "stderr"} | dict.fromkeys(EXCHANGE_TYPES, "exchange"),
        "side": {"gateway.stderr": "server"},
    }
)
"""For each key, the value that an event type implies where the member is absent."""

OUTCOME_BY_STATUS: Final[Mapping[str, str]] = MappingProxyType(
    {"success": "ok", "cancelled": "cancelled", "timeout": "timeout"}
)
"""For an exchange without an outcome, the outcome that its status implies. A failure without a code
is a `tool_error`; the origin of one with a code is not known."""

VALUE_ALIASES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = MappingProxyType(
    {"status": {"ok": ("success",), "error": ("failure", "timeout")}}
)
"""For each key, values that stand for others."""

_TARGETS: Final = ("metadata.tool", "metadata.prompt", "metadata.uri")
_SIZES: Final = (
    "metadata.params_bytes",
    "metadata.sent_bytes",
    "metadata.answer_bytes",
    "metadata.result_bytes",
    "metadata.bytes",
)


def _side_members(name: str) -> tuple[str, ...]:
    """The member of each side, and that of events with one side only."""
    return (f"metadata.client_{name}", f"metadata.server_{name}", f"metadata.{name}")


def _name_key(meaning: str, *where: str) -> FilterKey:
    return FilterKey(meaning=meaning, where=where, kind="name")


def _prefix_key(meaning: str, where: str) -> FilterKey:
    return FilterKey(meaning=meaning, where=(where,), kind="start")


def _word_key(meaning: str, where: tuple[str, ...], words: tuple[str, ...]) -> FilterKey:
    return FilterKey(meaning=meaning, where=where, kind="word", words=words)


def _duration_key(meaning: str, where: str) -> FilterKey:
    return FilterKey(meaning=meaning, where=(where,), kind="duration")


def _moment_key(meaning: str) -> FilterKey:
    return FilterKey(meaning=meaning, where=("timestamp",), kind="moment")


KEYS: Final[Mapping[str, FilterKey]] = MappingProxyType(
    {
        "server": _name_key("the server's slug", "metadata.server"),
        "profile": _name_key("the profile", "metadata.profile"),
        "method": _name_key("the MCP method", "metadata.method"),
        "tool": _name_key(
            "the tool, by its native or its public name", "metadata.tool", "metadata.public_name"
        ),
        "prompt": _name_key(
            "the prompt, by either name", "metadata.prompt", "metadata.public_name"
        ),
        "uri": _name_key("the resource, by either URI", "metadata.uri", "metadata.public_name"),
        "target": _name_key("tool, prompt or resource", *_TARGETS, "metadata.public_name"),
        "client": _prefix_key("name and version of the client", "metadata.client"),
        "principal": _name_key("whose token it was", "metadata.principal"),
        "session": _name_key("the session's id in the journal", "metadata.session"),
        "type": _word_key("the type of the event", ("event_type",), tuple(EVENT_DESCRIPTIONS)),
        "kind": _word_key(
            "the kind of the frame, or `exchange`",
            ("metadata.kind",),
            (*LONE_FRAME_KINDS, "exchange"),
        ),
        "side": _word_key(
            "whose conversation the frame was in", ("metadata.side",), ("client", "server")
        ),
        "outcome": _word_key("how the exchange ended", ("metadata.outcome",), OUTCOMES),
        "code": FilterKey(meaning="the code of the error", where=("error_code",), kind="code"),
        "status": _word_key("how it went", ("status",), get_args(Status)),
        "era": _word_key(
            "the era of either side",
            (*_side_members("revision"), "metadata.era"),
            tuple(era.value for era in Era),
        ),
        "revision": _name_key("the revision of either side", *_side_members("revision")),
        "transport": _word_key(
            "the transport of either side", _side_members("transport"), TRANSPORTS
        ),
        "trace": _prefix_key("the trace id", "trace_id"),
        "id": _prefix_key("the exchange's or frame's own id", "metadata.span_id"),
        "text": FilterKey(
            meaning="words in the error message or in a text of the metadata",
            where=("error_message", "metadata"),
            kind="text",
        ),
        "dur": _duration_key("how long it took", "duration_ms"),
        "queue": _duration_key("time spent waiting in the queue", "metadata.queue_ms"),
        "wait": _duration_key("time spent waiting for the server", "metadata.server_ms"),
        "size": FilterKey(
            meaning="the largest of its params, result or frame", where=_SIZES, kind="bytes"
        ),
        "since": _moment_key("not before"),
        "until": _moment_key("before"),
    }
)
"""Every key, in the order of the documentation."""

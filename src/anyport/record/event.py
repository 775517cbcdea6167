"""Event types, the shape of an event, and its encoding as one line of JSON.

Events are flat and versioned: a minor version adds optional fields, a major version may break
readers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import msgspec

from anyport.record.redact.escape import cut, escape_line

SCHEMA_VERSION: Final = "1.0"

TEXT_CHARS_MAX: Final = 2048
"""Characters of one text of an event. Enough for any error message; a whole result does not belong
here."""

METADATA_ENTRIES_MAX: Final = 32
"""Members of `metadata`, and items of a list in it: an event is a note, not a document."""

EVENT_BYTES_MAX: Final = 32 * 1024
"""Bytes of one line. A longer event keeps only its correlation keys."""

Status: TypeAlias = Literal["pending", "success", "failure", "cancelled", "timeout"]

FINAL_STATUSES: Final[frozenset[Status]] = frozenset({"success", "failure", "cancelled", "timeout"})
"""A `pending` event is followed by exactly one event with one of these."""

EventType: TypeAlias = Literal[
    "gateway.started",
    "gateway.stopped",
    "gateway.config_reloaded",
    "gateway.handed_over",
    "gateway.clock_jumped",
    "gateway.backend_registered",
    "gateway.backend_started",
    "gateway.backend_failed",
    "gateway.backend_stopped",
    "gateway.backend_ejected",
    "gateway.backend_restored",
    "gateway.backend_idle",
    "gateway.name_conflict",
    "gateway.session_started",
    "gateway.session_resumed",
    "gateway.session_ended",
    "gateway.tool_call",
    "gateway.resource_read",
    "gateway.prompt_get",
    "gateway.exchange",
    "gateway.frame",
    "gateway.stderr",
    "gateway.journal_gap",
    "gateway.journal_pruned",
    "gateway.hook_failed",
    "gateway.hook_dropped",
]

MetadataValue: TypeAlias = str | int | float | bool | Sequence[str] | None
Metadata: TypeAlias = Mapping[str, MetadataValue]

CORRELATION_KEYS: Final = (
    "span_id",
    "parent_span_id",
    "server",
    "tool",
    "uri",
    "prompt",
    "session",
)
"""Members of `metadata` that survive when an event is too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDescription:
    """Documentation of one event type."""

    meaning: str
    metadata: tuple[str, ...] = ()
    """Members that a reader can expect; those that do not apply are absent, and there may be
    others."""
    paired: bool = False
    """Recorded twice with one `metadata.span_id`: first `pending`, then with a final status."""


_FRAME_KEYS: Final = (
    "span_id",
    "profile",
    "session",
    "server",
    "method",
    "client",
    "principal",
    "client_revision",
    "client_transport",
    "payload_file",
)
_EXCHANGE_KEYS: Final = (
    *_FRAME_KEYS,
    "parent_span_id",
    "public_name",
    "server_revision",
    "server_transport",
    "outcome",
    "attempts",
    "timeout",
    "queue_ms",
    "server_ms",
    "params_bytes",
    "sent_bytes",
    "answer_bytes",
    "result_bytes",
    "params_shape",
    "params_hash",
    "result_shape",
    "result_hash",
    "frames",
    "frames_more",
)

EVENT_DESCRIPTIONS: Final[Mapping[EventType, EventDescription]] = MappingProxyType(
    {
        "gateway.started": EventDescription(
            meaning="The gateway is ready for clients.", metadata=("version", "pid", "servers")
        ),
        "gateway.stopped": EventDescription(
            meaning="The gateway has stopped normally.", metadata=("reason",)
        ),
        "gateway.config_reloaded": EventDescription(
            meaning="A changed configuration was applied, or rejected and the old one kept.",
            metadata=("added", "removed", "changed", "profiles", "settings"),
        ),
        "gateway.handed_over": EventDescription(
            meaning="A newer gateway has taken over the address; this one finishes open requests.",
            metadata=("successor",),
        ),
        "gateway.clock_jumped": EventDescription(
            meaning="The system clock was set, forwards or backwards.",
            metadata=("seconds",),
        ),
        "gateway.backend_registered": EventDescription(
            meaning="A configured server was registered; it may not be running yet.",
            metadata=("server", "transport", "reason"),
        ),
        "gateway.backend_started": EventDescription(
            meaning="A server is connected, and its revision and capabilities are known.",
            metadata=("server", "transport", "era", "revision", "restarts"),
        ),
        "gateway.backend_failed": EventDescription(
            meaning="A server did not start, or its connection broke.",
            metadata=("server", "transport", "restarts", "timeout"),
        ),
        "gateway.backend_stopped": EventDescription(
            meaning="A server was stopped on purpose.", metadata=("server", "reason", "timeout")
        ),
        "gateway.backend_ejected": EventDescription(
            meaning="Too many calls to a server failed in a row: it gets no calls for a while.",
            metadata=("server", "failures", "seconds", "reason"),
        ),
        "gateway.backend_restored": EventDescription(
            meaning="A server that got no calls for a while has answered, and gets calls again.",
            metadata=("server", "seconds"),
        ),
        "gateway.backend_idle": EventDescription(
            meaning="A server, or a session's own connection to it, was stopped because it "
            "was idle; the next call starts it again.",
            metadata=("server", "seconds"),
        ),
        "gateway.name_conflict": EventDescription(
            meaning="Other servers already have names of a server; it got longer ones.",
            metadata=("profile", "server", "list", "count", "names", "owners", "public_names"),
        ),
        "gateway.session_started": EventDescription(
            meaning="A client opened a session.",
            metadata=("session", "profile", "client", "revision", "transport"),
        ),
        "gateway.session_resumed": EventDescription(
            meaning="A client resumed a session after the gateway was restarted.",
            metadata=("session", "profile", "client", "revision", "transport"),
        ),
        "gateway.session_ended": EventDescription(
            meaning="A session was ended by its client, or because the gateway stopped.",
            metadata=("session", "profile", "reason"),
        ),
        "gateway.tool_call": EventDescription(
            meaning="A client calls a tool.", metadata=(*_EXCHANGE_KEYS, "tool"), paired=True
        ),
        "gateway.resource_read": EventDescription(
            meaning="A client reads a resource.",
            metadata=(*_EXCHANGE_KEYS, "uri", "cached"),
            paired=True,
        ),
        "gateway.prompt_get": EventDescription(
            meaning="A client gets a prompt.", metadata=(*_EXCHANGE_KEYS, "prompt"), paired=True
        ),
        "gateway.exchange": EventDescription(
            meaning="Any other request was answered: a client's, or one of the gateway's own.",
            metadata=(*_EXCHANGE_KEYS, "target"),
        ),
        "gateway.frame": EventDescription(
            meaning="A message outside any request: a notification, a server's request, or noise.",
            metadata=(*_FRAME_KEYS, "kind", "side", "bytes", "shape", "hash", "reason", "skipped"),
        ),
        "gateway.stderr": EventDescription(
            meaning="A server wrote a line to its standard error.",
            metadata=("server", "line", "method"),
        ),
        "gateway.journal_gap": EventDescription(
            meaning="The journal could not be written for a while, and events were lost.",
            metadata=("lost", "first_lost"),
        ),
        "gateway.journal_pruned": EventDescription(
            meaning="Old or excess files of the journal were removed.",
            metadata=("segments", "bytes", "until"),
        ),
        "gateway.hook_failed": EventDescription(
            meaning="The action of a hook failed for an event, and is not tried again.",
            metadata=("hook", "action", "key", "about"),
        ),
        "gateway.hook_dropped": EventDescription(
            meaning="A hook was too slow for its events, and some were dropped.",
            metadata=("hook", "action", "dropped"),
        ),
    }
)


class EventRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An event. The order of the fields is the order in the line."""

    timestamp: str
    trace_id: str
    status: Status
    schema_version: str
    event_type: EventType
    source: str
    metadata: Metadata
    duration_ms: float | None = None
    error_code: int | str | None = None
    error_message: str | None = None


_encode: Final = msgspec.json.Encoder().encode


def encode_event(event: EventRecord) -> bytes:
    """The event as one line of JSON, without a line end. Texts that are too long are cut."""
    try:
        line = _encode(event)
    except UnicodeEncodeError:
        line = _encode(_trim(event))
    if len(line) > TEXT_CHARS_MAX:  # Only a line this long can contain a text that is too long.
        line = _encode(_trim(event))
        if len(line) > EVENT_BYTES_MAX:
            line = _encode(_reduce_to_correlation(event))
    return escape_line(line)


def format_timestamp(at: float) -> str:
    """Seconds since 1970 as `2026-07-28T12:00:00.000000+00:00`."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds")


def parse_timestamp(text: str) -> float | None:
    """Seconds since 1970, or None. Other programs may leave the zone out and mean UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _trim(event: EventRecord) -> EventRecord:
    kept = list(event.metadata.items())[:METADATA_ENTRIES_MAX]
    metadata = {cut(key, TEXT_CHARS_MAX): _trim_value(value) for key, value in kept}
    return _cut_texts(event, metadata)


def _trim_value(value: MetadataValue) -> MetadataValue:
    if isinstance(value, str):
        return cut(value, TEXT_CHARS_MAX)
    if isinstance(value, Sequence):
        return [cut(item, TEXT_CHARS_MAX) for item in value[:METADATA_ENTRIES_MAX]]
    return value


def _reduce_to_correlation(event: EventRecord) -> EventRecord:
    correlation = {key: event.metadata[key] for key in CORRELATION_KEYS if key in event.metadata}
    metadata = {key: cut(str(value), 256) for key, value in correlation.items()}
    return _cut_texts(event, {**metadata, "truncated": True})


def _cut_texts(event: EventRecord, metadata: Metadata) -> EventRecord:
    code, message = event.error_code, event.error_message
    return msgspec.structs.replace(
        event,
        trace_id=cut(event.trace_id, TEXT_CHARS_MAX),
        source=cut(event.source, TEXT_CHARS_MAX),
        metadata=metadata,
        error_code=cut(code, TEXT_CHARS_MAX) if isinstance(code, str) else code,
        error_message=None if message is None else cut(message, TEXT_CHARS_MAX),
    )

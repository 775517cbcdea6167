"""The closed set of events, their shape, and how one becomes a line of JSON.

Every event is flat and versioned: a minor version adds optional fields, a major one may break
readers. This file knows no files and no clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import msgspec

from anyport.record.text import cut, escape_line

SCHEMA_VERSION: Final = "1.0"

TEXT_CHARS_MAX: Final = 2048
"""One text of an event. Enough for any error message worth reading; a whole result is not one."""

METADATA_ENTRIES_MAX: Final = 32
"""Members of `metadata`, and items of a list in it: an event is a note, not a document."""

EVENT_BYTES_MAX: Final = 32 * 1024
"""One line. What is longer keeps only the members that join it to others."""

Status: TypeAlias = Literal["pending", "success", "failure", "cancelled", "timeout"]

ENDINGS: Final[frozenset[Status]] = frozenset({"success", "failure", "cancelled", "timeout"})
"""How something begun with `pending` may end: with exactly one of these."""

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

JOINING_KEYS: Final = ("span_id", "parent_span_id", "server", "tool", "uri", "prompt", "session")
"""Members of `metadata` that survive when an event has to be made smaller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What one type of event says."""

    meaning: str
    metadata: tuple[str, ...] = ()
    """Members a reader may expect; an event may have more, and lacks those that do not apply."""
    paired: bool = False
    """Noted twice with one `metadata.span_id`: once `pending`, once with an ending."""


_OF_A_FRAME: Final = (
    *("span_id", "profile", "session", "server", "method"),
    *("client", "principal", "client_revision", "client_transport", "payload_file"),
)
_OF_AN_EXCHANGE: Final = (
    *_OF_A_FRAME,
    *("parent_span_id", "public_name", "server_revision", "server_transport", "outcome"),
    *("attempts", "timeout"),
    *("queue_ms", "server_ms", "params_bytes", "sent_bytes", "answer_bytes", "result_bytes"),
    *("params_shape", "params_hash", "result_shape", "result_hash", "frames", "frames_more"),
)

KINDS: Final[Mapping[EventType, Kind]] = MappingProxyType(
    {
        "gateway.started": Kind(
            meaning="The gateway is ready for clients.",
            metadata=("version", "pid", "servers"),
        ),
        "gateway.stopped": Kind(
            meaning="The gateway has ended in good order.",
            metadata=("reason",),
        ),
        "gateway.config_reloaded": Kind(
            meaning="A changed configuration was taken over, or refused and the old one kept.",
            metadata=("added", "removed", "changed", "profiles", "settings"),
        ),
        "gateway.handed_over": Kind(
            meaning="A newer gateway has taken over the address; this one finishes what is open.",
            metadata=("successor",),
        ),
        "gateway.clock_jumped": Kind(
            meaning="The clock of the machine was set, forwards or backwards.",
            metadata=("seconds",),
        ),
        "gateway.backend_registered": Kind(
            meaning="A server of the configuration is known to the gateway; it need not run yet.",
            metadata=("server", "transport", "reason"),
        ),
        "gateway.backend_started": Kind(
            meaning="A server is connected and has told its revision and capabilities.",
            metadata=("server", "transport", "era", "revision", "restarts"),
        ),
        "gateway.backend_failed": Kind(
            meaning="A server did not start, or broke off.",
            metadata=("server", "transport", "restarts", "timeout"),
        ),
        "gateway.backend_stopped": Kind(
            meaning="A server was stopped on purpose.",
            metadata=("server", "reason", "timeout"),
        ),
        "gateway.backend_ejected": Kind(
            meaning="Too many calls to a server failed in a row; it gets none for a while.",
            metadata=("server", "failures", "seconds", "reason"),
        ),
        "gateway.backend_restored": Kind(
            meaning="A server that got no calls for a while has answered, and gets them again.",
            metadata=("server", "seconds"),
        ),
        "gateway.backend_idle": Kind(
            meaning="A server was stopped because nobody used it; the next call starts it again.",
            metadata=("server", "seconds"),
        ),
        "gateway.session_started": Kind(
            meaning="A client opened a session.",
            metadata=("session", "profile", "client", "revision", "transport"),
        ),
        "gateway.session_resumed": Kind(
            meaning="A client went on with a session that it had before the gateway was restarted.",
            metadata=("session", "profile", "client", "revision", "transport"),
        ),
        "gateway.session_ended": Kind(
            meaning="A session was ended by its client, or by the end of the gateway.",
            metadata=("session", "profile", "reason"),
        ),
        "gateway.tool_call": Kind(
            meaning="A client calls a tool.",
            metadata=(*_OF_AN_EXCHANGE, "tool"),
            paired=True,
        ),
        "gateway.resource_read": Kind(
            meaning="A client reads a resource.",
            metadata=(*_OF_AN_EXCHANGE, "uri", "cached"),
            paired=True,
        ),
        "gateway.prompt_get": Kind(
            meaning="A client gets a prompt.",
            metadata=(*_OF_AN_EXCHANGE, "prompt"),
            paired=True,
        ),
        "gateway.exchange": Kind(
            meaning="Any other request was answered: a client's, or one of the gateway's own.",
            metadata=(*_OF_AN_EXCHANGE, "target"),
        ),
        "gateway.frame": Kind(
            meaning="A message that belongs to no request: a notification, a question, noise.",
            metadata=(*_OF_A_FRAME, "kind", "side", "bytes", "shape", "hash", "reason", "skipped"),
        ),
        "gateway.stderr": Kind(
            meaning="A server wrote a line to its standard error.",
            metadata=("server", "line", "method"),
        ),
        "gateway.journal_gap": Kind(
            meaning="The journal could not be written for a while, and events were lost.",
            metadata=("lost", "first_lost"),
        ),
        "gateway.journal_pruned": Kind(
            meaning="Files of the journal were too old or too much, and were removed.",
            metadata=("segments", "bytes", "until"),
        ),
        "gateway.hook_failed": Kind(
            meaning="What a hook had to do about an event did not work, and is given up.",
            metadata=("hook", "action", "key", "about"),
        ),
        "gateway.hook_dropped": Kind(
            meaning="A hook was too slow for its events, and some were dropped.",
            metadata=("hook", "action", "dropped"),
        ),
    }
)


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One thing that happened. The order of the fields is the order in the line."""

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


def encode_event(event: Event) -> bytes:
    """The event as one line of JSON, without its newline, whatever texts it carries."""
    try:
        line = _encode(event)
    except UnicodeEncodeError:
        line = _encode(_trimmed(event))
    if len(line) > TEXT_CHARS_MAX:  # Only then can one of its texts be too long.
        line = _encode(_trimmed(event))
        if len(line) > EVENT_BYTES_MAX:
            line = _encode(_bare(event))
    return escape_line(line)


def timestamp(at: float) -> str:
    """Seconds since 1970 as `2026-07-28T12:00:00.000000+00:00`."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds")


def _trimmed(event: Event) -> Event:
    kept = list(event.metadata.items())[:METADATA_ENTRIES_MAX]
    metadata = {cut(key, TEXT_CHARS_MAX): _trimmed_value(value) for key, value in kept}
    return _with_texts_cut(event, metadata)


def _trimmed_value(value: MetadataValue) -> MetadataValue:
    if isinstance(value, str):
        return cut(value, TEXT_CHARS_MAX)
    if isinstance(value, Sequence):
        return [cut(item, TEXT_CHARS_MAX) for item in value[:METADATA_ENTRIES_MAX]]
    return value


def _bare(event: Event) -> Event:
    joining = {key: event.metadata[key] for key in JOINING_KEYS if key in event.metadata}
    metadata = {key: cut(str(value), 256) for key, value in joining.items()}
    return _with_texts_cut(event, {**metadata, "truncated": True})


def _with_texts_cut(event: Event, metadata: Metadata) -> Event:
    code, message = event.error_code, event.error_message
    return msgspec.structs.replace(
        event,
        trace_id=cut(event.trace_id, TEXT_CHARS_MAX),
        source=cut(event.source, TEXT_CHARS_MAX),
        metadata=metadata,
        error_code=cut(code, TEXT_CHARS_MAX) if isinstance(code, str) else code,
        error_message=None if message is None else cut(message, TEXT_CHARS_MAX),
    )

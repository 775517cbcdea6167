"""Rows of the traffic: one exchange with both its sides, or one frame that belongs to no exchange.

A row is decoded from an event of the journal and adds nothing to it; a member of the wrong type
counts as absent, because other programs may write events. The payloads come from payload files,
where they may have been erased or removed since; then a row is all there is.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from anyport.protocol.revisions import find_revision
from anyport.record.filter.keys import IMPLIED_VALUES
from anyport.record.filter.match import event_outcome
from anyport.record.journal.payloads import PayloadReader

EXCHANGE: Final = "exchange"
STDERR: Final = "stderr"
FRAME_TYPE: Final = "gateway.frame"

_METHODS: Final = IMPLIED_VALUES["method"]
"""Methods of events that are recorded without one while nothing is captured."""
_KINDS: Final = IMPLIED_VALUES["kind"]
_TARGETS: Final = ("tool", "prompt", "uri", "target")


class ClientSide(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The client of an exchange."""

    name: str | None = None
    revision: str | None = None
    era: str | None = None
    transport: str | None = None
    session: str | None = None
    principal: str | None = None


class ServerSide(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The server of an exchange."""

    server: str | None = None
    revision: str | None = None
    era: str | None = None
    transport: str | None = None


class Timings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How long an exchange took, and where the time went."""

    total_ms: float | None = None
    gateway_ms: float | None = None
    """Everything but the next two."""
    queue_ms: float | None = None
    """Waiting for a free slot, or for the server to start."""
    server_ms: float | None = None


class Sizes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sizes of the payloads, in bytes of JSON."""

    params_bytes: int | None = None
    """Sent by the client."""
    sent_bytes: int | None = None
    """Sent to the server for it."""
    answer_bytes: int | None = None
    """Answered by the server."""
    result_bytes: int | None = None
    """Sent to the client."""
    frame_bytes: int | None = None
    """Of a frame that belongs to no exchange."""


class PayloadTexts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One text per payload: its shape, or its keyed hash."""

    params: str | None = None
    result: str | None = None
    frame: str | None = None


class RowError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    code: int | str | None = None
    message: str | None = None


class FrameSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A frame between request and answer: progress, a log message, a question or its answer."""

    ms: float
    """Since the request came."""
    kind: str
    method: str | None = None
    bytes: int | None = None


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One exchange, or one frame that belongs to none."""

    id: str | None = None
    """The span id. None where an event has none."""
    timestamp: str
    """When it ended."""
    trace_id: str
    kind: str
    """`exchange`, or the kind of the frame."""
    side: str | None = None
    """Of a frame: whose conversation it was in, `client` or `server`."""
    method: str | None = None
    target: str | None = None
    """The tool, prompt or resource URI, as the server knows it."""
    public_name: str | None = None
    """The name that clients use, where it differs."""
    profile: str | None = None
    server: str | None = None
    client: ClientSide = ClientSide()
    upstream: ServerSide = ServerSide()
    timings: Timings = Timings()
    sizes: Sizes = Sizes()
    outcome: str | None = None
    """None for a frame, and for an error recorded without capture: its origin is not known then."""
    status: str
    cached: bool = False
    error: RowError | None = None
    shapes: PayloadTexts = PayloadTexts()
    hashes: PayloadTexts = PayloadTexts()
    frames: tuple[FrameSummary, ...] = ()
    frames_more: int = 0
    """Frames beyond the ones listed."""
    text: str | None = None
    """Of a frame: why it is not JSON-RPC, or the line of stderr."""
    payload_file: str | None = None


def row_of(event: Mapping[str, Any]) -> Row | None:
    """The row of a decoded event; None for an event that is not traffic, or still pending."""
    event_type, status = event.get("event_type"), event.get("status")
    if not isinstance(event_type, str) or not isinstance(status, str) or status == "pending":
        return None
    raw_metadata = event.get("metadata")
    metadata = _EventMetadata(raw_metadata if isinstance(raw_metadata, dict) else {})
    kind = metadata.text("kind") if event_type == FRAME_TYPE else _KINDS.get(event_type)
    if kind is None:
        return None
    captured = metadata.text("method")
    return Row(
        id=metadata.text("span_id"),
        timestamp=str(event.get("timestamp", "")),
        trace_id=str(event.get("trace_id", "")),
        kind=kind,
        side=metadata.text("side") or ("server" if kind == STDERR else None),
        method=None if kind == STDERR else captured or _METHODS.get(event_type),
        target=next((name for key in _TARGETS if (name := metadata.text(key))), None),
        public_name=metadata.text("public_name"),
        profile=metadata.text("profile"),
        server=metadata.text("server"),
        client=_client(metadata),
        upstream=_upstream(metadata),
        timings=_timings(event, metadata, captured=captured is not None),
        sizes=_sizes(metadata),
        outcome=event_outcome(event),
        status=status,
        cached=metadata.metadata.get("cached") is True,
        error=_row_error(event),
        shapes=_payload_texts(metadata, "shape"),
        hashes=_payload_texts(metadata, "hash"),
        frames=tuple(_parse_frames(metadata.metadata.get("frames"))),
        frames_more=metadata.integer("frames_more") or 0,
        text=metadata.text("line") if kind == STDERR else metadata.text("reason"),
        payload_file=metadata.text("payload_file"),
    )


def decode_row(line: bytes) -> Row | None:
    """The row of a line of the journal; None as in `row_of`."""
    try:
        return row_of(msgspec.json.decode(line, type=dict[str, Any]))
    except (ValueError, RecursionError):
        return None


class _EventMetadata:
    """The metadata of an event, with each member checked for its type."""

    __slots__ = ("metadata",)

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self.metadata = metadata

    def text(self, key: str) -> str | None:
        value = self.metadata.get(key)
        return value if isinstance(value, str) and value else None

    def number(self, key: str) -> float | None:
        return _number(self.metadata.get(key))

    def integer(self, key: str) -> int | None:
        value = _number(self.metadata.get(key))
        return None if value is None else int(value)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value


def _client(metadata: _EventMetadata) -> ClientSide:
    revision = metadata.text("client_revision")
    return ClientSide(
        name=metadata.text("client"),
        revision=revision,
        era=_era(revision),
        transport=metadata.text("client_transport"),
        session=metadata.text("session"),
        principal=metadata.text("principal"),
    )


def _upstream(metadata: _EventMetadata) -> ServerSide:
    revision = metadata.text("server_revision")
    return ServerSide(
        server=metadata.text("server"),
        revision=revision,
        era=_era(revision),
        transport=metadata.text("server_transport"),
    )


def _era(revision: str | None) -> str | None:
    found = None if revision is None else find_revision(revision)
    return None if found is None else found.era.value


def _timings(event: Mapping[str, Any], metadata: _EventMetadata, *, captured: bool) -> Timings:
    total = _number(event.get("duration_ms"))
    total = None if total is None or total < 0 else total
    queue, server = metadata.number("queue_ms"), metadata.number("server_ms")
    gateway = None
    if total is not None and captured:
        gateway = round(max(0.0, total - (queue or 0.0) - (server or 0.0)), 3)
    return Timings(total_ms=total, gateway_ms=gateway, queue_ms=queue, server_ms=server)


def _sizes(metadata: _EventMetadata) -> Sizes:
    return Sizes(
        params_bytes=metadata.integer("params_bytes"),
        sent_bytes=metadata.integer("sent_bytes"),
        answer_bytes=metadata.integer("answer_bytes"),
        result_bytes=metadata.integer("result_bytes"),
        frame_bytes=metadata.integer("bytes"),
    )


def _payload_texts(metadata: _EventMetadata, what: str) -> PayloadTexts:
    return PayloadTexts(
        params=metadata.text(f"params_{what}"),
        result=metadata.text(f"result_{what}"),
        frame=metadata.text(what),
    )


def _row_error(event: Mapping[str, Any]) -> RowError | None:
    code, message = event.get("error_code"), event.get("error_message")
    known = code if isinstance(code, int | str) and not isinstance(code, bool) else None
    text = message if isinstance(message, str) else None
    return None if known is None and text is None else RowError(code=known, message=text)


def _parse_frames(frames: object) -> Iterator[FrameSummary]:
    """Decode frames as the journal has them: `12.345 server-notification notifications/progress
    118`."""
    for text in frames if isinstance(frames, list) else ():
        try:
            ms, kind, rest = str(text).split(" ", 2)
            method, size = rest.rsplit(" ", 1)  # A method that a client made up may contain spaces.
            named = None if method == "-" else method
            yield FrameSummary(ms=float(ms), kind=kind, method=named, bytes=int(size))
        except ValueError:  # Written by another program.
            continue


class PayloadFrame(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A frame with its params, result or error, redacted."""

    kind: str
    side: str
    """Whose conversation it was in: `client` or `server`."""
    ms: float = 0.0
    """Since the request came."""
    method: str | None = None
    payload: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET
    same: bool = False
    """The payload is the one of the same frame on the other side."""


class CapturedExchange(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a payload file."""

    span_id: str
    timestamp: str = ""
    principal: str | None = None
    frames: tuple[PayloadFrame, ...] = ()


class Detail(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A row, its event, and its frames in order of time."""

    row: Row
    event: Raw | UnsetType = UNSET
    """Absent where only the row was asked for."""
    frames: tuple[PayloadFrame, ...] = ()


def decode_captured(line: bytes) -> CapturedExchange | None:
    """Decode a line of a payload file; None for one that was erased or torn."""
    try:
        return msgspec.json.decode(line, type=CapturedExchange)
    except (ValueError, RecursionError):
        return None


def build_detail(row: Row, line: bytes, payload_reader: PayloadReader) -> Detail:
    """A row with its event, and with the payloads that are still kept."""
    captured = None
    if row.payload_file is not None and row.id is not None:
        captured = decode_captured(payload_reader.read_line(row.payload_file, row.id))
    return Detail(row=row, event=Raw(line), frames=() if captured is None else captured.frames)


def expand_frames(frames: Sequence[PayloadFrame]) -> list[PayloadFrame]:
    """The frames, with the payload filled in where a frame is the same as another."""
    expanded: list[PayloadFrame] = []
    for frame in frames:
        if frame.same:
            counterpart = next(
                (other for other in reversed(expanded) if _are_counterparts(frame, other)), None
            )
            if counterpart is not None:
                frame = msgspec.structs.replace(
                    frame, payload=counterpart.payload, error=counterpart.error
                )
        expanded.append(frame)
    return expanded


def _are_counterparts(frame: PayloadFrame, other: PayloadFrame) -> bool:
    return frame.side != other.side and frame.kind == other.kind and frame.method == other.method

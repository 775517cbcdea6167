"""A row of the traffic: one exchange with both its sides, or one frame that belongs to none.

A row is made from an event of the journal and says no more than that does; what an event of
another writer has in the wrong type counts as absent. Knows no files.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from anyport.protocol.revision import find_revision
from anyport.record.filter_keys import IMPLIED
from anyport.record.matching import outcome_of

EXCHANGE: Final = "exchange"
STDERR: Final = "stderr"
FRAME_TYPE: Final = "gateway.frame"

_METHODS: Final = IMPLIED["method"]
"""Of events that are noted without their method while nothing is captured."""
_KINDS: Final = IMPLIED["kind"]
_TARGETS: Final = ("tool", "prompt", "uri", "target")


class ClientSide(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whose request it was, and how it came."""

    name: str | None = None
    revision: str | None = None
    era: str | None = None
    transport: str | None = None
    session: str | None = None
    principal: str | None = None


class ServerSide(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which server was asked, and how."""

    server: str | None = None
    revision: str | None = None
    era: str | None = None
    transport: str | None = None


class Timings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How long it took, and whose time that was."""

    total_ms: float | None = None
    gateway_ms: float | None = None
    """What is neither of the next two."""
    queue_ms: float | None = None
    """Waiting for a place, or for the server to be there."""
    server_ms: float | None = None


class Sizes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sizes of the payloads, in bytes of JSON."""

    params_bytes: int | None = None
    """What the client sent."""
    sent_bytes: int | None = None
    """What the server was sent for it."""
    answer_bytes: int | None = None
    """What the server answered."""
    result_bytes: int | None = None
    """What the client got."""
    frame_bytes: int | None = None
    """Of a frame that belongs to no exchange."""


class Pieces(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One text for each payload: its shape, or its keyed hash."""

    params: str | None = None
    result: str | None = None
    frame: str | None = None


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong."""

    code: int | str | None = None
    message: str | None = None


class Between(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A frame between request and answer: progress, a log message, a question, its answer."""

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
    """Of a frame: in whose conversation it was, `client` or `server`."""
    method: str | None = None
    target: str | None = None
    """The tool, the prompt, or the address of the resource, as the server knows it."""
    public_name: str | None = None
    """What clients call it, where that is another name."""
    profile: str | None = None
    server: str | None = None
    client: ClientSide = ClientSide()
    upstream: ServerSide = ServerSide()
    timings: Timings = Timings()
    sizes: Sizes = Sizes()
    outcome: str | None = None
    """None for a frame, and for an error while nothing was captured: whose it was is not known."""
    status: str
    cached: bool = False
    error: Fault | None = None
    shapes: Pieces = Pieces()
    hashes: Pieces = Pieces()
    frames: tuple[Between, ...] = ()
    frames_more: int = 0
    """How many more there were."""
    text: str | None = None
    """Of a frame: why it is no JSON-RPC, or the line of the standard error."""
    payload_file: str | None = None


def row_of(event: Mapping[str, Any]) -> Row | None:
    """The row that a decoded event makes; None for one that is no traffic, or no ending."""
    event_type, status = event.get("event_type"), event.get("status")
    if not isinstance(event_type, str) or not isinstance(status, str) or status == "pending":
        return None
    told = event.get("metadata")
    about = _About(told if isinstance(told, dict) else {})
    kind = about.text("kind") if event_type == FRAME_TYPE else _KINDS.get(event_type)
    if kind is None:
        return None
    captured = about.text("method")
    return Row(
        id=about.text("span_id"),
        timestamp=str(event.get("timestamp", "")),
        trace_id=str(event.get("trace_id", "")),
        kind=kind,
        side=about.text("side") or ("server" if kind == STDERR else None),
        method=None if kind == STDERR else captured or _METHODS.get(event_type),
        target=next((name for key in _TARGETS if (name := about.text(key))), None),
        public_name=about.text("public_name"),
        profile=about.text("profile"),
        server=about.text("server"),
        client=_client(about),
        upstream=_upstream(about),
        timings=_timings(event, about, captured=captured is not None),
        sizes=_sizes(about),
        outcome=outcome_of(event),
        status=status,
        cached=about.metadata.get("cached") is True,
        error=_fault(event),
        shapes=_pieces(about, "shape"),
        hashes=_pieces(about, "hash"),
        frames=tuple(_between(about.metadata.get("frames"))),
        frames_more=about.whole("frames_more") or 0,
        text=about.text("line") if kind == STDERR else about.text("reason"),
        payload_file=about.text("payload_file"),
    )


def decode_row(line: bytes) -> Row | None:
    """The row that a line of the journal makes, if any."""
    try:
        return row_of(msgspec.json.decode(line, type=dict[str, Any]))
    except (ValueError, RecursionError):
        return None


class _About:
    """The metadata of an event, each member asked for in the type it should have."""

    __slots__ = ("metadata",)

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self.metadata = metadata

    def text(self, key: str) -> str | None:
        value = self.metadata.get(key)
        return value if isinstance(value, str) and value else None

    def number(self, key: str) -> float | None:
        return _number(self.metadata.get(key))

    def whole(self, key: str) -> int | None:
        value = _number(self.metadata.get(key))
        return None if value is None else int(value)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value


def _client(about: _About) -> ClientSide:
    revision = about.text("client_revision")
    return ClientSide(
        name=about.text("client"),
        revision=revision,
        era=_era(revision),
        transport=about.text("client_transport"),
        session=about.text("session"),
        principal=about.text("principal"),
    )


def _upstream(about: _About) -> ServerSide:
    revision = about.text("server_revision")
    return ServerSide(
        server=about.text("server"),
        revision=revision,
        era=_era(revision),
        transport=about.text("server_transport"),
    )


def _era(revision: str | None) -> str | None:
    found = None if revision is None else find_revision(revision)
    return None if found is None else found.era.value


def _timings(event: Mapping[str, Any], about: _About, *, captured: bool) -> Timings:
    total = _number(event.get("duration_ms"))
    total = None if total is None or total < 0 else total
    queue, server = about.number("queue_ms"), about.number("server_ms")
    own = None
    if total is not None and captured:
        own = round(max(0.0, total - (queue or 0.0) - (server or 0.0)), 3)
    return Timings(total_ms=total, gateway_ms=own, queue_ms=queue, server_ms=server)


def _sizes(about: _About) -> Sizes:
    return Sizes(
        params_bytes=about.whole("params_bytes"),
        sent_bytes=about.whole("sent_bytes"),
        answer_bytes=about.whole("answer_bytes"),
        result_bytes=about.whole("result_bytes"),
        frame_bytes=about.whole("bytes"),
    )


def _pieces(about: _About, what: str) -> Pieces:
    return Pieces(
        params=about.text(f"params_{what}"),
        result=about.text(f"result_{what}"),
        frame=about.text(what),
    )


def _fault(event: Mapping[str, Any]) -> Fault | None:
    code, message = event.get("error_code"), event.get("error_message")
    known = code if isinstance(code, int | str) and not isinstance(code, bool) else None
    words = message if isinstance(message, str) else None
    return None if known is None and words is None else Fault(code=known, message=words)


def _between(frames: object) -> Iterator[Between]:
    """Frames as the journal has them: `12.345 server-notification notifications/progress 118`."""
    for text in frames if isinstance(frames, list) else ():
        try:
            ms, kind, rest = str(text).split(" ", 2)
            method, size = rest.rsplit(" ", 1)  # A stranger's method may have spaces in it.
            named = None if method == "-" else method
            yield Between(ms=float(ms), kind=kind, method=named, bytes=int(size))
        except ValueError:  # Of another writer.
            continue

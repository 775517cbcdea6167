"""Lines of the journal as rows of the index.

Events repeat themselves: the same client calls the same tool of the same server. All that tells one
kind of event from another is therefore kept once, as a *sort*, and a row is its number, a moment,
and a few measurements. This is the inner loop of catching up; what is unusual about a line, such
as an id that is no number, takes a slower way. Knows no files.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from anyport.record.marks import NO_ID, SPAN, is_plain, session_digits
from anyport.record.trace import normalise_trace_id

ROW_COLUMNS: Final = ("at", "place", "length", "sort", "took", "queue", "wait", "size")

SORTS_REMEMBERED_MAX: Final = 10_000
SESSIONS_REMEMBERED_MAX: Final = 10_000
"""Those of the events at hand; others are looked up again."""

_BEGINNING: Final = b'{"timestamp":"'
_ABSENT: Final = -1.0
"""No size is that small."""


class _Metadata(msgspec.Struct, gc=False):
    """What of an event's metadata can be asked for."""

    span_id: str = NO_ID
    session: str = ""
    profile: str | None = None
    server: str | None = None
    method: str | None = None
    tool: str | None = None
    prompt: str | None = None
    uri: str | None = None
    public_name: str | None = None
    client: str | None = None
    principal: str | None = None
    outcome: str | None = None
    kind: str | None = None
    side: str | None = None
    era: str | None = None
    revision: str | None = None
    transport: str | None = None
    client_revision: str | None = None
    client_transport: str | None = None
    server_revision: str | None = None
    server_transport: str | None = None
    queue_ms: float | None = None
    server_ms: float | None = None
    params_bytes: float = _ABSENT
    sent_bytes: float = _ABSENT
    answer_bytes: float = _ABSENT
    result_bytes: float = _ABSENT
    bytes: float = _ABSENT


class _Line(msgspec.Struct, gc=False):
    """An event as the journal writes it."""

    timestamp: Annotated[datetime, msgspec.Meta(tz=True)]
    trace_id: str
    status: str
    event_type: str
    metadata: _Metadata
    duration_ms: float | None = None
    error_code: int | str | None = None


class _Loose(msgspec.Struct):
    """An event of any writer; what has the wrong type counts as absent."""

    timestamp: datetime
    trace_id: str
    status: str
    event_type: str
    metadata: Any = None
    duration_ms: Any = None
    error_code: Any = None


SORT_TOP: Final = ("event_type", "status", "error_code")
SORT_METADATA: Final = (
    *("profile", "server", "method", "tool", "prompt", "uri", "public_name", "client"),
    *("principal", "outcome", "kind", "side", "era", "revision", "transport"),
    *("client_revision", "client_transport", "server_revision", "server_transport"),
)
_SIZES: Final = ("params_bytes", "sent_bytes", "answer_bytes", "result_bytes", "bytes")

_decoder: Final = msgspec.json.Decoder(_Line)
_loose_decoder: Final = msgspec.json.Decoder(_Loose)

FindSort: TypeAlias = Callable[[bytes], int]
"""The number of a sort, new or known, by its members as JSON: an event without what differs."""

_UNUSABLE: Final = (ValueError, OverflowError, RecursionError)
"""Not JSON, not UTF-8, or no event."""


class Batch:
    """The rows of some lines."""

    __slots__ = ("block", "broken", "marks", "odd", "rows")

    def __init__(self) -> None:
        self.rows: list[Any] = []
        """All columns of the first, then of the second, and so on."""
        self.marks: list[str] = []
        """The ids of each, as digits, and of all together, as bytes."""
        self.block = b""
        self.odd: list[tuple[int, str | None, str | None]] = []
        """Ids that are no such numbers: the place, the trace's, the span's."""
        self.broken = 0
        """Lines that are no events."""

    def joined_marks(self) -> bytes:
        """The ids of all rows.

        Raises:
            ValueError: some are not what they were taken for.
        """
        digits = "".join(self.marks)
        block = bytes.fromhex(digits)
        if block.hex() != digits:
            raise ValueError("Not all ids are small hexadecimal digits")
        return block

    def column(self, name: str) -> list[Any]:
        """One column of all rows."""
        return self.rows[ROW_COLUMNS.index(name) :: len(ROW_COLUMNS)]


class Reader:
    """Reads lines; remembers which sorts and sessions it has seen."""

    def __init__(self, find_sort: FindSort) -> None:
        self._find_sort = find_sort
        self._sorts: dict[object, int] = {}
        self._sessions: dict[str, str] = {"": NO_ID}

    def forget(self) -> None:
        """The numbers of sorts may be others now."""
        self._sorts.clear()

    def read(self, lines: bytes, place: int) -> Batch:
        """The rows of whole lines, of which the first stands at a place."""
        batch = self._read_quickly(lines, place)
        try:
            batch.block = batch.joined_marks()
        except ValueError:
            batch = self._read_slowly(lines, place)
            batch.block = batch.joined_marks()
        return batch

    def _read_quickly(self, lines: bytes, place: int) -> Batch:
        batch = Batch()
        rows, marks = batch.rows, batch.marks
        decode, sorts, sessions = _decoder.decode, self._sorts, self._sessions
        ascii_only = lines.isascii()
        for line in lines.split(b"\n"):
            length = len(line)
            try:
                if not ascii_only:
                    line.decode()
                event = decode(line)
                at = event.timestamp.timestamp()
                of = event.metadata
                if len(event.trace_id) != 32 or len(of.span_id) != 16:
                    raise ValueError
            except _UNUSABLE:
                self._read_unusual(batch, line, place)
                place += length + 1
                continue
            # In the order of SORT_TOP and SORT_METADATA.
            sort = (
                event.event_type, event.status, event.error_code,
                of.profile, of.server, of.method, of.tool, of.prompt, of.uri, of.public_name,
                of.client, of.principal, of.outcome, of.kind, of.side, of.era, of.revision,
                of.transport, of.client_revision, of.client_transport, of.server_revision,
                of.server_transport,
            )  # fmt: skip
            number = sorts.get(sort) or self._learn(sort)
            session = sessions.get(of.session) or self._meet(of.session)
            size = max(of.params_bytes, of.sent_bytes, of.answer_bytes, of.result_bytes, of.bytes)
            rows += (
                at, place, length, number, event.duration_ms, of.queue_ms, of.server_ms,
                size if size >= 0 else None,
            )  # fmt: skip
            marks.append(event.trace_id + of.span_id + session)
            place += length + 1
        return batch

    def _read_slowly(self, lines: bytes, place: int) -> Batch:
        batch = Batch()
        for line in lines.split(b"\n"):
            self._read_unusual(batch, line, place)
            place += len(line) + 1
        return batch

    def _read_unusual(self, batch: Batch, line: bytes, place: int) -> None:
        if not line.strip():
            return
        event = _decoded_loosely(line)
        if event is None:
            batch.broken += 1
            event = _decoded_loosely(_after_torn(line))
        if event is not None:
            self._add(batch, event, place, len(line))

    def _add(self, batch: Batch, event: _Loose, place: int, length: int) -> None:
        of = event.metadata if isinstance(event.metadata, dict) else {}
        about = {name: of[name] for name in SORT_METADATA if of.get(name) is not None}
        top = {name: getattr(event, name) for name in SORT_TOP}
        sort = _encoded_sort(top, about)
        sizes = [size for name in _SIZES if (size := _number(of.get(name))) is not None]
        batch.rows += (
            *(_seconds(event.timestamp), place, length, self._sorts.get(sort) or self._learn(sort)),
            *(
                _number(event.duration_ms),
                _number(of.get("queue_ms")),
                _number(of.get("server_ms")),
            ),
            max(sizes, default=None),
        )
        trace_id, span_id, session = normalise_trace_id(event.trace_id), of.get("span_id"), ""
        odd_trace = event.trace_id if trace_id is None else None
        odd_span = span_id if isinstance(span_id, str) and not is_plain(span_id, SPAN) else None
        if odd_trace is not None or odd_span is not None:
            batch.odd.append((place, odd_trace, odd_span))
        if isinstance(of.get("session"), str):
            session = of["session"]
        plain_span = span_id if isinstance(span_id, str) and odd_span is None else NO_ID
        batch.marks.append(
            (trace_id or NO_ID * 2)
            + plain_span
            + (self._sessions.get(session) or self._meet(session))
        )

    def _learn(self, sort: tuple[Any, ...] | bytes) -> int:
        if len(self._sorts) >= SORTS_REMEMBERED_MAX:
            self._sorts.clear()
        encoded = sort
        if not isinstance(encoded, bytes):
            top = dict(zip(SORT_TOP, sort, strict=False))
            told = zip(SORT_METADATA, sort[len(SORT_TOP) :], strict=True)
            encoded = _encoded_sort(top, {name: text for name, text in told if text is not None})
        number = self._sorts[sort] = self._find_sort(encoded)
        return number

    def _meet(self, session: str) -> str:
        if len(self._sessions) >= SESSIONS_REMEMBERED_MAX:
            self._sessions = {"": NO_ID}
        digits = self._sessions[session] = session_digits(session)
        return digits


def event_in(line: bytes) -> bytes | None:
    """The event of a line, without what a torn one before it has left there; None if none is."""
    for part in (line, _after_torn(line)):
        if _decoded_loosely(part) is not None:
            return part
    return None


def _after_torn(line: bytes) -> bytes:
    """What follows on a part of a line.

    A process killed while it wrote leaves one, and the line of another may follow on it. Within an
    event the quotes of this text would be escaped.
    """
    return line[max(line.rfind(_BEGINNING), 0) :]


def _encoded_sort(top: Mapping[str, Any], about: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode({**top, "metadata": about})


def _decoded_loosely(line: bytes) -> _Loose | None:
    try:
        line.decode()
        event = _loose_decoder.decode(line)
        _seconds(event.timestamp)
    except _UNUSABLE:
        return None
    return event


def _seconds(moment: datetime) -> float:
    """Since 1970; other writers may leave the zone out and mean UTC."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)

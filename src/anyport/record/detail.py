"""A row of the traffic with all that is kept of it: its event, and what was said, frame by frame.

What was said lies in side files, where it may have been erased or grown too old; then the row
stands alone. Knows neither the index nor how anything is shown.
"""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Raw, UnsetType

from anyport.record.row import Row, decode_row
from anyport.record.shelf import Shelf


class PayloadFrame(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One frame, with its params, result or error as it was recorded: redacted."""

    kind: str
    side: str
    """In whose conversation it was: `client` or `server`."""
    ms: float = 0.0
    """Since the request came."""
    method: str | None = None
    payload: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET
    same: bool = False
    """Its bytes are those of the same frame on the other side."""


class Captured(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a side file."""

    span_id: str
    timestamp: str = ""
    principal: str | None = None
    frames: tuple[PayloadFrame, ...] = ()


class Detail(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A row, the event that it was made from, and its frames in the order of time."""

    row: Row
    event: Raw | UnsetType = UNSET
    """Absent where only the row was asked for."""
    frames: tuple[PayloadFrame, ...] = ()


def read_captured(line: bytes) -> Captured | None:
    """What a line of a side file holds; None for one that was erased, or is torn."""
    try:
        return msgspec.json.decode(line, type=Captured)
    except (ValueError, RecursionError):
        return None


def detail_of(line: bytes, shelf: Shelf) -> Detail | None:
    """The detail of an event of the journal; None if that is no row."""
    row = decode_row(line)
    return None if row is None else detailed(row, line, shelf)


def detailed(row: Row, line: bytes, shelf: Shelf) -> Detail:
    """A row with its event, and what was said as far as it is kept."""
    captured = None
    if row.payload_file is not None and row.id is not None:
        captured = read_captured(shelf.line(row.payload_file, row.id))
    return Detail(row=row, event=Raw(line), frames=() if captured is None else captured.frames)


def unfolded(frames: Sequence[PayloadFrame]) -> list[PayloadFrame]:
    """The frames, each with its payload, where one only says that it is the same as another."""
    whole: list[PayloadFrame] = []
    for frame in frames:
        if frame.same:
            twin = next((other for other in reversed(whole) if _are_twins(frame, other)), None)
            if twin is not None:
                frame = msgspec.structs.replace(frame, payload=twin.payload, error=twin.error)
        whole.append(frame)
    return whole


def _are_twins(frame: PayloadFrame, other: PayloadFrame) -> bool:
    return frame.side != other.side and frame.kind == other.kind and frame.method == other.method

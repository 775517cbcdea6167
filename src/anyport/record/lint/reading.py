"""Legs from the record: a row of the traffic, and the payloads that were kept of it if any.

What was not recorded is absent, never guessed. Knows how exchanges are noted; no files.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, UnsetType

from anyport.protocol import meta
from anyport.protocol.revision import Revision, find_revision
from anyport.record.detail import Detail, PayloadFrame, unfolded
from anyport.record.lint.model import ABSENT, Depth, Frame, Leg
from anyport.record.row import EXCHANGE, STDERR, Row

CLIENT: Final = "client"
SERVER: Final = "server"


def legs_of(detail: Detail) -> list[Leg]:
    """The legs of an exchange, or of a lone frame."""
    row = detail.row
    if row.kind == STDERR:
        return []
    if row.kind != EXCHANGE:
        return [_loose(row, detail.frames)]
    sides = []
    if row.profile is not None:
        sides.append(CLIENT)
    if row.server is not None and (row.profile is None or _was_asked(row)):
        sides.append(SERVER)
    return [_leg(row, side, detail.frames) for side in sides]


def _was_asked(row: Row) -> bool:
    return row.sizes.sent_bytes is not None or row.upstream.revision is not None


def _loose(row: Row, kept: Sequence[PayloadFrame]) -> Leg:
    side = row.side or SERVER
    depth = Depth.NOTED if row.shapes.frame is None else Depth.SHAPE
    frame = Frame(kind=row.kind, method=row.method, shape=row.shapes.frame, text=row.text)
    if kept:
        depth, frame = Depth.FULL, _frame(kept[0], row.text)
    return Leg(
        id=row.id or row.timestamp,
        side=side,
        depth=depth,
        between=(frame,),
        revision=_revision(row, side),
        conversation=_conversation(row, side),
        server=row.server,
    )


def _leg(row: Row, side: str, kept: Sequence[PayloadFrame]) -> Leg:
    own = [_frame(frame) for frame in unfolded(kept) if frame.side == side]
    request = next((frame for frame in own if frame.kind == "request"), None)
    answer = next((frame for frame in reversed(own) if frame.kind == "response"), None)
    between = [frame for frame in own if frame is not request and frame is not answer]
    depth = Depth.FULL
    if not kept or (answer is not None and _is_empty(answer)):
        # Nothing was kept, or the answer was too large to be.
        noted = row.shapes.params is not None or row.shapes.result is not None
        depth = Depth.SHAPE if noted else Depth.NOTED
        request, answer = Frame(kind="request", method=row.method), _outlined(row, side)
        between = _noted(row) if side == CLIENT else []
    code = row.error.code if row.error and _is_told(row, side) else None
    return Leg(
        id=row.id or row.timestamp,
        side=side,
        depth=depth,
        method=row.method,
        revision=_spoken(row, side, request, answer),
        request=request,
        between=tuple(between),
        answer=answer,
        conversation=_conversation(row, side),
        server=row.server,
        error_code=code if isinstance(code, int) else None,
        error_message=row.error.message if row.error and isinstance(code, int) else None,
        duration_ms=row.timings.total_ms if side == CLIENT else row.timings.server_ms,
    )


def _is_empty(frame: Frame) -> bool:
    return frame.payload is ABSENT and frame.error is ABSENT


def _is_told(row: Row, side: str) -> bool:
    """Whether this side has seen the error: one of the gateway's own, no server has."""
    return side == CLIENT or row.profile is None or row.outcome == "server_error"


def _outlined(row: Row, side: str) -> Frame | None:
    """The answer, where only its outline was recorded: that of the server, where one answered."""
    if row.outcome in ("cancelled", "timeout"):
        return None
    passed = row.sizes.answer_bytes in (None, row.sizes.result_bytes)
    shape = row.shapes.result if side == SERVER or passed else None
    code = row.error.code if row.error and _is_told(row, side) else None
    if isinstance(code, int):
        message = row.error.message if row.error else None
        return Frame(kind="response", method=row.method, error={"code": code, "message": message})
    return Frame(kind="response", method=row.method, shape=shape)


def _noted(row: Row) -> list[Frame]:
    return [Frame(kind=each.kind, method=each.method) for each in row.frames]


def _frame(frame: PayloadFrame, text: str | None = None) -> Frame:
    return Frame(
        kind=frame.kind,
        method=frame.method or None,
        payload=_decoded(frame.payload),
        error=_decoded(frame.error),
        text=text,
    )


def _decoded(payload: Raw | UnsetType) -> Any:
    return msgspec.json.decode(payload) if isinstance(payload, Raw) else ABSENT


def _revision(row: Row, side: str) -> Revision | None:
    named = row.client.revision if side == CLIENT else row.upstream.revision
    return None if named is None else find_revision(named)


def _spoken(row: Row, side: str, request: Frame | None, answer: Frame | None) -> Revision | None:
    """The revision of an exchange: the one that was agreed on, or that it says itself."""
    named: Any = None if request is None else request.meta.get(meta.PROTOCOL_VERSION)
    if row.method == "initialize" and side == SERVER:
        # A server without sessions may be asked for one all the same.
        named = None if answer is None else answer.fields.get("protocolVersion")
    else:
        found = _revision(row, side)
        if found is not None:
            return found
    return find_revision(named) if isinstance(named, str) else None


def _conversation(row: Row, side: str) -> str:
    if side == SERVER:
        return f"server {row.server}"
    return f"client {row.client.session or row.client.name or row.profile}"

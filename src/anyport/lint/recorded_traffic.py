"""Builds legs from the record: traffic rows and their payloads.

What was not recorded is `ABSENT`, never guessed.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, UnsetType

from anyport.lint.model import ABSENT, CLIENT, SERVER, Depth, Frame, Leg
from anyport.protocol import meta
from anyport.protocol.revisions import Revision, find_revision
from anyport.record.traffic import EXCHANGE, STDERR, Detail, PayloadFrame, Row, expand_frames


def legs_of(detail: Detail) -> list[Leg]:
    """The legs of an exchange, or of a lone frame."""
    row = detail.row
    if row.kind == STDERR:
        return []
    if row.kind != EXCHANGE:
        return [_lone_frame_leg(row, detail.frames)]
    sides = []
    if row.profile is not None:
        sides.append(CLIENT)
    if row.server is not None and (row.profile is None or _reached_server(row)):
        sides.append(SERVER)
    return [_leg(row, side, detail.frames) for side in sides]


def _reached_server(row: Row) -> bool:
    return row.sizes.sent_bytes is not None or row.upstream.revision is not None


def _lone_frame_leg(row: Row, payload_frames: Sequence[PayloadFrame]) -> Leg:
    side = row.side or SERVER
    depth = Depth.NOTED if row.shapes.frame is None else Depth.SHAPE
    frame = Frame(kind=row.kind, method=row.method, shape=row.shapes.frame, text=row.text)
    if payload_frames:
        depth, frame = Depth.FULL, _frame(payload_frames[0], row.text)
    return Leg(
        id=row.id or row.timestamp,
        side=side,
        depth=depth,
        between=(frame,),
        revision=_revision(row, side),
        conversation=_conversation(row, side),
        server=row.server,
    )


def _leg(row: Row, side: str, payload_frames: Sequence[PayloadFrame]) -> Leg:
    frames = [_frame(frame) for frame in expand_frames(payload_frames) if frame.side == side]
    request = next((frame for frame in frames if frame.kind == "request"), None)
    answer = next((frame for frame in reversed(frames) if frame.kind == "response"), None)
    between = [frame for frame in frames if frame is not request and frame is not answer]
    depth = Depth.FULL
    if not payload_frames or (answer is not None and _is_empty(answer)):
        # No payload was kept, or the answer was too large to keep.
        has_shape = row.shapes.params is not None or row.shapes.result is not None
        depth = Depth.SHAPE if has_shape else Depth.NOTED
        request, answer = Frame(kind="request", method=row.method), _outlined_answer(row, side)
        between = _recorded_frames(row) if side == CLIENT else []
    code = row.error.code if row.error and _has_seen_error(row, side) else None
    return Leg(
        id=row.id or row.timestamp,
        side=side,
        depth=depth,
        method=row.method,
        revision=_spoken_revision(row, side, request, answer),
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


def _has_seen_error(row: Row, side: str) -> bool:
    """Whether this side has seen the error: servers do not see errors of the gateway."""
    return side == CLIENT or row.profile is None or row.outcome == "server_error"


def _outlined_answer(row: Row, side: str) -> Frame | None:
    """The answer, with its outline or error in place of the payload."""
    if row.outcome in ("cancelled", "timeout"):
        return None
    is_unchanged = row.sizes.answer_bytes in (None, row.sizes.result_bytes)
    shape = row.shapes.result if side == SERVER or is_unchanged else None
    code = row.error.code if row.error and _has_seen_error(row, side) else None
    if isinstance(code, int):
        message = row.error.message if row.error else None
        return Frame(kind="response", method=row.method, error={"code": code, "message": message})
    return Frame(kind="response", method=row.method, shape=shape)


def _recorded_frames(row: Row) -> list[Frame]:
    return [Frame(kind=each.kind, method=each.method) for each in row.frames]


def _frame(frame: PayloadFrame, text: str | None = None) -> Frame:
    return Frame(
        kind=frame.kind,
        method=frame.method or None,
        payload=_decode_payload(frame.payload),
        error=_decode_payload(frame.error),
        text=text,
    )


def _decode_payload(payload: Raw | UnsetType) -> Any:
    return msgspec.json.decode(payload) if isinstance(payload, Raw) else ABSENT


def _revision(row: Row, side: str) -> Revision | None:
    named = row.client.revision if side == CLIENT else row.upstream.revision
    return None if named is None else find_revision(named)


def _spoken_revision(
    row: Row, side: str, request: Frame | None, answer: Frame | None
) -> Revision | None:
    """The revision of an exchange: the negotiated one, or the one in the request."""
    named: Any = None if request is None else request.meta.get(meta.PROTOCOL_VERSION)
    if row.method == "initialize" and side == SERVER:
        # A handshake may be sent to a server without sessions, too: its answer counts.
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

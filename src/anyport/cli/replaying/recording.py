"""Recorded exchanges as cases: what was said on one side of the gateway, to be said again.

An exchange of which nothing was kept, or in whose request something was redacted, cannot be said
again; it is told why.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import Raw

from anyport.cli.replaying.case import Case, Said
from anyport.record.compare import ABSENT
from anyport.record.detail import Detail, PayloadFrame, unfolded
from anyport.record.redact import MARK
from anyport.record.row import EXCHANGE, Row

CLIENT: Final = "client"
SERVER: Final = "server"

_NOT_AGAIN: Final = {
    "server/discover": "it is asked anew when the conversation is opened",
    "subscriptions/listen": "a stream of changes has no answer to compare",
    "tasks/get": "a task is over when it is over",
    "tasks/result": "a task is over when it is over",
    "tasks/update": "a task is over when it is over",
    "tasks/cancel": "a task is over when it is over",
}
"""What cannot be said again, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplayable:
    """A recorded exchange that cannot be sent again."""

    name: str
    method: str
    target: str
    reason: str


def exchanges(details: Iterable[Detail]) -> list[Detail]:
    """The exchanges among these, in the order in which they began."""
    return sorted((each for each in details if each.row.kind == EXCHANGE), key=_began)


def cases_of(detail: Detail, side: str) -> list[Case] | Unplayable:
    """What was said in an exchange on one side: one request, or several where one asked again."""
    row = detail.row
    name, method = name_of(row), row.method or ""
    reason = _obstacle(detail, side)
    if reason is not None:
        return unplayable(row, side, reason)
    frames = unfolded(detail.frames)
    answers = tuple(_said(frames, side))
    rounds = list(_rounds([frame for frame in frames if frame.side == side]))
    if not rounds or rounds[-1][1] is None:
        return unplayable(row, side, "no answer to it was recorded")
    if method == "initialize" and row.error is not None:
        return unplayable(row, side, "that handshake was refused")
    return [
        Case(
            name=name if number == 1 else f"{name}#{number}",
            method=method,
            params=_params(request),
            expected=ABSENT if answer is None else _answer(answer),
            answers=answers,
        )
        for number, (request, answer) in enumerate(rounds, start=1)
    ]


def unplayable(row: Row, side: str, reason: str) -> Unplayable:
    """An exchange that cannot be sent again, under the name that this side has for its target."""
    target = (row.public_name if side == CLIENT else None) or row.target or ""
    return Unplayable(name=name_of(row), method=row.method or "", target=target, reason=reason)


def name_of(row: Row) -> str:
    """What an exchange is called."""
    return row.id or row.timestamp


def has_redacted(params: bytes | None) -> bool:
    """Whether something in a request was redacted."""
    return params is not None and MARK.encode() in params


def _obstacle(detail: Detail, side: str) -> str | None:
    row = detail.row
    if row.method in _NOT_AGAIN:
        return _NOT_AGAIN[row.method]
    if not detail.frames:
        if row.payload_file is not None:
            return "what was said was erased, or has grown too old"
        return 'what was said was not recorded; that takes capture = "full"'
    if not any(frame.side == side for frame in detail.frames):
        if side == SERVER:
            return "no server was asked; name a --profile or a --url to ask the gateway again"
        return "no client asked it, but the gateway itself; name a --server"
    return None


def _rounds(
    frames: Sequence[PayloadFrame],
) -> Iterator[tuple[PayloadFrame, PayloadFrame | None]]:
    """Each request with its answer."""
    request: PayloadFrame | None = None
    for frame in frames:
        if frame.kind == "request":
            if request is not None:
                yield request, None
            request = frame
        elif frame.kind == "response" and request is not None:
            yield request, frame
            request = None
    if request is not None:
        yield request, None


def _said(frames: Sequence[PayloadFrame], side: str) -> Iterator[Said]:
    """What the client answered when it was asked: as this side saw it, or else the other."""
    given = [frame for frame in frames if frame.kind == "client-response"]
    own = [frame for frame in given if frame.side == side]
    for frame in own or given:
        said = frame.error if isinstance(frame.error, Raw) else frame.payload
        if frame.method and isinstance(said, Raw):
            failed = isinstance(frame.error, Raw)
            yield Said(method=frame.method, answer=bytes(said), failed=failed)


def _params(frame: PayloadFrame) -> bytes | None:
    return bytes(frame.payload) if isinstance(frame.payload, Raw) else None


def _answer(frame: PayloadFrame) -> Any:
    if isinstance(frame.error, Raw):
        return {"error": msgspec.json.decode(frame.error)}
    if isinstance(frame.payload, Raw):
        return {"result": msgspec.json.decode(frame.payload)}
    return ABSENT


def _began(detail: Detail) -> str:
    row: Row = detail.row
    try:
        ended = datetime.fromisoformat(row.timestamp)
        return (ended - timedelta(milliseconds=row.timings.total_ms or 0.0)).isoformat()
    except (ValueError, OverflowError):  # Of another writer.
        return row.timestamp

"""Traffic as HAR 1.2, for the tools that read it: one entry for each HTTP leg of an exchange.

The record knows exchanges of MCP, not requests of HTTP: addresses, header fields, ids and most
statuses are not kept. Where HAR demands one, it is made up in a way that cannot be mistaken for a
real one, and `_anyport.invented` names it.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

import msgspec
from msgspec import UNSET

from anyport.record.detail import Detail, PayloadFrame, unfolded
from anyport.record.row import EXCHANGE, Row

VERSION: Final = "1.2"
HTTP: Final = frozenset({"streamable-http", "sse"})
"""Transports whose frames travel over HTTP."""

ORIGIN: Final = "http://anyport.invalid"
"""RFC 2606: a name that is never anybody's."""
JSON: Final = "application/json"
NO_STATUS: Final = 0
UNKNOWN: Final = -1
"""What HAR writes for a size or a time that is not known."""


class Har:
    """The document, piece by piece: there may be more entries than fit into memory."""

    def __init__(self, creator_version: str) -> None:
        creator = {"name": "anyport", "version": creator_version}
        head = {"version": VERSION, "creator": creator, "entries": []}
        self.opening = msgspec.json.encode({"log": head}).removesuffix(b"]}}")
        self.closing = b"\n]}}\n"
        self._separator = b"\n"
        self.entries = 0
        """How many were written."""
        self.rows_without = 0
        """How many rows had none."""

    def piece(self, detail: Detail) -> bytes:
        """The entries of one row; empty for a row that did not travel over HTTP."""
        written = [msgspec.json.encode(entry) for entry in entries(detail)]
        self.entries += len(written)
        if not written:
            self.rows_without += 1
            return b""
        piece = self._separator + b",\n".join(written)
        self._separator = b",\n"
        return piece


def entries(detail: Detail) -> Iterator[dict[str, Any]]:
    """An entry for the client's leg, and one for the server's; of those that were HTTP."""
    row = detail.row
    if row.kind != EXCHANGE:
        return
    frames = unfolded(detail.frames)
    began = _began(row)
    if row.client.transport in HTTP:
        url = f"{ORIGIN}/mcp/{quote(row.profile or 'default', safe='')}"
        times = (began, row.timings.total_ms or 0.0)
        got = row.sizes.result_bytes
        yield _Leg("client", url, row.client.transport).entry(row, frames, times, got)
    if row.upstream.transport in HTTP:
        url = f"{ORIGIN}/servers/{quote(row.server or '', safe='')}"
        times = (began + timedelta(milliseconds=_asked_after(row, frames)), _waited(row))
        # What the gateway asks for itself, it gets as it was answered.
        answered, got = row.sizes.answer_bytes, row.sizes.result_bytes
        got = got if answered is None else answered
        yield _Leg("server", url, row.upstream.transport).entry(row, frames, times, got)


class _Leg:
    """One side of an exchange, as a request of HTTP."""

    def __init__(self, side: str, url: str, transport: str) -> None:
        self.side = side
        self.url = url
        self.transport = transport

    def entry(
        self,
        row: Row,
        frames: Sequence[PayloadFrame],
        times: tuple[datetime, float],
        got: int | None,
    ) -> dict[str, Any]:
        began, took = times
        ours = [frame for frame in frames if frame.side == self.side]
        request = next((frame for frame in ours if frame.kind == "request"), None)
        answer = next((frame for frame in reversed(ours) if frame.kind == "response"), None)
        status = self._status(row)
        return {
            "startedDateTime": began.isoformat(timespec="microseconds"),
            "time": took,
            "request": _request(row, self.url, request),
            "response": _response(status, answer, got),
            "cache": {},
            "timings": {"send": 0, "wait": took, "receive": 0},
            "_anyport": self._about(row, invented_status=status == NO_STATUS),
        }

    def _status(self, row: Row) -> int:
        # In every revision of Streamable HTTP a result comes with 200; an error need not. With
        # HTTP+SSE the answer comes on another stream than the one that the request went on.
        is_result = row.outcome in ("ok", "tool_error")
        return 200 if is_result and self.transport == "streamable-http" else NO_STATUS

    def _about(self, row: Row, *, invented_status: bool) -> dict[str, Any]:
        invented = ["request.url", "request.httpVersion", "response.httpVersion"]
        if invented_status:
            invented.append("response.status")
        side: Mapping[str, Any] = msgspec.to_builtins(
            row.client if self.side == "client" else row.upstream
        )
        return {
            "leg": self.side,
            "id": row.id,
            "trace_id": row.trace_id,
            "outcome": row.outcome,
            **({} if row.target is None else {"target": row.target}),
            self.side: side,
            "timings": msgspec.to_builtins(row.timings),
            "sizes": msgspec.to_builtins(row.sizes),
            "shapes": msgspec.to_builtins(row.shapes),
            "hashes": msgspec.to_builtins(row.hashes),
            "invented": invented,
            "not_recorded": ["headers", "cookies", "id"],
        }


def _request(row: Row, url: str, frame: PayloadFrame | None) -> dict[str, Any]:
    request: dict[str, Any] = {
        "method": "POST",
        "url": url,
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": [],
        "queryString": [],
        "headersSize": UNKNOWN,
        "bodySize": UNKNOWN,
    }
    text = None if frame is None else _message(frame, method=row.method)
    if text is not None:
        request["postData"] = {"mimeType": JSON, "text": text}
    return request


def _response(status: int, frame: PayloadFrame | None, size: int | None) -> dict[str, Any]:
    content: dict[str, Any] = {"size": 0 if size is None else size, "mimeType": JSON}
    text = None if frame is None else _message(frame, method=None)
    if text is not None:
        # HAR: the length of the content that is returned. Without the text, what was recorded.
        content |= {"size": len(text.encode()), "text": text}
    return {
        "status": status,
        "statusText": "OK" if status == 200 else "",
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": [],
        "content": content,
        "redirectURL": "",
        "headersSize": UNKNOWN,
        "bodySize": UNKNOWN,
    }


def _message(frame: PayloadFrame, *, method: str | None) -> str | None:
    """The message of JSON-RPC that carried a payload, but for its id."""
    members: dict[str, Any] = {"jsonrpc": "2.0"}
    if method is not None:
        members |= {"method": method, "params": frame.payload}
    elif frame.error is not UNSET:
        members["error"] = frame.error
    else:
        members["result"] = frame.payload
    if UNSET in (members.get("params"), members.get("result")):
        return None
    return msgspec.json.encode(members).decode()


def _began(row: Row) -> datetime:
    """A row is noted when it ends."""
    try:
        ended = datetime.fromisoformat(row.timestamp)
        ended = ended if ended.tzinfo else ended.replace(tzinfo=UTC)
        return ended - timedelta(milliseconds=max(row.timings.total_ms or 0.0, 0.0))
    except (ValueError, OverflowError):
        return datetime.fromtimestamp(0, UTC)


def _asked_after(row: Row, frames: Sequence[PayloadFrame]) -> float:
    asked = (frame.ms for frame in frames if (frame.side, frame.kind) == ("server", "request"))
    return next(asked, row.timings.queue_ms or 0.0)


def _waited(row: Row) -> float:
    waited = row.timings.server_ms
    return (row.timings.total_ms or 0.0) if waited is None else waited

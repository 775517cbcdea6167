"""Traffic as HAR 1.2: one entry for each HTTP leg of an exchange.

The record has MCP exchanges, not HTTP requests: URLs, header fields, ids and most statuses are not
kept. Where HAR requires one, an unmistakable placeholder is written, and `_anyport.invented` lists
it.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

import msgspec
from msgspec import UNSET

from anyport.record.traffic import EXCHANGE, Detail, PayloadFrame, Row, expand_frames

VERSION: Final = "1.2"
HTTP_TRANSPORTS: Final = frozenset({"streamable-http", "sse"})
"""Transports that carry their frames over HTTP."""

ORIGIN: Final = "http://anyport.invalid"
"""RFC 2606 reserves `.invalid`: nobody can own it."""
JSON: Final = "application/json"
NO_STATUS: Final = 0
UNKNOWN: Final = -1
"""What HAR writes for an unknown size or time."""


class HarWriter:
    """Writes the document piece by piece: the entries may not fit into memory."""

    def __init__(self, creator_version: str) -> None:
        creator = {"name": "anyport", "version": creator_version}
        head = {"version": VERSION, "creator": creator, "entries": []}
        self.opening = msgspec.json.encode({"log": head}).removesuffix(b"]}}")
        self.closing = b"\n]}}\n"
        self._separator = b"\n"
        self.entry_count = 0
        """Entries written."""
        self.skipped_row_count = 0
        """Rows without an HTTP leg."""

    def encode_entries(self, detail: Detail) -> bytes:
        """The entries of one row; empty if it did not travel over HTTP."""
        encoded = [msgspec.json.encode(entry) for entry in har_entries(detail)]
        self.entry_count += len(encoded)
        if not encoded:
            self.skipped_row_count += 1
            return b""
        piece = self._separator + b",\n".join(encoded)
        self._separator = b",\n"
        return piece


def har_entries(detail: Detail) -> Iterator[dict[str, Any]]:
    """An entry for the client's leg and one for the server's, if they were HTTP."""
    row = detail.row
    if row.kind != EXCHANGE:
        return
    frames = expand_frames(detail.frames)
    start = _start_time(row)
    if row.client.transport in HTTP_TRANSPORTS:
        url = f"{ORIGIN}/mcp/{quote(row.profile or 'default', safe='')}"
        times = (start, row.timings.total_ms or 0.0)
        received_bytes = row.sizes.result_bytes
        yield _Leg("client", url, row.client.transport).entry(row, frames, times, received_bytes)
    if row.upstream.transport in HTTP_TRANSPORTS:
        url = f"{ORIGIN}/servers/{quote(row.server or '', safe='')}"
        times = (
            start + timedelta(milliseconds=_server_delay_ms(row, frames)),
            _server_wait_ms(row),
        )
        # The gateway's own requests have no client answer: the result is the server's answer.
        answer_bytes, received_bytes = row.sizes.answer_bytes, row.sizes.result_bytes
        received_bytes = received_bytes if answer_bytes is None else answer_bytes
        yield _Leg("server", url, row.upstream.transport).entry(row, frames, times, received_bytes)


class _Leg:
    """One side of an exchange, as an HTTP request."""

    def __init__(self, side: str, url: str, transport: str) -> None:
        self.side = side
        self.url = url
        self.transport = transport

    def entry(
        self,
        row: Row,
        frames: Sequence[PayloadFrame],
        times: tuple[datetime, float],
        received_bytes: int | None,
    ) -> dict[str, Any]:
        start, duration_ms = times
        ours = [frame for frame in frames if frame.side == self.side]
        request = next((frame for frame in ours if frame.kind == "request"), None)
        answer = next((frame for frame in reversed(ours) if frame.kind == "response"), None)
        status = self._status(row)
        return {
            "startedDateTime": start.isoformat(timespec="microseconds"),
            "time": duration_ms,
            "request": _request(row, self.url, request),
            "response": _response(status, answer, received_bytes),
            "cache": {},
            "timings": {"send": 0, "wait": duration_ms, "receive": 0},
            "_anyport": self._extension_fields(row, invented_status=status == NO_STATUS),
        }

    def _status(self, row: Row) -> int:
        # In every revision of Streamable HTTP a result has status 200; an error need not have one.
        # With HTTP+SSE the answer comes on another stream than the request.
        is_result = row.outcome in ("ok", "tool_error")
        return 200 if is_result and self.transport == "streamable-http" else NO_STATUS

    def _extension_fields(self, row: Row, *, invented_status: bool) -> dict[str, Any]:
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
        # HAR: the length of the returned content. Without the text, the recorded size.
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
    """The JSON-RPC message of a payload, without its id."""
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


def _start_time(row: Row) -> datetime:
    """A row is recorded when the exchange ends."""
    try:
        ended = datetime.fromisoformat(row.timestamp)
        ended = ended if ended.tzinfo else ended.replace(tzinfo=UTC)
        return ended - timedelta(milliseconds=max(row.timings.total_ms or 0.0, 0.0))
    except (ValueError, OverflowError):
        return datetime.fromtimestamp(0, UTC)


def _server_delay_ms(row: Row, frames: Sequence[PayloadFrame]) -> float:
    request_times = (
        frame.ms for frame in frames if (frame.side, frame.kind) == ("server", "request")
    )
    return next(request_times, row.timings.queue_ms or 0.0)


def _server_wait_ms(row: Row) -> float:
    server_ms = row.timings.server_ms
    return (row.timings.total_ms or 0.0) if server_ms is None else server_ms

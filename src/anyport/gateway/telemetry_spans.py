"""The spans that one line of the journal makes, in the words of OpenTelemetry.

An exchange is what a client asked (a server's span) and what a server was asked for it (a client's
span, inside the first). Names and attributes follow the conventions for MCP; what is ours alone
begins with `anyport.`. Knows no packages of OpenTelemetry, and no clock.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, TypeAlias

import msgspec

from anyport.gateway.context import is_kept
from anyport.gateway.noting import network_of
from anyport.record.row import EXCHANGE, Row, row_of

Attributes: TypeAlias = dict[str, str | int | float | bool]

CALL: Final = "tools/call"
_TARGETS: Final[Mapping[str, str]] = {CALL: "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name"}
"""What a method is about, where there are few enough of them to name spans by."""
_URI: Final = "mcp.resource.uri"
_OURS_ABOVE: Final = 1 << 63


class Span(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One operation, by whom and from when to when."""

    name: str
    serves: bool
    """Whether we answered it, rather than asked."""
    trace_id: int
    span_id: int
    parent_id: int | None
    parent_is_remote: bool
    start_ns: int
    end_ns: int
    attributes: Attributes
    error: str | None
    """What went wrong, in words that may be empty; None if nothing did."""


def spans_of(line: bytes, share: float) -> tuple[Span, ...]:
    """The spans of a line; none where it is no exchange that has ended, or not to be told."""
    try:
        event = msgspec.json.decode(line, type=dict[str, Any])
        row = row_of(event)
        if row is None or row.kind != EXCHANGE or row.method is None or row.id is None:
            return ()
        metadata = event["metadata"]
        parent = metadata.get("parent_span_id")
        if metadata.get("sampled") is False or not (parent or is_kept(row.trace_id, share)):
            return ()
        return tuple(_Teller(row, parent).spans())
    except (ValueError, TypeError, KeyError, RecursionError):  # Nobody else writes into it.
        return ()


def outer_id(span_id: int) -> int:
    """The id of the span around the one that servers are told of.

    That one has the id that the record has, so that what a server knows of its caller can be
    looked up there. The other is its own mirror: nothing more has to be kept.
    """
    return span_id ^ _OURS_ABOVE or 1


class _Teller:
    def __init__(self, row: Row, parent: str | None) -> None:
        self._row = row
        self._trace_id = int(row.trace_id, 16)
        self._span_id = int(row.id or "", 16)
        self._parent_id = int(parent, 16) if parent else None
        took = row.timings.total_ms or 0.0
        self._end_ns = _nanoseconds(row.timestamp)
        self._start_ns = self._end_ns - round(took * 1e6)
        code = None if row.error is None else row.error.code
        self._error_type = error_type_of(row)
        self._code = None if code is None else str(code)

    def spans(self) -> Iterator[Span]:
        row = self._row
        asked = _was_asked(row)
        if row.profile is not None or not asked:
            yield self._span(
                serves=True,
                span_id=outer_id(self._span_id) if asked else self._span_id,
                parent_id=self._parent_id,
                times=(self._start_ns, self._end_ns),
            )
        if asked:
            inside = row.profile is not None
            yield self._span(
                serves=False,
                span_id=self._span_id,
                parent_id=outer_id(self._span_id) if inside else self._parent_id,
                times=self._waited(),
            )

    def _waited(self) -> tuple[int, int]:
        """From when to when the server was waited for; all of the time if nobody knows."""
        timings = self._row.timings
        if timings.server_ms is None:
            return self._start_ns, self._end_ns
        start = min(self._start_ns + round((timings.queue_ms or 0.0) * 1e6), self._end_ns)
        return start, min(start + round(timings.server_ms * 1e6), self._end_ns)

    def _span(
        self, *, serves: bool, span_id: int, parent_id: int | None, times: tuple[int, int]
    ) -> Span:
        row, method = self._row, self._row.method or ""
        attributes: Attributes = {"mcp.method.name": method}
        name, target = method, row.target
        if serves and row.public_name is not None:
            target = row.public_name
        if target is not None:
            attributes[_TARGETS.get(method, _URI)] = target
            # What nobody has may have any name: a stranger must not choose those of spans.
            if method in _TARGETS and (row.server is not None or self._error_type is None):
                name = f"{method} {target}"
        if method == CALL:
            attributes["gen_ai.operation.name"] = "execute_tool"
        attributes |= self._of_client() if serves else self._of_server()
        attributes |= self._of_ending()
        return Span(
            name=name,
            serves=serves,
            trace_id=self._trace_id,
            span_id=span_id,
            parent_id=parent_id,
            parent_is_remote=serves,
            start_ns=times[0],
            end_ns=times[1],
            attributes=attributes,
            error=None if self._error_type is None else self._words(),
        )

    def _of_client(self) -> Attributes:
        row, client = self._row, self._row.client
        told = {
            "mcp.protocol.version": client.revision,
            "mcp.session.id": client.session,
            "anyport.profile": row.profile,
            "anyport.server": row.server,
            "anyport.client": client.name,
            "anyport.principal": client.principal,
        }
        found: Attributes = {key: text for key, text in told.items() if text is not None}
        if row.cached:
            found["anyport.cached"] = True
        if row.timings.queue_ms:
            found["anyport.queue_ms"] = row.timings.queue_ms
        return found | _network(client.transport)

    def _of_server(self) -> Attributes:
        row, upstream = self._row, self._row.upstream
        told = {"mcp.protocol.version": upstream.revision, "anyport.server": row.server}
        found: Attributes = {key: text for key, text in told.items() if text is not None}
        return found | _network(upstream.transport)

    def _of_ending(self) -> Attributes:
        found: Attributes = {}
        if self._error_type is not None:
            found["error.type"] = self._error_type
        if self._code is not None:
            found["rpc.response.status_code"] = self._code
        return found

    def _words(self) -> str:
        return "" if self._row.error is None else self._row.error.message or ""


def error_type_of(row: Row) -> str | None:
    """The conventions' word for how an exchange failed; None if it did not."""
    if row.status == "success":
        return None
    if row.status in ("timeout", "cancelled"):
        return row.status
    code = None if row.error is None else row.error.code
    return "tool_error" if code is None else str(code)


def _was_asked(row: Row) -> bool:
    """Whether a server had the request; where nothing is captured, that one is named must do."""
    if row.server is None or row.cached:
        return False
    captured = row.timings.gateway_ms is not None
    return row.timings.server_ms is not None if captured else True


def _network(transport: str | None) -> Attributes:
    if transport is None:
        return {}
    carried = network_of(transport)
    if carried == "tcp":
        return {"network.transport": carried, "network.protocol.name": "http"}
    return {"network.transport": carried}


def _nanoseconds(timestamp: str) -> int:
    at = datetime.fromisoformat(timestamp)
    return int(at.timestamp()) * 10**9 + at.microsecond * 1000

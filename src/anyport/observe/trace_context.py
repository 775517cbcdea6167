"""Trace and span ids, and the propagation of a client's trace context."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from anyport.protocol import meta
from anyport.protocol.exchange import Exchange
from anyport.record.trace_ids import TraceContext, parse_traceparent
from anyport.wire import raw_json

CONTEXT_KEYS: Final[tuple[str, ...]] = (meta.TRACEPARENT, meta.TRACESTATE, meta.BAGGAGE)
CONTEXT_BYTES_MAX: Final = 8192
"""W3C Baggage requires no more, and it travels with every call."""
STATE_CHARS_MAX: Final = 512
"""Of a `tracestate` header field: W3C requires no more, and a request head has less room."""
IDS_PER_DRAW: Final = 256
"""Drawn at once: one by one, they would cost more than the rest of an event."""

_FIELD_VALUE: Final = re.compile(r"[\x20-\x7e]+")


class IdGenerator:
    """Generates trace and span ids."""

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._random_bytes = random_bytes
        self._random_digits = b""
        """Hexadecimal digits, used up to an offset."""
        self._offset = 0

    def draw(self) -> tuple[bytes, bytes]:
        """A new trace id and a new span id."""
        at = self._offset
        if at >= len(self._random_digits):
            self._random_digits, at = self._draw_digits(), 0
        self._offset = at + 48
        return self._random_digits[at : at + 32], self._random_digits[at + 32 : at + 48]

    def _draw_digits(self) -> bytes:
        while True:
            drawn = self._random_bytes(IDS_PER_DRAW * 24).hex().encode()
            if b"0" * 16 not in drawn:  # All zeros are invalid ids.
                return drawn


def join_trace(exchange: Exchange, sample_ratio: float | None = None) -> None:
    """Join the client's trace, and make the server's work a part of it.

    With a `sample_ratio`, which means that telemetry is on, the server gets a trace context even if
    the client sent none.
    """
    client_context = _client_context(exchange)
    if not client_context and sample_ratio is None:
        return
    parent = parse_traceparent(client_context.get(meta.TRACEPARENT, ""))
    if parent is not None:
        exchange.trace_id, exchange.parent_span_id = parent.trace_id, parent.span_id
    changes: dict[str, bytes | None] = {
        name: None
        for name, text in client_context.items()
        if len(text.encode()) > CONTEXT_BYTES_MAX
    }
    state = (
        ""
        if parent is None or meta.TRACESTATE in changes
        else client_context.get(meta.TRACESTATE, "")
    )
    if meta.TRACEPARENT in client_context or sample_ratio is not None:
        # The server becomes a child of our span. An invalid traceparent is not forwarded, and
        # neither is the tracestate that came with it.
        if parent is not None:
            sampled = parent.sampled
        else:
            sampled = sample_ratio is None or is_sampled(exchange.trace_id, sample_ratio)
        ours = TraceContext(trace_id=exchange.trace_id, span_id=exchange.span_id, sampled=sampled)
        traceparent = ours.traceparent
        changes[meta.TRACEPARENT] = raw_json.encode_string(traceparent)
        if parent is None and meta.TRACESTATE in client_context:
            changes[meta.TRACESTATE] = None
        elif state and exchange.trace_headers:
            changes[meta.TRACESTATE] = raw_json.encode_string(state)
        exchange.param_fields += _header_fields(traceparent, state)
    exchange.trace_context = changes


def is_sampled(trace_id: str, ratio: float) -> bool:
    """Whether a trace is sampled: every process decides the same.

    By the lower half of the id, as the OpenTelemetry SDKs do.
    """
    return int(trace_id[16:], 16) < round(ratio * 2**64)


def is_unsampled(exchange: Exchange) -> bool:
    """Whether the client's trace context says not to sample."""
    sent = exchange.trace_context.get(meta.TRACEPARENT)
    return bool(exchange.parent_span_id) and sent is not None and sent.endswith(b'-00"')


def _client_context(exchange: Exchange) -> Mapping[str, str]:
    """The client's trace context; a member that is not text counts as empty.

    Members of `_meta` come first: they are about the message, header fields about the HTTP request.
    """
    params = exchange.params
    # Escapes may hide one of the names; hardly any request has escapes.
    if b"trace" in params or b"baggage" in params or b"\\u" in params:
        raw = exchange.param_members.get("_meta")
        found = {} if raw is None else raw_json.members(raw)
        sent = {
            name: raw_json.decode_string(found[name]) or ""
            for name in CONTEXT_KEYS
            if name in found
        }
        if meta.TRACEPARENT in sent or not exchange.trace_headers:
            return sent
        return {**sent, **exchange.trace_headers}
    return exchange.trace_headers


def _header_fields(traceparent: str, state: str) -> tuple[tuple[str, str], ...]:
    """The header fields that carry the context to servers over HTTP."""
    if not state or len(state) > STATE_CHARS_MAX or not _FIELD_VALUE.fullmatch(state):
        return ((meta.TRACEPARENT, traceparent),)
    return ((meta.TRACEPARENT, traceparent), (meta.TRACESTATE, state))

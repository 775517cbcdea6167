"""Ids of traces and spans, and what becomes of a client's own trace context."""

import re
from collections.abc import Mapping
from typing import Final

from anyport.protocol import meta
from anyport.protocol.exchange import Exchange
from anyport.record.trace import RandomBytes, TraceContext, parse_traceparent
from anyport.wire import members

CONTEXT: Final[tuple[str, ...]] = (meta.TRACEPARENT, meta.TRACESTATE, meta.BAGGAGE)
CONTEXT_BYTES_MAX: Final = 8192
"""W3C Baggage asks nobody to carry more, and it would travel with every call."""
STATE_CHARS_MAX: Final = 512
"""Of a `tracestate` in a header field: W3C asks nobody to carry more, and a head has less room."""
DRAWN_IDS: Final = 256
"""Ids are drawn so many at a time; one by one they would cost more than the rest of a note."""

_FIELD_VALUE: Final = re.compile(r"[\x20-\x7e]+")


class Ids:
    """Draws ids."""

    def __init__(self, random_bytes: RandomBytes) -> None:
        self._random_bytes = random_bytes
        self._drawn = b""
        """Hexadecimal chance; used up to a place."""
        self._at = 0

    def draw(self) -> tuple[bytes, bytes]:
        """Of a new trace, and of a new span."""
        at = self._at
        if at >= len(self._drawn):
            self._drawn, at = self._more(), 0
        self._at = at + 48
        return self._drawn[at : at + 32], self._drawn[at + 32 : at + 48]

    def _more(self) -> bytes:
        while True:
            drawn = self._random_bytes(DRAWN_IDS * 24).hex().encode()
            if b"0" * 16 not in drawn:  # All zero means "no id".
                return drawn


def join_trace(exchange: Exchange, share: float | None = None) -> None:
    """Make an exchange part of the client's trace, and the server's work part of ours.

    With a `share`, spans are told to somebody: then the server's work is part of ours even where
    the client has no trace.
    """
    sent = _sent_context(exchange)
    if not sent and share is None:
        return
    parent = parse_traceparent(sent.get(meta.TRACEPARENT, ""))
    if parent is not None:
        exchange.trace_id, exchange.parent_span_id = parent.trace_id, parent.span_id
    changes: dict[str, bytes | None] = {
        name: None for name, text in sent.items() if len(text.encode()) > CONTEXT_BYTES_MAX
    }
    state = "" if parent is None or meta.TRACESTATE in changes else sent.get(meta.TRACESTATE, "")
    if meta.TRACEPARENT in sent or share is not None:
        # The server becomes the child of our span; what is no traceparent goes no further,
        # nor does what vendors noted along with it.
        if parent is not None:
            sampled = parent.sampled
        else:
            sampled = share is None or is_kept(exchange.trace_id, share)
        ours = TraceContext(trace_id=exchange.trace_id, span_id=exchange.span_id, sampled=sampled)
        own = ours.traceparent
        changes[meta.TRACEPARENT] = members.text(own)
        if parent is None and meta.TRACESTATE in sent:
            changes[meta.TRACESTATE] = None
        elif state and exchange.carried:
            changes[meta.TRACESTATE] = members.text(state)
        exchange.param_fields += _fields(own, state)
    exchange.context = changes


def is_kept(trace_id: str, share: float) -> bool:
    """Whether a trace belongs to the share that is told: the same answer wherever it is asked.

    By the lower half of the id, as the SDKs of OpenTelemetry do it.
    """
    return int(trace_id[16:], 16) < round(share * 2**64)


def is_untold(exchange: Exchange) -> bool:
    """Whether the client wants nobody to be told of its trace."""
    sent = exchange.context.get(meta.TRACEPARENT)
    return bool(exchange.parent_span_id) and sent is not None and sent.endswith(b'-00"')


def _sent_context(exchange: Exchange) -> Mapping[str, str]:
    """What the client says of its trace; a member that is not text counts as an empty one.

    What stands in the message is about it; header fields are about the request that carries it.
    """
    params = exchange.params
    # The third: a name may be written in escapes. Most requests have none of them.
    if b"trace" in params or b"baggage" in params or b"\\u" in params:
        raw = exchange.found.get("_meta")
        found = {} if raw is None else members.members(raw)
        sent = {name: members.string(found[name]) or "" for name in CONTEXT if name in found}
        if meta.TRACEPARENT in sent or not exchange.carried:
            return sent
        return {**sent, **exchange.carried}
    return exchange.carried


def _fields(own: str, state: str) -> tuple[tuple[str, str], ...]:
    """The same for servers over HTTP, in the header fields that others read on the way."""
    if not state or len(state) > STATE_CHARS_MAX or not _FIELD_VALUE.fullmatch(state):
        return ((meta.TRACEPARENT, own),)
    return ((meta.TRACEPARENT, own), (meta.TRACESTATE, state))

"""Trace ids, and the `traceparent` of W3C Trace Context, level 1.

A client chooses its traceparent: it correlates records and is never used for a decision.
"""

import re
from dataclasses import dataclass
from typing import Final

TRACEPARENT_CHARS_MAX: Final = 256
"""A future version may be longer than today's 55 characters, within reason."""

_SAMPLED: Final = 0x01
_TRACEPARENT: Final = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace_id>[0-9a-f]{32})-(?P<span_id>[0-9a-f]{16})"
    r"-(?P<flags>[0-9a-f]{2})(?P<rest>-.*)?"
)
_TRACE_ID: Final = re.compile(
    r"[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
)
_NO_TRACE: Final = "0" * 32
_NO_SPAN: Final = "0" * 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceContext:
    """A span within a trace, as a traceparent names it."""

    trace_id: str
    """32 lower-case hexadecimal digits, not all zero."""
    span_id: str
    """16 of them: the current operation, and the parent of what is done for it."""
    sampled: bool = True

    @property
    def traceparent(self) -> str:
        """The header value, always of version 00: its fields are known."""
        return f"00-{self.trace_id}-{self.span_id}-{_SAMPLED if self.sampled else 0:02x}"


def parse_traceparent(text: str) -> TraceContext | None:
    """The context, or None for what the specification tells a receiver to ignore."""
    if len(text) > TRACEPARENT_CHARS_MAX:
        return None
    found = _TRACEPARENT.fullmatch(text)
    # "Version 255 is invalid". Version 00 has exactly four fields, later versions may add some.
    if found is None or found["version"] == "ff" or (found["version"] == "00" and found["rest"]):
        return None
    if found["trace_id"] == _NO_TRACE or found["span_id"] == _NO_SPAN:
        return None
    return TraceContext(
        trace_id=found["trace_id"],
        span_id=found["span_id"],
        sampled=bool(int(found["flags"], 16) & _SAMPLED),
    )


def normalise_trace_id(text: str) -> str | None:
    """The stored form of a trace id that a person wrote, with dashes or in capitals."""
    text = text.strip().lower()
    if not _TRACE_ID.fullmatch(text):
        return None
    plain = text.replace("-", "")
    return None if plain == _NO_TRACE else plain

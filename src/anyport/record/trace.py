"""Trace ids and the `traceparent` of W3C Trace Context, level 1.

A traceparent is a client's word: it joins records and is never used for a decision. Chance is
an argument. This file knows nothing of where a traceparent is carried.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

RandomBytes: TypeAlias = Callable[[int], bytes]
"""Gives so many random bytes: `os.urandom`, or in a test something that is not random."""

TRACEPARENT_CHARS_MAX: Final = 256
"""A future version may be longer than today's 55 characters; nobody needs it to be a document."""

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
    """A place in a trace."""

    trace_id: str
    """32 lower-case hexadecimal digits, not all zero."""
    span_id: str
    """16 of them: the one operation meant, and the parent of what is done for it."""
    sampled: bool = True

    @property
    def traceparent(self) -> str:
        """The header's value. Always version 00, the one whose fields we know."""
        return f"00-{self.trace_id}-{self.span_id}-{_SAMPLED if self.sampled else 0:02x}"


def parse_traceparent(text: str) -> TraceContext | None:
    """The context, or None for anything the specification tells a receiver to ignore."""
    if len(text) > TRACEPARENT_CHARS_MAX:
        return None
    found = _TRACEPARENT.fullmatch(text)
    # "Version 255 is invalid"; version 00 has exactly four fields, later ones may add some.
    if found is None or found["version"] == "ff" or (found["version"] == "00" and found["rest"]):
        return None
    if found["trace_id"] == _NO_TRACE or found["span_id"] == _NO_SPAN:
        return None
    return TraceContext(
        trace_id=found["trace_id"],
        span_id=found["span_id"],
        sampled=bool(int(found["flags"], 16) & _SAMPLED),
    )


def new_trace(random_bytes: RandomBytes) -> TraceContext:
    """A trace that begins here."""
    return TraceContext(
        trace_id=_new_id(16, random_bytes),
        span_id=new_span_id(random_bytes),
    )


def new_span_id(random_bytes: RandomBytes) -> str:
    """An id for one operation."""
    return _new_id(8, random_bytes)


def normalise_trace_id(text: str) -> str | None:
    """A trace id as people write it, with dashes or in capitals, as we store it."""
    text = text.strip().lower()
    if not _TRACE_ID.fullmatch(text):
        return None
    plain = text.replace("-", "")
    return None if plain == _NO_TRACE else plain


def _new_id(size: int, random_bytes: RandomBytes) -> str:
    while not any(drawn := random_bytes(size)):
        pass  # All zero means "no id"; draw again.
    return drawn.hex()

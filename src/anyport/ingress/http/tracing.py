"""The trace that a head names, taken out before the head is looked up.

A `traceparent` is new in every request. Left where it is, it would make every head one that nobody
has seen before, and the memory of heads would hold nothing but those. Whether it is a valid one is
for others to judge; here it only has to be a field like any other.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from anyport.ingress.http.visit import Visit
from anyport.wire.http import HEAD_BYTES_MAX, Heads

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"

_FIELD: Final = re.compile(
    # Nothing but what a value may hold: any other line is left for the parser to refuse.
    rb"\r\n(traceparent|tracestate|baggage):[ \t]*([\t\x20-\x7e]*)(?=\r\n|\Z)",
    re.IGNORECASE,
)


class TracedHeads(Heads[Visit]):
    """Remembers heads by all that is the same in the next one."""

    def read(self, raw: bytes) -> Visit:
        """The visit in a head, with the trace that it names.

        Raises:
            BadMessage: it is no head at all.
        """
        rest, context = take_context(raw)
        visit = super().read(rest)
        if not context:
            return visit
        return msgspec.structs.replace(visit, context=context, straight=False)


def take_context(raw: bytes) -> tuple[bytes, Mapping[str, str]]:
    """A head without its trace, and the trace. What travels as baggage is left behind."""
    if len(raw) > HEAD_BYTES_MAX:
        return raw, {}  # It is refused for that.
    rest, count = _FIELD.subn(b"", raw)
    if not count:
        return raw, {}
    found: dict[str, list[str]] = {}
    for name, value in _FIELD.findall(raw):
        found.setdefault(name.decode().lower(), []).append(value.decode().strip(" \t"))
    # W3C Trace Context, 3.2.2: who finds more than one has found none.
    if len(found.get(TRACEPARENT, ())) != 1:
        return rest, {}
    context = {TRACEPARENT: found[TRACEPARENT][0]}
    if TRACESTATE in found:
        context[TRACESTATE] = ",".join(found[TRACESTATE])
    return rest, context

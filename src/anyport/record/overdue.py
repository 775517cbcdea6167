"""Whether a journal about which nothing is signed is young, or has lost what was signed.

It knows when a gateway signs, and what was read of the journal; nothing of signatures.
"""

from datetime import datetime
from typing import Annotated, Final

import msgspec

from anyport.record.walk import Walk

SIGNED_SECONDS: Final = 300.0
"""Within so long of its first record a gateway has signed a head. Much longer than it takes: a busy
machine shall raise no alarm."""

ENDED_SECONDS: Final = 30.0
"""Within so long of its end a gateway has signed its last head, for the same reason."""


class _Noted(msgspec.Struct):
    """What a record says about its gateway."""

    timestamp: Annotated[datetime, msgspec.Meta(tz=True)]
    event_type: str


def why_overdue(walk: Walk, now: float) -> str | None:
    """Why there should be a head; None where all gateways may have been too young for one.

    One that was killed signed nothing when it ended: only how long it wrote counts then.
    """
    for writer, line in walk.last_lines.items():
        try:
            first = msgspec.json.decode(walk.first_lines[writer], type=_Noted)
            last = msgspec.json.decode(line, type=_Noted)
        except (msgspec.DecodeError, RecursionError):  # No record of a gateway.
            continue
        until = last.timestamp.timestamp()
        if until - first.timestamp.timestamp() > SIGNED_SECONDS:
            return f"writer {writer} wrote for longer than signing takes"
        if last.event_type == "gateway.stopped" and now - until > ENDED_SECONDS:
            return f"writer {writer} ended in good order"
    return None

"""What one attempt to act on an event can come to. Types, and the pace of further attempts.

Pure: the clock and chance are arguments.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import msgspec

FIRST_PAUSE_SECONDS: Final = 1.0
PAUSE_SECONDS_MAX: Final = 300.0
"""Between two attempts: a receiver that is back is found within five minutes."""
DOUBLINGS_MAX: Final = 16
"""Far beyond the longest pause, far below where numbers end."""


class Occasion(msgspec.Struct, frozen=True):
    """One event, for one hook."""

    line: bytes
    """As the journal has it."""
    key: str
    """The same however often it is delivered: receivers can tell what they have had."""
    span_id: str
    """Of what the hook does about it."""

    def event(self) -> Mapping[str, Any]:
        """The event itself."""
        decoded: Mapping[str, Any] = msgspec.json.decode(self.line)
        return decoded

    @property
    def trace_id(self) -> str:
        """The trace that the event is part of."""
        return str(self.event().get("trace_id", ""))

    @property
    def traceparent(self) -> str:
        """What makes further work part of the same trace, below the hook."""
        return f"00-{self.trace_id}-{self.span_id}-01"


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """It was done; what the event lacked of what the hook's texts refer to."""

    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """It is worth another attempt."""

    words: str
    after_seconds: float | None = None
    """What the receiver asks for; None where it asks for nothing."""
    counts: bool = True
    """Whether it was an answer to this very event: so many of them, and it is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """It will never work."""

    words: str


Outcome: TypeAlias = Done | Again | GivenUp


class Action(Protocol):
    """What a hook does about an event."""

    kind: str

    async def act(self, occasion: Occasion) -> Outcome:
        """Make one attempt. Never raises but for being cancelled."""

    def close(self) -> None:
        """Nothing more will be done."""


def pause_seconds(attempts: int, chance: float) -> float:
    """How long to wait after so many attempts; half of it is left to chance, from 0 to 1."""
    whole = min(PAUSE_SECONDS_MAX, FIRST_PAUSE_SECONDS * 2.0 ** min(attempts - 1, DOUBLINGS_MAX))
    return whole * (1 + chance) / 2

"""One call to a server: what it is about, for whom, how it is written, and what may come of it.

Most calls are like one before. Then all but the id and the arguments is known, and nothing of it
has to be written again. Knows no connection.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from anyport.protocol.errors import Fault, Situation, lost, timed_out
from anyport.protocol.timeouts import Timeout
from anyport.upstream.sign import Again, Sign
from anyport.wire.frame import Failure, Result

Fields = tuple[tuple[str, str], ...]
NO_FIELDS: Final[Fields] = ()


class Lost(msgspec.Struct, frozen=True, gc=False):
    """In place of an answer: the server will not give one."""

    reason: str
    situation: Situation = Situation.NOT_RUNNING
    sign: Sign = Sign.NONE
    again: Again = Again.NEVER
    retry_after: float = 0.0
    """Seconds after which the server wants to be asked again, where it says so."""
    timeout: Timeout | None = None
    """Which time was over, where it is not that of the whole call."""

    @classmethod
    def unplaced(cls, seconds: float) -> "Lost":
        """For a call that has waited too long for its turn."""
        return cls(f"{seconds:g}s", Situation.TIMED_OUT, timeout=Timeout.QUEUE)

    def fault(self, slug: str) -> Fault:
        """What its caller is told."""
        if self.timeout is None:
            return lost(slug, self.situation, self.reason, self.retry_after or None)
        return timed_out(slug, self.timeout, self.reason)


Answer = Result | Failure | Lost


def unkept(size: int) -> Lost:
    """In place of an answer for which there was no room."""
    return Lost(f"{size} bytes; the call was carried out", Situation.OVERLOADED, Sign.GOOD)


class Home(Protocol):
    """The connection that a call waits for."""

    def go(self, call: "Call") -> None:
        """It has got its place."""

    def turn_away(self, call: "Call", why: Lost) -> None:
        """It waits no longer, and will not be sent."""


class Concern(msgspec.Struct, frozen=True, gc=False):
    """What a call is about, and for whom."""

    name: str | None = None
    fields: Fields = NO_FIELDS
    who: object = None


OWN: Final = Concern()
"""The gateway asks for itself."""


class Form(msgspec.Struct, frozen=True, gc=False):
    """A call of a tool that is made again and again: all but its id and its arguments."""

    name: str
    frame: bytes
    """With a place for the id, for the arguments and, if it `reports`, for the id once more."""
    reports: bool
    """Whether it asks for progress."""

    def fill(self, number: int, arguments: bytes) -> bytes:
        """The whole frame."""
        return self.frame % ((number, arguments, number) if self.reports else (number, arguments))


class Call(msgspec.Struct, eq=False):
    """One request of ours that has no answer yet."""

    method: str
    on_done: Callable[[Answer], None]
    on_progress: Callable[[Sequence[bytes]], None] | None = None
    """Takes the params of one report or several."""
    number: int = 0
    name: str | None = None
    """The native name or URI it is about, where the caller knows it."""
    fields: Fields = NO_FIELDS
    """Header fields of the client's that nobody but the server can judge."""
    form: Form | None = None
    """Where it is a call of a tool like many before."""
    who: object = None
    """Whose it is; None for the gateway's own, which take no place and never wait."""
    frame: bytes | None = None
    """Kept while the call waits for a place, and by channels that may have to send it again."""
    home: "Home | None" = None
    """On which it goes out when it gets the place that it waits for."""
    queued: float = 0.0
    """Since when it has waited; nothing if it had not to."""
    admitted: float = 0.0
    """When it got the place it had to wait for; nothing if it had not."""

"""How long a client over HTTP may take for each thing it does, and how long it may stay.

Only the figures, what they are called, and what a client is told; who looks at the clock, and
what happens then, is not known here.
"""

from typing import Final

from anyport.protocol.timeouts import Timeout

HEAD_SECONDS_MAX: Final = 10.0
"""From the first byte of a request, or from the connection, to the end of its head."""
BODY_SECONDS_MAX: Final = 30.0
"""From there to the end of its body."""
IDLE_SECONDS_MAX: Final = 75.0
"""Between two requests on one connection."""
STALLED_SECONDS_MAX: Final = 30.0
"""A client that stopped reading has this long to go on."""
LINGER_SECONDS_MAX: Final = 2.0
"""A client that was refused may go on sending for so long, until it reads that it was."""
AGE_SECONDS_MAX: Final = 3600.0
"""A connection that is used all the time is closed after this, with an answer: so that clients
come to a gateway that was added since, and nothing that one connection holds is held for ever."""
AGE_SPREAD: Final = 0.1
"""Less by up to this part, so that connections opened together are not all closed together."""

KEEP_ALIVE_SECONDS: Final = 15.0
"""Intermediaries cut a stream on which nothing has moved for a minute, some sooner."""
NEVER: Final = float("inf")

_WORDS: Final = {
    Timeout.HEAD: f"The header of the request did not come within {HEAD_SECONDS_MAX:g} s",
    Timeout.BODY: f"The body of the request did not come within {BODY_SECONDS_MAX:g} s",
}


def until(now: float, chance: float) -> float:
    """When a connection that is opened now has been in use for long enough."""
    return now + AGE_SECONDS_MAX * (1 - AGE_SPREAD * chance)


def overdue(*, head_read: bool, begun: bool, open_seconds: float) -> Timeout:
    """Which time is over for a client that has nothing to wait for."""
    if head_read:
        return Timeout.BODY
    # A client that has said nothing at all is let go before it could have been idle for so long.
    return Timeout.HEAD if begun or open_seconds < IDLE_SECONDS_MAX else Timeout.IDLE


def words(timeout: Timeout) -> str:
    """What a client is told whose request did not come in time."""
    return _WORDS[timeout]

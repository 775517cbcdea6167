"""What the end of a call says besides its answer: of its server, and of asking once more.

Whoever saw the end knows; what follows from it is the breaker's to decide, and the retries'.
"""

from enum import Enum

from anyport.wire.frame import Failure


class Postponed(Failure, frozen=True, gc=False):
    """A server's error that says when to ask again."""

    retry_after: float = 0.0


class Sign(Enum):
    """What the end of one call says of its server."""

    GOOD = "good"
    """It has answered, if only to say no."""
    BAD = "bad"
    ACCIDENT = "accident"
    """It was lost on the way; maybe many were, at once."""
    UNREACHED = "unreached"
    """No connection could be opened for it; whoever tried has told so."""
    NONE = "none"
    """Nothing: it was the gateway, or the client, that ended it."""


class Again(Enum):
    """Whether a call may be made once more."""

    ALWAYS = "always"
    """The server cannot have seen it."""
    IF_SAFE = "if safe"
    """The server may have done what it was asked, or a part of it."""
    NEVER = "never"

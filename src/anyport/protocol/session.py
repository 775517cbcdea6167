"""The life of one downstream legacy session.

Everything that changes a session's state is in this file, in one table. The table knows nothing
of transports: the same session runs over stdio and HTTP.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class State(Enum):
    """How far the handshake has come."""

    NEW = "new"
    OPENING = "opening"
    """`initialize` is answered, the client has not confirmed."""
    READY = "ready"
    CLOSED = "closed"


class Step(Enum):
    """What a client can do to its session."""

    INITIALIZE = "initialize"
    INITIALIZED = "initialized"
    REQUEST = "request"
    CLOSE = "close"


TRANSITIONS: Final[Mapping[tuple[State, Step], State]] = MappingProxyType(
    {
        (State.NEW, Step.INITIALIZE): State.OPENING,
        # A confirmation of nothing, from a client that skips the handshake: harmless.
        (State.NEW, Step.INITIALIZED): State.NEW,
        # Revision 2025-03-26 allows a request without a session; it is answered by itself.
        (State.NEW, Step.REQUEST): State.NEW,
        (State.NEW, Step.CLOSE): State.CLOSED,
        # A client whose first try timed out starts again on the same pipe.
        (State.OPENING, Step.INITIALIZE): State.OPENING,
        (State.OPENING, Step.INITIALIZED): State.READY,
        # A client that asks before it confirms has evidently taken our answer.
        (State.OPENING, Step.REQUEST): State.READY,
        (State.OPENING, Step.CLOSE): State.CLOSED,
        (State.READY, Step.INITIALIZE): State.OPENING,
        (State.READY, Step.INITIALIZED): State.READY,
        (State.READY, Step.REQUEST): State.READY,
        (State.READY, Step.CLOSE): State.CLOSED,
        (State.CLOSED, Step.CLOSE): State.CLOSED,
    }
)


class OutOfOrder(Exception):
    """The peer took a step its session does not allow now."""

    def __init__(self, state: State, step: Step) -> None:
        super().__init__(f"{step.value} is not allowed while the session is {state.value}")
        self.state = state
        self.step = step


def advance(state: State, step: Step) -> State:
    """The state after a step.

    Raises:
        OutOfOrder: the table has no such cell; the state stays as it was.
    """
    after = TRANSITIONS.get((state, step))
    if after is None:
        raise OutOfOrder(state, step)
    return after

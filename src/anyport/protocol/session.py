"""State machine of a legacy session, as one table. The same for stdio and HTTP."""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

STDIO: Final = "stdio"
STREAMABLE_HTTP: Final = "streamable-http"
LEGACY_SSE: Final = "sse"
"""The transports of clients, as the record names them."""


class SessionState(Enum):
    NEW = "new"
    OPENING = "opening"
    """`initialize` is answered, the client has not confirmed yet."""
    READY = "ready"
    CLOSED = "closed"


class SessionEvent(Enum):
    INITIALIZE = "initialize"
    INITIALIZED = "initialized"
    REQUEST = "request"
    CLOSE = "close"


TRANSITIONS: Final[Mapping[tuple[SessionState, SessionEvent], SessionState]] = MappingProxyType(
    {
        (SessionState.NEW, SessionEvent.INITIALIZE): SessionState.OPENING,
        # A client that skips the handshake may confirm it all the same: harmless.
        (SessionState.NEW, SessionEvent.INITIALIZED): SessionState.NEW,
        # Revision 2025-03-26 allows a request without a session; it is answered by itself.
        (SessionState.NEW, SessionEvent.REQUEST): SessionState.NEW,
        (SessionState.NEW, SessionEvent.CLOSE): SessionState.CLOSED,
        # A client whose first attempt timed out starts again on the same pipe.
        (SessionState.OPENING, SessionEvent.INITIALIZE): SessionState.OPENING,
        (SessionState.OPENING, SessionEvent.INITIALIZED): SessionState.READY,
        # A client that sends requests before it confirms has received our answer.
        (SessionState.OPENING, SessionEvent.REQUEST): SessionState.READY,
        (SessionState.OPENING, SessionEvent.CLOSE): SessionState.CLOSED,
        (SessionState.READY, SessionEvent.INITIALIZE): SessionState.OPENING,
        (SessionState.READY, SessionEvent.INITIALIZED): SessionState.READY,
        (SessionState.READY, SessionEvent.REQUEST): SessionState.READY,
        (SessionState.READY, SessionEvent.CLOSE): SessionState.CLOSED,
        (SessionState.CLOSED, SessionEvent.CLOSE): SessionState.CLOSED,
    }
)


class OutOfOrder(Exception):
    """The peer sent what its session does not allow now."""

    def __init__(self, state: SessionState, event: SessionEvent) -> None:
        super().__init__(f"{event.value} is not allowed while the session is {state.value}")
        self.state = state
        self.event = event


def next_state(state: SessionState, event: SessionEvent) -> SessionState:
    """The state after an event.

    Raises:
        OutOfOrder: the table has no such transition; the state is unchanged.
    """
    after = TRANSITIONS.get((state, event))
    if after is None:
        raise OutOfOrder(state, event)
    return after

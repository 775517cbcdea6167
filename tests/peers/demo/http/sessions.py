"""The sessions of the server by id, and their limit."""

from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

SESSIONS_MAX: Final = 1000  # Clients that never say goodbye must not fill the memory.


class Closable(Protocol):
    def close(self) -> None:
        """Ends it: streams are closed, and calls in flight are dropped."""


S = TypeVar("S", bound=Closable)


class Sessions(Generic[S]):
    """Those that are alive. When there are too many, the oldest must go."""

    def __init__(self, new_id: Callable[[], str], requests_max: int | None) -> None:
        self._new_id = new_id
        self._requests_max = requests_max
        """After how many requests a session is lost; None for never."""
        self._alive: dict[str, S] = {}
        self._requests: dict[str, int] = {}

    def add(self, make: Callable[[str], S]) -> S:
        if len(self._alive) >= SESSIONS_MAX:
            self.end(next(iter(self._alive)))
        identity = self._new_id()
        self._alive[identity] = make(identity)
        return self._alive[identity]

    def find(self, identity: str) -> S | None:
        return self._alive.get(identity)

    def end(self, identity: str) -> None:
        self._requests.pop(identity, None)
        session = self._alive.pop(identity, None)
        if session is not None:
            session.close()

    def end_all(self) -> None:
        for identity in list(self._alive):
            self.end(identity)

    def count(self, identity: str) -> None:
        """Notes one more request, which may be one too many."""
        if identity not in self._alive:
            return
        self._requests[identity] = count = self._requests.get(identity, 0) + 1
        if self._requests_max is not None and count > self._requests_max:
            self.end(identity)

"""Keeps a modern server telling us of changes.

A modern server tells only those who listen, and a listener's wishes cannot be changed: so each
change opens a new `subscriptions/listen` and then ends the old one. Nothing is replayed: after a
stream was lost, anything may have changed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from anyport.protocol.back import Back
from anyport.protocol.method import LISTEN_FLAGS
from anyport.upstream.backoff import Backoff
from anyport.upstream.connection import Answer, Call, Connection, Lost
from anyport.wire.frame import Result

LISTEN_AGAIN_SECONDS: Final = 1.0
"""After the server ended a subscription in good order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticking:
    """Time and chance."""

    later: Callable[[float, Callable[[], None]], object]
    """Runs something after some seconds."""
    clock: Callable[[], float]
    chance: Callable[[], float]


class Watch:
    """The one subscription of a connection."""

    def __init__(
        self,
        connection: Connection,
        back: Back,
        time: Ticking,
        on_gap: Callable[[frozenset[str]], None],
    ) -> None:
        self._connection = connection
        self._back = back
        self._time = time
        self._on_gap = on_gap
        """Told that the lists and these resources may have changed unheard."""
        self._uris: frozenset[str] = frozenset()
        self._call: Call | None = None
        self._since = 0.0
        self._backoff = Backoff()
        self._stopped = False

    def follow(self, uris: frozenset[str]) -> None:
        """Listen for changes of lists and of exactly these resources."""
        if self._call is not None and uris == self._uris:
            return
        self._uris = uris
        self._listen()

    def stop(self) -> None:
        """Listen no more."""
        self._stopped = True
        call, self._call = self._call, None
        if call is not None:
            self._connection.cancel(call, None)

    def _listen(self) -> None:
        if self._stopped:
            return
        before = self._call
        self._since = self._time.clock()
        wishes: dict[str, object] = dict.fromkeys(LISTEN_FLAGS.values(), True)
        if self._uris:
            wishes["resourceSubscriptions"] = sorted(self._uris)
        params = self._back.own_params(msgspec.json.encode({"notifications": wishes}))
        call = self._connection.call("subscriptions/listen", params, self._ended)
        self._call = None if isinstance(call, Lost) else call
        if before is not None:
            self._connection.cancel(before, None)

    def _ended(self, answer: Answer) -> None:
        self._call = None
        if isinstance(answer, Result):
            self._time.later(LISTEN_AGAIN_SECONDS, self._listen)
        elif isinstance(answer, Lost) and self._connection.lost is None:
            lasted = self._time.clock() - self._since
            self._time.later(self._backoff.delay(lasted, self._time.chance()), self._listen_again)

    def _listen_again(self) -> None:
        if not self._stopped and self._connection.lost is None:
            self._listen()
            self._on_gap(self._uris)

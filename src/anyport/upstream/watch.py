"""Keeps a modern server telling us of changes.

A modern server tells only those who listen, and a listener's wishes cannot be changed: so each
change opens a new `subscriptions/listen` and then ends the old one.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from anyport.protocol.back import Back
from anyport.protocol.method import LISTEN_FLAGS
from anyport.upstream.connection import Answer, Call, Connection, Lost
from anyport.wire.frame import Result

LISTEN_AGAIN_SECONDS: Final = 1.0
"""After the server ended a subscription in good order."""


class Watch:
    """The one subscription of a connection."""

    def __init__(
        self,
        connection: Connection,
        back: Back,
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._connection = connection
        self._back = back
        self._later = later
        self._uris: frozenset[str] = frozenset()
        self._call: Call | None = None

    def follow(self, uris: frozenset[str]) -> None:
        """Listen for changes of lists and of exactly these resources."""
        if self._call is not None and uris == self._uris:
            return
        self._uris = uris
        self._listen()

    def _listen(self) -> None:
        before = self._call
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
            self._later(LISTEN_AGAIN_SECONDS, self._listen)

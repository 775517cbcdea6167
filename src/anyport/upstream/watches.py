"""The subscriptions of one server, one for each connection on which it is modern.

A legacy server tells without being asked, and has none. What follows from a change is its
server's to decide.
"""

from collections.abc import Callable
from functools import partial

from anyport.protocol.method import Kind
from anyport.protocol.revision import Era
from anyport.upstream.connection import Connection
from anyport.upstream.key import LeaseKey
from anyport.upstream.watch import Ticking, Watch

Missed = Callable[[LeaseKey, Connection, frozenset[str]], None]
"""Told that nobody listened for a while, and which resources were followed."""


class Watches:
    """What a server is asked to tell."""

    def __init__(self, time: Ticking, missed: Missed) -> None:
        self._open: dict[LeaseKey, Watch] = {}
        self._time = time
        self._missed = missed

    def open(self, key: LeaseKey, connection: Connection) -> None:
        """Have a modern server tell over this connection when its lists change."""
        peer = connection.peer
        if peer is None or peer.revision.era is Era.LEGACY:
            self.forget(key)
            return
        missed = partial(self._missed, key, connection)
        watch = self._open[key] = Watch(connection, peer.back, self._time, missed)
        watch.follow(frozenset())

    def close(self, key: LeaseKey) -> None:
        """Listen no more: the connection is of no use."""
        watch = self._open.pop(key, None)
        if watch is not None:
            watch.stop()

    def forget(self, key: LeaseKey) -> None:
        """The connection is being closed, and the subscription with it."""
        self._open.pop(key, None)

    def follow(
        self, uris: frozenset[str], tasks: frozenset[str], expect: Callable[[], Callable[[], None]]
    ) -> None:
        """Have it tell when these resources and tasks change."""
        for watch in self._open.values():
            watch.follow(uris, tasks, expect())

    def acknowledged(self, key: LeaseKey, params: bytes | None) -> None:
        """The server says what of our wishes it will tell."""
        watch = self._open.get(key)
        if watch is not None:
            watch.acknowledged(params)

    def calls(self, key: LeaseKey) -> int:
        """How many requests are open over a connection for our own sake."""
        watch = self._open.get(key)
        return 0 if watch is None else watch.calls

    def hears(self, kind: Kind) -> bool:
        """Whether a change of this list would be told now."""
        watch = next(iter(self._open.values()), None)
        return watch is not None and watch.hears(kind)

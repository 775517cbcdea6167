"""The connections to one server: which of them serves a caller, and which are leaving.

A modern server needs one for everybody. A legacy one needs one for each session that it may ask;
and one that speaks both eras is asked for a handshake on such a session's behalf. What is said
over a connection, and what a server offers, is not known here.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Final, Protocol

from anyport.protocol.revision import Era
from anyport.upstream.connection import Connection
from anyport.upstream.key import SHARED, LeaseKey
from anyport.upstream.peer import Peer
from anyport.upstream.setting import Setting
from anyport.upstream.tender import Ready, State, Tender

ENDED: Final = "the session it belonged to has ended"


class Maker(Protocol):
    """The server whose connections these are."""

    slug: str

    @property
    def obstacle(self) -> str | None:
        """Why it will not even be tried."""

    def make(self, key: LeaseKey, *, trial: bool) -> Tender:
        """A new connection. A trial asks a modern server for a handshake all the same.

        Many speak both eras, and do not say so. What such a server asks of a legacy client while
        it works on a call, it has no way to ask of a modern one.
        """


class Pool:
    """The connections to one server."""

    def __init__(self, maker: Maker, setting: Setting, left: Callable[[], None]) -> None:
        self.tenders: dict[LeaseKey, Tender] = {}
        self._leaving: set[Tender] = set()
        self._maker = maker
        self._setting = setting
        self._left = left
        """Told that a connection was closed because its session has ended."""
        self._trials: set[LeaseKey] = set()
        """Connections on which a modern server is asked for a handshake."""
        self._may_shake_hands = False
        """It is modern, and has not refused one."""
        self._waiting: dict[int, tuple[LeaseKey, Ready]] = {}
        """Who waits for the era of the server to be known."""
        self._numbers = count()
        self._stopped: str | None = None
        """Why no connection is opened any more: whoever waited must not open another at the end."""

    @property
    def main(self) -> Tender | None:
        """The connection that was opened first, through which lists are read."""
        return next(iter(self.tenders.values()), None)

    @property
    def peer(self) -> Peer | None:
        """What the server said of itself, while it runs."""
        return None if self.main is None else self.main.peer

    @property
    def modern(self) -> bool:
        """Whether it runs and needs no handshake."""
        return self.peer is not None and self.peer.revision.era is Era.MODERN

    def key_of(self, session: str) -> LeaseKey:
        """The key of the connection that serves a session: its own where it has one."""
        return next((key for key in self.tenders if key.owner == session), SHARED)

    def connections(self) -> list[tuple[LeaseKey, Connection]]:
        """Every connection that is ready."""
        return [
            (key, tender.connection)
            for key, tender in self.tenders.items()
            if tender.state is State.READY and tender.connection is not None
        ]

    def open(self, key: LeaseKey) -> Tender | None:
        """The tender of a key, started if there is none; None if it will not be tried."""
        tender = self.tenders.get(key)
        if tender is not None:
            return tender
        if self._stopped is not None or self._maker.obstacle is not None:
            return None
        if self.modern and not (key.interactive and self._may_shake_hands):
            # Each of its requests says what it may ask: one connection serves everyone.
            return self.main
        return self._start(key, trial=self.modern)

    def open_first(self, key: LeaseKey) -> None:
        """Have the connection that lists are read through, for a client that came with this key.

        It must outlive the client's session, unless that is the only one there can be.
        """
        if self.main is None:
            self.open(key if self._setting.sole else SHARED)

    def lease(self, key: LeaseKey, ready: Ready) -> None:
        """Hand over a connection for this key, or the reason why there is none."""
        if key.owner:
            self.open_first(key)
        main = self.main
        if main is not None and key not in self.tenders and main.coming:
            # Whether it needs a connection of its own depends on the era.
            number = next(self._numbers)
            self._waiting[number] = (key, ready)
            main.when_ready(lambda _: self._go_on(number))
            return
        if main is not None and main.asleep:
            main.rouse()
        self._lease(key, ready)

    def started(self, key: LeaseKey, *, automatic: bool) -> None:
        """A connection is ready; `automatic` says that nobody has chosen its era."""
        self._trials.discard(key)
        if self.tenders[key] is self.main:
            self._may_shake_hands = automatic

    def refused(self, key: LeaseKey, reason: str) -> bool:
        """A connection broke; True if it was a trial, and nothing else is the matter."""
        if key not in self._trials:
            return False
        self._may_shake_hands = False
        self._trials.discard(key)
        tender = self.tenders.pop(key)
        self._setting.spawn(tender.stop(reason), f"stop {self._maker.slug}")
        return True

    def give_up(self, owner: str) -> None:
        """A session has ended: nothing is opened for it any more, once the era is known."""
        theirs = [each for each, (key, _) in self._waiting.items() if owner and key.owner == owner]
        for number in theirs:
            _, ready = self._waiting.pop(number)
            ready(ENDED)

    def drop(self, key: LeaseKey) -> None:
        """Close a connection that nobody will use any more."""
        tender = self.tenders.pop(key)
        self._trials.discard(key)
        self._leaving.add(tender)
        tender.retire(ENDED)
        left = self._left if tender.state is not State.IDLE else lambda: None
        self._setting.spawn(self._let_go(tender, left), f"stop {self._maker.slug}")

    async def stop(self, reason: str) -> None:
        """Close every connection, those that are leaving already included."""
        self._stopped = reason
        tenders = [*self.tenders.values(), *self._leaving]
        await asyncio.gather(*(tender.stop(reason) for tender in tenders))

    async def _let_go(self, tender: Tender, left: Callable[[], None]) -> None:
        await tender.stop(ENDED)
        self._leaving.discard(tender)
        left()

    def _go_on(self, number: int) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is not None:
            self._lease(*waiting)

    def _lease(self, key: LeaseKey, ready: Ready) -> None:
        tender = self.open(key)
        if tender is None:
            ready(self._stopped or self._maker.obstacle or "it is not configured")
        elif key in self._trials:
            tender.when_ready(partial(self._tried, ready))
        else:
            tender.when_ready(ready)

    def _tried(self, ready: Ready, lease: Connection | str) -> None:
        """A server that has no handshake serves this caller as it serves all others."""
        self._lease_main(ready) if isinstance(lease, str) else ready(lease)

    def _lease_main(self, ready: Ready) -> None:
        if self.main is None:
            ready(self._maker.obstacle or "it has not been started")
        else:
            self.main.when_ready(ready)

    def _start(self, key: LeaseKey, *, trial: bool) -> Tender:
        tender = self.tenders[key] = self._maker.make(key, trial=trial)
        if trial:
            self._trials.add(key)
        self._setting.spawn(tender.run(), f"tend {self._maker.slug}")
        return tender

"""Keeps a modern server telling us of changes.

A modern server tells only those who listen, and a listener's wishes cannot be changed: so each
change opens a new `subscriptions/listen` and then ends the old one. Nothing is replayed: after a
stream was lost, anything may have changed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from anyport.protocol import meta
from anyport.protocol.back import Back
from anyport.protocol.method import CHANGES, LISTEN_FLAGS, Kind
from anyport.protocol.task import declare_tasks
from anyport.upstream.backoff import Backoff
from anyport.upstream.call import Answer, Call, Lost
from anyport.upstream.connection import Connection
from anyport.wire import members
from anyport.wire.frame import Result

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"

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
        self._tasks: frozenset[str] = frozenset()
        self._before: Call | None = None
        """An earlier subscription, until the server has said that it knows of the latest."""
        self._acknowledged = False
        self._waiting: list[Callable[[], None]] = []
        """Who wants to know when it has."""
        self._honoured: frozenset[str] = frozenset()
        """The changes of lists that the server has said it will tell."""
        self._call: Call | None = None
        self._opened = 0
        self._since = 0.0
        self._backoff = Backoff()
        self._stopped = False

    def follow(
        self,
        uris: frozenset[str],
        tasks: frozenset[str] = frozenset(),
        then: Callable[[], None] | None = None,
    ) -> None:
        """Listen for changes of lists and of exactly these resources and tasks.

        `then` is called when the server has said that it will tell, or that it will not.
        """
        if then is not None:
            self._waiting.append(then)
        if self._call is None or (uris, tasks) != (self._uris, self._tasks):
            self._uris, self._tasks = uris, tasks
            self._listen()
        elif self._acknowledged:
            self._go_on()

    def acknowledged(self, params: bytes | None) -> None:
        """The server says what of our wishes it will tell."""
        try:
            found = members.members(params or b"{}")
            told = members.members(found["notifications"])
            about = members.members(found.get("_meta", msgspec.Raw(b"{}")))
        except (msgspec.DecodeError, KeyError):
            return
        id = about.get(meta.SUBSCRIPTION_ID)
        if self._call is None or (id is not None and bytes(id) != b"%d" % self._call.number):
            return  # That was an earlier one.
        self._acknowledged = True
        self._end_earlier()
        self._honoured = frozenset(flag for flag in told if bytes(told[flag]) == b"true")
        self._go_on()

    def hears(self, kind: Kind) -> bool:
        """Whether a change of this list would be told now."""
        return self._call is not None and LISTEN_FLAGS[CHANGES[kind]] in self._honoured

    @property
    def calls(self) -> int:
        """How many requests it has open."""
        return (self._call is not None) + (self._before is not None)

    def stop(self) -> None:
        """Listen no more."""
        self._stopped = True
        self._end_earlier()
        self._go_on()
        call, self._call = self._call, None
        if call is not None:
            self._connection.cancel(call, None)

    def _listen(self) -> None:
        if self._stopped:
            return
        if self._acknowledged:
            self._before, self._acknowledged = self._call, False
        elif self._call is not None:
            self._connection.cancel(self._call, None)
        self._since = self._time.clock()
        wishes: dict[str, object] = dict.fromkeys(LISTEN_FLAGS.values(), True)
        if self._uris:
            wishes["resourceSubscriptions"] = sorted(self._uris)
        if self._tasks:
            wishes["taskIds"] = sorted(self._tasks)
        params = self._back.own_params(msgspec.json.encode({"notifications": wishes}))
        if self._tasks:
            params = declare_tasks(params)
        number = self._opened = self._opened + 1
        self._connection.own_requests += 1
        call = self._connection.call("subscriptions/listen", params, partial(self._ended, number))
        self._call = None if isinstance(call, Lost) else call
        if self._call is None:
            self._go_on()

    def _end_earlier(self) -> None:
        before, self._before = self._before, None
        if before is not None:
            self._connection.cancel(before, None)

    def _go_on(self) -> None:
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then()

    def _ended(self, number: int, answer: Answer) -> None:
        if number != self._opened:
            return  # An earlier one: the latest goes on.
        self._end_earlier()
        self._call, self._acknowledged = None, False
        self._honoured = frozenset()
        self._go_on()
        if isinstance(answer, Result):
            self._time.later(LISTEN_AGAIN_SECONDS, self._listen_again)
        elif isinstance(answer, Lost) and self._connection.lost is None:
            lasted = self._time.clock() - self._since
            self._time.later(self._backoff.delay(lasted, self._time.chance()), self._listen_again)

    def _listen_again(self) -> None:
        if not self._stopped and self._connection.lost is None:
            self._listen()
            self._on_gap(self._uris)

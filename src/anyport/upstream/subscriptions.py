"""Subscriptions of the gateway to changes of a server: one `subscriptions/listen` per connection.

Only modern servers have them; legacy servers send notifications unasked.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Final, NamedTuple

import msgspec

from anyport.clock import Clock
from anyport.protocol import meta
from anyport.protocol.adapters.legacy_client import LOG_LEVELS
from anyport.protocol.adapters.server import ServerAdapter
from anyport.protocol.errors import error_code
from anyport.protocol.methods import LISTEN_FLAGS
from anyport.protocol.revisions import Era
from anyport.protocol.tasks import declare_tasks
from anyport.upstream.backoff import Backoff
from anyport.upstream.connection import Connection
from anyport.upstream.lease_key import LeaseKey
from anyport.upstream.pending_call import Answer, NoAnswer, PendingCall
from anyport.wire import raw_json
from anyport.wire.jsonrpc import METHOD_NOT_FOUND, Failure, Result

# Log level. A server keeps the last one that it was sent over each connection.


def set_log_level(
    connection: Connection, level: str, then: Callable[[], None] = lambda: None
) -> None:
    """Send `logging/setLevel`, if the server logs at all; then go on, whatever it answers."""
    peer, sent = connection.peer, None
    if peer is not None and peer.revision.era is Era.LEGACY and peer.offers("logging"):
        connection.log_level = level
        params = raw_json.encode_object([("level", raw_json.encode_string(level))])
        sent = connection.call("logging/setLevel", params, lambda _: then())
    if sent is None or isinstance(sent, NoAnswer):
        then()


def raise_log_level(connection: Connection, level: str, then: Callable[[], None]) -> None:
    """Make sure that a server logs at least at this level; then go on."""
    current = connection.log_level
    if current is not None and LOG_LEVELS.index(current) <= LOG_LEVELS.index(level):
        then()
    else:
        set_log_level(connection, level, then)


# A subscription cannot be changed. So a new `subscriptions/listen` is opened with the new filter,
# and the old one is cancelled once the server has acknowledged the new one: there is no gap.
# Nothing is replayed: after a stream was lost, anything may have changed.

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"

LISTEN_AGAIN_SECONDS: Final = 1.0
"""Delay after the server has ended a subscription in good order."""


@dataclass(frozen=True, slots=True)
class PreviousSubscription:
    """An acknowledged subscription that goes on while another is being opened."""

    number: int
    call: PendingCall | None
    """None once it has ended."""
    uris: frozenset[str]
    tasks: frozenset[str]


class ConnectionSubscription:
    """The subscription of one connection."""

    def __init__(
        self,
        connection: Connection,
        adapter: ServerAdapter,
        clock: Clock,
        on_gap: Callable[[frozenset[str]], None],
    ) -> None:
        self._connection = connection
        self._adapter = adapter
        self._clock = clock
        self._on_gap = on_gap
        """Called when changes of lists and of these resources may have been missed."""
        self._uris: frozenset[str] = frozenset()
        self._tasks: frozenset[str] = frozenset()
        self._previous: PreviousSubscription | None = None
        """Goes on until the server has acknowledged the latest one, or if it refuses that."""
        self._latest_filter = (self._uris, self._tasks)
        """The resources and tasks of the latest subscription."""
        self._acknowledged = False
        self._waiters: list[Callable[[], None]] = []
        """Callbacks that wait for the server's answer."""
        self._accepted_uris: frozenset[str] = frozenset()
        """Resources whose changes the server will report."""
        self._refused = False
        """Whether the server reports no changes at all."""
        self._call: PendingCall | None = None
        self._numbers = count(1)
        self._latest_number = 0
        """Callbacks of earlier subscriptions are ignored."""
        self._listening_since = 0.0
        self._backoff = Backoff()
        self._stopped = False

    def follow(
        self,
        uris: frozenset[str],
        tasks: frozenset[str] = frozenset(),
        then: Callable[[], None] | None = None,
    ) -> None:
        """Subscribe to changes of lists, and of exactly these resources and tasks.

        `then` is called when the server has acknowledged or refused that.
        """
        if then is not None:
            self._waiters.append(then)
        if self._call is None or (uris, tasks) != (self._uris, self._tasks):
            self._uris, self._tasks = uris, tasks
            self._listen()
        elif self._acknowledged:
            self._notify_waiters()

    def start(self) -> None:
        """Subscribe to changes of lists, unless that is done."""
        if self._call is None:
            self._listen()

    def on_acknowledged(
        self, params: bytes | None, related_call: PendingCall | None = None
    ) -> None:
        """The server has acknowledged a subscription: this one, or one of a client."""
        if related_call is not None and related_call is not self._call:
            return
        try:
            found = raw_json.members(params or b"{}")
            accepted = raw_json.members(found["notifications"])
            params_meta = raw_json.members(found.get("_meta", msgspec.Raw(b"{}")))
        except (msgspec.DecodeError, KeyError):
            return
        id = params_meta.get(meta.SUBSCRIPTION_ID)
        if self._call is None or (id is not None and bytes(id) != b"%d" % self._call.number):
            return  # It belongs to an earlier subscription.
        self._acknowledged = True
        self._cancel_previous()
        self._accepted_uris = _strings(accepted.get("resourceSubscriptions"))
        self._notify_waiters()

    def on_cancelled(self, call: PendingCall) -> None:
        """The server has ended a subscription by cancelling it."""
        if call is self._call or (self._previous is not None and call is self._previous.call):
            self._connection.withdraw(call, NoAnswer("it has ended the subscription"))

    def refuses(self, uri: str) -> bool:
        """Whether the server is known not to report changes of this resource."""
        return self._refused or (self._acknowledged and uri not in self._accepted_uris)

    @property
    def calls(self) -> int:
        """Open requests."""
        return (self._call is not None) + (self._previous is not None)

    def stop(self) -> None:
        self._stopped = True
        self._cancel_previous()
        self._notify_waiters()
        call, self._call = self._call, None
        if call is not None:
            self._connection.cancel(call, None)

    def _listen(self) -> None:
        if self._stopped:
            return
        if self._acknowledged and self._call is not None:
            self._previous = PreviousSubscription(
                self._latest_number, self._call, *self._latest_filter
            )
        elif self._call is not None:
            self._connection.cancel(self._call, None)
        self._acknowledged, self._latest_filter = False, (self._uris, self._tasks)
        self._listening_since, self._refused = self._clock.monotonic(), False
        notifications: dict[str, object] = dict.fromkeys(LISTEN_FLAGS.values(), True)
        if self._uris:
            notifications["resourceSubscriptions"] = sorted(self._uris)
        if self._tasks:
            notifications["taskIds"] = sorted(self._tasks)
        params = self._adapter.gateway_params(msgspec.json.encode({"notifications": notifications}))
        if self._tasks:
            params = declare_tasks(params)
        number = self._latest_number = next(self._numbers)
        self._connection.own_requests += 1
        call = self._connection.call(
            "subscriptions/listen", params, partial(self._on_ended, number)
        )
        self._call = None if isinstance(call, NoAnswer) else call
        if self._call is None:
            self._notify_waiters()

    def _cancel_previous(self) -> None:
        previous, self._previous = self._previous, None
        if previous is not None and previous.call is not None:
            self._connection.cancel(previous.call, None)

    def _notify_waiters(self) -> None:
        waiting, self._waiters = self._waiters, []
        for then in waiting:
            then()

    def _on_ended(self, number: int, answer: Answer) -> None:
        previous = self._previous
        if number != self._latest_number:
            if previous is not None and previous.number == number:
                self._previous = replace(previous, call=None)
            return  # An earlier one has ended; the latest goes on.
        if isinstance(answer, Failure) and not self._acknowledged:
            self._on_refused(answer, previous)
            return
        self._cancel_previous()
        # An error after the acknowledgement is a failure; one before it is a refusal.
        self._call, self._acknowledged = None, False
        self._refused = isinstance(answer, Failure)
        self._notify_waiters()
        if isinstance(answer, Result):
            self._clock.later(LISTEN_AGAIN_SECONDS, self._listen_again)
        elif self._connection.closed_with is None:
            seconds = self._clock.monotonic() - self._listening_since
            self._clock.later(
                self._backoff.delay(seconds, self._clock.random()), self._listen_again
            )

    def _on_refused(self, answer: Failure, previous: PreviousSubscription | None) -> None:
        """The server has refused the latest subscription: go back to the previous one, or to lists
        alone.

        One unknown resource must not cost the notifications about everything else.
        """
        less = previous is not None or self._uris or self._tasks
        known = error_code(answer.error) != METHOD_NOT_FOUND
        self._previous, self._call = None, None
        if previous is not None and previous.call is not None:
            self._call, self._latest_number, self._acknowledged = (
                previous.call,
                previous.number,
                True,
            )
        else:
            self._refused = True
        if less and known:
            nothing: frozenset[str] = frozenset()
            kept = (nothing, nothing) if previous is None else (previous.uris, previous.tasks)
            self._latest_filter = self._uris, self._tasks = kept
            if self._call is None:
                self._clock.later(LISTEN_AGAIN_SECONDS, self._listen_again)
        self._notify_waiters()

    def _listen_again(self) -> None:
        if not self._stopped and self._connection.closed_with is None:
            self._listen()
            self._on_gap(self._uris)


def _strings(raw: msgspec.Raw | None) -> frozenset[str]:
    try:
        found = [] if raw is None else msgspec.json.decode(raw, type=list[object])
    except msgspec.DecodeError:
        return frozenset()
    return frozenset(item for item in found if isinstance(item, str))


SubscriptionGapCallback = Callable[[LeaseKey, Connection, frozenset[str]], None]
"""Takes the resources whose changes may have been missed while there was no subscription."""


class SubscriptionFilter(NamedTuple):
    """Resources and tasks to subscribe to, by the server's own names."""

    uris: frozenset[str] = frozenset()
    tasks: frozenset[str] = frozenset()


class ServerSubscriptions:
    """The subscriptions of one server, by lease key."""

    def __init__(self, clock: Clock, on_gap: SubscriptionGapCallback) -> None:
        self._open: dict[LeaseKey, ConnectionSubscription] = {}
        self._clock = clock
        self._on_gap = on_gap

    def open(self, key: LeaseKey, connection: Connection, *, at_once: bool = True) -> None:
        """Subscribe to changes over a connection, if it is modern.

        If not `at_once`, that waits for `start` or `subscribe`.
        """
        peer = connection.peer
        if peer is None or peer.revision.era is Era.LEGACY:
            self.forget(key)
            return
        on_gap = partial(self._on_gap, key, connection)
        subscription = self._open[key] = ConnectionSubscription(
            connection, peer.adapter, self._clock, on_gap
        )
        if at_once:
            subscription.start()

    def start(self) -> None:
        """Subscribe over every connection."""
        for subscription in self._open.values():
            subscription.start()

    def close(self, key: LeaseKey) -> None:
        """Cancel a subscription: its connection is draining."""
        subscription = self._open.pop(key, None)
        if subscription is not None:
            subscription.stop()

    def forget(self, key: LeaseKey) -> None:
        """Drop a subscription: its connection is being closed."""
        self._open.pop(key, None)

    def subscribe(
        self,
        key: LeaseKey,
        filter: SubscriptionFilter,
        expect_acknowledgement: Callable[[], Callable[[], None]],
    ) -> None:
        """Subscribe to changes of these resources and tasks over a connection."""
        subscription = self._open.get(key)
        if subscription is not None:
            subscription.follow(filter.uris, filter.tasks, expect_acknowledgement())

    def on_acknowledged(
        self, key: LeaseKey, params: bytes | None, related_call: PendingCall | None = None
    ) -> None:
        """The server has acknowledged a subscription: the gateway's, or one of a client."""
        subscription = self._open.get(key)
        if subscription is not None:
            subscription.on_acknowledged(params, related_call)

    def on_cancelled(self, key: LeaseKey, call: PendingCall) -> None:
        """The server has cancelled one of our calls, which may be a subscription."""
        subscription = self._open.get(key)
        if subscription is not None:
            subscription.on_cancelled(call)

    def calls(self, key: LeaseKey) -> int:
        """Open requests of subscriptions over a connection."""
        subscription = self._open.get(key)
        return 0 if subscription is None else subscription.calls

    def refuses(self, key: LeaseKey, uri: str) -> bool:
        """Whether the server is known not to report changes of this resource there."""
        subscription = self._open.get(key)
        return subscription is not None and subscription.refuses(uri)

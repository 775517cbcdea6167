"""Conversation with one client: the era of each message, and one answer per request.

A request is answered at once if possible; otherwise it runs in a task of the server's group.
"""

import asyncio
import os
from collections.abc import Coroutine
from typing import Any, Protocol

import msgspec

from tests.peers.demo.calls import Call, Channel, Method, Request, Send, ServerState
from tests.peers.demo.faults import INTERNAL_ERROR, INVALID_REQUEST, Fault, NeedsClient
from tests.peers.demo.legacy import LegacySession
from tests.peers.demo.messages import (
    Identity,
    Message,
    Notification,
    error,
    identity_of,
    is_identity,
    read_message,
    result,
)
from tests.peers.demo.modern import DISCOVER, LISTEN, UNKNOWN_TO_LEGACY, ModernEra, is_enveloped
from tests.peers.demo.revisions import Json
from tests.peers.demo.stdio import say


class Era(Protocol):
    def open(self, request: Request, send: Send) -> tuple[Call, Method]:
        """Judges a request.

        Raises:
            Fault: it may not be answered.
        """


class Conversation:
    """All that one client has asked and not yet heard of; ids are told apart within it."""

    def __init__(
        self,
        server_state: ServerState,
        group: asyncio.TaskGroup,
        *,
        legacy: LegacySession | None = None,
        modern: ModernEra | None = None,
    ) -> None:
        self._server_state = server_state
        self._group = group
        self._legacy = legacy
        self._modern = modern
        self._calls: dict[Identity, _OpenRequest] = {}
        self._streams: dict[Identity, _OpenRequest] = {}
        """Subscriptions, which end only with the server."""

    def take(self, message: Message, channel: Channel) -> None:
        if isinstance(message, Request):
            self._take_request(message, channel)
            return
        if isinstance(message, Notification):
            self._take_notification(message)
        elif self._legacy is not None:
            self._legacy.answered(message.message)
        channel.finish(None)

    def take_batch(self, decoded: list[Any], channel: Channel) -> None:
        """Takes several messages, whose answers come together.

        Raises:
            Fault: the revision that was agreed on has no batches.
        """
        legacy = self._legacy
        if legacy is None or not legacy.begun or not legacy.revision.batches or not decoded:
            raise Fault(INVALID_REQUEST, "A message must be one JSON object")
        batch = _Batch(len(decoded), channel)
        for each in decoded:
            try:
                if isinstance(each, dict) and is_enveloped(each.get("params")):
                    raise Fault(INVALID_REQUEST, "This revision has no batches")
                message = read_message(each)
            except Fault as fault:
                batch.finish(self.refusal(identity_of(each), fault))
            else:
                self.take(message, batch)

    def refusal(self, identity: Identity | None, fault: Fault) -> Json:
        """The answer to what is no message, or may not be sent."""
        legacy = self._legacy
        null_id = legacy is not None and not legacy.revision.error_id_optional
        return error(identity, fault, null_id=null_id)

    async def drain(self) -> None:
        """Finishes what was begun: the calls first, then the subscriptions."""
        self._server_state.closing.set()
        if self._legacy is not None:
            self._legacy.hang_up()
        while self._calls:
            await asyncio.wait([flight.task for flight in self._calls.values()])
        if self._modern is not None:
            self._modern.closing.set()

    def abandon(self) -> None:
        """Drops everything: nobody reads the answers any more."""
        for identity in [*self._calls, *self._streams]:
            self._cancel(identity)
        if self._legacy is not None:
            self._legacy.close()

    def _take_notification(self, notification: Notification) -> None:
        params = notification.params
        if notification.method == "notifications/initialized" and self._legacy is not None:
            self._group.create_task(self._legacy.initialized())
        elif notification.method == "notifications/cancelled" and isinstance(params, dict):
            identity = params.get("requestId")
            if is_identity(identity):
                self._cancel(identity)

    def _take_request(self, request: Request, channel: Channel) -> None:
        identity = request.identity
        if request.method == DISCOVER and self._server_state.options.die_on_discover:
            say("server/discover: unknown method, giving up")
            os._exit(1)
        try:
            if identity in self._calls or identity in self._streams:
                raise Fault(INVALID_REQUEST, f"The id {identity!r} is in use")
            call, run = self._era(request).open(request, channel.send)
            work = run(call, request.params)
            if isinstance(work, dict):
                channel.finish(result(identity, call.complete(work)))
                return
        except Exception as failure:  # noqa: BLE001 - every request is answered, come what may.
            channel.finish(error(identity, _fault(failure)))
            return
        self._start(call, work, channel)

    def _start(self, call: Call, work: Coroutine[Any, Any, Json], channel: Channel) -> None:
        identity = call.request.identity
        waiting = self._streams if call.request.method == LISTEN else self._calls
        task = self._group.create_task(_wait(call, work, channel))
        waiting[identity] = _OpenRequest(call=call, task=task)
        task.add_done_callback(lambda _task: waiting.pop(identity))

    def _cancel(self, identity: Identity) -> None:
        """Stops a call. An unknown one is over already, which is no fault of anybody's."""
        flight = self._calls.get(identity) or self._streams.get(identity)
        if flight is not None:
            flight.call.cancelled = True
            # Not at once: a call that came just before must have begun, or it cannot clean up.
            asyncio.get_running_loop().call_soon(flight.task.cancel)

    def _era(self, request: Request) -> Era:
        """Decides anew for each message: one client may speak both eras at once."""
        if self._legacy is None or self._modern is None:
            era = self._legacy or self._modern
            assert era is not None, "the options leave at least one revision"
            return era
        if request.method == "initialize":
            return self._legacy
        if request.method in UNKNOWN_TO_LEGACY or is_enveloped(request.params):
            return self._modern
        return self._legacy


class _OpenRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that waits for its answer."""

    call: Call
    task: asyncio.Task[None]


class _Batch:
    """Gathers the answers to one batch, and hands them over together when the last is there."""

    def __init__(self, size: int, channel: Channel) -> None:
        self.send = channel.send
        self._unfinished = size
        self._finish = channel.finish
        self._answers: list[Json] = []

    def finish(self, answer: Json | list[Json] | None) -> None:
        self._unfinished -= 1
        if isinstance(answer, dict):
            self._answers.append(answer)
        if not self._unfinished:
            self._finish(self._answers or None)


async def _wait(call: Call, work: Coroutine[Any, Any, Json], channel: Channel) -> None:
    """Answers when the work is done; a call that was cancelled is never answered."""
    identity = call.request.identity
    try:
        try:
            value = call.complete(await work)
        except NeedsClient as need:
            value = call.without_client(need)
        answer = result(identity, value)
    except asyncio.CancelledError:
        channel.finish(None)
        raise
    except Exception as failure:  # noqa: BLE001 - every request is answered, come what may.
        answer = error(identity, _fault(failure))
    channel.finish(None if call.cancelled else answer)


def _fault(failure: Exception) -> Fault:
    if isinstance(failure, Fault):
        return failure
    say(f"internal fault: {type(failure).__name__}: {failure}")
    return Fault(INTERNAL_ERROR, "Internal error")

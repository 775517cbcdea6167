"""A JSON-RPC connection to a server, over any transport.

Every request gets an id that this connection never uses again, so that no answer can reach the
wrong caller. What differs between the eras is left to the server adapters of `protocol`.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Protocol

import msgspec
from msgspec import Raw

from anyport.clock import Clock
from anyport.protocol import meta
from anyport.protocol.errors import Situation
from anyport.protocol.memory_budget import LARGE_BYTES, MemoryBudget
from anyport.protocol.meta import PROGRESS
from anyport.protocol.request import TOOLS_CALL
from anyport.protocol.result import clean_frame, read_result
from anyport.upstream.call_queue import CallSlots
from anyport.upstream.peer import Peer
from anyport.upstream.pending_call import (
    BROKEN,
    GATEWAY_ITSELF,
    NO_FIELDS,
    Answer,
    CallOutcome,
    CallSubject,
    CallTemplate,
    ConnectionEnd,
    NoAnswer,
    PendingCall,
    Retryable,
    answer_over_budget,
)
from anyport.wire import jsonrpc, raw_json
from anyport.wire.jsonrpc import BadFrame, Failure, Frame, Notification, Request, Result
from anyport.wire.lines import Overlong

Noise = bytes | Result | Failure | Notification
"""The first bytes of a message that is not JSON-RPC, or a message that answers no open call."""

OwnRequest = tuple[str, bytes | None]
"""Method and params of a request that the gateway makes for itself."""


class ServerChannel(Protocol):
    """Carries frames to a server: a pipe, or HTTP requests."""

    @property
    def full(self) -> bool:
        """Whether the server has stopped reading what is sent."""

    @property
    def listening_since(self) -> float:
        """Since when the server can send what belongs to no call; infinite if it cannot."""

    @property
    def streamless(self) -> bool:
        """Whether the server is known to have no stream for what belongs to no call."""

    def send(self, frame: bytes, call: PendingCall | None) -> None:
        """Queue one frame: a request, or with `call=None` a notification or an answer."""

    def cancel(self, call: PendingCall) -> bool:
        """Abandon a call as the transport does it; False if the server must be notified."""


class ConnectionListener(Protocol):
    """Receives what a server sends unasked, and what happens to its connection."""

    def on_request(self, connection: "Connection", request: Request) -> None:
        """The server sent a request; `connection.answer` answers it."""

    def on_notification(self, connection: "Connection", notification: Notification) -> None: ...

    def on_noise(self, noise: Noise, reason: str) -> None:
        """The server sent something that cannot be used."""

    def on_own_request(self, request: OwnRequest, answer: Answer, seconds: float) -> None:
        """The gateway made a request for itself, and this is how it ended."""

    def on_unreachable(self, reason: str) -> None:
        """No network connection to the server could be opened."""

    def on_connection_end(self, connection: "Connection") -> None:
        """The connection is closed; its calls have been answered."""


# Fast path for progress notifications in the form in which nearly all servers write them.


class _ProgressParams(
    msgspec.Struct, gc=False, rename={"token": "progressToken"}, forbid_unknown_fields=True
):
    """Exactly the members that MCP defines, so that nothing else can be overlooked."""

    token: int
    """The gateway's tokens are numbers."""
    progress: Raw = Raw()
    total: Raw = Raw()
    message: Raw = Raw()


_read_params: Final = msgspec.json.Decoder(_ProgressParams).decode
_FRAME_START: Final = b'{"jsonrpc":"2.0","method":"notifications/progress","params":'
_FRAME_START_BYTES: Final = len(_FRAME_START)


def read_progress(raw: bytes) -> tuple[int, bytes] | None:
    """Token and params of a progress notification in the common form; None for any other
    message."""
    if not (
        raw.startswith(_FRAME_START)
        and raw.endswith(b"}}")
        and jsonrpc.is_clearly_within_limits(raw)
    ):
        return None
    params = raw[_FRAME_START_BYTES:-1]
    try:
        return _read_params(params).token, params
    except (msgspec.DecodeError, RecursionError):
        return None


CANCELLED_CALLS_MAX: Final = 256
"""Cancelled calls whose late answers are dropped without being reported; the latest ones."""
UNSOLICITED: Final = "nobody had asked for it"
NOISE_BYTES_MAX: Final = 80
"""How much is kept of a message that is not JSON-RPC."""
_SUBSCRIPTION_ID: Final = meta.SUBSCRIPTION_ID.encode()
_EMPTY_OBJECT: Final = Raw(b"{}")


class Connection:
    """One connection to one server: open calls, progress, and the answers to both sides."""

    def __init__(
        self,
        channel: ServerChannel,
        listener: ConnectionListener,
        bounds: jsonrpc.Bounds,
        clock: Clock,
        call_type: type[PendingCall] = PendingCall,
        numbers_used: int = 0,
    ) -> None:
        self.clock = clock
        self.peer: Peer | None = None
        """None until the handshake is done."""
        self.noise_count = 0
        """Messages that were not JSON-RPC."""
        self.first_noise = b""
        """The beginning of the first of them: it shows what a program that is not an MCP server
        is."""
        self._cancelled: deque[int] = deque(maxlen=CANCELLED_CALLS_MAX)
        self.unsolicited_count = 0
        """Answers to no open call."""
        self.closed_with: NoAnswer | None = None
        self.log_level: str | None = None
        """The `logging/setLevel` that was sent last."""
        self.draining_reason: str | None = None
        """Why nothing new may be sent; open calls may still be answered."""
        self._channel = channel
        self._listener = listener
        self._bounds = bounds
        self._call_type = call_type
        """Channels may need to keep more about a call."""
        self.last_number = numbers_used
        self.own_requests = 0
        """Requests that the gateway made for itself."""
        self.call_slots = CallSlots()
        """Shared with other connections to the same server where it is one process or URL."""
        self.memory_budget = MemoryBudget()
        """For large answers."""
        self._open: dict[int, PendingCall] = {}
        self._waiting: dict[int, PendingCall] = {}
        self._progress_after_answer: dict[int, PendingCall] = {}
        """Answered calls whose progress is still wanted, by token: calls that became tasks."""
        self.related_call: PendingCall | None = None
        """The call that the message being handled belongs to, if the channel or the message says
        so."""

    @property
    def listening_since(self) -> float:
        """Since when the server can send what belongs to no call; infinite if it cannot."""
        return self._channel.listening_since

    @property
    def streamless(self) -> bool:
        """Whether the server is known to have no stream for what belongs to no call."""
        return self._channel.streamless

    @property
    def usable(self) -> bool:
        """Whether new requests may be sent."""
        return self.closed_with is None and self.draining_reason is None and self.peer is not None

    @property
    def open_calls(self) -> int:
        """Calls without an answer, queued ones included."""
        return len(self._open) + len(self._waiting)

    @property
    def waiting_calls(self) -> int:
        """Calls that are queued for a slot."""
        return len(self._waiting)

    def call(
        self,
        method: str,
        params: bytes | None,
        on_done: Callable[[Answer], None],
        on_progress: Callable[[Sequence[bytes]], None] | None = None,
        subject: CallSubject = GATEWAY_ITSELF,
    ) -> PendingCall | NoAnswer:
        """Send a request, or queue it. With `on_progress`, it gets a progress token."""
        name, fields, client = subject.name, subject.fields, subject.client
        refusal = self._refusal(client)
        if refusal is not None:
            return refusal
        if on_progress is not None:
            params = self.add_progress_token(params or b"{}")
        self.last_number = number = self.last_number + 1
        call = self._call_type(method, on_done, on_progress, number, name, fields, None, client)
        self._start(call, jsonrpc.encode_request(b"%d" % number, method, params))
        return call

    def add_progress_token(self, params: bytes) -> bytes:
        """Params with the progress token that the next call will have."""
        return meta.edit_meta(params, {meta.PROGRESS_TOKEN: b"%d" % (self.last_number + 1)})

    def call_from_template(
        self,
        template: CallTemplate,
        arguments: Raw,
        on_done: Callable[[Answer], None],
        on_progress: Callable[[Sequence[bytes]], None],
        client: object,
    ) -> PendingCall | NoAnswer:
        """Send a `tools/call` that was prepared as a template."""
        slots = self.call_slots
        if self.closed_with is not None or slots.used >= slots.calls_max or self._channel.full:
            refusal = self._refusal(client)
            if refusal is not None:
                return refusal
        self.last_number = number = self.last_number + 1
        if template.wants_progress:
            call = self._call_type(
                TOOLS_CALL, on_done, on_progress, number, template.name, NO_FIELDS, template, client
            )
            self._start(call, template.frame % (number, arguments, number))
        else:
            call = self._call_type(
                TOOLS_CALL, on_done, None, number, template.name, NO_FIELDS, template, client
            )
            self._start(call, template.frame % (number, arguments))
        return call

    def _refusal(self, client: object) -> NoAnswer | None:
        """Why nothing can be sent now; None if the call may be sent or queued.

        A full queue may displace a call of the client that has queued the most.
        """
        if self.closed_with is not None:
            return self.closed_with
        if self._channel.full:
            return self._busy()
        if client is not None and self.call_slots.full:
            displaced = self.call_slots.queue.displace(client)
            if displaced is None or displaced.connection is None:
                return self._busy()
            displaced.connection.reject(displaced, self._busy())
        return None

    def _busy(self) -> NoAnswer:
        return NoAnswer(self.call_slots.summary, Situation.BUSY)

    def _start(self, call: PendingCall, frame: bytes) -> None:
        slots = self.call_slots
        if call.client is not None:
            if slots.used >= slots.calls_max:
                call.frame, call.connection, call.queued_at = frame, self, self.clock.monotonic()
                self._waiting[call.number] = call
                slots.queue.add(call.client, call)
                return
            slots.used += 1
        self._open[call.number] = call
        self._channel.send(frame, call)

    def expire_queued(self, call: PendingCall, now: float) -> bool:
        """End a call that was queued for too long; returns whether it was."""
        seconds = self.call_slots.queue_seconds
        expired = call.number in self._waiting and now - call.queued_at >= seconds
        if expired:
            self.call_slots.queue.drop(call.client, call)
            self.reject(call, NoAnswer.queue_timeout(seconds))
        return expired

    def claim_number(self) -> int:
        """An id that no other request of this connection has or will have."""
        self.last_number += 1
        return self.last_number

    def renumber(self, call: PendingCall, frame: bytes) -> bytes:
        """Give a call that was sent a new id, to send it again: the server may have seen the first
        one.

        An answer to the old id is dropped.
        """
        del self._open[call.number]
        self._cancelled.append(call.number)
        call.number = self.claim_number()
        self.own_requests += 1  # It is not another request of a client.
        self._open[call.number] = call
        return raw_json.edit(frame, {"id": b"%d" % call.number})

    def waits_for(self, call: PendingCall) -> bool:
        """Whether a call that was sent has no answer yet."""
        return call.number in self._open

    def find_call(self, id: Raw | None) -> PendingCall | None:
        """The open call with this id."""
        return None if id is None else self._open.get(jsonrpc.parse_own_id(bytes(id)))

    def settle(self, call: PendingCall, answer: Answer) -> None:
        """End a call with an answer that the channel has found."""
        if self._open.pop(call.number, None) is not None:
            self._release_slot(call)
            call.on_done(answer)

    def withdraw(self, call: PendingCall, answer: Answer) -> None:
        """End a call that the server has cancelled."""
        self._channel.cancel(call)
        self.settle(call, answer)

    def cancel(self, call: PendingCall, reason: bytes | None) -> None:
        """Cancel a call: tell the server, and drop a late answer."""
        if self._waiting.pop(call.number, None) is not None:
            self.call_slots.queue.drop(call.client, call)
            return
        if self._open.pop(call.number, None) is None:
            return
        self._cancelled.append(call.number)
        if not self._channel.cancel(call):
            params = [("requestId", b"%d" % call.number)]
            if reason is not None:
                params.append(("reason", reason))
            self.notify("notifications/cancelled", raw_json.encode_object(params))
        self._release_slot(call)

    def listen_for_progress(self, call: PendingCall) -> Callable[[], object]:
        """Take progress of a call that was answered; returns a function that stops it."""
        self._progress_after_answer[call.number] = call
        return lambda: self._progress_after_answer.pop(call.number, None)

    def notify(self, method: str, params: bytes | None) -> None:
        self._channel.send(jsonrpc.encode_notification(method, params), None)

    def answer(self, id: bytes, frame: Result | Failure) -> None:
        """Answer a request of the server."""
        if isinstance(frame, Result):
            self._channel.send(jsonrpc.encode_result(id, frame.result), None)
        else:
            self._channel.send(jsonrpc.encode_failure(id, frame.error), None)

    def receive_result(self, raw: bytes, expected_call: PendingCall | None = None) -> bool:
        """Fast path: take a message that is a result in the common form; False if it is not.

        If the channel knows which call it belongs to, it must have that call's id.
        """
        try:
            result = read_result(raw, self._bounds)
        except raw_json.AmbiguousObject as error:
            self._on_too_many_members(jsonrpc.id_at_edge(raw), raw, error)
            return True
        if result is None:
            return False
        number = int(result.id)
        if expected_call is not None and expected_call.number != number:
            return False
        call = self._open.pop(number, None)
        if call is None:
            return False
        if call.client is not None:
            slots = self.call_slots
            slots.used -= 1
            if slots.queue:
                slots.admit()
        over_budget = (
            len(raw) > LARGE_BYTES
            and call.client is not None
            and self.memory_budget.would_exceed(len(raw))
        )
        call.on_done(answer_over_budget(len(raw)) if over_budget else result)
        return True

    def leading_progress(
        self, messages: Sequence[bytes | Overlong], call: PendingCall
    ) -> list[bytes]:
        """Params of the first messages, as long as they are progress of this call in the common
        form: they are delivered together."""
        reports: list[bytes] = []
        number = call.number if call.number in self._open else None
        for raw in messages:
            report = None if isinstance(raw, Overlong) else read_progress(raw)
            if report is None or report[0] != number:
                break
            reports.append(report[1])
        return reports

    def receive(self, raw: bytes | Overlong, related_call: PendingCall | None = None) -> None:
        """Take one message from the server.

        `related_call` is the call on whose HTTP response it came. An error without an id of ours
        then belongs to that call: the server could not read the request.
        """
        if isinstance(raw, Overlong):
            reason = f"answered with {raw.size} bytes; the limit is {self._bounds.bytes_max}"
            limit = raw.size > self._bounds.bytes_max
            # One answer that is too large says nothing about the server's health.
            failure = (
                NoAnswer(reason, Situation.MISBEHAVED, CallOutcome.GOOD)
                if limit
                else answer_over_budget(raw.size)
            )
            self._on_bad_message(jsonrpc.id_at_edge(raw.edges), raw.edges, failure)
            return
        if self.receive_result(raw):
            return
        progress = read_progress(raw)
        if progress is not None:
            self._deliver_progress(*progress)
            return
        frame = jsonrpc.decode(raw, self._bounds)
        if isinstance(frame, BadFrame):
            reason = f"answered with something that is not JSON-RPC: {frame.message}"
            failure = NoAnswer(reason, Situation.MISBEHAVED, CallOutcome.BAD, Retryable.IF_SAFE)
            self._on_bad_message(frame.id or jsonrpc.id_at_edge(raw), raw, failure)
            return
        try:
            frame = clean_frame(frame)
        except raw_json.AmbiguousObject as error:
            id = frame.id if isinstance(frame, Result | Failure) else None
            self._on_too_many_members(id, raw, error)
            return
        self.related_call = related_call
        try:
            self._dispatch(frame, related_call)
        except raw_json.AmbiguousObject:
            self.noise_count += 1
        self.related_call = None

    def _dispatch(self, frame: Frame, related_call: PendingCall | None) -> None:
        match frame:
            case Result():
                self._on_answer(frame)
            case Failure(id=id):
                if related_call is not None and jsonrpc.parse_own_id(id) not in self._open:
                    self.settle(related_call, frame)
                else:
                    self._on_answer(frame)
            case Notification(method=method, params=params) if method == PROGRESS:
                self._on_progress(params)
            case Notification(params=params):
                if related_call is None:
                    self.related_call = self._find_subscription(params)
                self._listener.on_notification(self, frame)
            case Request():
                self._listener.on_request(self, frame)

    def on_unreachable(self, reason: str) -> None:
        """The channel could not reach the server."""
        self._listener.on_unreachable(reason)

    def record_own_request(self, request: OwnRequest, answer: Answer, seconds: float) -> None:
        """Report a request that the gateway made for itself."""
        self._listener.on_own_request(request, answer, seconds)

    def end(self, reason: str, end: ConnectionEnd = BROKEN) -> None:
        """The channel is closed: end every open and queued call."""
        if self.closed_with is not None:
            return
        self.closed_with = end.result_for_unsent(reason)
        open_calls, waiting_calls = self._open.values(), self._waiting.values()
        self._open, self._waiting = {}, {}
        for call in waiting_calls:
            self.call_slots.queue.drop(call.client, call)
        for call in open_calls:
            self._release_slot(call)
        sent_result = end.result_for_sent(reason)
        for call in open_calls:
            call.on_done(self.closed_with if call.number in end.unsent_calls else sent_result)
        for call in waiting_calls:
            call.on_done(self.closed_with)
        self._listener.on_connection_end(self)

    def _on_answer(self, frame: Result | Failure) -> None:
        number = jsonrpc.parse_own_id(frame.id)
        call = self._open.pop(number, None)
        if call is None:
            self._on_unsolicited(frame, number)
            return
        self._release_slot(call)
        size = 0 if isinstance(frame, Failure) else len(frame.result)
        over_budget = call.client is not None and self.memory_budget.would_exceed(size)
        call.on_done(answer_over_budget(size) if over_budget else frame)

    def _find_subscription(self, params: bytes | None) -> PendingCall | None:
        """The subscription that a notification names in its `_meta`."""
        if params is None or _SUBSCRIPTION_ID not in params:
            return None
        try:
            request_meta = raw_json.members(params).get("_meta", _EMPTY_OBJECT)
            return self.find_call(raw_json.members(request_meta).get(meta.SUBSCRIPTION_ID))
        except msgspec.DecodeError:
            return None

    def _on_unsolicited(self, message: Result | Failure | Notification, number: int) -> None:
        self.unsolicited_count += 1
        if number not in self._cancelled:
            self._listener.on_noise(message, UNSOLICITED)

    def _on_progress(self, params: bytes | None) -> None:
        if params is None or params[:1] != b"{":
            self._on_unsolicited(Notification(PROGRESS, params), -1)
            return
        token = raw_json.members(params).get(meta.PROGRESS_TOKEN)
        self._deliver_progress(
            jsonrpc.parse_own_id(None if token is None else bytes(token)), params
        )

    def _deliver_progress(self, token: int, params: bytes) -> None:
        call = self._open.get(token) or self._progress_after_answer.get(token)
        if call is None or call.on_progress is None:
            self._on_unsolicited(Notification(PROGRESS, params), token)
            return
        call.on_progress((params,))

    def _on_bad_message(self, id: bytes | None, raw: bytes, failure: NoAnswer) -> None:
        """A message that is not JSON-RPC: it fails the call whose id it seems to have, else it is
        noise."""
        call = self._open.pop(jsonrpc.parse_own_id(id), None)
        if call is None:
            self.noise_count += 1
            self.first_noise = self.first_noise or raw[:NOISE_BYTES_MAX]
            self._listener.on_noise(raw[:NOISE_BYTES_MAX], failure.reason)
            return
        self._release_slot(call)
        call.on_done(failure)

    def _on_too_many_members(
        self, id: bytes | None, raw: bytes, error: raw_json.AmbiguousObject
    ) -> None:
        reason = f"answered with {error}"
        failure = NoAnswer(reason, Situation.MISBEHAVED, CallOutcome.BAD, Retryable.IF_SAFE)
        self._on_bad_message(id, raw, failure)

    def _release_slot(self, call: PendingCall) -> None:
        if call.client is not None:
            self.call_slots.used -= 1
            self.call_slots.admit()

    def on_slot(self, call: PendingCall) -> None:
        """A queued call has got a slot: send it."""
        self._waiting.pop(call.number, None)
        self._open[call.number] = call
        frame, call.frame, call.admitted_at = call.frame, None, self.clock.monotonic()
        if frame is not None:
            self._channel.send(frame, call)

    def reject(self, call: PendingCall, reason: NoAnswer) -> None:
        """End a queued call that will not be sent."""
        self._waiting.pop(call.number, None)
        call.on_done(reason)


def bounds_for(bytes_max: int) -> jsonrpc.Bounds:
    """Message limits of one server."""
    return replace(jsonrpc.OUTBOUND, bytes_max=bytes_max)


# Requests of the gateway itself, as something to await.


def answer_future(
    connection: Connection, method: str, params: bytes | None
) -> tuple["asyncio.Future[Answer]", Callable[[Answer], None]]:
    """A future, and the callback that resolves it and records the request."""
    future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    started = connection.clock.monotonic()

    def settle(answer: Answer) -> None:
        if not future.done():
            connection.record_own_request(
                (method, params), answer, connection.clock.monotonic() - started
            )
            future.set_result(answer)

    return future, settle


async def call_and_wait(
    connection: Connection, method: str, params: bytes, name: str | None = None
) -> Answer:
    """Send a request and wait for its answer; it is cancelled with the task."""
    future, settle = answer_future(connection, method, params)
    call = connection.call(method, params, settle, None, CallSubject(name))
    if isinstance(call, NoAnswer):
        return call
    try:
        return await future
    except asyncio.CancelledError:
        connection.cancel(call, None)
        raise

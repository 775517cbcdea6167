"""One call: a request on its way to one server, and the answer on its way back.

The relay has decided which server that is. A `Call` leases a connection, sends the request in the
words of the server's era, retries it if that is safe, has the client asked where the server needs
to know more, and ends in `finish`. Its states are below, in the order of the conversation.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final

from anyport.gateway.calls.answers import misbehaviour, not_ready_fault
from anyport.gateway.calls.deadline import Deadline
from anyport.gateway.calls.fast_path import CallRoute, FastCall, remember_fast_path
from anyport.gateway.calls.leases import ExclusiveConnection
from anyport.gateway.calls.retry import (
    ATTEMPTS_MAX,
    RESTART_POLL_SECONDS,
    RESTART_WAIT_SECONDS_MAX,
    RetryBudget,
    may_repeat,
    retry_delay,
)
from anyport.gateway.elicitation.input_required_loop import InputRequiredLoop
from anyport.gateway.elicitation.parked_calls import Parking
from anyport.gateway.local.list_freshness import list_source
from anyport.gateway.profile import Profile
from anyport.gateway.tasks.augment import TaskAugmentation, task_augmentation
from anyport.protocol import meta
from anyport.protocol.adapters.server import InputRequiredResult
from anyport.protocol.errors import (
    Fault,
    Situation,
    Timeout,
    internal_fault,
    server_failure,
    timed_out,
)
from anyport.protocol.exchange import (
    Answered,
    Ending,
    Exchange,
    Failed,
    NeedInput,
    Progress,
    Question,
)
from anyport.protocol.request import TOOLS_CALL
from anyport.protocol.revisions import Era
from anyport.upstream.circuit_breaker import CallAdmitted, CallRejected
from anyport.upstream.connection import Connection
from anyport.upstream.lease_key import LeaseKey
from anyport.upstream.pending_call import (
    Answer,
    CallSubject,
    NoAnswer,
    PendingCall,
    Retryable,
    RetryAfterFailure,
)
from anyport.upstream.read_cache import ReadRequest
from anyport.upstream.server import Server
from anyport.upstream.subscriptions import raise_log_level
from anyport.upstream.supervisor import NotReady, ServerState
from anyport.wire import raw_json
from anyport.wire.jsonrpc import Failure, Result

if TYPE_CHECKING:
    from anyport.gateway.relay import Relay

BUFFERED_PROGRESS_MAX: Final = 64
"""Progress reports that are kept while the client is away to fetch an answer; the last count."""

_COMING_UP: Final = frozenset({ServerState.BROKEN, ServerState.STARTING})


class CallState(Enum):
    """Where a call is, in the order of the conversation."""

    NEW = "new"
    SUBSCRIBING = "subscribing"
    """The gateway answers it, with what it has arranged with the server."""
    LEASING = "leasing"
    """It waits for a connection."""
    SENT = "sent"
    """The server works on it."""
    RETRYING = "retrying"
    """It failed, and waits to be sent again."""
    ASKING = "asking"
    """The server has answered `input_required`, and the client of a session is being asked."""
    AS_TASK = "as a task"
    """The server has made a task of it, and the gateway waits for its end."""
    PARKED = "parked"
    """The client was told `input_required`, and has not come back yet. The server still works."""
    DONE = "done"


_NEXT: Final[Mapping[CallState, frozenset[CallState]]] = {
    CallState.NEW: frozenset(
        # A call that leaves the fast path has been sent.
        {CallState.SUBSCRIBING, CallState.LEASING, CallState.SENT, CallState.DONE}
    ),
    CallState.SUBSCRIBING: frozenset({CallState.DONE}),
    CallState.LEASING: frozenset({CallState.SENT, CallState.RETRYING, CallState.DONE}),
    CallState.SENT: frozenset(
        {
            CallState.SENT,  # A server that insists on a task is asked once more.
            CallState.RETRYING,
            CallState.ASKING,
            CallState.AS_TASK,
            CallState.PARKED,
            CallState.DONE,
        }
    ),
    CallState.RETRYING: frozenset({CallState.LEASING, CallState.DONE}),
    CallState.ASKING: frozenset({CallState.SENT, CallState.DONE}),
    CallState.AS_TASK: frozenset(
        {CallState.SENT, CallState.ASKING, CallState.PARKED, CallState.DONE}
    ),
    CallState.PARKED: frozenset({CallState.SENT, CallState.AS_TASK, CallState.DONE}),
    CallState.DONE: frozenset(),
}


class Call:
    """One exchange with one server."""

    __slots__ = (
        "_augmentation",
        "_buffered_progress",
        "_cacheable_read",
        "_client_params",
        "_connection",
        "_first_failure",
        "_input_loop",
        "_is_probe",
        "_last_params",
        "_profile",
        "_relay",
        "_retry_budget",
        "_sent_at",
        "_state_before_parking",
        "_wait_until",
        "_was_resumed",
        "deadline",
        "exchange",
        "exclusive",
        "is_delayed",
        "native",
        "parking",
        "pending",
        "preferred_key",
        "server",
        "state",
        "uses_fallback",
    )

    def __init__(
        self,
        relay: "Relay",
        exchange: Exchange,
        profile: Profile,
        server: Server,
        native: str,
        params: bytes,
    ) -> None:
        exchange.server, exchange.native = server.slug, native
        self._relay = relay
        self.exchange = exchange
        self._profile = profile
        self.server = server
        self.native = native
        self.state = CallState.NEW
        config = server.config
        self.deadline = Deadline(
            config.timeout_seconds, exchange.started_at, config.timeout_seconds_max
        )
        # The connection.
        self._connection: Connection | None = None
        self.exclusive: ExclusiveConnection | None = None
        """Set while the call has a connection to itself."""
        self.preferred_key: LeaseKey | None = None
        """Of the connection that its session is to be served over, where it is to be had."""
        self.uses_fallback = False
        """Whether it is served over a fallback: the next call may use another connection."""
        self.is_delayed = False
        """Whether it had to wait for the server before it could be sent."""
        # The request.
        self._client_params: bytes | None = params
        """The client's; None where that has not been worked out."""
        self._last_params = params
        """What the server was asked with last; before that, the client's."""
        self.pending: PendingCall | None = None
        """Set while the server knows of it."""
        self._sent_at = 0.0
        self._cacheable_read: ReadRequest | None = None
        """Set if the answer may come from the cache of reads, or go there."""
        # Retries.
        self._was_resumed = False
        """Whether its client has returned to it: a second attempt could contradict the first."""
        self._is_probe = False
        """Whether its outcome decides if the circuit breaker closes again."""
        self._retry_budget: RetryBudget | None = None
        """Set while it is sent again."""
        self._first_failure: NoAnswer | None = None
        self._wait_until = 0.0
        """Until when a retry waits for a server that has to be started first."""
        # Questions and tasks.
        self._input_loop: InputRequiredLoop | None = None
        self._augmentation: TaskAugmentation | None = None
        """Set if the call may become a task."""
        self.parking: Parking | None = None
        """Set once its legacy server has asked a client that has no session."""
        self._state_before_parking = CallState.SENT
        self._buffered_progress: tuple[bytes, ...] = ()
        """Progress that came while the client was away."""

    def enter(self, state: CallState) -> None:
        """Go on to another state."""
        if state not in _NEXT[self.state]:
            raise RuntimeError(f"a call cannot go from {self.state.value} to {state.value}")
        self.state = state

    # What others ask about it.

    @property
    def lease_owner(self) -> str:
        """Whose connection it uses; empty for one that everybody shares."""
        return self.exchange.lease_owner

    @property
    def is_parked(self) -> bool:
        return self.state is CallState.PARKED

    @property
    def is_answered_locally(self) -> bool:
        """Whether the gateway answers it, so that nothing a server says is about it."""
        return self.state is CallState.SUBSCRIBING

    def leave_fast_path(self) -> "Call":
        """It is not on the fast path; a `FastCall` is."""
        return self

    # The beginning.

    def start(self) -> None:
        """Set the deadline, and lease a connection."""
        fault = self._admit()
        if fault is not None:
            self.finish(Failed(fault))
            return
        self._open(CallState.LEASING)
        self._relay.leases.acquire(self)
        self.is_delayed = self.is_delayed or self.state is CallState.LEASING

    def start_subscribing(self) -> None:
        """Set the deadline; the gateway's resource subscriptions end the exchange."""
        self._open(CallState.SUBSCRIBING)
        record = self.exchange.on_end

        def on_end(exchange: Exchange, ending: Ending | None) -> None:
            self._relay.calls.remove(exchange)
            if record is not None:
                record(exchange, ending)

        self.exchange.on_end = on_end

    def continue_fast_call(self, fast_call: FastCall) -> None:
        """Go on with a call that was sent on the fast path."""
        connection = fast_call.path.connection
        self._connection, self.pending = connection, fast_call.pending
        self._sent_at, self._client_params = fast_call.started, None
        self._record_server(connection)
        transcript = self.exchange.transcript
        if transcript is not None:
            transcript.on_request_sent(self.exchange.method.name, self._last_params)
            transcript.sent_at = fast_call.started
        augmentation = task_augmentation(
            self._relay.tasks, self, self._profile, connection, self.native
        )
        if isinstance(augmentation, TaskAugmentation):
            self._augmentation = augmentation
            augmentation.request_params(self._last_params)
        self._open(CallState.SENT)

    def _open(self, state: CallState) -> None:
        self.enter(state)
        self.exchange.on_cancel = self.on_cancel
        self._relay.calls.add(self)

    def _admit(self) -> Fault | None:
        """Ask the circuit breaker; why the call is not made, if it is not."""
        health = self.server.health
        if not health.breaker.is_restricting:
            return None
        admission = health.admit()
        if isinstance(admission, CallRejected):
            slug, situation = self.server.slug, admission.situation
            return server_failure(slug, situation, admission.reason, admission.seconds)
        self._is_probe = admission is CallAdmitted.PROBE
        return None

    # The connection.

    def refuse(self, reason: str) -> None:
        """End it: there is no room for another connection."""
        self.finish(Failed(server_failure(self.server.slug, Situation.BUSY, reason)))

    def on_lease(self, connection: Connection | NotReady) -> None:
        """A connection was leased, or there is none for the reason given."""
        if self.exchange.ended:
            return
        try:
            if not isinstance(connection, NotReady):
                self._forward(connection)
            elif not self._wait_for_server():
                self.finish(Failed(not_ready_fault(self.server, connection.reason)))
        except Exception as error:  # noqa: BLE001 - others wait for the same server
            self.on_internal_error(error)

    def _forward(self, connection: Connection) -> None:
        """Put the request in the words of the server's era, and send it."""
        peer, exchange = connection.peer, self.exchange
        if peer is None:
            reason = "it has not finished its handshake"
            self.finish(Failed(not_ready_fault(self.server, reason)))
            return
        era = peer.revision.era
        params = self._relay.request_states.unbind(
            exchange, self._last_params, self.server.slug, era
        )
        if isinstance(params, Fault):
            self.finish(Failed(params))
            return
        self._connection = connection
        self._record_server(connection)
        self._record_wait()
        params = peer.adapter.request_params(
            params, exchange.param_members.get("_meta"), exchange.caller
        )
        if exchange.trace_context:
            params = meta.edit_meta(params, exchange.trace_context)
        if exchange.method.name == TOOLS_CALL:
            augmentation = task_augmentation(
                self._relay.tasks, self, self._profile, connection, self.native
            )
            if isinstance(augmentation, Fault):
                self.finish(Failed(augmentation))
                return
            if augmentation is not None:
                self._augmentation = augmentation
                params = augmentation.request_params(params)
        level = exchange.caller.log_level
        if level is not None and era is Era.LEGACY:
            # A legacy server has one level for its session; this request has one of its own.
            raise_log_level(connection, level, partial(self._send, params, era))
        else:
            self._send(params, era)

    # The request.

    def _send(self, params: bytes, era: Era) -> None:
        if not self.exchange.ended and not self._answer_from_cache(params, era):
            self.send_request(params)

    def _answer_from_cache(self, params: bytes, era: Era) -> bool:
        """Answer a read from the cache, if the server allows it; see `upstream/read_cache.py`."""
        exchange, cache = self.exchange, self.server.read_cache
        # Only a modern server says what may be cached.
        if exchange.method.name != "resources/read" or era is Era.LEGACY:
            return False
        principal, now = exchange.caller.principal, self._relay.clock.monotonic()
        alone = self.server.key_for(principal).separate
        cacheable_read = cache.prepare(
            self.server.slug, self.native, params, principal, alone=alone
        )
        cached = None if cacheable_read is None else cache.find(cacheable_read, now)
        if cached is None:
            self._cacheable_read = cacheable_read
            return False
        exchange.from_cache = True
        self._sent_at = now
        self.handle_answer(cached)
        return True

    def send_request(self, params: bytes) -> None:
        """Send the request; again, with answers, when the server needed to know more."""
        exchange, connection = self.exchange, self._connection
        if connection is None:
            return
        self.enter(CallState.SENT)
        self._last_params = params
        self._sent_at = self._relay.clock.monotonic()
        reports_progress = exchange.progress_token is not None
        if exchange.transcript is not None:
            sent = connection.add_progress_token(params) if reports_progress else params
            exchange.transcript.on_request_sent(exchange.method.name, sent)
        pending = connection.call(
            exchange.method.name,
            params,
            self.on_answer,
            self.on_progress if reports_progress else None,
            CallSubject(
                self.native, exchange.param_fields, exchange.client_load or exchange.writer
            ),
        )
        if isinstance(pending, NoAnswer):
            self.on_answer(pending)
        elif not exchange.ended:
            self.pending = pending

    # The answer.

    def on_answer(self, answer: Answer) -> None:
        """The server has answered, or the call failed: then the request may be sent again."""
        try:
            retries = self._schedule_retry(answer)
        except Exception as error:  # noqa: BLE001 - others wait for the same server
            self.on_internal_error(error)
            return
        if retries:
            self._record_answer(answer)
            self.pending = None
        else:
            self.handle_answer(answer)

    def handle_answer(self, answer: Answer) -> None:
        """Make an ending of the answer, a task, or questions for the client."""
        self._record_answer(answer)
        try:
            if self._augmentation is not None and self._augmentation.take_task(answer):
                self._sent_at = self._relay.clock.monotonic()
                return
            self._cache_read(answer)
            peer = None if self._connection is None else self._connection.peer
            asked = (self.exchange, self._profile, self.server)
            ending = self._relay.answer_translator.translate(answer, peer, *asked)
            if isinstance(ending, InputRequiredResult):
                self._ask_for_input(ending)
            elif self._augmentation is None:
                self.finish(ending)
            else:
                self.finish(self._augmentation.wrap_ending(ending))
        except raw_json.AmbiguousObject:
            reason = "answered with an object that names a member twice"
            self.finish(misbehaviour(self.server.slug, reason))
        except Exception as error:  # noqa: BLE001 - others wait for the same server
            self.on_internal_error(error)

    def _cache_read(self, answer: Answer) -> None:
        # An answer that depends on what the client said to questions is for nobody else.
        if (
            self._cacheable_read is not None
            and self._input_loop is None
            and isinstance(answer, Result)
        ):
            now = self._relay.clock.monotonic()
            self.server.read_cache.store(self._cacheable_read, answer.result, now)

    def _ask_for_input(self, input_required: InputRequiredResult) -> None:
        self.enter(CallState.ASKING)
        self.deadline.extend(self._relay.clock.monotonic())
        if self._input_loop is None:
            self._input_loop = InputRequiredLoop(self)
        self._input_loop.ask(input_required, self._last_params)

    def on_progress(self, reports: Sequence[bytes]) -> None:
        """Pass the server's progress on, or keep it until the client is back."""
        if self.exchange.ended:
            self._buffered_progress = (*self._buffered_progress, *reports)[-BUFFERED_PROGRESS_MAX:]
            return
        self.deadline.extend(self._relay.clock.monotonic())
        for params in reports:
            self.exchange.emit(Progress(params))

    # Retries.

    def _schedule_retry(self, answer: Answer) -> bool:
        """Report the answer to the circuit breaker; returns whether the request is sent again."""
        health = self.server.health
        if health.breaker.failures or isinstance(answer, NoAnswer | RetryAfterFailure):
            probe, self._is_probe = self._is_probe, False
            health.on_answer(answer, self._sent_at, probe=probe)
        if not isinstance(answer, NoAnswer) or not self._is_repeatable(answer):
            return False
        self._retry_budget = self._relay.retry_budgets.acquire(self.server)
        if self._retry_budget is None:
            return False
        clock = self._relay.clock
        delay = retry_delay(clock.random())
        self._first_failure = answer
        self._wait_until = clock.monotonic() + delay + RESTART_WAIT_SECONDS_MAX
        self.enter(CallState.RETRYING)
        clock.later(delay, self._retry)
        return True

    def _is_repeatable(self, answer: NoAnswer) -> bool:
        """Whether `retry` allows another attempt, and the client has seen nothing of this one."""
        server, exchange = self.server, self.exchange
        if answer.retryable is Retryable.NEVER or exchange.attempts >= ATTEMPTS_MAX:
            return False
        if server.config.retry == "never" or server.health.breaker.is_open:
            return False
        if self._was_resumed or exchange.ended or exchange.progress_reported:
            return False
        if exchange.questions or exchange.input_rounds:
            return False
        listings = list_source(server, exchange.caller).listings
        return may_repeat(answer, exchange.method.name, self.native, listings)

    def _retry(self) -> None:
        if self.exchange.ended or self._first_failure is None:
            return
        if self._admit() is None:
            self.exchange.attempts += 1
            self._repeat()
        else:  # That other calls have failed since says less than why this one did.
            self.handle_answer(self._first_failure)

    def _wait_for_server(self) -> bool:
        """Wait for a server that is starting; only a request that is sent again does."""
        clock = self._relay.clock
        starting = self.server.state in _COMING_UP
        if self._retry_budget is None or not starting or clock.monotonic() >= self._wait_until:
            return False
        self.enter(CallState.RETRYING)
        clock.later(RESTART_POLL_SECONDS, self._poll_server)
        return True

    def _poll_server(self) -> None:
        if not self.exchange.ended:
            self._repeat()

    def _repeat(self) -> None:
        """Lease a connection and send the request, as if for the first time."""
        self.enter(CallState.LEASING)
        self._release_exclusive()
        self._connection = self._augmentation = None
        self.exchange.lease_owner = ""
        if self._client_params is None:
            self._client_params = raw_json.edit(
                self.exchange.params, {"name": raw_json.encode_string(self.native)}
            )
        self._last_params = self._client_params
        self._relay.leases.acquire(self)

    # Tasks.

    def on_task_created(self) -> None:
        """The server has made a task of it, and the client knows of none."""
        self.enter(CallState.AS_TASK)

    def on_task_ended(self, answer: Answer) -> None:
        """The task has ended with this answer."""
        self._augmentation = None
        self.handle_answer(answer)

    def subscribe_progress(
        self, report: Callable[[Sequence[bytes]], None]
    ) -> Callable[[], object] | None:
        """Keep receiving progress after the answer; returns a function that ends that."""
        pending, connection = self.pending, self._connection
        if pending is None or connection is None or pending.on_progress is None:
            return None
        pending.on_progress = report
        return connection.listen_for_progress(pending)

    def transfer_exclusive(self) -> Callable[[], None] | None:
        """Leave a connection of its own to the task; returns a function that releases it."""
        exclusive, self.exclusive = self.exclusive, None
        release = partial(self._relay.leases.release_exclusive, self.server, self.exchange.caller)
        return None if exclusive is None else partial(release, exclusive)

    # Questions to the client.

    def ask_client(self, question: Question) -> None:
        """Ask the client something that the task of this call needs."""
        if self.exchange.caller.session is not None:
            self.exchange.emit(NeedInput(question))
        elif self._relay.parked_calls.is_full(self.exchange.caller.principal):
            question.abandon()
        else:
            self._relay.parked_calls.add_question(self, question)

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something after a while."""
        self._relay.clock.later(seconds, act)

    def park(self) -> Exchange:
        """Stop the clock while the client is away; returns its exchange, to be answered."""
        self._state_before_parking = self.state
        self.enter(CallState.PARKED)
        self.deadline.pause(self._relay.clock.monotonic())
        self._relay.calls.remove(self.exchange)
        # Telling the client that input is required ends its request, but not this call.
        self.exchange.on_cancel = self.exchange.on_end = None
        return self.exchange

    def resume(self, exchange: Exchange) -> None:
        """Go on with the request with which the client has come back."""
        self._was_resumed = True
        before, self.exchange = self.exchange, exchange
        exchange.continue_from(before)
        self.deadline.resume(self._relay.clock.monotonic())
        self._open(self._state_before_parking)
        reports, self._buffered_progress = self._buffered_progress, ()
        self.on_progress(reports)

    # The end.

    def finish(self, ending: Ending) -> None:
        """End the call and answer its client; a parked call keeps the ending until that returns."""
        if self.state is CallState.PARKED and self.parking is not None:
            self.parking.ending = ending
            return
        if self.state is CallState.DONE:
            return
        self._release()
        if isinstance(ending, Answered):
            self._on_success()
        self._relay.finish(self.exchange, ending)

    def abandon(self) -> None:
        """End a parked call whose client has not come back."""
        self._stop(None)
        self._relay.recorder.record_ending(self.exchange, None)

    def on_cancel(self, reason: bytes | None) -> None:
        """The client gave up."""
        self._record_answer(None)
        self._stop(reason)
        self._relay.calls.remove(self.exchange)

    def on_timeout(self, timeout: Timeout) -> None:
        """Its time is over; if it was the server's, that counts for the circuit breaker."""
        self._relay.recorder.on_timeout(timeout)
        seconds = self.deadline.seconds_for(timeout)
        fault = timed_out(self.server.slug, timeout, f"{seconds:g}s")
        connection, pending = self._connection, self.pending
        is_servers = timeout in (Timeout.TOTAL, Timeout.CAP)
        is_sent = connection is not None and pending is not None and connection.waits_for(pending)
        if is_servers and is_sent:
            probe, self._is_probe = self._is_probe, False
            self.server.health.on_failure(fault.message, self._sent_at, probe=probe)
        self._record_answer(None)
        self._cancel_pending(raw_json.encode_string(fault.message))
        self.finish(Failed(fault))

    def on_internal_error(self, error: Exception) -> None:
        """Something of ours broke: the client gets an answer all the same."""
        self._relay.report_internal_error(error)
        self.finish(Failed(internal_fault(error)))

    def check_deadline(self, now: float) -> Timeout | None:
        """Which timeout is over, if any."""
        connection, pending = self._connection, self.pending
        # A call that waits in its server's queue has a timeout of its own for that.
        is_expired = (
            connection is not None
            and pending is not None
            and connection.expire_queued(pending, now)
        )
        if is_expired:
            self._relay.recorder.on_timeout(Timeout.QUEUE)
        if self.exchange.ended:
            return None
        if self.deadline.becomes_slow(now):
            self._relay.recorder.record_pending(self.exchange)
        asking = any(question.open for question in self.exchange.questions)
        return self.deadline.check(now, asking=asking)

    def _stop(self, reason: bytes | None) -> None:
        self._cancel_pending(reason)
        self._release()

    def _cancel_pending(self, reason: bytes | None) -> None:
        pending, self.pending = self.pending, None
        if self._connection is not None and pending is not None:
            self._connection.cancel(pending, reason)
        if self._augmentation is not None:
            self._augmentation.stop()

    def _release(self) -> None:
        """Leave what it held to others."""
        self.enter(CallState.DONE)
        # The pending call holds on to this one: both would wait for the garbage collector.
        self.pending = None
        if self.parking is not None:
            self._relay.parked_calls.forget(self)
        probe, self._is_probe = self._is_probe, False
        if probe:
            self.server.health.release_probe()
        budget, self._retry_budget = self._retry_budget, None
        if budget is not None:
            budget.release()
        self._release_exclusive()

    def _release_exclusive(self) -> None:
        exclusive, self.exclusive = self.exclusive, None
        if exclusive is not None:
            caller = self.exchange.caller
            self._relay.leases.release_exclusive(self.server, caller, exclusive)

    def _on_success(self) -> None:
        if self._input_loop is not None:
            self._input_loop.on_answered()
        is_tool_call = self.exchange.method.name == TOOLS_CALL
        changed = self._augmentation is not None and self._augmentation.changes_request
        if is_tool_call and self._connection is not None and not self.uses_fallback and not changed:
            route = CallRoute(self._profile, self.server, self.native, self._connection)
            remember_fast_path(self.exchange, route, self._relay.recorder.event_template)

    # The record.

    def _record_server(self, connection: Connection) -> None:
        transcript, peer = self.exchange.transcript, connection.peer
        if transcript is not None and peer is not None:
            transcript.server_revision = peer.revision.name
            transcript.server_transport = self.server.transport

    def _record_wait(self) -> None:
        """Count the time that a call has waited for its server as the server's."""
        if self.is_delayed:
            exchange = self.exchange
            waited = self._relay.clock.monotonic() - exchange.started_at
            exchange.server_seconds = waited
            if exchange.transcript is not None:
                exchange.transcript.queued_seconds = waited

    def _record_answer(self, answer: Answer | None) -> None:
        """The server has answered, or is given up while it works: count its time."""
        pending, exchange = self.pending, self.exchange
        if answer is None and pending is None:
            return
        transcript, elapsed = exchange.transcript, self._relay.clock.monotonic() - self._sent_at
        exchange.server_seconds = (exchange.server_seconds or 0.0) + elapsed
        if transcript is None or exchange.from_cache:
            return
        queued = 0.0 if pending is None else max(0.0, pending.admitted_at - self._sent_at)
        transcript.queued_seconds += queued
        transcript.server_seconds += elapsed - queued
        if isinstance(answer, Result):
            transcript.on_server_answer(answer.result, failed=False)
        elif isinstance(answer, Failure):
            transcript.on_server_answer(answer.error, failed=True)

"""The way of a message. Read this first.

`Relay.begin` takes a request to its ending: record, route, admit, call. Everything on the way is
synchronous; what has to be waited for calls back. A call ends in `Relay.finish`, or in
`Call.on_cancel` if its client cancels it; `Exchange._finish` then records the ending. A call on the
fast path has no exchange, and is recorded in `Relay.on_fast_result`; a parked call whose client
does not return has none that is open, and is recorded in `Call.abandon`.

Each ending is recorded once, in the turn of the event loop in which the client is answered: the
record of a turn is written before any answer of that turn leaves.
"""

from collections.abc import Hashable, Mapping
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Final

from anyport.catalog.route import LocalRoute, Route, Unroutable, resolve_route
from anyport.clock import Clock
from anyport.gateway.calls.admission import Admission
from anyport.gateway.calls.answers import AnswerTranslator, check_param_headers, not_ready_fault
from anyport.gateway.calls.call import Call
from anyport.gateway.calls.call_table import CallTable
from anyport.gateway.calls.durability import HeldAnswer
from anyport.gateway.calls.fast_path import FastCall, FastPath
from anyport.gateway.calls.leases import Leases
from anyport.gateway.calls.retry import RetryBudgets
from anyport.gateway.elicitation.parked_calls import ParkedCalls
from anyport.gateway.elicitation.request_state import RequestStates
from anyport.gateway.profile import Profile
from anyport.gateway.recording.call_recorder import CallRecorder
from anyport.gateway.tasks.handles import TaskHandles
from anyport.gateway.tasks.tasks import TaskMethods
from anyport.protocol.errors import Fault, internal_fault, method_not_found
from anyport.protocol.exchange import Caller, ClientAdapter, Ending, Exchange, Failed, ReplyWriter
from anyport.protocol.memory_budget import LARGE_BYTES
from anyport.protocol.methods import RoutingRule
from anyport.protocol.request import PlainCall
from anyport.protocol.sealing import Seal
from anyport.upstream.server import Server
from anyport.wire import raw_json

if TYPE_CHECKING:
    from anyport.gateway.local.methods import LocalMethods

SUBSCRIPTION_METHODS: Final = frozenset({"resources/subscribe", "resources/unsubscribe"})


class ListWait(IntEnum):
    """What a request for something that is in no list may still wait for."""

    ALL_LISTS = 3
    """Until every server has listed; then for what follows."""
    OWN_SERVER = 2
    """Until the server that it names has listed; then for what follows."""
    NEWER_LISTS = 1
    """Until the lists were read once more."""
    NONE = 0


class Relay:
    """Takes requests to their endings."""

    local_methods: "LocalMethods"
    """Answers what no single server can. Set by the gateway, since it uses the relay too."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        recorder: CallRecorder,
        leases: Leases,
        admission: Admission,
        seal: Seal,
        clock: Clock,
    ) -> None:
        self.recorder = recorder
        self.durability = recorder.durability
        self.leases = leases
        self.admission = admission
        self.clock = clock
        self.calls = CallTable(clock)
        self.calls.on_sweep = admission.check_memory
        self.parked_calls = ParkedCalls(self.calls, seal, clock)
        self.parked_calls.on_timeout = recorder.on_timeout
        self.request_states = RequestStates(seal, clock.steady_now)
        self.answer_translator = AnswerTranslator(self.request_states)
        self.retry_budgets = RetryBudgets(clock, self._count_open)
        self.tasks = TaskMethods(TaskHandles(seal), clock)
        self._profiles = profiles

    def begin(self, exchange: Exchange) -> None:
        """Route a request, wait for lists or refuse it. Every exchange enters here, unless it takes
        the fast path."""
        profile = self._profiles[exchange.caller.profile]
        self.recorder.start_traced_exchange(exchange)
        if not self._waits_for_extension(exchange, profile):
            self._dispatch(exchange, profile)

    def _dispatch(self, exchange: Exchange, profile: Profile) -> None:
        if exchange.method.routing in (RoutingRule.LOCAL, RoutingRule.MERGE):
            self.local_methods.answer(exchange, profile)
        elif not self._resume_parked(exchange, profile):
            self.route(exchange, profile)

    def route(
        self, exchange: Exchange, profile: Profile, *, waits: ListWait = ListWait.ALL_LISTS
    ) -> None:
        """Find out who answers: a server, the gateway, or nobody. `waits` is what may be waited for
        before it is nobody."""
        if exchange.ended:
            return
        catalog = profile.catalog_of(exchange.caller)
        route = resolve_route(exchange.method, exchange.params, exchange.param_members, catalog)
        match route:
            case Route():
                self._call_server(exchange, profile, route, is_delayed=waits < ListWait.ALL_LISTS)
            case LocalRoute(tool=tool):
                exchange.name = exchange.native = tool
                exchange.delay_answer = self.durability.hold_if_recordable
                self.local_methods.run_gateway_tool(exchange, profile, tool)
            case Unroutable():
                if not self._wait_for_lists(exchange, profile, route, waits):
                    self._refuse(exchange, profile, route, is_delayed=waits < ListWait.ALL_LISTS)

    def _call_server(
        self, exchange: Exchange, profile: Profile, route: Route, *, is_delayed: bool
    ) -> None:
        """Call the one server that has what the client wants, if the call is admitted."""
        server = profile.servers[route.slug]
        exchange.name, exchange.server, exchange.native = route.public, server.slug, route.native
        refusal = (
            self._recording_refusal(exchange)
            or check_param_headers(exchange, server.annotations(route.native))
            or self.admission.admit(exchange, len(self.calls), self.clock.monotonic())
        )
        if refusal is not None:
            self.finish(exchange, Failed(refusal))
            return
        call = Call(self, exchange, profile, server, route.native, route.params)
        call.is_delayed = is_delayed
        if exchange.method.name in SUBSCRIPTION_METHODS:
            call.start_subscribing()
            self.local_methods.subscribe(exchange, server, route)
        else:
            call.start()

    def _refuse(
        self, exchange: Exchange, profile: Profile, route: Unroutable, *, is_delayed: bool
    ) -> None:
        """Nobody has what the client wants; the server that it belongs to may be down."""
        exchange.name = exchange.native = route.public
        fault, owner = route.fault, profile.down_owner(route.public)
        if owner is not None:
            exchange.server = owner.slug
            fault = not_ready_fault(owner, owner.reason or "it is still starting")
        if is_delayed:
            exchange.server_seconds = self.clock.monotonic() - exchange.started_at
        self.finish(exchange, Failed(fault))

    def _wait_for_lists(
        self, exchange: Exchange, profile: Profile, route: Unroutable, waits: ListWait
    ) -> bool:
        """Wait for lists in which the target may be, then route again; False if there are none."""
        if route.final:
            return False
        route_again = partial(self.route, exchange, profile)
        if waits == ListWait.ALL_LISTS:
            self.local_methods.query_more_lists(exchange.caller, profile)
            if not profile.settled or profile.outdated:
                self.local_methods.wait_for_lists(
                    profile, partial(route_again, waits=ListWait.OWN_SERVER)
                )
                return True
        owner = profile.starting_owner(route.public) if waits >= ListWait.OWN_SERVER else None
        if owner is not None:
            waited = self.clock.monotonic() - exchange.started_at
            then = partial(route_again, waits=ListWait.NEWER_LISTS)
            self.local_methods.wait_for_server(owner, waited, then)
            return True
        return waits > ListWait.NONE and self.local_methods.look_up(
            profile, route, exchange.caller, partial(route_again, waits=ListWait.NONE)
        )

    def _waits_for_extension(self, exchange: Exchange, profile: Profile) -> bool:
        """Wait for all servers if none is known to have the extension of a method."""
        if _knows_method(exchange, profile):
            return False

        def settle() -> None:
            if exchange.ended:
                return
            if _knows_method(exchange, profile):
                self._dispatch(exchange, profile)
            else:
                exchange.end(Failed(method_not_found(exchange.method.name)))

        self.local_methods.wait_for_lists(profile, settle)
        return True

    def _resume_parked(self, exchange: Exchange, profile: Profile) -> bool:
        """Take a client that brings a `requestState` back to its parked call, if it has one."""
        if "requestState" not in exchange.param_members or self.durability.refusal is not None:
            return False
        catalog = profile.catalog_of(exchange.caller)
        route = resolve_route(exchange.method, exchange.params, exchange.param_members, catalog)
        if isinstance(route, Route):
            # For the record, should the call be over by now.
            exchange.name, exchange.server = route.public, route.slug
            exchange.native = route.native
        is_resumed = self.parked_calls.resume(exchange)
        if is_resumed:
            self.admission.register(exchange)
        return is_resumed

    def _recording_refusal(self, exchange: Exchange) -> Fault | None:
        """Why a call is refused that could not be recorded; see `calls/durability.py`."""
        if self.durability.refusal is None or exchange.method.event is None:
            return None
        exchange.delay_answer = None
        return self.durability.refusal

    # The end.

    def finish(self, exchange: Exchange, ending: Ending) -> None:
        """End a call with an answer to its client. The exchange then records the ending."""
        self.calls.remove(exchange)
        exchange.end(self.admission.with_retry_hint(ending))

    def on_internal_error(self, exchange: Exchange, error: Exception) -> None:
        """Something of ours broke: the client gets an answer all the same."""
        call = self.calls.open.get(exchange)
        if isinstance(call, Call):
            call.on_internal_error(error)
        else:
            self.report_internal_error(error)
            self.finish(exchange, Failed(internal_fault(error)))

    def report_internal_error(self, error: Exception) -> None:
        """Tell the operator; a shortage of memory is told elsewhere, and is no error of ours."""
        if not isinstance(error, MemoryError):
            self.clock.report_error(error)

    # The calls of a server.

    def is_in_use(self, server: Server) -> bool:
        """Whether a call or a task still needs a server."""
        if server.open_calls or self.tasks.has_open_task(server):
            return True
        return any(isinstance(call, Call) for call in self.calls.at_server(server))

    def _count_open(self, server: Server) -> int:
        return sum(1 for _ in self.calls.at_server(server))

    # The fast path: `begin` for a call that its caller has made before.

    def prepare_fast_call(
        self,
        plain: PlainCall,
        caller: Caller,
        client: ClientAdapter,
        writer: ReplyWriter,
        key: Hashable,
    ) -> FastCall | None:
        """A call on the fast path that an earlier one has left; None if it is not valid now."""
        path: FastPath | None = caller.cache.get((plain.name, plain.token is None))
        if path is None or path.meta != plain.raw_meta:
            return None
        profile = path.profile
        if path.catalog is not (
            profile.catalog_of(caller) if profile.has_variants else profile.catalog
        ):
            return None
        if profile is not self._profiles.get(caller.profile):
            return None  # The configuration has changed since.
        connection = path.connection
        if (
            connection.closed_with is not None
            or connection.draining_reason is not None
            or path.breaker.is_restricting
        ):
            return None
        if self.durability.refusal is not None:
            return None
        admission, client_load, calls = self.admission, path.client_load, self.calls
        if len(calls.open) >= admission.calls_max or len(plain.arguments) > LARGE_BYTES:
            return None
        if client_load is not None:
            if client_load.calls >= admission.client_calls_max:
                return None
            client_load.calls += 1
        if not calls.is_sweep_scheduled:
            calls.schedule_sweep()
        return FastCall(self, path, plain, client, writer, key)

    def on_fast_result(
        self, call: FastCall, size: int, server_seconds: float, result: bytes, frame: bytes
    ) -> None:
        """`finish` for a call on the fast path."""
        del self.calls.open[call]
        client_load = call.path.client_load
        if client_load is not None:
            client_load.calls -= 1
        try:
            self.recorder.record_fast_call(
                call.path.event_template, call, size, server_seconds, result, frame
            )
        except Exception as error:  # noqa: BLE001 - the caller gets the answer even so
            self.clock.report_error(error)
        call.client.remove(call.key)
        if self.durability.is_holding:
            self.durability.hold_answer(HeldAnswer(call, call.path.caller.revision, frame))
        else:
            call.writer.end(frame)

    def continue_call(self, fast_call: FastCall) -> Call:
        """Make an ordinary call of one that leaves the fast path."""
        path, plain, params = fast_call.path, fast_call.plain, fast_call.params
        exchange = Exchange(
            id=plain.id,
            method=fast_call.method,
            params=params,
            param_members=raw_json.members(params),
            caller=path.caller,
            writer=fast_call.writer,
            deliver=fast_call.client.deliver,
            key=fast_call.key,
            progress_token=plain.token,
            progress_reported=fast_call.reported,
            name=path.public,
            client_load=path.client_load,
            lease_owner=path.lease_owner,
        )
        self.recorder.start_exchange(exchange)
        exchange.started_at = fast_call.started
        exchange.transcript = fast_call.transcript or exchange.transcript
        _, server_params = fast_call.raw_params()
        call = Call(self, exchange, path.profile, path.server, path.native, server_params)
        call.continue_fast_call(fast_call)
        del self.calls.open[fast_call]
        fast_call.client.replace(fast_call.key, exchange)
        return call


def _knows_method(exchange: Exchange, profile: Profile) -> bool:
    """Whether a server of a profile may know a method, as far as its servers are known."""
    if exchange.method.routing is RoutingRule.TRANSPARENT:
        return profile.passes_unknown(exchange.caller.capabilities)
    return exchange.method.extension is None or exchange.method.extension in profile.extensions

"""Admission control: limits on the calls in flight, in all and for each client.

A call over the limit is refused at once, with the time to try again; an admitted one is finished.
Counters and comparisons only, because admission is on the way of every call. The limits of one
server, and the order of its calls, are in `upstream/call_queue.py`.
"""

from collections.abc import Callable
from random import random
from typing import Final
from weakref import WeakValueDictionary

from anyport.config.model import GatewayConfig
from anyport.gateway.memory import MemoryPressure
from anyport.protocol.errors import Fault, RetryAfter, Situation, add_retry_after, overloaded
from anyport.protocol.exchange import Caller, Ending, Exchange, Failed
from anyport.protocol.memory_budget import LARGE_BYTES, ClientLoad, MemoryBudget, MemoryReservation
from anyport.protocol.principal import LOCAL

STDIO: Final = "stdio"
MEMORY_CHECK_SECONDS_MIN: Final = 0.25
"""Between two checks of the memory in use, which cost some system calls."""


class Admission:
    """Decides whether a call is admitted."""

    def __init__(
        self,
        config: GatewayConfig | None = None,
        pressure: MemoryPressure | None = None,
        chance: Callable[[], float] = random,
    ) -> None:
        config = GatewayConfig() if config is None else config
        self.memory_budget = MemoryBudget(config.bytes_max, chance)
        """For large messages, in both directions."""
        self.calls_max = config.calls_max
        """0 while memory is short."""
        self.client_calls_max = config.client_calls_max
        self._configured_calls_max = config.calls_max
        self._pressure = pressure
        self._checked_at = 0.0
        self._loads: WeakValueDictionary[object, ClientLoad] = WeakValueDictionary()

    def apply_config(self, config: GatewayConfig) -> None:
        self.memory_budget.bytes_max = config.bytes_max
        self.client_calls_max = config.client_calls_max
        short = self.calls_max < self._configured_calls_max
        self._configured_calls_max = config.calls_max
        self.calls_max = 0 if short else config.calls_max

    def load_of(self, caller: Caller) -> ClientLoad | None:
        """The load of a client; None where something else bounds it.

        A client is a principal. Without tokens it is a session, or a connection, which has one
        request at a time. On stdio there is one client, and the limit is that of the gateway.
        """
        if caller.principal != LOCAL:
            client: object = caller.principal
        elif caller.session is not None and caller.transport != STDIO:
            client = caller.session.id
        else:
            return None
        load = self._loads.get(client)
        if load is None:
            load = self._loads[client] = ClientLoad()
        return load

    def admit(self, exchange: Exchange, open_calls: int, now: float) -> Fault | None:
        """Admit a call to a server; returns why not, if it is refused."""
        if open_calls >= self.calls_max:
            if self.calls_max < self._configured_calls_max:
                self.check_memory(now)  # No call is open, so there are no sweeps to do it.
            if open_calls >= self.calls_max:
                return self._overload_fault()
        load = self.load_of(exchange.caller)
        if load is not None and load.calls >= self.client_calls_max:
            message = f"Too many calls at once: {load.calls} of this client's are in flight"
            return self._refusal("client-calls", message, own=True)
        size = len(exchange.params)
        if size > LARGE_BYTES:
            reservation = MemoryReservation(self.memory_budget)
            if not reservation.resize(size):
                reservation.release()
                message = f"The gateway holds too much to take a request of {size} bytes"
                return self._refusal("bytes", message)
            exchange.reservation = reservation
        self.register(exchange)
        return None

    def register(self, exchange: Exchange) -> None:
        """Count a call from now until it ends."""
        load = self.load_of(exchange.caller)
        if load is not None and not exchange.ended:
            load.calls += 1
            exchange.client_load = load

    def with_retry_hint(self, ending: Ending) -> Ending:
        """Add the time to try again to a fault that says that a server is busy."""
        if not isinstance(ending, Failed) or ending.fault.retry_after is not None:
            return ending
        if ending.fault.situation is not Situation.BUSY:
            return ending
        return Failed(
            add_retry_after(ending.fault, RetryAfter(seconds=self.memory_budget.refuse("server")))
        )

    def check_memory(self, now: float) -> None:
        """Refuse calls while memory is short, and admit them when it is not."""
        if self._pressure is None or now - self._checked_at < MEMORY_CHECK_SECONDS_MIN:
            return
        self._checked_at = now
        self.calls_max = 0 if self._pressure.is_short() else self._configured_calls_max

    def _overload_fault(self) -> Fault:
        if self.calls_max < self._configured_calls_max:
            return self._refusal("memory", "The gateway is short of memory")
        return self._refusal("calls", f"The gateway is busy: {self.calls_max} calls are in flight")

    def _refusal(self, limit: str, message: str, *, own: bool = False) -> Fault:
        seconds = self.memory_budget.refuse(limit)
        return overloaded(f"{message}; try again in {seconds} s", own=own, seconds=seconds)

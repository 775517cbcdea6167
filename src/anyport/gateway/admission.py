"""Whether there is room for one more call: in the whole gateway, and for the client who makes it.

Whoever asks for too much is told so at once, and when to come back; what has been taken on is
finished. Counters and comparisons only: letting a call in must cost next to nothing. How many a
server works on, and in which order, is not known here.
"""

from collections.abc import Callable
from random import random
from typing import Final
from weakref import WeakValueDictionary

from anyport.config.schema import GatewayConfig
from anyport.gateway.pressure import Pressure
from anyport.protocol.errors import Fault, Pause, Situation, overloaded, put_off
from anyport.protocol.exchange import Caller, Ending, Exchange, Failed
from anyport.protocol.principal import LOCAL
from anyport.protocol.room import LARGE_BYTES, Held, Room, Share

STDIO: Final = "stdio"
LOOK_SECONDS_MIN: Final = 0.25
"""Between two looks at the memory in use; it costs some system calls."""


class Admission:
    """Counts what is under way."""

    def __init__(
        self,
        config: GatewayConfig | None = None,
        pressure: Pressure | None = None,
        chance: Callable[[], float] = random,
    ) -> None:
        config = GatewayConfig() if config is None else config
        self.room = Room(config.bytes_max, chance)
        """For large messages, of clients and of servers."""
        self.calls_max = config.calls_max
        """None at all while memory is short."""
        self.client_calls_max = config.client_calls_max
        self._calls_max = config.calls_max
        self._pressure = pressure
        self._looked = 0.0
        self._shares: WeakValueDictionary[object, Share] = WeakValueDictionary()

    def limit(self, config: GatewayConfig) -> None:
        """Go by another configuration from now on."""
        self.room.bytes_max = config.bytes_max
        self.client_calls_max = config.client_calls_max
        short = self.calls_max < self._calls_max
        self._calls_max = config.calls_max
        self.calls_max = 0 if short else config.calls_max

    def share(self, caller: Caller) -> Share | None:
        """What its client has under way; None where that is bounded in another way.

        A client is who its token names. Without tokens it is a session, or else a connection: that
        has one request at a time. Where there is one client alone, all is its own.
        """
        if caller.principal != LOCAL:
            who: object = caller.principal
        elif caller.session is not None and caller.transport != STDIO:
            who = caller.session.id
        else:
            return None
        share = self._shares.get(who)
        if share is None:
            share = self._shares[who] = Share()
        return share

    def enter(self, exchange: Exchange, under_way: int, now: float) -> Fault | None:
        """Let a call in that goes to a server, or say why not."""
        if under_way >= self.calls_max:
            if self.calls_max < self._calls_max:
                self.look(now)  # While nobody is let in, nobody else looks.
            if under_way >= self.calls_max:
                return self._full()
        share = self.share(exchange.caller)
        if share is not None and share.calls >= self.client_calls_max:
            words = f"Too many calls at once: {share.calls} of this client's are in flight"
            return self._refusal("client-calls", words, own=True)
        size = len(exchange.params)
        if size > LARGE_BYTES:
            held = Held(self.room)
            if not held.keep(size):
                held.let_go()
                words = f"The gateway holds too much to take a request of {size} bytes"
                return self._refusal("bytes", words)
            exchange.held = held
        self.count(exchange)
        return None

    def count(self, exchange: Exchange) -> None:
        """A call is under way, from now until it is over."""
        share = self.share(exchange.caller)
        if share is not None and not exchange.ended:
            share.calls += 1
            exchange.share = share

    def told(self, ending: Ending) -> Ending:
        """What a client is told at the end: where its server was busy, when to come back."""
        if not isinstance(ending, Failed) or ending.fault.pause is not None:
            return ending
        if ending.fault.situation is not Situation.BUSY:
            return ending
        return Failed(put_off(ending.fault, Pause(seconds=self.room.turn_away("server"))))

    def look(self, now: float) -> None:
        """See how much memory is left; nobody is let in while it is short."""
        if self._pressure is None or now - self._looked < LOOK_SECONDS_MIN:
            return
        self._looked = now
        self.calls_max = 0 if self._pressure.is_short() else self._calls_max

    def _full(self) -> Fault:
        if self.calls_max < self._calls_max:
            return self._refusal("memory", "The gateway is short of memory")
        return self._refusal("calls", f"The gateway is busy: {self.calls_max} calls are in flight")

    def _refusal(self, why: str, words: str, *, own: bool = False) -> Fault:
        seconds = self.room.turn_away(why)
        return overloaded(f"{words}; try again in {seconds} s", own=own, seconds=seconds)

"""A call whose client may go away and come back: what its server says meanwhile is kept.

How a client is sent for an answer, and how it finds its call again, is in `parks`.
"""

from collections.abc import Sequence
from typing import Final

from anyport.gateway.deadlines import Term
from anyport.gateway.office import Office
from anyport.protocol.exchange import Exchange, Progress
from anyport.upstream.server import Server

HELD_REPORTS_MAX: Final = 64
"""Of what a server tells of its progress while its client fetches an answer; the last count."""


class Resting(Term):
    """One exchange with one server, whether or not somebody waits for it."""

    __slots__ = ("_held", "_relay", "server")

    def __init__(self, relay: Office, exchange: Exchange, server: Server) -> None:
        config = server.config
        seconds, most = config.timeout_seconds, config.timeout_seconds_max
        super().__init__(exchange, seconds, exchange.started, most)
        self.server = server
        self._relay = relay
        self._held: tuple[bytes, ...] = ()
        """What the server told while nobody was there to hear it."""

    def progressed(self, reports: Sequence[bytes]) -> None:
        """The server has told how far it has come."""
        if self.exchange.ended:
            self._held = (*self._held, *reports)[-HELD_REPORTS_MAX:]
            return
        self.extend(self._relay.clock())
        for params in reports:
            self.exchange.happen(Progress(params))

    def rest(self) -> None:
        """Nobody waits for it for a while: its time stands still."""
        self.stand_still(self._relay.clock())
        self._relay.deadlines.clear(self.exchange)
        self.exchange.on_cancel = self.exchange.on_end = None

    def wake(self, exchange: Exchange) -> None:
        """Somebody waits for it again."""
        before, self.exchange = self.exchange, exchange
        exchange.trace_id, exchange.span_id = before.trace_id, before.span_id
        exchange.parent_span_id, exchange.started = before.parent_span_id, before.started
        exchange.name, exchange.lease, exchange.passage = before.name, before.lease, before.passage
        exchange.attempts = before.attempts
        if exchange.passage is not None:
            exchange.passage.goes_on(exchange.method.name, before.params, exchange.params)
        exchange.on_cancel = self.cancelled
        self.go_on(self._relay.clock())
        self._relay.deadlines.start(self)
        held, self._held = self._held, ()
        self.progressed(held)

    def cancelled(self, reason: bytes | None) -> None:
        """The client has given up."""
        raise NotImplementedError

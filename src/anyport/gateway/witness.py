"""For the record: what an errand says to its server, and how long that takes."""

from anyport.protocol.exchange import Exchange
from anyport.upstream.call import Answer, Call
from anyport.upstream.connection import Connection
from anyport.upstream.server import Server
from anyport.wire.frame import Failure, Result


def spoken(exchange: Exchange, server: Server, lease: Connection) -> None:
    """What is spoken with the server."""
    passage, peer = exchange.passage, lease.peer
    if passage is not None and peer is not None:
        passage.server_revision = peer.revision.name
        passage.server_transport = server.transport


def asked_before(exchange: Exchange, params: bytes, at: float) -> None:
    """The server had been asked when the exchange began to be one."""
    if exchange.passage is not None:
        exchange.passage.asks(exchange.method.name, params)
        exchange.passage.sent_at = at


def counted(
    exchange: Exchange, call: Call | None, answer: Answer | None, sent: float, now: float
) -> float:
    """The server has answered, or is given up while it works; how long that took."""
    passage, took = exchange.passage, now - sent
    if passage is None or exchange.reused:
        return took
    queued = 0.0 if call is None else max(0.0, call.admitted - sent)
    passage.queued += queued
    passage.waited += took - queued
    if isinstance(answer, Result):
        passage.answers(answer.result, failed=False)
    elif isinstance(answer, Failure):
        passage.answers(answer.error, failed=True)
    return took

"""What the client adapters share: the request handler behind them, modern callers, endings."""

from collections.abc import Callable, Hashable, Mapping
from typing import Final, Protocol

from msgspec import Raw

from anyport.protocol.adapters.legacy_client import GatewayDescription
from anyport.protocol.adapters.modern_client import read_envelope
from anyport.protocol.errors import Fault, Situation, internal_fault
from anyport.protocol.exchange import (
    Answered,
    Caller,
    ClientAdapter,
    ErrorAnswered,
    Exchange,
    ExchangeEvent,
    Failed,
    PreparedCall,
    ReplyWriter,
    Session,
)
from anyport.protocol.methods import Method
from anyport.protocol.principal import Principal
from anyport.protocol.request import PlainCall
from anyport.wire import raw_json
from anyport.wire.jsonrpc import BadFrame, Failure, Notification, Request, Result

Deliver = Callable[[Exchange, ExchangeEvent], None]
"""Delivers an event to a client of one era."""


UnroutedMessage = Request | Notification | BadFrame
"""Messages without an exchange: handshakes, refused requests, notifications."""


class RequestHandler(Protocol):
    """The gateway behind the conversations, implemented by `gateway.gateway.Gateway`."""

    def begin(self, exchange: Exchange) -> None:
        """Carry an exchange to its ending."""

    def prepare_fast_call(
        self,
        plain: PlainCall,
        caller: Caller,
        client: ClientAdapter,
        writer: ReplyWriter,
        key: Hashable,
    ) -> PreparedCall | None:
        """The fast path of a repeated `tools/call`; None if it has to be handled like any other."""

    def server_info(self, profile: str) -> bytes:
        """The raw `serverInfo` in results of a profile; empty if unknown."""

    def describe(self, profile: str) -> GatewayDescription | None:
        """The identity of the gateway in a profile, without waiting for servers.

        None in a transparent profile, whose server answers `initialize` itself.
        """

    def find_unknown_method(self, caller: Caller, method: str) -> Method | None:
        """The row of a method that no revision has; None unless a server may know it."""

    def on_session_opened(self, session: Session) -> None: ...

    def on_session_closed(self, session: Session) -> None: ...

    def on_notification(self, caller: Caller, notification: Notification) -> None:
        """A client sent a notification that may concern servers."""

    def record_message(
        self, caller: Caller, message: UnroutedMessage, answer: Result | Failure | None = None
    ) -> None:
        """Record a message without an exchange, and its answer, if any."""


ENDINGS: Final = (Answered, ErrorAnswered, Failed)
CANCELLED_CODE: Final = -32800
"""The error code for a cancelled request that must be answered all the same; SDKs use it too."""


def modern_caller(
    meta_members: Mapping[str, Raw],
    profile: str,
    principal: Principal,
    transport: str,
    check_headers: Callable[[str], Fault | None] | None = None,
) -> Caller | Fault:
    """The caller of a modern request, or what is wrong with its `_meta`."""
    envelope = read_envelope(meta_members, check_headers)
    if isinstance(envelope, Fault):
        return envelope
    return Caller(
        profile=profile,
        session=None,
        revision=envelope.revision,
        capabilities=envelope.capabilities,
        client=envelope.client,
        log_level=envelope.log_level,
        principal=principal,
        transport=transport,
    )


def deliver_ending(deliver: Deliver, exchange: Exchange, ending: ExchangeEvent) -> None:
    """Deliver an ending. If that fails, deliver an error, so that no client waits forever.

    Raises:
        Exception: an unexpected failure, to be reported by the caller.
    """
    try:
        deliver(exchange, ending)
    except raw_json.AmbiguousObject:
        deliver(exchange, _internal_failure("The server's result names a member twice"))
    except MemoryError as error:
        deliver(exchange, Failed(internal_fault(error)))
    except Exception:
        deliver(exchange, _internal_failure("Internal error: the answer could not be told"))
        raise


def _internal_failure(message: str) -> Failed:
    return Failed(Fault(situation=Situation.INTERNAL, message=message))

"""What every front has in common: the inside it calls, who asks, and endings that cannot be told.

A front makes exchanges of what a client sends and tells the client what becomes of them. This
file knows what both eras share; how a client is connected is not known here.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Final, Protocol

from msgspec import Raw

from anyport.protocol.errors import Fault, Situation, broken
from anyport.protocol.exchange import (
    Again,
    Answered,
    Caller,
    Exchange,
    Failed,
    Front,
    Happening,
    Refused,
    Session,
    Teller,
)
from anyport.protocol.legacy_front import Description
from anyport.protocol.modern_front import open_envelope
from anyport.protocol.principal import Principal
from anyport.protocol.reading import PlainCall
from anyport.wire import members
from anyport.wire.frame import BadFrame, Failure, Notification, Request, Result

Tell = Callable[[Exchange, Happening], None]
"""Tells a client of one era what happened."""


Aside = Request | Notification | BadFrame
"""What no exchange is begun for: a handshake, something refused, something that is not answered."""


class Relay(Protocol):
    """What the inside of the gateway offers a front."""

    def begin(self, exchange: Exchange) -> None:
        """Take an exchange to its ending."""

    def again(
        self, plain: PlainCall, caller: Caller, front: Front, teller: Teller, key: Hashable
    ) -> Again | None:
        """The same call as before, ready to go; None if it has to be begun like any other."""

    @property
    def identity(self) -> bytes:
        """The gateway's raw `serverInfo`."""

    def describe(self, profile: str) -> Description:
        """How the gateway presents itself, known without waiting."""

    def opened(self, session: Session) -> None:
        """A legacy session was opened."""

    def closed(self, session: Session) -> None:
        """A legacy session has ended."""

    def heard(self, session: Session | None, notification: Notification) -> None:
        """A client sent a notification that concerns the servers."""

    def aside(self, caller: Caller, said: Aside, answer: Result | Failure | None = None) -> None:
        """A client said something that is no exchange, and what it was answered: for the record."""


ENDINGS: Final = (Answered, Refused, Failed)
CANCELLED: Final = -32800
"""What a cancelled request is answered with where something must be: the SDKs use it too."""


def modern_caller(
    about: Mapping[str, Raw],
    profile: str,
    principal: Principal,
    transport: str,
    agrees: Callable[[str], Fault | None] | None = None,
) -> Caller | Fault:
    """Who a modern request says is asking, or what is wrong with its envelope."""
    envelope = open_envelope(about, agrees)
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


def tell_ending(tell: Tell, exchange: Exchange, ending: Happening) -> None:
    """Tell an ending; if it cannot be told, tell that: nobody waits for ever.

    Raises:
        Exception: what broke, if it was a fault of ours; it is for others to report.
    """
    try:
        tell(exchange, ending)
    except members.Ambiguous:
        tell(exchange, _failed("The server's result names a member twice"))
    except MemoryError as error:
        tell(exchange, Failed(broken(error)))
    except Exception:
        tell(exchange, _failed("Internal error: the answer could not be told"))
        raise


def _failed(words: str) -> Failed:
    return Failed(Fault(situation=Situation.INTERNAL, message=words))

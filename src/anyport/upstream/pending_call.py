"""Calls to servers: a pending call, its outcome, and templates for calls that are made repeatedly.

Most calls repeat an earlier one with other arguments. A template holds everything but the id and
the arguments, so that they need no encoding.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final

import msgspec

from anyport.protocol.errors import Fault, Situation, Timeout, server_failure, timed_out
from anyport.wire.jsonrpc import Failure, Result

if TYPE_CHECKING:
    from anyport.upstream.connection import Connection

# Outcomes of a call. The circuit breaker and the retry rule decide what follows from them.


class RetryAfterFailure(Failure, frozen=True, gc=False):
    """A server's error that carries a `Retry-After`."""

    retry_after: float = 0.0


class CallOutcome(Enum):
    """What the end of a call says about its server's health."""

    GOOD = "good"
    """The server has answered, even if with an error."""
    BAD = "bad"
    CONNECTION_LOST = "connection lost"
    """The connection was lost, perhaps together with other calls."""
    UNREACHABLE = "unreachable"
    """No connection could be opened; `on_unreachable` has reported that already."""
    NONE = "none"
    """Nothing: the gateway or the client ended the call."""


class Retryable(Enum):
    """Whether a call may be sent again."""

    ALWAYS = "always"
    """The server cannot have seen it."""
    IF_SAFE = "if safe"
    """The server may have carried it out, entirely or in part."""
    NEVER = "never"


Fields = tuple[tuple[str, str], ...]
NO_FIELDS: Final[Fields] = ()


class NoAnswer(msgspec.Struct, frozen=True, gc=False):
    """The failure of a call that its server has not answered."""

    reason: str
    situation: Situation = Situation.NOT_RUNNING
    outcome: CallOutcome = CallOutcome.NONE
    retryable: Retryable = Retryable.NEVER
    retry_after: float = 0.0
    """Seconds until the server wants to be called again, if it says so."""
    timeout: Timeout | None = None
    """The timeout that expired, unless it is that of the whole call."""

    @classmethod
    def queue_timeout(cls, seconds: float) -> "NoAnswer":
        """For a call that was queued for too long."""
        return cls(f"{seconds:g}s", Situation.TIMED_OUT, timeout=Timeout.QUEUE)

    def fault(self, slug: str) -> Fault:
        """The error for the caller."""
        if self.timeout is None:
            return server_failure(slug, self.situation, self.reason, self.retry_after or None)
        return timed_out(slug, self.timeout, self.reason)


Answer = Result | Failure | NoAnswer


def answer_over_budget(size: int) -> NoAnswer:
    """For an answer that did not fit into the memory budget."""
    return NoAnswer(
        f"{size} bytes; the call was carried out", Situation.OVERLOADED, CallOutcome.GOOD
    )


class CallSubject(msgspec.Struct, frozen=True, gc=False):
    """What a call is about, and whose it is."""

    name: str | None = None
    fields: Fields = NO_FIELDS
    client: object = None


GATEWAY_ITSELF: Final = CallSubject()
"""For requests of the gateway itself."""


class CallTemplate(msgspec.Struct, frozen=True, gc=False):
    """A `tools/call` that is made repeatedly: everything but its id and arguments."""

    name: str
    frame: bytes
    """Format string with a place for the id, the arguments and, with `wants_progress`, the
    token."""
    wants_progress: bool
    """Whether the call has a progress token."""

    def fill(self, number: int, arguments: bytes) -> bytes:
        return self.frame % (
            (number, arguments, number) if self.wants_progress else (number, arguments)
        )


class PendingCall(msgspec.Struct, eq=False):
    """A request to a server that has no answer yet."""

    method: str
    on_done: Callable[[Answer], None]
    on_progress: Callable[[Sequence[bytes]], None] | None = None
    """Takes the params of one or more progress notifications."""
    number: int = 0
    name: str | None = None
    """Native name or URI of the target, if the caller knows it."""
    fields: Fields = NO_FIELDS
    """Header fields of the client's request that only the server can judge."""
    template: CallTemplate | None = None
    """The template that the call was made from, if there is one."""
    client: object = None
    """The client whose call it is; None for the gateway's own, which need no slot and never
    queue."""
    frame: bytes | None = None
    """Kept while the call is queued, and by channels that may have to send it again."""
    connection: "Connection | None" = None
    """The connection that sends the call when it gets a slot."""
    queued_at: float = 0.0
    """0 if the call was not queued."""
    admitted_at: float = 0.0
    """When the call got a slot after waiting; 0 if it did not wait."""


_REQUEST: Final = re.compile(rb'\{"jsonrpc":"2\.0","id":([0-9]{1,19}),"method":')
"""A request as the gateway writes it. Its answers to a server's requests do not match."""


class ConnectionEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a connection ended, and which of its calls may be retried.

    The server cannot have seen calls that were queued or never written, but may have carried out
    those that were sent.
    """

    intended: bool = False
    """Whether the gateway closed it: then the end says nothing about the server."""
    unsent_calls: frozenset[int] = frozenset()
    """Numbers of the calls that were never written."""

    def result_for_sent(self, reason: str) -> NoAnswer:
        """For calls that were sent."""
        if self.intended:
            return NoAnswer(reason)
        return NoAnswer(reason, outcome=CallOutcome.CONNECTION_LOST, retryable=Retryable.IF_SAFE)

    def result_for_unsent(self, reason: str) -> NoAnswer:
        """For calls that were not sent, or come too late."""
        return NoAnswer(reason) if self.intended else NoAnswer(reason, retryable=Retryable.ALWAYS)


BROKEN: Final = ConnectionEnd()
STOPPED: Final = ConnectionEnd(intended=True)


def call_numbers(lines: Iterable[bytes]) -> frozenset[int]:
    """The numbers of the calls among these frames."""
    return frozenset(int(found[1]) for found in map(_REQUEST.match, lines) if found is not None)

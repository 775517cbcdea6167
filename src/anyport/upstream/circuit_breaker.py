"""Circuit breaker of a server: whether it gets calls, and the probes that close it again.

`CircuitBreaker` decides and is pure; `ServerHealth` runs the timers and sends the probes. A call of
a client is the probe only where the gateway cannot send one, because the server is being started.
"""

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from anyport.clock import Clock
from anyport.protocol.errors import Situation, Timeout
from anyport.protocol.revisions import Era
from anyport.upstream.connection import Connection
from anyport.upstream.peer import Peer
from anyport.upstream.pending_call import (
    Answer,
    CallOutcome,
    NoAnswer,
    PendingCall,
    RetryAfterFailure,
)
from anyport.upstream.supervisor import NotReady

if TYPE_CHECKING:
    from anyport.upstream.server import Server

# After `FAILURES_MAX` failures in a row the breaker opens, and calls are rejected at once. After a
# delay it is half open: one request goes through as a probe, and its outcome closes the breaker or
# opens it for longer. A `Retry-After` also rejects calls for a while, but is no failure.

FAILURES_MAX: Final = 5
"""Failures in a row that open the breaker."""
OPEN_SECONDS: Final = 30.0
"""How long the breaker stays open the first time, and how much longer each further time in a row:
30 s, 60 s, 90 s and so on."""
OPEN_SECONDS_MAX: Final = 300.0
"""The longest that it stays open, so that a repaired server is found."""
JITTER: Final = 0.2
"""Share added or subtracted, so that servers that failed together are not probed together."""
COMMON_CAUSE_SECONDS: Final = 0.25
"""Calls that are lost within this time count as one failure: a process that dies takes all its
calls with it."""
RETRY_AFTER_SECONDS_MAX: Final = 60.0
"""The longest that a `Retry-After` keeps calls away from a server."""
PROBING_SECONDS: Final = 1.0
"""What rejected callers are told to wait while a probe is in progress."""


class CallRejected(msgspec.Struct, frozen=True, gc=False):
    """The call is rejected."""

    situation: Situation
    reason: str
    seconds: float
    """Seconds until it is worth trying again."""


class CallAdmitted(Enum):
    """The call may be sent."""

    FREE = "free"
    PROBE = "probe"
    """As the probe of a half-open breaker; nothing else is admitted until it ends."""


class CircuitBreaker:
    """State of one server's circuit breaker: closed, open or half open."""

    __slots__ = (
        "_changed_at",
        "_connection_lost_at",
        "_enabled",
        "_last_error",
        "_open_until",
        "_openings",
        "_probing",
        "_retry_after_until",
        "failures",
        "is_restricting",
        "unreachable",
    )

    def __init__(self, *, enabled: bool = True) -> None:
        self.is_restricting = False
        """Whether calls have to ask `admit`. The fast path reads only this."""
        self.failures = 0
        """In a row."""
        self.unreachable = False
        """Whether all of these failures were connections that could not be opened."""
        self._enabled = enabled
        self._open_until: float | None = None
        """When the breaker becomes half open; None while it is closed."""
        self._probing = False
        self._openings = 0
        """Times that it has opened in a row."""
        self._changed_at = float("-inf")
        """When it last opened or closed. The outcome of an earlier call does not count any more."""
        self._connection_lost_at = float("-inf")
        self._retry_after_until = float("-inf")
        self._last_error = ""

    @property
    def is_open(self) -> bool:
        """Whether the breaker is open or half open."""
        return self._open_until is not None

    def open_seconds(self, now: float) -> float:
        """How long it has been open; 0 if it is closed."""
        return now - self._changed_at if self._open_until is not None else 0.0

    def admit(self, now: float) -> CallAdmitted | CallRejected:
        """Whether a call may be sent now."""
        if not self.is_restricting:
            return CallAdmitted.FREE
        if now < self._retry_after_until:
            return CallRejected(Situation.BUSY, self.reason(now), self._retry_after_until - now)
        if self._open_until is None:
            self.is_restricting = False
            return CallAdmitted.FREE
        if now < self._open_until or self._probing:
            return CallRejected(Situation.EJECTED, self.reason(now), self._remaining_seconds(now))
        self._probing = True
        return CallAdmitted.PROBE

    def reason(self, now: float) -> str:
        """Why calls are rejected, and until when."""
        if now < self._retry_after_until:
            seconds = _whole_seconds(self._retry_after_until - now)
            return f"it was asked too often, and wants to be asked again in {seconds} s"
        if self._open_until is None or now >= self._open_until:
            when = "it is being tried now" if self._probing else "the next call tries it again"
        else:
            when = f"it is tried again in {_whole_seconds(self._remaining_seconds(now))} s"
        return f"{self.failures} calls in a row failed (last: {self._last_error}); {when}"

    def on_success(self, now: float, *, own: bool = False) -> bool:
        """The server has answered; returns whether that closes the breaker.

        A probe of the gateway's own (`own`) shows only that the server is there. So one failure is
        kept in reserve: if the first real call fails, the breaker opens again, for longer.
        """
        was_open = self._open_until is not None
        self._open_until, self._probing = None, False
        self.is_restricting = now < self._retry_after_until
        if was_open:
            self._changed_at = now
        if own and was_open and not self.unreachable:
            self.failures = FAILURES_MAX - 1
        else:
            self.failures = self._openings = 0
        self.unreachable = False
        return was_open

    def on_failure(
        self, now: float, reason: str, asked_at: float, outcome: CallOutcome = CallOutcome.BAD
    ) -> bool:
        """A call that was sent at `asked_at` has failed; returns whether the breaker has to
        open."""
        if not self._enabled or self._open_until is not None or asked_at < self._changed_at:
            return False
        if outcome is CallOutcome.CONNECTION_LOST:
            same_cause, self._connection_lost_at = (
                now - self._connection_lost_at < COMMON_CAUSE_SECONDS,
                now,
            )
            if same_cause:
                return False
        self.unreachable = outcome is CallOutcome.UNREACHABLE and (
            self.unreachable or not self.failures
        )
        self.failures += 1
        self._last_error = reason
        return self.failures >= FAILURES_MAX

    def open(self, now: float, chance: float) -> float:
        """Open the breaker; returns for how many seconds."""
        self._openings += 1
        seconds = min(OPEN_SECONDS * self._openings, OPEN_SECONDS_MAX)
        seconds *= 1 + JITTER * (2 * chance - 1)
        self._open_until, self._probing, self._changed_at, self.is_restricting = (
            now + seconds,
            False,
            now,
            True,
        )
        return seconds

    def on_probe_failure(self, reason: str, outcome: CallOutcome = CallOutcome.BAD) -> bool:
        """The probe has failed; returns whether the breaker has to open again."""
        if not self._probing:
            return False  # Another call was answered meanwhile and has closed the breaker.
        self._probing = False
        self.unreachable = self.unreachable and outcome is CallOutcome.UNREACHABLE
        self.failures += 1
        self._last_error = reason
        return True

    def release_probe(self) -> None:
        """The probe has ended without a result."""
        self._probing = False

    def apply_retry_after(self, now: float, seconds: float) -> None:
        """The server has sent a `Retry-After`."""
        self._retry_after_until = max(
            self._retry_after_until, now + min(seconds, RETRY_AFTER_SECONDS_MAX)
        )
        self.is_restricting = True

    def _remaining_seconds(self, now: float) -> float:
        return (
            PROBING_SECONDS
            if self._open_until is None
            else max(self._open_until - now, PROBING_SECONDS)
        )


def _whole_seconds(seconds: float) -> int:
    """Rounded up."""
    return int(-(-seconds // 1))


# `ping` in a session, else `server/discover`: every server has to answer them, and they change
# nothing.


class HealthProbe:
    """One health-check request to a server; reports the answer, or the timeout, once."""

    def __init__(
        self,
        connection: Connection,
        peer: Peer,
        clock: Clock,
        on_done: Callable[[Answer], None],
    ) -> None:
        modern = peer.revision.era is Era.MODERN
        self._method = "server/discover" if modern else "ping"
        self._params = peer.adapter.gateway_params(b"{}") if modern else None
        self._connection = connection
        self._clock = clock
        self._asked_at = clock.monotonic()
        self._call: PendingCall | NoAnswer | None = None
        self._on_done: Callable[[Answer], None] | None = on_done

    def send(self, seconds: float) -> None:
        """Send the request; it times out after this time."""
        self._connection.own_requests += 1
        self._call = self._connection.call(self._method, self._params, self._finish)
        if isinstance(self._call, NoAnswer):
            self._finish(self._call)
        else:
            self._clock.later(seconds, lambda: self._time_out(seconds))

    def _finish(self, answer: Answer) -> None:
        on_done, self._on_done = self._on_done, None
        if on_done is not None:
            seconds = self._clock.monotonic() - self._asked_at
            self._connection.record_own_request((self._method, self._params), answer, seconds)
            on_done(answer)

    def _time_out(self, seconds: float) -> None:
        if self._on_done is not None and isinstance(self._call, PendingCall):
            self._connection.cancel(self._call, None)
            reason = f"it did not answer {self._method} within {seconds:g} s"
            self._finish(NoAnswer(reason, outcome=CallOutcome.BAD, timeout=Timeout.TOTAL))


RECHECK_SECONDS: Final = 1.0
"""Delay before a server that could not be reached is probed again, until the breaker opens."""
UNANSWERED_PROBES_MAX: Final = 2
"""Unanswered probes in a row after which the connection is replaced."""


class ServerHealth:
    """Health of one server: feeds its circuit breaker, and probes it while the breaker is open."""

    def __init__(self, server: "Server", breaker: CircuitBreaker, clock: Clock) -> None:
        self.breaker = breaker
        self.ejections = 0
        """Times that the breaker has opened."""
        self._server = server
        self._clock = clock
        self._recheck_planned = False
        self._unanswered_probes = 0
        self._replaced = False
        """Whether its connection is being replaced because probes were not answered."""

    @property
    def reason(self) -> str | None:
        """Why calls are rejected, if they are."""
        return self.breaker.reason(self._clock.monotonic()) if self.breaker.is_restricting else None

    def admit(self) -> CallAdmitted | CallRejected:
        """Whether a call may be sent now. A call admitted as a probe must end in
        `on_answer(probe=True)` or `release_probe`."""
        return self.breaker.admit(self._clock.monotonic())

    def on_answer(self, answer: Answer, asked_at: float, *, probe: bool = False) -> None:
        """A call has ended."""
        breaker = self.breaker
        outcome = answer.outcome if isinstance(answer, NoAnswer) else CallOutcome.GOOD
        if isinstance(answer, NoAnswer | RetryAfterFailure) and answer.retry_after:
            breaker.apply_retry_after(self._clock.monotonic(), answer.retry_after)
        if outcome is CallOutcome.GOOD:
            if breaker.failures:
                self._on_success(own=False)
        elif isinstance(answer, NoAnswer) and outcome is not CallOutcome.NONE:
            self.on_failure(answer.reason, asked_at, outcome, probe=probe)
        elif probe:
            breaker.release_probe()

    def on_failure(
        self,
        reason: str,
        asked_at: float,
        outcome: CallOutcome = CallOutcome.BAD,
        *,
        probe: bool = False,
    ) -> None:
        """A call has failed."""
        now = self._clock.monotonic()
        if probe:
            if self.breaker.on_probe_failure(reason, outcome):
                self._open_breaker()
        elif outcome is not CallOutcome.UNREACHABLE and self.breaker.on_failure(
            now, reason, asked_at, outcome
        ):
            self._open_breaker()

    def release_probe(self) -> None:
        """The call that was admitted as a probe was cancelled."""
        self.breaker.release_probe()

    def on_unreachable(self, reason: str) -> None:
        """No connection to the server could be opened, for whatever request."""
        now = self._clock.monotonic()
        if self.breaker.on_failure(now, reason, now, CallOutcome.UNREACHABLE):
            self._open_breaker()
            self._server.reconnect(reason)
        elif not self.breaker.is_open and not self._recheck_planned:
            self._recheck_planned = True
            self._clock.later(RECHECK_SECONDS * (0.5 + self._clock.random()), self._recheck)

    def on_handshake(self) -> None:
        """The server has completed a handshake."""
        breaker = self.breaker
        if breaker.failures and (breaker.unreachable or self._replaced):
            self._on_success(own=True)
        elif breaker.is_open:
            self._probe_half_open()

    def _open_breaker(self) -> None:
        now, breaker = self._clock.monotonic(), self.breaker
        seconds = breaker.open(now, self._clock.random())
        self.ejections += 1
        self._clock.later(seconds, self._probe_half_open)
        self._server.on_ejected(breaker.reason(now), breaker.failures, seconds)

    def _on_success(self, *, own: bool) -> None:
        self._unanswered_probes, self._replaced = 0, False
        now = self._clock.monotonic()
        seconds = self.breaker.open_seconds(now)
        if self.breaker.on_success(now, own=own):
            self._server.on_restored(seconds)

    # Probes of the gateway's own.

    def _probe_half_open(self) -> None:
        if self.breaker.is_open and self.admit() is CallAdmitted.PROBE:
            self._server.lease_main(partial(self._probe, probe=True))

    def _recheck(self) -> None:
        self._recheck_planned = False
        if self.breaker.failures and self.breaker.unreachable and not self.breaker.is_open:
            self._server.lease_main(partial(self._probe, probe=False))

    def _probe(self, connection: Connection | NotReady, *, probe: bool) -> None:
        peer = None if isinstance(connection, NotReady) else connection.peer
        if not isinstance(connection, NotReady) and peer is not None:
            on_done = partial(self._on_probe_done, connection, probe=probe)
            HealthProbe(connection, peer, self._clock, on_done).send(
                self._server.config.timeout_seconds
            )
        elif probe:
            self.breaker.release_probe()  # The next probe comes with the next handshake.

    def _on_probe_done(self, connection: Connection, answer: Answer, *, probe: bool) -> None:
        """With `probe`, the breaker had admitted the request; a recheck of an unreachable server
        needs no admission."""
        if not isinstance(answer, NoAnswer) or answer.outcome is CallOutcome.GOOD:
            self._on_success(own=True)
        elif probe and answer.outcome is CallOutcome.NONE:
            self.breaker.release_probe()
        elif probe:
            self.on_failure(answer.reason, 0.0, answer.outcome, probe=True)
            self._unanswered_probes = self._unanswered_probes + 1 if answer.timeout else 0
            if self._unanswered_probes >= UNANSWERED_PROBES_MAX:
                self._replaced = self._server.replace_connection(connection, answer.reason)

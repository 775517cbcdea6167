"""Handshake trials: whether a modern server is asked for a legacy session on behalf of a client.

Many servers speak both eras without saying so. A server that says it does not is never asked again.
One that keeps no session cannot ask its client in one, so it is asked only for clients that cannot
be asked. Any other failure may be temporary or due to what the client declares: it is held against
that client alone, and tried again later with one of its calls.

If trials fail for several clients that declare the same and none has succeeded, all such clients
share one back-off, so that a server that always fails is not tried by each of them. Pure: time is
an argument.
"""

from dataclasses import dataclass
from typing import Final

from anyport.upstream.lease_key import LeaseKey

TRIALS_OF_ONE_MAX: Final = 6
"""Trials that fail for one session: what it declares does not change. For sessions that share a
connection there is no limit."""
TRIAL_SECONDS_MIN: Final = 1.0
TRIAL_SECONDS_MAX: Final = 600.0
"""Delays between trials grow by `GROWTH` up to this."""
GROWTH: Final = 4.0
FAILED_CLIENTS_MAX: Final = 3
"""Failed clients that declare the same, after which others like them share a back-off."""
SIMILAR_CLIENTS_SECONDS_MAX: Final = 16.0
"""The longest delay of that back-off."""
SUCCESS_VALID_SECONDS: Final = 600.0
"""How long a successful trial shows that the server speaks both eras."""
CLIENT_KINDS_MAX: Final = 64
"""Kinds of clients whose failures are remembered."""
HANDSHAKE_SECONDS_MIN: Final = 4.0
"""How long a trial may take at least: a call waits for it. Twice `PROBE_SECONDS_MAX`."""
HANDSHAKE_FACTOR: Final = 2.0
"""The same, as a multiple of the time that the modern handshake took."""
SILENCE_WEIGHT: Final = 3
"""How many failures a timeout counts for: each costs a call that time."""
HANDSHAKE_SHARE_MAX: Final = 0.5
"""Share of a call's timeout that a trial may take."""

_ClientKind = tuple[bytes, bool, bytes | None, str]


def handshake_seconds_max(began_seconds: float, call_seconds: float) -> float:
    """How long a trial may take, from the time that the modern handshake took and the timeout of a
    call."""
    return min(
        max(HANDSHAKE_SECONDS_MIN, HANDSHAKE_FACTOR * began_seconds),
        HANDSHAKE_SHARE_MAX * call_seconds,
    )


@dataclass(slots=True)
class _Pause:
    failures: int = 0
    until: float = float("-inf")
    shared: bool = False
    """Whether it is for all sessions that would share a connection."""

    @property
    def exhausted(self) -> bool:
        """Whether there are no more trials."""
        return self.failures >= TRIALS_OF_ONE_MAX and not self.shared

    def extend(self, now: float, longest: float = TRIAL_SECONDS_MAX, times: int = 1) -> None:
        self.failures += times
        growth = GROWTH ** min(self.failures - 1, TRIALS_OF_ONE_MAX)
        self.until = now + min(longest, TRIAL_SECONDS_MIN * growth)


@dataclass(slots=True)
class _SimilarClients:
    """Clients that declare the same, and for whom trials have failed."""

    clients: int = 0
    pause: _Pause | None = None


class HandshakeTrials:
    """Handshake trials of one modern server."""

    def __init__(self) -> None:
        self.open: set[LeaseKey] = set()
        """Connections on which a trial is in progress."""
        self._allowed = False
        """Whether trials are allowed: the era was detected, and the server has not refused."""
        self._keeps_sessions = True
        """Whether the server keeps legacy sessions, as far as is known."""
        self._pauses: dict[str, _Pause] = {}
        """By owner of the lease key."""
        self._similar: dict[_ClientKind, _SimilarClients] = {}
        """Since the last success."""
        self._succeeded_at = float("-inf")
        self._reason = ""

    def on_server_started(self, *, automatic: bool) -> None:
        """The server was started; `automatic` if its era is not configured."""
        self._allowed = automatic
        self._keeps_sessions = True
        self._pauses.clear()
        self._similar.clear()
        self._succeeded_at = float("-inf")

    def may_ever_try(self, key: LeaseKey) -> bool:
        """Whether a trial is worth while for a client, now or later."""
        pause = self._pauses.get(key.owner)
        of_use = self._allowed and (self._keeps_sessions or not key.interactive)
        return of_use and (pause is None or not pause.exhausted)

    def may_try(self, key: LeaseKey, now: float) -> bool:
        """Whether a trial is worth while for a client now."""
        if not self.may_ever_try(key):
            return False
        pause = self._pauses.get(key.owner)
        if pause is not None:
            return now >= pause.until
        if now - self._succeeded_at <= SUCCESS_VALID_SECONDS:
            return True
        similar = self._similar.get(_client_kind(key))
        return similar is None or similar.pause is None or now >= similar.pause.until

    def on_success(self, key: LeaseKey, now: float) -> None:
        """A connection is open."""
        if key in self.open:
            self._succeeded_at = now
            self.open.discard(key)
            self._pauses.pop(key.owner, None)
            self._similar.clear()

    def on_failure(
        self, key: LeaseKey, reason: str, now: float, *, refused: bool, silent: bool = False
    ) -> None:
        """A trial has failed; `refused` if the server does not speak the era, `silent` on a
        timeout."""
        self.open.discard(key)
        if refused:
            self._allowed = False
            self._pauses.clear()
            return
        self._reason = reason
        if key.owner not in self._pauses:
            self._count_similar_failure(_client_kind(key), now)
        times = SILENCE_WEIGHT if silent else 1
        pause = self._pauses.setdefault(key.owner, _Pause(shared=key.of_sessions))
        pause.extend(now, times=times)

    def keeps_no_session(self, key: LeaseKey) -> None:
        """A trial has worked, but without a session in which the server could ask its client."""
        self.open.discard(key)
        self._pauses.pop(key.owner, None)
        self._keeps_sessions = False

    def forget(self, owner: str) -> None:
        self._pauses.pop(owner, None)

    @property
    def warning(self) -> str | None:
        """A warning for the operator."""
        if not self._pauses:
            return None
        own = sum(not pause.shared for pause in self._pauses.values())
        clients = "1 client is" if own == 1 else f"{own} clients are"
        served = f"{clients} served without a session, in which it could ask"
        if not own:
            served = "clients that cannot be asked are served without a session"
        return (
            f"{served}: asked for one, it failed ({self._reason}); that is tried again with their "
            "calls"
        )

    def _count_similar_failure(self, kind: _ClientKind, now: float) -> None:
        if kind not in self._similar and len(self._similar) >= CLIENT_KINDS_MAX:
            del self._similar[next(iter(self._similar))]
        similar = self._similar.setdefault(kind, _SimilarClients())
        similar.clients += 1
        if similar.clients >= FAILED_CLIENTS_MAX:
            similar.pause = similar.pause or _Pause()
            similar.pause.extend(now, SIMILAR_CLIENTS_SECONDS_MAX)


def _client_kind(key: LeaseKey) -> _ClientKind:
    return key.capabilities, key.interactive, key.client_info, key.revision

"""The states with which modern clients come back to a call, sealed to the caller and the call.

A modern server that needs to know more gives the client a state of its own to return. It often
knows the gateway only, and cannot tell one of its clients from another: so each state is wrapped
in one of ours, which says whose it is, for which call, and until when. Nothing is kept here.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from anyport.gateway.responses import responses_of
from anyport.protocol.errors import Fault, Situation, invalid_params
from anyport.protocol.exchange import Exchange
from anyport.protocol.revision import Era
from anyport.protocol.seal import Seal, digest_of
from anyport.wire import members

STATE_SECONDS_MAX: Final = 3600.0
"""How long a client may take to come back to a modern server, which may be less patient."""
STATE_BYTES_MAX: Final = 64 * 1024
"""Of a server's own state: it travels to the client and back in every round."""
ROUNDS_MAX: Final = 10
"""How often a server may ask before it answers; the official SDKs stop here too."""

INVALID: Final = "Invalid or expired requestState: make the call again, from the start"
"""The same words whatever is wrong with it: who tries states out learns nothing."""

TOO_OFTEN: Final = f"asked more than {ROUNDS_MAX} times without answering"
TOO_LARGE: Final = f"gave a state of more than {STATE_BYTES_MAX // 1024} KiB to come back with"

MARK_BYTES: Final = 32
_KIND: Final = "state"
_MEMBERS: Final = ("inputResponses", "requestState")
_SEALED_CHARACTERS_MAX: Final = 2 * STATE_BYTES_MAX
"""Longer than any of ours can be."""


class _Claims(msgspec.Struct, array_like=True, frozen=True):
    """What a state of ours says."""

    expires: int
    mark: bytes
    slug: str
    rounds: int
    inner: bytes | None
    """The server's own, raw; none must be sent if none came."""
    anew: bool = False
    """The call has ended at the server: it is made again, as if for the first time."""


class States:
    """Makes states, and takes them back."""

    def __init__(self, seal: Seal, now: Callable[[], float]) -> None:
        self._seal = seal
        self._now = now

    def bind(
        self, exchange: Exchange, slug: str, inner: bytes | None, *, anew: bool = False
    ) -> bytes | str:
        """A state for this caller and this call, raw; or what the server did that it must not."""
        if exchange.rounds >= ROUNDS_MAX:
            return TOO_OFTEN
        if inner is not None and len(inner) > STATE_BYTES_MAX:
            return TOO_LARGE
        claims = _Claims(
            expires=int(self._now() + STATE_SECONDS_MAX),
            mark=mark(exchange),
            slug=slug,
            rounds=exchange.rounds + 1,
            inner=inner,
            anew=anew,
        )
        return members.text(self._seal.seal(_KIND, msgspec.msgpack.encode(claims)))

    def unbind(self, exchange: Exchange, params: bytes, slug: str, era: Era) -> bytes | Fault:
        """The params as a server of this era must get them: with its own state, or with none."""
        found = exchange.found
        if not any(name in found for name in _MEMBERS):
            return params
        if exchange.caller.revision.era is Era.LEGACY:
            return members.edit(params, dict.fromkeys(_MEMBERS))  # These are no words of its era.
        raw = found.get("requestState")
        if raw is None:
            return params if era is Era.MODERN else members.edit(params, dict.fromkeys(_MEMBERS))
        claims = self._open(members.string(raw), exchange, slug)
        if claims is None or (era is Era.LEGACY and not claims.anew):
            return invalid_params(INVALID)
        exchange.rounds = claims.rounds
        if not claims.anew:
            return members.edit(params, {"requestState": claims.inner})
        if not _agreed(exchange):
            words = f"Server '{slug}' needs an address to be opened, and that was not agreed to"
            return Fault(situation=Situation.MISBEHAVED, message=words)
        return members.edit(params, dict.fromkeys(_MEMBERS))

    def _open(self, state: str | None, exchange: Exchange, slug: str) -> _Claims | None:
        if state is None or len(state) > _SEALED_CHARACTERS_MAX:
            return None
        sealed = self._seal.open(_KIND, state)
        if sealed is None:
            return None
        try:
            claims = msgspec.msgpack.decode(sealed, type=_Claims)
        except msgspec.DecodeError:
            return None  # Ours, but of another version.
        good = claims.slug == slug and claims.mark == mark(exchange)
        return claims if good and self._now() < claims.expires else None


def mark(exchange: Exchange) -> bytes:
    """What must be the same when a client comes back: who they are, the call, its arguments."""
    caller, found = exchange.caller, exchange.found
    parts = [part.encode() for part in (*caller.principal, caller.profile, exchange.method.name)]
    parts += [_spelled(found[name]) for name in ("name", "uri", "arguments") if name in found]
    return digest_of(parts, MARK_BYTES)


def _spelled(raw: msgspec.Raw) -> bytes:
    """A value in one spelling: clients may write the same one in another order."""
    try:
        return msgspec.json.encode(msgspec.json.decode(raw), order="deterministic")
    except (ValueError, TypeError, RecursionError):
        return bytes(raw)


def _agreed(exchange: Exchange) -> bool:
    """Whether the client has agreed to everything that it was asked."""
    answers = responses_of(exchange) or {}
    try:
        actions = [members.members(answer).get("action") for answer in answers.values()]
    except msgspec.DecodeError:
        return False
    return bool(actions) and all(members.string(action) == "accept" for action in actions)

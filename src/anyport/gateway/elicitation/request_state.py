"""The `requestState` of modern clients, sealed to the caller and the call.

A modern server that needs to know more gives the client a state of its own to return. It often
knows the gateway only, and cannot tell one of its clients from another: so each state is wrapped
in one of ours, which says whose it is, for which call, and until when. Nothing is kept here.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import Raw

from anyport.protocol.adapters.elicitation import is_valid_answer
from anyport.protocol.errors import Fault, Situation, invalid_params
from anyport.protocol.exchange import Exchange, Question
from anyport.protocol.revisions import Era
from anyport.protocol.sealing import Seal, digest_of
from anyport.wire import raw_json
from anyport.wire.jsonrpc import Result

STATE_SECONDS_MAX: Final = 3600.0
"""How long a state is valid; the server behind it may be less patient."""
STATE_BYTES_MAX: Final = 64 * 1024
"""Size limit of a server's own state, which goes to the client and back in every round."""
ROUNDS_MAX: Final = 10
"""How often a server may ask before it answers; the official SDKs stop here too."""

INVALID_STATE: Final = "Invalid or expired requestState: make the call again, from the start"
"""The same text whatever is wrong: whoever tries states out learns nothing."""

ASKED_TOO_OFTEN: Final = f"asked more than {ROUNDS_MAX} times without answering"
STATE_TOO_LARGE: Final = (
    f"gave a state of more than {STATE_BYTES_MAX // 1024} KiB to come back with"
)

FINGERPRINT_BYTES: Final = 32
_KIND: Final = "state"
_RETRY_MEMBERS: Final = ("inputResponses", "requestState")
_SEALED_CHARACTERS_MAX: Final = 2 * STATE_BYTES_MAX
"""Longer than any sealed state can be."""


def input_responses(exchange: Exchange) -> Mapping[str, Raw] | None:
    """The `inputResponses` of a request, by the names of the questions; None if there are none."""
    raw = exchange.param_members.get("inputResponses")
    try:
        return None if raw is None else raw_json.members(raw)
    except msgspec.DecodeError:
        return None


def answer_questions(responses: Mapping[str, Raw], questions: Mapping[str, Question]) -> None:
    """Answer each question that has a valid response."""
    for key, question in questions.items():
        answer = responses.get(key)
        if answer is not None and is_valid_answer(question.method, question.params, bytes(answer)):
            question.answer(Result(b"", bytes(answer)))


class _StateClaims(msgspec.Struct, array_like=True, frozen=True):
    """The content of a sealed state."""

    expires: int
    fingerprint: bytes
    slug: str
    rounds: int
    server_state: bytes | None
    """The server's own state, raw; None if it gave none, and then it must be sent none."""
    starts_over: bool = False
    """Whether the call has ended at the server, and is to be sent as a new one."""


class RequestStates:
    """Seals states, and opens them."""

    def __init__(self, seal: Seal, now: Callable[[], float]) -> None:
        self._seal = seal
        self._now = now

    def bind(
        self,
        exchange: Exchange,
        slug: str,
        server_state: bytes | None,
        *,
        starts_over: bool = False,
    ) -> bytes | str:
        """A state for this caller and call, as raw JSON; or what the server did wrong."""
        if exchange.input_rounds >= ROUNDS_MAX:
            return ASKED_TOO_OFTEN
        if server_state is not None and len(server_state) > STATE_BYTES_MAX:
            return STATE_TOO_LARGE
        claims = _StateClaims(
            expires=int(self._now() + STATE_SECONDS_MAX),
            fingerprint=call_fingerprint(exchange),
            slug=slug,
            rounds=exchange.input_rounds + 1,
            server_state=server_state,
            starts_over=starts_over,
        )
        return raw_json.encode_string(self._seal.seal(_KIND, msgspec.msgpack.encode(claims)))

    def unbind(self, exchange: Exchange, params: bytes, slug: str, era: Era) -> bytes | Fault:
        """The params for a server of this era: with its own state, or with none."""
        found = exchange.param_members
        if not any(name in found for name in _RETRY_MEMBERS):
            return params
        if exchange.caller.revision.era is Era.LEGACY:
            # Its era does not have these members.
            return raw_json.edit(params, dict.fromkeys(_RETRY_MEMBERS))
        raw = found.get("requestState")
        if raw is None:
            return (
                params
                if era is Era.MODERN
                else raw_json.edit(params, dict.fromkeys(_RETRY_MEMBERS))
            )
        claims = self._open(raw_json.decode_string(raw), exchange, slug)
        if claims is None or (era is Era.LEGACY and not claims.starts_over):
            return invalid_params(INVALID_STATE)
        exchange.input_rounds = claims.rounds
        if not claims.starts_over:
            return raw_json.edit(params, {"requestState": claims.server_state})
        if not _has_agreed(exchange):
            message = f"Server '{slug}' needs an address to be opened, and that was not agreed to"
            return Fault(situation=Situation.MISBEHAVED, message=message)
        return raw_json.edit(params, dict.fromkeys(_RETRY_MEMBERS))

    def _open(self, state: str | None, exchange: Exchange, slug: str) -> _StateClaims | None:
        if state is None or len(state) > _SEALED_CHARACTERS_MAX:
            return None
        sealed = self._seal.open(_KIND, state)
        if sealed is None:
            return None
        try:
            claims = msgspec.msgpack.decode(sealed, type=_StateClaims)
        except msgspec.DecodeError:
            return None  # Ours, but of another version.
        is_match = claims.slug == slug and claims.fingerprint == call_fingerprint(exchange)
        return claims if is_match and self._now() < claims.expires else None


def call_fingerprint(exchange: Exchange) -> bytes:
    """A hash of what must be the same when a client comes back: principal, target, arguments."""
    caller, found = exchange.caller, exchange.param_members
    parts = [part.encode() for part in (*caller.principal, caller.profile, exchange.method.name)]
    parts += [
        _canonical_json(found[name]) for name in ("name", "uri", "arguments") if name in found
    ]
    return digest_of(parts, FINGERPRINT_BYTES)


def _canonical_json(raw: msgspec.Raw) -> bytes:
    """A value in one spelling: clients may order its members differently."""
    try:
        return msgspec.json.encode(msgspec.json.decode(raw), order="deterministic")
    except (ValueError, TypeError, RecursionError):
        return bytes(raw)


def _has_agreed(exchange: Exchange) -> bool:
    """Whether the client has accepted all that it was asked."""
    answers = input_responses(exchange) or {}
    try:
        actions = [raw_json.members(answer).get("action") for answer in answers.values()]
    except msgspec.DecodeError:
        return False
    return bool(actions) and all(raw_json.decode_string(action) == "accept" for action in actions)

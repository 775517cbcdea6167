"""A server, seen from the gateway: an exchange told in the server's era, and its answer.

Two adapters with one shape. They know what an era puts into requests and results; they do not
know who asked, nor which bytes carry the answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from anyport.protocol import meta
from anyport.protocol.errors import Situation, lost
from anyport.protocol.exchange import Answered, Caller, Ending, Failed
from anyport.protocol.revision import Era, Revision
from anyport.wire import members

INPUT_REQUIRED: Final = b'"input_required"'
_RESULT_TYPE: Final = b'"resultType"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """What a modern server needs from the client before it answers."""

    requests: Mapping[str, tuple[str, bytes | None]]
    """Key to method and raw params."""
    state: bytes | None
    """The raw `requestState`, to be returned byte for byte; none must be sent if none came."""


class Back(Protocol):
    """How exchanges are told to the servers of one era."""

    def params(self, params: bytes, caller: Caller) -> bytes:
        """The request's params as the server must get them."""

    def own_params(self, params: bytes) -> bytes:
        """The params of a request the gateway makes for itself."""

    def ending(self, result: bytes, caller: Caller, slug: str) -> Ending | Inquiry:
        """The server's result as the caller may get it, or what it needs to know first."""


@dataclass(frozen=True, slots=True)
class LegacyBack:
    """Servers with a handshake: who we are and what we can is in their session."""

    def params(self, params: bytes, caller: Caller) -> bytes:
        """Leave out what a modern client says of itself; a legacy client's pass untouched."""
        if caller.revision.era is Era.LEGACY:
            return params
        return meta.restamp(params, dict.fromkeys(meta.REQUEST_KEYS))

    def own_params(self, params: bytes) -> bytes:
        """Nothing to add: the session has said it."""
        return params

    def ending(self, result: bytes, caller: Caller, slug: str) -> Ending:
        """A legacy result is every client's result; a modern front completes it."""
        return Answered(result)


@dataclass(frozen=True, slots=True)
class ModernBack:
    """Servers without a handshake: every request says who asks and what they can."""

    revision: Revision
    client_info: bytes

    def params(self, params: bytes, caller: Caller) -> bytes:
        """Stamp the envelope of this hop."""
        level = None if caller.log_level is None else members.text(caller.log_level)
        return self._stamped(params, _bridged(caller), level)

    def own_params(self, params: bytes) -> bytes:
        """The envelope of a client that can be asked nothing."""
        return self._stamped(params, b"{}", None)

    def ending(self, result: bytes, caller: Caller, slug: str) -> Ending | Inquiry:
        """Take the era's own members away from a legacy client; its questions are put to it."""
        if caller.revision.era is Era.MODERN:
            return Answered(result)
        kind = _result_type(result)
        if kind == INPUT_REQUIRED:
            return _inquiry(result) or _misbehaved(slug, "asked for input in a form unknown to us")
        if kind not in (None, b'"complete"'):
            return _misbehaved(slug, "answered with a type of result unknown to us")
        plain = members.edit(result, dict.fromkeys(("resultType", "ttlMs", "cacheScope")))
        return Answered(meta.restamp(plain, {meta.SERVER_INFO: None}))

    def _stamped(self, params: bytes, capabilities: bytes, level: bytes | None) -> bytes:
        envelope: Mapping[str, bytes | None] = {
            meta.PROTOCOL_VERSION: members.text(self.revision.name),
            meta.CLIENT_CAPABILITIES: capabilities,
            meta.CLIENT_INFO: self.client_info,
            meta.LOG_LEVEL: level,
        }
        return meta.restamp(params, envelope)


def asks_for_input(result: bytes) -> bool:
    """Whether a modern server's result is not an answer yet."""
    return _result_type(result) == INPUT_REQUIRED


def back_for(revision: Revision, client_info: bytes) -> Back:
    """The adapter for a server that speaks this revision."""
    if revision.era is Era.LEGACY:
        return LegacyBack()
    return ModernBack(revision, client_info)


def _inquiry(result: bytes) -> Inquiry | None:
    try:
        found = members.members(result)
        asked = members.members(found.get("inputRequests", msgspec.Raw(b"{}")))
        requests: dict[str, tuple[str, bytes | None]] = {}
        for key, raw in asked.items():
            entry = members.members(raw)
            params = entry.get("params")
            method = msgspec.json.decode(entry["method"], type=str)
            requests[key] = (method, None if params is None else bytes(params))
    except (msgspec.DecodeError, KeyError):
        return None
    state = found.get("requestState")
    if not requests and state is None:
        return None
    return Inquiry(requests=requests, state=None if state is None else bytes(state))


def _result_type(result: bytes) -> bytes | None:
    raw = members.members(result).get("resultType") if _RESULT_TYPE in result else None
    return None if raw is None else bytes(raw)


def _misbehaved(slug: str, words: str) -> Failed:
    return Failed(lost(slug, Situation.MISBEHAVED, words))


def _bridged(caller: Caller) -> bytes:
    """What the caller can be asked through this gateway, as a declaration."""
    if caller.revision.era is Era.MODERN:
        return _without_extensions(caller.capabilities.raw)
    if caller.session is None:
        return b"{}"
    # `listChanged` and whatever else a session can hold means nothing to a single request.
    declared: list[tuple[str, bytes]] = []
    for question in ("sampling", "elicitation", "roots"):
        if question in caller.capabilities.questions:
            modes = b'{"form":{},"url":{}}' if caller.capabilities.elicitation_url else b"{}"
            declared.append((question, modes if question == "elicitation" else b"{}"))
    return members.join(declared)


def _without_extensions(raw: bytes) -> bytes:
    # An extension adds methods, result types and URIs that a gateway must know to carry.
    return members.edit(raw, {"extensions": None}) if b'"extensions"' in raw else raw


def server_capabilities(raw: msgspec.Raw | None) -> dict[str, msgspec.Raw]:
    """A server's declaration; empty if it is not an object."""
    if raw is None:
        return {}
    try:
        return members.members(raw)
    except msgspec.DecodeError:
        return {}

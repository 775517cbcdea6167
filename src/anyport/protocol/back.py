"""A server, seen from the gateway: an exchange told in the server's era, and its answer.

Two adapters with one shape. They know what an era puts into requests and results; they do not
know who asked, nor which bytes carry the answer.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, cast

import msgspec
from msgspec import Raw

from anyport.protocol import meta
from anyport.protocol.capability import declares, lacking
from anyport.protocol.errors import Situation, lost, missing_capability
from anyport.protocol.exchange import Answered, Caller, Ending, Failed
from anyport.protocol.extension import bridged_capabilities, bridged_extensions
from anyport.protocol.freshness import OF_ITSELF
from anyport.protocol.revision import Era, Revision
from anyport.protocol.shape import Shape
from anyport.wire import members

INPUT_REQUIRED: Final = b'"input_required"'
COMPLETE: Final = b'"complete"'
UNKNOWN_TYPE: Final = "answered with a type of result unknown to us"
UNKNOWN_FORM: Final = "asked for input in a form unknown to us"
_COMPLETE_FIRST: Final = b'{"resultType":"complete",'
_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "sampling": ("context", "tools"),
    "elicitation": ("form", "url"),
    "roots": (),
}
"""What a client can be asked, and the kinds of it; `listChanged` and whatever else a session can
hold means nothing to a single request."""
_SERVER_INFO: Final = members.text(meta.SERVER_INFO)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """What a modern server needs from the client before it answers."""

    requests: Mapping[str, tuple[str, bytes | None]]
    """Key to method and raw params."""
    state: bytes | None
    """The raw `requestState`, to be returned byte for byte; none must be sent if none came."""


class Back(Protocol):
    """How exchanges are told to the servers of one era."""

    def params(self, params: bytes, about: Raw | None, caller: Caller) -> bytes:
        """The request's params as the server must get them; `about` is their `_meta`."""

    def own_params(self, params: bytes) -> bytes:
        """The params of a request the gateway makes for itself."""

    def ending(self, result: bytes, shape: Shape, caller: Caller, slug: str) -> Ending | Inquiry:
        """The server's result as the caller may get it, or what it needs to know first."""


@dataclass(frozen=True, slots=True, eq=False)
class LegacyBack:
    """Servers with a handshake: who we are and what we can is in their session."""

    def params(self, params: bytes, about: Raw | None, caller: Caller) -> bytes:
        """Leave out what a modern client says of itself; a legacy client's pass untouched."""
        if caller.revision.era is Era.LEGACY or about is None:
            return params
        return members.put(params, "_meta", about, _remembered(self, caller, about, _bare))

    def own_params(self, params: bytes) -> bytes:
        """Nothing to add: the session has said it."""
        return params

    def ending(self, result: bytes, shape: Shape, caller: Caller, slug: str) -> Ending:
        """A legacy result is every client's result; a modern front completes it.

        What only modern results say of themselves is told to no legacy client, whoever said it.
        """
        if asks_for_input(shape):  # In a session it would have asked.
            return _misbehaved(slug, UNKNOWN_FORM)
        if caller.revision.era is Era.LEGACY and (
            len(shape.kind) or len(shape.ttl) or len(shape.scope)
        ):
            result = members.edit(result, dict.fromkeys(OF_ITSELF))
        return Answered(result, shape)


@dataclass(frozen=True, slots=True, eq=False)
class ModernBack:
    """Servers without a handshake: every request says who asks and what they can."""

    revision: Revision
    client_info: bytes
    extensions: frozenset[str] = frozenset()
    """What this server offers."""

    def params(self, params: bytes, about: Raw | None, caller: Caller) -> bytes:
        """Stamp the envelope of this hop."""
        if about is not None and bytes(about)[:1] == b"{":
            stamped = _remembered(self, caller, about, lambda raw: self._restamped(raw, caller))
            return members.put(params, "_meta", about, stamped)
        tail = caller.memory.get(self)
        if tail is None:
            tail = caller.memory[self] = b',"_meta":%b}' % self._restamped(b"{}", caller)
        if about is not None or params[-2:-1] in b"{ \t\r\n":
            return members.edit(params, {"_meta": tail[len(b',"_meta":') : -1]})
        return params[:-1] + bytes(tail)

    def own_params(self, params: bytes) -> bytes:
        """The envelope of a client that can be asked nothing."""
        return meta.restamp(params, self._envelope(b"{}", None))

    def ending(self, result: bytes, shape: Shape, caller: Caller, slug: str) -> Ending | Inquiry:
        """Take the era's own members away from a legacy client; its questions are put to it."""
        if caller.revision.era is Era.MODERN:
            return _permitted(result, shape, caller, slug)
        kind = bytes(shape.kind)
        if kind == INPUT_REQUIRED:
            return inquiry_of(result) or _misbehaved(slug, UNKNOWN_FORM)
        if kind not in (b"", COMPLETE):
            return _misbehaved(slug, UNKNOWN_TYPE)
        if len(shape.ttl) or len(shape.scope):
            result = members.edit(result, dict.fromkeys(OF_ITSELF))
        elif result.startswith(_COMPLETE_FIRST):
            result = b"{" + result[len(_COMPLETE_FIRST) :]
        elif kind:
            result = members.put(result, "resultType", kind, None)
        if len(shape.about) and _SERVER_INFO in bytes(shape.about):
            result = meta.restamp(result, {meta.SERVER_INFO: None})
        return Answered(result, shape)

    def _restamped(self, about: bytes, caller: Caller) -> bytes:
        level = None if caller.log_level is None else members.text(caller.log_level)
        return members.edit(about, self._envelope(self._bridged(caller), level))

    def _bridged(self, caller: Caller) -> bytes:
        """What the caller can be asked through this gateway, as a declaration."""
        raw = caller.capabilities.raw
        if caller.revision.era is Era.MODERN:
            return bridged_capabilities(raw, Era.MODERN, self.extensions)
        if caller.session is None:
            return b"{}"
        declared: list[tuple[str, bytes]] = []
        for question, kinds in _KINDS.items():
            if question in caller.capabilities.questions:
                own = caller.capabilities
                has = [(kind, b"{}") for kind in kinds if declares(own, question, {kind: {}})]
                declared.append((question, members.join(has)))
        extensions = bridged_extensions(raw, Era.LEGACY, self.extensions)
        if extensions is not None:
            declared.append(("extensions", extensions))
        return members.join(declared)

    def _envelope(self, capabilities: bytes, level: bytes | None) -> Mapping[str, bytes | None]:
        return {
            meta.PROTOCOL_VERSION: members.text(self.revision.name),
            meta.CLIENT_CAPABILITIES: capabilities,
            meta.CLIENT_INFO: self.client_info,
            meta.LOG_LEVEL: level,
        }


def _bare(about: bytes) -> bytes | None:
    """A `_meta` without what a modern request says of itself; None if nothing is left."""
    left = members.edit(about, dict.fromkeys(meta.REQUEST_KEYS))
    return left if members.members(left) else None


def _remembered(
    back: object, caller: Caller, about: Raw, make: Callable[[bytes], bytes | None]
) -> bytes | None:
    """What becomes of a `_meta`; clients send the same one with most requests."""
    raw = bytes(about)
    before = caller.memory.get((back, "_meta"))
    if before is not None and before[0] == raw:
        return cast(bytes | None, before[1])
    made = make(raw)
    caller.memory[back, "_meta"] = (raw, made)
    return made


def asks_for_input(shape: Shape) -> bool:
    """Whether a modern server's result is not an answer yet."""
    return bytes(shape.kind) == INPUT_REQUIRED


def back_for(revision: Revision, client_info: bytes, extensions: Iterable[str] = ()) -> Back:
    """The adapter for a server that speaks this revision, and offers these extensions."""
    if revision.era is Era.LEGACY:
        return LegacyBack()
    return ModernBack(revision, client_info, frozenset(extensions))


def inquiry_of(result: bytes) -> Inquiry | None:
    """What a result that asks for input asks; None if it is not written as it should be."""
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


def _permitted(result: bytes, shape: Shape, caller: Caller, slug: str) -> Ending:
    """A result for a modern client: it may be asked only what this very request declared."""
    if not asks_for_input(shape):
        known = bytes(shape.kind) in (b"", COMPLETE)
        return Answered(result, shape) if known else _misbehaved(slug, UNKNOWN_TYPE)
    inquiry = inquiry_of(result)
    try:
        asked = () if inquiry is None else inquiry.requests.values()
        missing = lacking(asked, caller.capabilities)
    except KeyError:
        inquiry = None
    if inquiry is None:
        return _misbehaved(slug, UNKNOWN_FORM)
    return Failed(missing_capability(slug, missing)) if missing else Answered(result, shape)


def _misbehaved(slug: str, words: str) -> Failed:
    return Failed(lost(slug, Situation.MISBEHAVED, words))


def server_capabilities(raw: msgspec.Raw | None) -> dict[str, msgspec.Raw]:
    """A server's declaration; empty if it is not an object."""
    if raw is None:
        return {}
    try:
        return members.members(raw)
    except msgspec.DecodeError:
        return {}

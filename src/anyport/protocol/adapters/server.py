"""Server adapters: requests as a server of either era gets them, and its results converted back."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec
from msgspec import Raw

from anyport.protocol import meta
from anyport.protocol.cache_hints import MODERN_RESULT_MEMBERS
from anyport.protocol.capabilities import declares, find_missing_capabilities
from anyport.protocol.errors import Situation, missing_capability, server_failure
from anyport.protocol.exchange import Answered, Caller, Ending, Failed
from anyport.protocol.extensions import bridged_capabilities, bridged_extensions
from anyport.protocol.result import ResultShape, has_lookalikes
from anyport.protocol.revisions import Era, Revision
from anyport.wire import raw_json

RAW_INPUT_REQUIRED: Final = b'"input_required"'
RAW_COMPLETE: Final = b'"complete"'
UNKNOWN_TYPE: Final = "answered with a type of result unknown to us"
UNKNOWN_FORM: Final = "asked for input in a form unknown to us"
_COMPLETE_PREFIX: Final = b'{"resultType":"complete",'
_QUESTION_MODES: Final[Mapping[str, tuple[str, ...]]] = {
    "sampling": ("context", "tools"),
    "elicitation": ("form", "url"),
    "roots": (),
}
"""What a client can be asked, and its modes; other members, such as `listChanged`, mean nothing in
a single request."""
_NO_EXTENSIONS: Final[frozenset[str]] = frozenset()
_SERVER_INFO: Final = raw_json.encode_string(meta.SERVER_INFO)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRequiredResult:
    """The input that a modern server requires before it answers."""

    requests: Mapping[str, tuple[str, bytes | None]]
    """Method and raw params by key."""
    state: bytes | None
    """The raw `requestState`, to be returned byte for byte, or not at all if there was none."""


class ServerAdapter(Protocol):
    """Converts requests and results for servers of one era."""

    def request_params(self, params: bytes, raw_meta: Raw | None, caller: Caller) -> bytes:
        """The params as the server gets them; `raw_meta` is their `_meta`."""

    def gateway_params(self, params: bytes) -> bytes:
        """The params of a request that the gateway sends for itself."""

    def convert_result(
        self, result: bytes, shape: ResultShape, caller: Caller, slug: str
    ) -> Ending | InputRequiredResult:
        """The result as the caller gets it, or the input that the server requires."""


@dataclass(frozen=True, slots=True, eq=False)
class LegacyServerAdapter:
    """Servers with a handshake: identity and capabilities are in the session."""

    def request_params(self, params: bytes, raw_meta: Raw | None, caller: Caller) -> bytes:
        """Remove the keys with which a modern client describes itself; legacy params pass."""
        if caller.revision.era is Era.LEGACY or raw_meta is None:
            return params
        return raw_json.replace_member(
            params, "_meta", raw_meta, _cached_meta(self, caller, raw_meta, _without_request_keys)
        )

    def gateway_params(self, params: bytes) -> bytes:
        return params

    def convert_result(
        self, result: bytes, shape: ResultShape, caller: Caller, slug: str
    ) -> Ending:
        """Remove what only modern results have, for legacy callers. The client adapter of a modern
        caller completes the result."""
        if is_input_required(shape):  # In a session it would have sent a request.
            return _misbehaviour_failure(slug, UNKNOWN_FORM)
        if caller.revision.era is Era.LEGACY and (
            len(shape.result_type) or len(shape.ttl) or len(shape.scope)
        ):
            result = raw_json.edit(result, dict.fromkeys(MODERN_RESULT_MEMBERS))
        return Answered(result, shape)


@dataclass(frozen=True, slots=True, eq=False)
class ModernServerAdapter:
    """Servers without a handshake: every request describes its sender."""

    revision: Revision
    client_info: bytes
    extensions: frozenset[str] = frozenset()
    """Extensions that the server offers."""
    is_transparent: Callable[[str], bool] = lambda _: False
    """Whether a profile is transparent."""
    passes_unknown: Callable[[str], bool] = lambda _: False
    """Whether unknown extensions pass in a profile."""

    def request_params(self, params: bytes, raw_meta: Raw | None, caller: Caller) -> bytes:
        """Put the gateway's own keys into `_meta`: they are valid for one hop."""
        if raw_meta is not None and bytes(raw_meta)[:1] == b"{":
            stamped = _cached_meta(
                self, caller, raw_meta, lambda raw: self._stamp_meta(raw, caller)
            )
            return raw_json.replace_member(params, "_meta", raw_meta, stamped)
        meta_suffix = caller.meta_suffixes.get(self)
        if meta_suffix is None:
            meta_suffix = caller.meta_suffixes[self] = b',"_meta":%b}' % self._stamp_meta(
                b"{}", caller
            )
        if raw_meta is not None or params[-2:-1] in b"{ \t\r\n":
            return raw_json.edit(params, {"_meta": meta_suffix[len(b',"_meta":') : -1]})
        return params[:-1] + meta_suffix

    def gateway_params(self, params: bytes) -> bytes:
        """`_meta` of a client that cannot be asked anything."""
        return meta.edit_meta(params, self._envelope(b"{}", None))

    def convert_result(
        self, result: bytes, shape: ResultShape, caller: Caller, slug: str
    ) -> Ending | InputRequiredResult:
        """Remove what only modern results have, for legacy callers; report required input."""
        if caller.revision.era is Era.MODERN:
            known = not self.is_transparent(caller.profile) and not self._shared_extensions(caller)
            return _check_modern_result(result, shape, caller, slug, known=known)
        kind = bytes(shape.result_type)
        if kind == RAW_INPUT_REQUIRED:
            return read_input_required(result) or _misbehaviour_failure(slug, UNKNOWN_FORM)
        if kind not in (b"", RAW_COMPLETE):
            return _misbehaviour_failure(slug, UNKNOWN_TYPE)
        if len(shape.ttl) or len(shape.scope):
            result = raw_json.edit(result, dict.fromkeys(MODERN_RESULT_MEMBERS))
        elif result.startswith(_COMPLETE_PREFIX):
            result = b"{" + result[len(_COMPLETE_PREFIX) :]
        elif kind:
            result = raw_json.replace_member(result, "resultType", kind, None)
        if len(shape.raw_meta) and _SERVER_INFO in bytes(shape.raw_meta):
            result = meta.edit_meta(result, {meta.SERVER_INFO: None})
        return Answered(result, shape)

    def _stamp_meta(self, raw_meta: bytes, caller: Caller) -> bytes:
        envelope = dict(self._envelope(self._bridged_capabilities(caller), _raw_log_level(caller)))
        if self.is_transparent(caller.profile):
            envelope[meta.CLIENT_INFO] = caller.client
            if caller.revision.era is Era.MODERN:
                envelope[meta.CLIENT_CAPABILITIES] = caller.capabilities.raw
        return raw_json.edit(raw_meta, envelope)

    def _bridged_capabilities(self, caller: Caller) -> bytes:
        """The capabilities to declare: what the caller can be asked through this gateway."""
        raw = caller.capabilities.raw
        if caller.revision.era is Era.MODERN:
            return bridged_capabilities(
                raw, Era.MODERN, self.extensions, self._shared_extensions(caller)
            )
        if caller.session is None:
            return b"{}"
        declared: list[tuple[str, bytes]] = []
        for question, kinds in _QUESTION_MODES.items():
            if question in caller.capabilities.questions:
                own = caller.capabilities
                has = [(kind, b"{}") for kind in kinds if declares(own, question, {kind: {}})]
                declared.append((question, raw_json.encode_object(has)))
        extensions = bridged_extensions(
            raw, Era.LEGACY, self.extensions, self._shared_extensions(caller)
        )
        if extensions is not None:
            declared.append(("extensions", extensions))
        return raw_json.encode_object(declared)

    def _shared_extensions(self, caller: Caller) -> frozenset[str]:
        """Extensions that both sides declare, unknown to the gateway, that pass in this profile."""
        unknown = caller.capabilities.unknown
        if not unknown or not self.passes_unknown(caller.profile):
            return _NO_EXTENSIONS
        return unknown & self.extensions

    def _envelope(self, capabilities: bytes, level: bytes | None) -> Mapping[str, bytes | None]:
        return {
            meta.PROTOCOL_VERSION: raw_json.encode_string(self.revision.name),
            meta.CLIENT_CAPABILITIES: capabilities,
            meta.CLIENT_INFO: self.client_info,
            meta.LOG_LEVEL: level,
        }


def _raw_log_level(caller: Caller) -> bytes | None:
    return None if caller.log_level is None else raw_json.encode_string(caller.log_level)


def _without_request_keys(raw_meta: bytes) -> bytes | None:
    """Remove the keys with which a modern request describes itself; None if nothing is left."""
    remaining = raw_json.edit(raw_meta, dict.fromkeys(meta.REQUEST_KEYS))
    return remaining if raw_json.members(remaining) else None


def _cached_meta(
    adapter: object, caller: Caller, raw_meta: Raw, make: Callable[[bytes], bytes | None]
) -> bytes | None:
    """The rewritten `_meta`; clients send the same one with most requests."""
    raw = bytes(raw_meta)
    cached = caller.rewritten_metas.get(adapter)
    if cached is not None and cached[0] == raw:
        return cached[1]
    rewritten = make(raw)
    caller.rewritten_metas[adapter] = (raw, rewritten)
    return rewritten


def is_input_required(shape: ResultShape) -> bool:
    """Whether a modern server requires input before it answers."""
    return bytes(shape.result_type) == RAW_INPUT_REQUIRED


def server_adapter_for(
    revision: Revision,
    client_info: bytes,
    extensions: Iterable[str] = (),
    is_transparent: Callable[[str], bool] = lambda _: False,
    passes_unknown: Callable[[str], bool] = lambda _: False,
) -> ServerAdapter:
    """The adapter for a server of this revision with these extensions."""
    if revision.era is Era.LEGACY:
        return LegacyServerAdapter()
    known_extensions = frozenset(extensions)
    return ModernServerAdapter(
        revision, client_info, known_extensions, is_transparent, passes_unknown
    )


def read_input_required(result: bytes) -> InputRequiredResult | None:
    """Read an `input_required` result; None if it is invalid."""
    try:
        result_members = raw_json.members(result)
        raw_requests = raw_json.members(result_members.get("inputRequests", msgspec.Raw(b"{}")))
        requests: dict[str, tuple[str, bytes | None]] = {}
        for key, raw in raw_requests.items():
            entry = raw_json.members(raw)
            raw_params = entry.get("params")
            method = msgspec.json.decode(entry["method"], type=str)
            params = None if raw_params is None else bytes(raw_params)
            if has_lookalikes(entry, method, params):
                return None
            requests[key] = (method, params)
    except (msgspec.DecodeError, KeyError):
        return None
    state = result_members.get("requestState")
    if not requests and state is None:
        return None
    return InputRequiredResult(requests=requests, state=None if state is None else bytes(state))


def _check_modern_result(
    result: bytes, shape: ResultShape, caller: Caller, slug: str, *, known: bool
) -> Ending:
    """Check a result for a modern caller: a server may only ask what the request declared.

    With `known`, result types of unknown extensions are rejected.
    """
    if not is_input_required(shape):
        known = not known or bytes(shape.result_type) in (b"", RAW_COMPLETE)
        return Answered(result, shape) if known else _misbehaviour_failure(slug, UNKNOWN_TYPE)
    input_required = read_input_required(result)
    try:
        questions = () if input_required is None else input_required.requests.values()
        missing = find_missing_capabilities(questions, caller.capabilities)
    except KeyError:
        input_required = None
    if input_required is None:
        return _misbehaviour_failure(slug, UNKNOWN_FORM)
    return Failed(missing_capability(slug, missing)) if missing else Answered(result, shape)


def _misbehaviour_failure(slug: str, message: str) -> Failed:
    return Failed(server_failure(slug, Situation.MISBEHAVED, message))


def server_capabilities(raw: msgspec.Raw | None) -> dict[str, msgspec.Raw]:
    """A server's raw capabilities; empty if they are not an object."""
    if raw is None:
        return {}
    try:
        return raw_json.members(raw)
    except msgspec.DecodeError:
        return {}

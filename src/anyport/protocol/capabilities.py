"""Capabilities: what clients declare, and what the gateway declares for its servers.

The gateway declares what is known of its servers without waiting for them. A server that was never
reached may offer anything.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import msgspec

from anyport.protocol.adapters.elicitation import is_url_elicitation
from anyport.protocol.extensions import EXTENSIONS, TASKS, is_declared
from anyport.protocol.methods import QUESTION_CAPABILITIES
from anyport.protocol.revisions import Revision
from anyport.wire import raw_json

SUBSCRIBE: Final = "resources.subscribe"
"""The server notifies when a resource changes."""
SERVER_CAPABILITIES: Final = frozenset(
    {"tools", "prompts", "resources", SUBSCRIBE, "logging", "completions"}
)
"""All capabilities of servers, except extensions."""

TASKS_OF_SESSIONS: Final[Mapping[str, object]] = {
    "list": {},
    "cancel": {},
    "requests": {"tools": {"call": {}}},
}
"""How a handshake declares tasks, which modern revisions have as an extension."""

_QUESTION_KEYS: Final = ("sampling", "elicitation", "roots")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCapabilities:
    """The capabilities of a client. Unknown members are kept and forwarded."""

    raw: bytes = b"{}"
    questions: frozenset[str] = frozenset()
    """Which of sampling, elicitation and roots the client answers."""
    elicitation_url: bool = False
    """Elicitation in URL mode. MCP 2025-11-25, elicitation: an empty `elicitation` object means
    form mode only."""
    unknown: frozenset[str] = frozenset()
    """Extensions that the gateway does not know."""

    @property
    def interactive(self) -> bool:
        """Whether a server may ask this client anything."""
        return bool(self.questions)


DECLARATIONS_CACHED_MAX: Final = 256
DECLARATION_BYTES_CACHED_MAX: Final = 1024
"""Most clients declare the same, so sessions can share the parsed declaration."""

NO_CAPABILITIES: Final = ClientCapabilities()


def client_capabilities(raw: bytes | None) -> ClientCapabilities | None:
    """Parse a raw `capabilities` object; None if it is not an object."""
    if raw is None:
        return NO_CAPABILITIES
    return _read_cached(raw) if len(raw) <= DECLARATION_BYTES_CACHED_MAX else _read(raw)


@lru_cache(DECLARATIONS_CACHED_MAX)
def _read_cached(raw: bytes) -> ClientCapabilities | None:
    return _read(raw)


def _read(raw: bytes) -> ClientCapabilities | None:
    try:
        declared = msgspec.json.decode(raw, type=dict[str, object])
    except msgspec.DecodeError:
        return None
    questions = frozenset(key for key in _QUESTION_KEYS if isinstance(declared.get(key), dict))
    elicitation = declared.get("elicitation")
    url = isinstance(elicitation, dict) and isinstance(elicitation.get("url"), dict)
    extensions = declared.get("extensions")
    declared_extensions = extensions.items() if isinstance(extensions, dict) else ()
    unknown = (
        id
        for id, settings in declared_extensions
        if id not in EXTENSIONS and isinstance(settings, dict)
    )
    return ClientCapabilities(
        raw=raw, questions=questions, elicitation_url=url, unknown=frozenset(unknown)
    )


def find_missing_capabilities(
    questions: Iterable[tuple[str, bytes | None]], capabilities: ClientCapabilities
) -> dict[str, dict[str, object]]:
    """The capabilities that a client would have to declare to be asked all of this.

    Raises:
        KeyError: a method is not a question.
    """
    missing: dict[str, dict[str, object]] = {}
    for method, params in questions:
        kind = QUESTION_CAPABILITIES[method]
        mode = _question_mode(method, params)
        declared = kind in capabilities.questions
        if not declared or (mode is not None and not declares(capabilities, kind, {mode: {}})):
            missing.setdefault(kind, {}).update({} if mode is None else {mode: {}})
    return missing


def _question_mode(method: str, params: bytes | None) -> str | None:
    """The mode of a question that needs a capability of its own."""
    if is_url_elicitation(method, params):
        return "url"
    param_members = {} if params is None or params[:1] != b"{" else raw_json.members(params)
    return (
        "tools"
        if QUESTION_CAPABILITIES[method] == "sampling" and "tools" in param_members
        else None
    )


def declares(capabilities: ClientCapabilities, kind: str, within: object) -> bool:
    """Whether a client has declared a capability, and all sub-capabilities in `within`."""
    declared = msgspec.json.decode(capabilities.raw, type=dict[str, object]).get(kind)
    if not isinstance(declared, dict):
        return False
    sub_capabilities = within if isinstance(within, dict) else {}
    return all(isinstance(declared.get(name), dict) for name in sub_capabilities)


def gateway_capabilities(
    revision: Revision, offered: Container[str], extensions: Mapping[str, bytes]
) -> dict[str, object]:
    """The capabilities that the gateway declares for a profile whose servers offer this.

    `listChanged` is always declared, because the gateway reads the lists of its servers again. A
    client that asks for an undeclared list gets an empty one.
    """
    declared: dict[str, object] = {}
    if "logging" in offered:
        declared["logging"] = {}
    if "prompts" in offered:
        declared["prompts"] = {"listChanged": True}
    if "resources" in offered:
        subscribe = {"subscribe": True} if SUBSCRIBE in offered else {}
        declared["resources"] = {**subscribe, "listChanged": True}
    if "tools" in offered:
        declared["tools"] = {"listChanged": True}
    if "completions" in offered and revision.completions_capability:
        declared["completions"] = {}
    if revision.tasks and TASKS in extensions:
        declared["tasks"] = TASKS_OF_SESSIONS
    shown = {
        id: msgspec.Raw(settings)
        for id, settings in extensions.items()
        if is_declared(id, revision.era)
    }
    if shown:
        declared["extensions"] = shown
    return declared


def translated_capabilities(
    capabilities: Mapping[str, msgspec.Raw], extensions: Container[str], revision: Revision
) -> dict[str, bytes]:
    """A server's capabilities as the gateway declares them to clients of the other era.

    Each era declares tasks in its own way. `extensions` are those of the server.
    """
    translated = {name: bytes(raw) for name, raw in capabilities.items() if name != "tasks"}
    if TASKS not in extensions:
        return translated
    if revision.tasks:
        translated["tasks"] = msgspec.json.encode(TASKS_OF_SESSIONS)
    settings = b"{}" if is_declared(TASKS, revision.era) else None
    shown = raw_json.edit(translated.pop("extensions", b"{}"), {TASKS: settings})
    if shown != b"{}":
        translated["extensions"] = shown
    return translated

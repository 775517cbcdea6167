"""What each side declares that it can do.

Clients: which questions they answer. The gateway: one fixed declaration for each revision, so
that `initialize` and `server/discover` can be answered before any server has started.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import msgspec

from anyport.protocol.extension import EXTENSIONS, TASKS
from anyport.protocol.method import QUESTIONS
from anyport.protocol.openable import wants_address
from anyport.protocol.revision import Revision
from anyport.wire import members

_QUESTION_KEYS: Final = ("sampling", "elicitation", "roots")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCapabilities:
    """What a client declared. Unknown members are kept: they are forwarded as they came."""

    raw: bytes = b"{}"
    questions: frozenset[str] = frozenset()
    """Which of sampling, elicitation and roots it answers."""
    elicitation_url: bool = False
    """Elicitation in URL mode; an empty `elicitation` object means forms only."""

    @property
    def interactive(self) -> bool:
        """Whether a server may ask this client anything."""
        return bool(self.questions)


DECLARATIONS_REMEMBERED_MAX: Final = 256
DECLARATION_BYTES_REMEMBERED_MAX: Final = 1024
"""Most clients declare the same, and many sessions need not each keep it."""

NOTHING: Final = ClientCapabilities()
"""A client that declared nothing."""


def client_capabilities(raw: bytes | None) -> ClientCapabilities | None:
    """The declaration in a raw `capabilities` object; None if it is not an object."""
    if raw is None:
        return NOTHING
    return _read_briefly(raw) if len(raw) <= DECLARATION_BYTES_REMEMBERED_MAX else _read(raw)


@lru_cache(DECLARATIONS_REMEMBERED_MAX)
def _read_briefly(raw: bytes) -> ClientCapabilities | None:
    return _read(raw)


def _read(raw: bytes) -> ClientCapabilities | None:
    try:
        declared = msgspec.json.decode(raw, type=dict[str, object])
    except msgspec.DecodeError:
        return None
    questions = frozenset(key for key in _QUESTION_KEYS if isinstance(declared.get(key), dict))
    elicitation = declared.get("elicitation")
    url = isinstance(elicitation, dict) and isinstance(elicitation.get("url"), dict)
    return ClientCapabilities(raw=raw, questions=questions, elicitation_url=url)


def lacking(
    asked: Iterable[tuple[str, bytes | None]], capabilities: ClientCapabilities
) -> dict[str, dict[str, object]]:
    """What a client would have to declare besides in order to be asked all this.

    Raises:
        KeyError: one of the methods is no question.
    """
    missing: dict[str, dict[str, object]] = {}
    for method, params in asked:
        kind = QUESTIONS[method]
        mode = _mode(method, params)
        declared = kind in capabilities.questions
        if not declared or (mode is not None and not declares(capabilities, kind, {mode: {}})):
            missing.setdefault(kind, {}).update({} if mode is None else {mode: {}})
    return missing


def _mode(method: str, params: bytes | None) -> str | None:
    """The variant of a question that has to be declared by itself."""
    if wants_address(method, params):
        return "url"
    found = {} if params is None or params[:1] != b"{" else members.members(params)
    return "tools" if QUESTIONS[method] == "sampling" and "tools" in found else None


def declares(capabilities: ClientCapabilities, kind: str, within: object) -> bool:
    """Whether a client has declared a capability, and all that is asked for within it."""
    declared = msgspec.json.decode(capabilities.raw, type=dict[str, object]).get(kind)
    if not isinstance(declared, dict):
        return False
    wanted = within if isinstance(within, dict) else {}
    return all(isinstance(declared.get(name), dict) for name in wanted)


def gateway_capabilities(
    revision: Revision, extensions: Mapping[str, bytes] | None = None
) -> dict[str, object]:
    """What the gateway declares: everything it can serve, whichever servers are up.

    A legacy session can never learn of a capability later, so the declaration does not depend
    on the moment; a list of a kind that no server has is simply empty. Only `extensions` are
    those that some server is known to offer, with their settings.
    """
    declared: dict[str, object] = {
        "logging": {},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "tools": {"listChanged": True},
    }
    if revision.completions_capability:
        declared["completions"] = {}
    if revision.tasks and TASKS in (extensions or {}):
        declared["tasks"] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    shown = {
        id: msgspec.Raw(settings)
        for id, settings in (extensions or {}).items()
        if revision.era in EXTENSIONS[id].eras
    }
    if shown:
        declared["extensions"] = shown
    return declared

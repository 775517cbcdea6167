"""The methods of MCP, one row each: who may send them, in which revisions, and how they travel.

The gateway asks this table and nothing else: a method that is not here does not exist.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from anyport.protocol.extension import SKILLS, TASKS
from anyport.protocol.revision import REVISIONS, Era, Revision


class Travel(Enum):
    """How a client's request reaches its answer."""

    __hash__ = object.__hash__  # By identity, which is what it is; looked up in every call.

    LOCAL = "local"
    """The gateway answers by itself."""
    MERGE = "merge"
    """The gateway answers from what every server offers."""
    BY_NAME = "by-name"
    """One server answers: the one that owns `params.name`."""
    BY_URI = "by-uri"
    """One server answers: the one that owns `params.uri`."""
    BY_REFERENCE = "by-reference"
    """One server answers: the one that owns the prompt or resource in `params.ref`."""


class Kind(Enum):
    """The kinds of offer; the value is the member that lists them."""

    __hash__ = object.__hash__  # By identity, which is what it is; looked up in every call.

    TOOLS = "tools"
    RESOURCES = "resources"
    TEMPLATES = "resourceTemplates"
    PROMPTS = "prompts"
    SKILLS = "skills"


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One request a client may send."""

    name: str
    travel: Travel
    eras: frozenset[Era]
    kind: Kind | None = None
    """What it lists, calls, gets or reads."""
    event: str | None = None
    """The event type that the record keeps of it; None for what is not a call."""
    may_need_input: bool = False
    """Whether its answer may be `input_required`."""
    extension: str | None = None
    """The extension without which nobody has it."""
    setting: str | None = None
    """What a server must have set in that extension besides, to be asked."""


_BOTH: Final = frozenset({Era.LEGACY, Era.MODERN})
_LEGACY: Final = frozenset({Era.LEGACY})
_MODERN: Final = frozenset({Era.MODERN})

_ROWS: Final = (
    Method(name="initialize", travel=Travel.LOCAL, eras=_LEGACY),
    Method(name="ping", travel=Travel.LOCAL, eras=_LEGACY),
    Method(name="server/discover", travel=Travel.LOCAL, eras=_MODERN),
    Method(name="subscriptions/listen", travel=Travel.LOCAL, eras=_MODERN),
    Method(name="logging/setLevel", travel=Travel.LOCAL, eras=_LEGACY),
    Method(name="tools/list", travel=Travel.MERGE, eras=_BOTH, kind=Kind.TOOLS),
    Method(name="resources/list", travel=Travel.MERGE, eras=_BOTH, kind=Kind.RESOURCES),
    Method(name="resources/templates/list", travel=Travel.MERGE, eras=_BOTH, kind=Kind.TEMPLATES),
    Method(name="prompts/list", travel=Travel.MERGE, eras=_BOTH, kind=Kind.PROMPTS),
    Method(
        name="tools/call",
        travel=Travel.BY_NAME,
        eras=_BOTH,
        kind=Kind.TOOLS,
        event="gateway.tool_call",
        may_need_input=True,
    ),
    Method(
        name="prompts/get",
        travel=Travel.BY_NAME,
        eras=_BOTH,
        kind=Kind.PROMPTS,
        event="gateway.prompt_get",
        may_need_input=True,
    ),
    Method(
        name="resources/read",
        travel=Travel.BY_URI,
        eras=_BOTH,
        kind=Kind.RESOURCES,
        event="gateway.resource_read",
        may_need_input=True,
    ),
    Method(name="resources/subscribe", travel=Travel.BY_URI, eras=_LEGACY, kind=Kind.RESOURCES),
    Method(name="resources/unsubscribe", travel=Travel.BY_URI, eras=_LEGACY, kind=Kind.RESOURCES),
    Method(name="completion/complete", travel=Travel.BY_REFERENCE, eras=_BOTH),
    Method(name="skills/list", travel=Travel.MERGE, eras=_BOTH, kind=Kind.SKILLS, extension=SKILLS),
    Method(name="skills/get", travel=Travel.BY_URI, eras=_BOTH, kind=Kind.SKILLS, extension=SKILLS),
    Method(
        name="resources/directory/read",
        travel=Travel.BY_URI,
        eras=_BOTH,
        kind=Kind.SKILLS,
        extension=SKILLS,
        setting="directoryRead",
    ),
    Method(name="tasks/get", travel=Travel.LOCAL, eras=_BOTH, extension=TASKS),
    Method(name="tasks/cancel", travel=Travel.LOCAL, eras=_BOTH, extension=TASKS),
    Method(name="tasks/update", travel=Travel.LOCAL, eras=_MODERN, extension=TASKS),
    Method(name="tasks/result", travel=Travel.LOCAL, eras=_LEGACY, extension=TASKS),
    Method(name="tasks/list", travel=Travel.LOCAL, eras=_LEGACY, extension=TASKS),
)

METHODS: Final[Mapping[str, Method]] = MappingProxyType({row.name: row for row in _ROWS})

LISTS: Final[Mapping[Kind, str]] = MappingProxyType(
    {row.kind: row.name for row in _ROWS if row.travel is Travel.MERGE and row.kind is not None}
)
"""The method that lists each kind of offer."""

CHANGES: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        Kind.TOOLS: "notifications/tools/list_changed",
        Kind.RESOURCES: "notifications/resources/list_changed",
        # The protocol has no word of its own for templates: the resources' one covers both.
        Kind.TEMPLATES: "notifications/resources/list_changed",
        Kind.PROMPTS: "notifications/prompts/list_changed",
        # Nor for skills, whose files are resources.
        Kind.SKILLS: "notifications/resources/list_changed",
    }
)
"""The notification that tells of a change in each kind of offer."""

LISTEN_FLAGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        CHANGES[Kind.TOOLS]: "toolsListChanged",
        CHANGES[Kind.PROMPTS]: "promptsListChanged",
        CHANGES[Kind.RESOURCES]: "resourcesListChanged",
    }
)
"""How `subscriptions/listen` asks for each of them."""

QUESTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "sampling/createMessage": "sampling",
        "elicitation/create": "elicitation",
        "roots/list": "roots",
    }
)
"""What a server may ask of a client, and the capability the client must have declared."""

INITIALIZED: Final = frozenset({"notifications/initialized", "initialized"})
"""The second spelling is not MCP's, but clients in the wild use it."""


def find_method(name: str, revision: Revision) -> Method | None:
    """The row of a method, if this revision has it."""
    return _OF_REVISION[revision.name].get(name)


def _has(revision: Revision, row: Method) -> bool:
    if row.extension == TASKS and revision.era is Era.LEGACY and not revision.tasks:
        return False
    return revision.era in row.eras


_OF_REVISION: Final = {
    revision.name: {row.name: row for row in _ROWS if _has(revision, row)}
    for revision in REVISIONS.values()
}

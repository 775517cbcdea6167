"""The methods of MCP, one row each: routing, eras, kind of offer, event type. A method without a
row does not exist."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from anyport.protocol.extensions import SKILLS, TASKS
from anyport.protocol.revisions import REVISIONS, Era, Revision


class RoutingRule(Enum):
    """How a client's request is routed."""

    __hash__ = object.__hash__  # By identity: looked up in every call.

    LOCAL = "local"
    """The gateway answers."""
    MERGE = "merge"
    """The gateway answers with the merged lists of all servers."""
    BY_NAME = "by-name"
    """The server that owns `params.name` answers."""
    BY_URI = "by-uri"
    """The server that owns `params.uri` answers."""
    BY_REFERENCE = "by-reference"
    """The server that owns the prompt or resource in `params.ref` answers."""
    TRANSPARENT = "as-it-is"
    """The only server of a transparent profile answers."""


class OfferKind(Enum):
    """The kinds of offer; the value is the member of the list result."""

    __hash__ = object.__hash__  # By identity: looked up in every call.

    TOOLS = "tools"
    RESOURCES = "resources"
    TEMPLATES = "resourceTemplates"
    PROMPTS = "prompts"
    SKILLS = "skills"


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A request that a client may send."""

    name: str
    routing: RoutingRule
    eras: frozenset[Era]
    kind: OfferKind | None = None
    """The kind of offer it lists, calls, gets or reads."""
    event: str | None = None
    """Event type in the record; None if it is not a call."""
    may_need_input: bool = False
    """Whether the answer may be `input_required`."""
    extension: str | None = None
    """The extension that adds it."""
    setting: str | None = None
    """The setting of that extension which a server must declare."""


_BOTH: Final = frozenset({Era.LEGACY, Era.MODERN})
_LEGACY: Final = frozenset({Era.LEGACY})
_MODERN: Final = frozenset({Era.MODERN})

_ROWS: Final = (
    Method(name="initialize", routing=RoutingRule.LOCAL, eras=_LEGACY),
    Method(name="ping", routing=RoutingRule.LOCAL, eras=_LEGACY),
    Method(name="server/discover", routing=RoutingRule.LOCAL, eras=_MODERN),
    Method(name="subscriptions/listen", routing=RoutingRule.LOCAL, eras=_MODERN),
    Method(name="logging/setLevel", routing=RoutingRule.LOCAL, eras=_LEGACY),
    Method(name="tools/list", routing=RoutingRule.MERGE, eras=_BOTH, kind=OfferKind.TOOLS),
    Method(name="resources/list", routing=RoutingRule.MERGE, eras=_BOTH, kind=OfferKind.RESOURCES),
    Method(
        name="resources/templates/list",
        routing=RoutingRule.MERGE,
        eras=_BOTH,
        kind=OfferKind.TEMPLATES,
    ),
    Method(name="prompts/list", routing=RoutingRule.MERGE, eras=_BOTH, kind=OfferKind.PROMPTS),
    Method(
        name="tools/call",
        routing=RoutingRule.BY_NAME,
        eras=_BOTH,
        kind=OfferKind.TOOLS,
        event="gateway.tool_call",
        may_need_input=True,
    ),
    Method(
        name="prompts/get",
        routing=RoutingRule.BY_NAME,
        eras=_BOTH,
        kind=OfferKind.PROMPTS,
        event="gateway.prompt_get",
        may_need_input=True,
    ),
    Method(
        name="resources/read",
        routing=RoutingRule.BY_URI,
        eras=_BOTH,
        kind=OfferKind.RESOURCES,
        event="gateway.resource_read",
        may_need_input=True,
    ),
    Method(
        name="resources/subscribe",
        routing=RoutingRule.BY_URI,
        eras=_LEGACY,
        kind=OfferKind.RESOURCES,
    ),
    Method(
        name="resources/unsubscribe",
        routing=RoutingRule.BY_URI,
        eras=_LEGACY,
        kind=OfferKind.RESOURCES,
    ),
    Method(name="completion/complete", routing=RoutingRule.BY_REFERENCE, eras=_BOTH),
    Method(
        name="skills/list",
        routing=RoutingRule.MERGE,
        eras=_BOTH,
        kind=OfferKind.SKILLS,
        extension=SKILLS,
    ),
    Method(
        name="skills/get",
        routing=RoutingRule.BY_URI,
        eras=_BOTH,
        kind=OfferKind.SKILLS,
        extension=SKILLS,
    ),
    Method(
        name="resources/directory/read",
        routing=RoutingRule.BY_URI,
        eras=_BOTH,
        kind=OfferKind.SKILLS,
        extension=SKILLS,
        setting="directoryRead",
    ),
    Method(name="tasks/get", routing=RoutingRule.LOCAL, eras=_BOTH, extension=TASKS),
    Method(name="tasks/cancel", routing=RoutingRule.LOCAL, eras=_BOTH, extension=TASKS),
    Method(name="tasks/update", routing=RoutingRule.LOCAL, eras=_MODERN, extension=TASKS),
    Method(name="tasks/result", routing=RoutingRule.LOCAL, eras=_LEGACY, extension=TASKS),
    Method(name="tasks/list", routing=RoutingRule.LOCAL, eras=_LEGACY, extension=TASKS),
)

METHODS: Final[Mapping[str, Method]] = MappingProxyType({row.name: row for row in _ROWS})

LIST_METHODS: Final[Mapping[OfferKind, str]] = MappingProxyType(
    {
        row.kind: row.name
        for row in _ROWS
        if row.routing is RoutingRule.MERGE and row.kind is not None
    }
)
"""The list method of each kind of offer."""

CHANGE_NOTIFICATIONS: Final[Mapping[OfferKind, str]] = MappingProxyType(
    {
        OfferKind.TOOLS: "notifications/tools/list_changed",
        OfferKind.RESOURCES: "notifications/resources/list_changed",
        # MCP has no notification for templates: the one for resources covers both.
        OfferKind.TEMPLATES: "notifications/resources/list_changed",
        OfferKind.PROMPTS: "notifications/prompts/list_changed",
        # Nor for skills, whose files are resources.
        OfferKind.SKILLS: "notifications/resources/list_changed",
    }
)
"""The notification about changes of each kind of offer."""

LISTEN_FLAGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        CHANGE_NOTIFICATIONS[OfferKind.TOOLS]: "toolsListChanged",
        CHANGE_NOTIFICATIONS[OfferKind.PROMPTS]: "promptsListChanged",
        CHANGE_NOTIFICATIONS[OfferKind.RESOURCES]: "resourcesListChanged",
    }
)
"""The flag of `subscriptions/listen` for each of them."""

QUESTION_CAPABILITIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "sampling/createMessage": "sampling",
        "elicitation/create": "elicitation",
        "roots/list": "roots",
    }
)
"""A server's requests to a client, and the capability each needs."""

IDEMPOTENT_METHODS: Final = frozenset(LIST_METHODS.values()) | {
    "initialize",
    "server/discover",
    "ping",
    "logging/setLevel",
    "subscriptions/listen",
    "prompts/get",
    "resources/read",
    "completion/complete",
    "skills/get",
    "resources/subscribe",
    "resources/unsubscribe",
    "resources/directory/read",
    "tasks/get",
    "tasks/result",
    "tasks/list",
    "tasks/cancel",
}
"""Methods that can be repeated: they change nothing, or the same thing again."""

INITIALIZED_NOTIFICATIONS: Final = frozenset({"notifications/initialized", "initialized"})
"""The second spelling is not MCP's, but clients use it."""

CANCELLED_NOTIFICATION: Final = "notifications/cancelled"
ROOTS_CHANGED: Final = "notifications/roots/list_changed"
HOP_NOTIFICATIONS: Final = INITIALIZED_NOTIFICATIONS | {CANCELLED_NOTIFICATION}
"""Notifications about the client's own connection or request ids."""
CLIENT_NOTIFICATIONS: Final = HOP_NOTIFICATIONS | {ROOTS_CHANGED, "notifications/progress"}
"""All notifications of clients in any revision, except those about tasks."""


def unknown_method(name: str) -> Method:
    """The row of a method that only a server knows."""
    return Method(name=name, routing=RoutingRule.TRANSPARENT, eras=_BOTH, may_need_input=True)


def find_method(name: str, revision: Revision) -> Method | None:
    """The row of a method, if this revision has it."""
    return _METHODS_BY_REVISION[revision.name].get(name)


def _has_method(revision: Revision, row: Method) -> bool:
    if row.extension == TASKS and revision.era is Era.LEGACY and not revision.tasks:
        return False
    return revision.era in row.eras


_METHODS_BY_REVISION: Final = {
    revision.name: {row.name: row for row in _ROWS if _has_method(revision, row)}
    for revision in REVISIONS.values()
}

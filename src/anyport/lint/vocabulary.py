"""Methods of MCP: which end may send them in which revision, and names that are mistaken for them.

The schemas have all methods except those of extensions.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from anyport.lint.model import CLIENT, SERVER
from anyport.lint.schemas import schema_of
from anyport.protocol.methods import METHODS, find_method
from anyport.protocol.revisions import REVISIONS, Era, Revision

_TASK_CHANGED: Final = "notifications/tasks"
"""Of the tasks extension; sent by servers in revisions without a handshake."""

MISNAMED_METHODS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "resources/get": "resources/read",
        "resources/fetch": "resources/read",
        "resources/updated": "notifications/resources/updated",
        "resources/list_changed": "notifications/resources/list_changed",
        "tool/progress": "notifications/progress",
        "tools/progress": "notifications/progress",
        "progress": "notifications/progress",
        "$/progress": "notifications/progress",
        "tools/get": "tools/list",
        "tools/execute": "tools/call",
        "tools/invoke": "tools/call",
        "tools/run": "tools/call",
        "prompts/execute": "prompts/get",
        "initialized": "notifications/initialized",
        "cancelled": "notifications/cancelled",
        "$/cancelRequest": "notifications/cancelled",
        "notifications/canceled": "notifications/cancelled",
        "notifications/log": "notifications/message",
        "sampling/create": "sampling/createMessage",
    }
)
"""Wrong names, from tutorials and other protocols, and the right ones."""


def senders(notification: str, revision: Revision) -> frozenset[str]:
    """The ends that may send a notification; empty if the revision does not have it."""
    if notification == _TASK_CHANGED and revision.era is Era.MODERN:
        return frozenset({SERVER})
    return frozenset(_senders(notification, "notification", revision))


def can_request(method: str, sender: str, revision: Revision) -> bool:
    """Whether this end may send this request in a revision."""
    if sender == CLIENT:
        return find_method(method, revision) is not None
    return sender in _senders(method, "request", revision)


def is_notification(method: str) -> bool:
    """Whether any revision has this notification."""
    return any(senders(method, revision) for revision in REVISIONS.values())


def is_known_method(method: str) -> bool:
    """Whether any revision has this method, from either end."""
    return method in METHODS or bool(revisions_with(method))


def revisions_with(method: str) -> list[str]:
    """The revisions that have this method."""
    return [
        name
        for name, revision in REVISIONS.items()
        if can_request(method, CLIENT, revision)
        or can_request(method, SERVER, revision)
        or senders(method, revision)
    ]


def _senders(method: str, kind: str, revision: Revision) -> Iterator[str]:
    messages = schema_of(revision.name).messages
    return (
        sender for (sender, each), known in messages.items() if each == kind and method in known
    )

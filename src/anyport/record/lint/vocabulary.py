"""The words of MCP that a recording is held to: who may say what, in which revision.

The requests of clients are in the gateway's own table of methods; here are the rest, and the
names that people take for words of MCP.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from anyport.protocol.method import METHODS, QUESTIONS, find_method
from anyport.protocol.revision import REVISIONS, Era, Revision

CLIENT: Final = "client"
SERVER: Final = "server"

_EITHER: Final = frozenset({CLIENT, SERVER})
_CLIENT: Final = frozenset({CLIENT})
_SERVER: Final = frozenset({SERVER})
_NOBODY: Final[frozenset[str]] = frozenset()

_ALL: Final = {
    # Method: who sends it in revisions with a handshake, and in those without.
    "notifications/initialized": (_CLIENT, _NOBODY),
    "notifications/roots/list_changed": (_CLIENT, _NOBODY),
    "notifications/cancelled": (_EITHER, _EITHER),
    "notifications/progress": (_EITHER, _SERVER),
    "notifications/message": (_SERVER, _SERVER),
    "notifications/tools/list_changed": (_SERVER, _SERVER),
    "notifications/prompts/list_changed": (_SERVER, _SERVER),
    "notifications/resources/list_changed": (_SERVER, _SERVER),
    "notifications/resources/updated": (_SERVER, _SERVER),
    "notifications/subscriptions/acknowledged": (_NOBODY, _SERVER),
    "notifications/tasks": (_NOBODY, _SERVER),
}
_URLS: Final = {"notifications/elicitation/complete": _SERVER}
"""Where an error may name addresses to be opened."""
_TASKS: Final = {"notifications/tasks/status": _EITHER}
"""Where a session may have tasks."""

NOTIFICATIONS: Final = frozenset((*_ALL, *_URLS, *_TASKS))

NOT_MCP: Final[Mapping[str, str]] = MappingProxyType(
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
"""Names from tutorials, from other protocols and from memory, and what MCP calls that."""


def senders(notification: str, revision: Revision) -> frozenset[str]:
    """Who may send a notification; nobody, if the revision does not have it."""
    if notification in _ALL:
        old, new = _ALL[notification]
        return old if revision.era is Era.LEGACY else new
    if notification in _URLS:
        return _URLS[notification] if revision.url_errors else _NOBODY
    if notification in _TASKS:
        return _TASKS[notification] if revision.tasks else _NOBODY
    return _NOBODY


def may_ask(method: str, sender: str, revision: Revision) -> bool:
    """Whether a revision has this request, from this end."""
    if sender == CLIENT:
        return find_method(method, revision) is not None
    if revision.era is Era.MODERN:
        return False
    if method == "elicitation/create":
        return revision.elicitation
    return method in QUESTIONS or method == "ping" or (revision.tasks and method in _TASK_METHODS)


_TASK_METHODS: Final = frozenset({"tasks/get", "tasks/result", "tasks/list", "tasks/cancel"})


def is_known(method: str) -> bool:
    """Whether any revision has a word like this, from either end."""
    return method in METHODS or method in QUESTIONS or method in NOTIFICATIONS


def revisions_with(method: str) -> list[str]:
    """The revisions that have a word."""
    return [
        name
        for name, revision in REVISIONS.items()
        if may_ask(method, CLIENT, revision)
        or may_ask(method, SERVER, revision)
        or senders(method, revision)
    ]

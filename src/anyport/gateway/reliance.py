"""Whether clients rely on a connection to a server, though nothing is being asked over it.

A server may be stopped when nobody uses it. It is in use also while a person is asked on behalf of
a call, while somebody follows one of its resources, and while it works on a task. A list is not
followed in this sense: what a server that does not run would tell of it comes when it runs again.
"""

from typing import Protocol

from anyport.gateway.errand import Errand
from anyport.gateway.feed import Feed, owner_of_line
from anyport.gateway.questions import Questions
from anyport.gateway.relay import Relay
from anyport.protocol.revision import Era
from anyport.upstream.connection import Connection
from anyport.upstream.key import LeaseKey
from anyport.upstream.server import Server


class Inside(Protocol):
    """What of the gateway knows of clients."""

    relay: Relay
    feed: Feed
    questions: Questions


def is_relied_on(inside: Inside, server: Server, key: LeaseKey, line: Connection | None) -> bool:
    """Whether stopping the server at the other end would cost a client something."""
    return (
        _has_exchange(inside.relay, server, key)
        or _has_task(inside.relay, server, key, line)
        or (line is not None and inside.questions.waits(line))
        or bool(inside.feed.uris_of(server, key))
    )


def _has_exchange(relay: Relay, server: Server, key: LeaseKey) -> bool:
    return any(
        isinstance(term, Errand)
        and term.server is server
        and owner_of_line(server, term.exchange) == key.owner
        for term in relay.deadlines.terms.values()
    )


def _has_task(relay: Relay, server: Server, key: LeaseKey, line: Connection | None) -> bool:
    """A session's task is known over its own connection, and a modern one over the first."""
    now, first = relay.tasks.means.now(), key == next(iter(server.tenders), None)
    return any(
        handle.server is server
        and not handle.task.over
        and now < handle.expires
        and (first if handle.era is Era.MODERN else line is not None and handle.connection is line)
        for handle in relay.tasks.handles
    )

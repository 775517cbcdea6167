"""Forwarding of client notifications to servers.

`notifications/roots/list_changed` goes to every server that a session has to itself. Anything else
only makes sense to the one server of a transparent profile, or of one that passes extensions.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from anyport.gateway.profile import Profile
from anyport.protocol import meta
from anyport.protocol.capabilities import NO_CAPABILITIES, ClientCapabilities, client_capabilities
from anyport.protocol.exchange import Caller
from anyport.protocol.meta import PROGRESS
from anyport.protocol.methods import CLIENT_NOTIFICATIONS, ROOTS_CHANGED
from anyport.protocol.revisions import Era
from anyport.upstream.connection import Connection
from anyport.upstream.server import Server
from anyport.upstream.supervisor import NotReady
from anyport.wire import raw_json
from anyport.wire.jsonrpc import Notification

_PREFIX: Final = meta.PREFIX.encode()

ReachConnection = Callable[[Server, Caller, Callable[[Connection], None]], None]
"""Calls back with the connection that serves a caller without one of its own, if it is open."""


def forward_notification(
    profile: Profile, caller: Caller, notification: Notification, reach: ReachConnection
) -> None:
    """Forward a client's notification to the servers that it is for."""
    method, session = notification.method, caller.session
    if method == PROGRESS and not profile.config.transparent:
        return
    passes = profile.passes_unknown(_capabilities(caller, notification))
    if method != ROOTS_CHANGED and not profile.transparent and not passes:
        return
    for server in profile.servers.values():
        if session is not None and server.has_own_connection(session.id):
            for key, connection in server.connections():
                if key.owner == session.id:
                    connection.notify(method, notification.params)
        elif passes:
            reach(server, caller, partial(_send_adapted, caller=caller, notification=notification))


def reach_shared_connection(
    server: Server, caller: Caller, send: Callable[[Connection], None]
) -> None:
    """Use the shared connection if it is open: a notification does not start a server."""
    session = "" if caller.session is None else caller.session.id
    key = server.key_of(session, caller.principal)
    for other, connection in server.connections():
        if other == key:
            send(connection)


def reach_sole_client(server: Server, caller: Caller, send: Callable[[Connection], None]) -> None:
    """For a sole client, wait for a server that is starting, so that messages keep their order."""

    def on_lease(connection_or_reason: Connection | NotReady) -> None:
        if isinstance(connection_or_reason, Connection):
            send(connection_or_reason)

    server.lease(server.key_for(caller.principal), on_lease)


def _send_adapted(connection: Connection, caller: Caller, notification: Notification) -> None:
    """Send a notification over a shared connection, or one of another era."""
    method, params, peer = notification.method, notification.params, connection.peer
    if peer is None:
        return
    modern = peer.revision.era is Era.MODERN
    # Notifications of the specification are about a session, which a server on a shared connection
    # does not know, and mean something else in the other era.
    if method in CLIENT_NOTIFICATIONS and not (modern and caller.session is None):
        return
    if not modern and params is not None and params[:1] == b"{" and _PREFIX in params:
        try:
            params = meta.edit_meta(params, dict.fromkeys(meta.REQUEST_KEYS))
        except (msgspec.DecodeError, raw_json.AmbiguousObject):
            return
    connection.notify(method, params)


def _capabilities(caller: Caller, notification: Notification) -> ClientCapabilities:
    """What the client declares, in its session or in `_meta` of this message."""
    params = notification.params
    if caller.session is not None or params is None or _PREFIX not in params:
        return caller.capabilities
    try:
        raw_meta = raw_json.members(params).get("_meta", msgspec.Raw(b"{}"))
        declared = raw_json.members(raw_meta).get(meta.CLIENT_CAPABILITIES)
    except (msgspec.DecodeError, raw_json.AmbiguousObject):
        return NO_CAPABILITIES
    return client_capabilities(None if declared is None else bytes(declared)) or NO_CAPABILITIES

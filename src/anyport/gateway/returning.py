"""A client that goes on with its session after a restart: it gets what it had wished for before.

The session itself is there already. What it needs of the servers, and what its client may have
missed, is seen to here.
"""

from functools import partial

from anyport.gateway.profile import is_awaited
from anyport.gateway.runtime import Gateway
from anyport.protocol.exchange import Session
from anyport.protocol.method import CHANGES, Kind


def welcome_back(gateway: Gateway, session: Session) -> None:
    """Have the servers know what a session wishes, and its client that lists may have changed."""
    for kind in Kind:
        gateway.feed.shown(session, kind)  # Nobody knows which lists it has seen.
    for method in dict.fromkeys(CHANGES.values()):
        session.notify(method, None)
    for server in gateway.profiles[session.profile].servers.values():
        if session.log_level is not None:
            gateway.desk.pass_level(server)
        if not session.subscriptions:
            continue
        follow = partial(gateway.interest.sync, (server,))
        if is_awaited(server):
            # Before it has told what it has, a resource is nobody's.
            gateway.desk.wait_for_server(server, 0.0, follow)
        else:
            follow()

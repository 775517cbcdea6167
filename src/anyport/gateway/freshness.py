"""How old the lists of a profile are, and which of them must be read again before they are shown.

Decided over what the servers know; nothing is read or answered here.
"""

from anyport.gateway.profile import Profile
from anyport.protocol.freshness import STALE, Freshness, least
from anyport.protocol.method import Kind
from anyport.upstream.listing import has_list
from anyport.upstream.server import Server


def of_list(profile: Profile, kind: Kind) -> Freshness:
    """What may be said of a merged list: only what may be said of each of its parts.

    Our own tools never change, and so have no say.
    """
    parts = [of_part(server, kind) for server in profile.servers.values()]
    return least(part for part in parts if part is not None)


def of_part(server: Server, kind: Kind) -> Freshness | None:
    """What a server lets us say of one of its lists; None if it has none, nor will have.

    Nobody can say how long a legacy server's list will stay as it is, and a client that does not
    listen would not hear of a change. So it gets no time; to ask us again costs next to nothing.
    """
    peer = server.peer
    if peer is None:
        if server.obstacle is not None and kind not in server.listings:
            return None
        # It is down: this is what it offered last, and it may come back at any moment.
        return server.lists.freshness(kind, told=False).after(float("inf"))
    if not has_list(peer, kind):
        return None
    if not server.modern:
        return STALE
    return server.lists.freshness(kind, told=server.hears(kind))


def renewing(profile: Profile, kind: Kind) -> list[Server]:
    """Have those lists read again that are too old to be shown; the servers to wait for.

    Only a modern server says how old its lists may get; a legacy one tells of changes, save of
    its skills.
    """
    return [
        server
        for server in profile.servers.values()
        if _has_age(server, kind) and server.lists.renew(kind, told=server.hears(kind))
    ]


def _has_age(server: Server, kind: Kind) -> bool:
    peer = server.peer
    if peer is None or not has_list(peer, kind):
        return False
    if not server.modern and kind is not Kind.SKILLS:
        return False
    return server.listed and not server.late

"""Freshness of lists: which have to be read again, and which cache hints clients get."""

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

from anyport.catalog.offers import Listing
from anyport.catalog.route import Unroutable
from anyport.gateway.profile import Profile
from anyport.protocol.cache_hints import STALE, Freshness, least_fresh
from anyport.protocol.exchange import Caller
from anyport.protocol.methods import OfferKind
from anyport.upstream.connection_lists import ConnectionLists
from anyport.upstream.lists import has_list, lacks_list
from anyport.upstream.server import Server

UNKNOWN_NAME_ERROR_BYTES_MAX: Final = 1024
"""Longest error that is searched for words like "unknown tool"; longer ones say more."""

_UNKNOWN_NAME: Final = re.compile(
    # `Unknown tool: x`, `Tool x not found`, `Prompt x does not exist`, and so on.
    rb"(?i)(?:unknown|no such|invalid) (?:tool|prompt|resource)"
    rb"|(?:tool|prompt|resource)\b[^{}]{0,200}?(?:not found|unknown|not exist|not registered)"
)


ListSource: TypeAlias = Server | ConnectionLists
"""Where a caller's lists come from: a server, or its own connection to that server."""


def list_source(server: Server, caller: Caller | None) -> ListSource:
    """The lists that a caller is shown: those of its own connection, or the common ones."""
    if caller is None:
        return server
    session = "" if caller.session is None else caller.session.id
    return server.source_for(session, caller.principal, askable=caller.askable)


def list_freshness(profile: Profile, kind: OfferKind, caller: Caller | None = None) -> Freshness:
    """The cache hints of a merged list: those of its least fresh part.

    The gateway's own tools never change, so they do not count.
    """
    parts = [
        source_freshness(list_source(server, caller), kind) for server in profile.servers.values()
    ]
    return least_fresh(part for part in parts if part is not None)


def source_freshness(source: ListSource, kind: OfferKind) -> Freshness | None:
    """The cache hints of one server's list; None if it has no such list and never will.

    A legacy server does not say how long its list stays valid, and a client that does not listen
    would miss a change. So its list gets no TTL: asking the gateway again costs next to nothing.
    """
    peer = source.peer
    if peer is None:
        if source.disabled_reason is not None and kind not in source.listings:
            return None
        # It is down. These are its last known offers, and it may come back at any moment.
        return source.lists.freshness(kind).remaining_after(float("inf"))
    if not has_list(peer, kind) and not source.listings.get(kind, Listing()).offers:
        return None
    if not source.modern:
        return STALE
    return source.lists.freshness(kind)


def refresh_stale_lists(
    profile: Profile, kind: OfferKind, caller: Caller | None = None, *, newcomer: bool = False
) -> list[ListSource]:
    """Start reading lists that may be stale; returns those that are worth waiting for.

    `newcomer` says that the session has not seen this list yet.
    """
    # A list is as fresh as its server promises: by its TTL, or by its notifications. One without
    # either is read again once it is a few seconds old; see `ListTrust`.
    return [
        source
        for source in (list_source(server, caller) for server in profile.servers.values())
        if (
            _is_readable(source, (kind,))
            and source.lists.refresh(kind, source.trust(kind, newcomer=newcomer))
        )
        or (_may_have_templates(source, kind) and source.lists.read_undeclared())
    ]


def _may_have_templates(source: ListSource, kind: OfferKind) -> bool:
    """Whether it may have templates that it does not declare: see `ServerLists.read_undeclared`."""
    if kind is not OfferKind.TEMPLATES or not lacks_list(source.peer, kind):
        return False
    return source.lists_ready and not source.lists_overdue


def refresh_for_lookup(
    profile: Profile, sought: Unroutable, caller: Caller | None = None
) -> list[tuple[ListSource, int]]:
    """Start reading the lists in which a missing name may have appeared.

    Returns each source with the number of its lookup: see `ServerLists.look_up`.
    """
    owners = profile.possible_owners(sought.public, sought.kinds)
    return [
        (source, number)
        for source in (list_source(server, caller) for server in owners)
        if _is_readable(source, sought.kinds)
        and (number := source.lists.look_up(sought.kinds)) is not None
    ]


def recheck_lists_on_error(
    server: Server, kind: OfferKind | None, error: bytes, caller: Caller | None = None
) -> None:
    """Read a server's lists again if its error says that it does not know a name it has listed."""
    if not server.reads_lists:
        return
    if (
        kind is not None
        and len(error) <= UNKNOWN_NAME_ERROR_BYTES_MAX
        and _UNKNOWN_NAME.search(error)
    ):
        kinds = (kind, OfferKind.TEMPLATES) if kind is OfferKind.RESOURCES else (kind,)
        source = list_source(server, caller)
        if _is_readable(source, kinds):
            source.lists.look_up(kinds)


def _is_readable(source: ListSource, kinds: Iterable[OfferKind]) -> bool:
    """Whether one of these lists can be read now, and is worth waiting for."""
    peer = source.peer
    if peer is None or not source.lists_ready or source.lists_overdue:
        return False
    return any(has_list(peer, kind) for kind in kinds)

"""What the API tells, read from the running gateway. Knows nothing of HTTP."""

from collections.abc import Coroutine, Mapping
from typing import Any, Final, Protocol

import msgspec
from msgspec import UNSET

from anyport import __version__
from anyport.gateway.api.answers import (
    Backend,
    GatewayAnswer,
    ListShift,
    Monitoring,
    Offer,
    OfferCounts,
    ProfileAnswer,
    ProfileDetail,
    Reloaded,
    Resource,
    ServerAnswer,
    StatusAnswer,
    Traffic,
)
from anyport.gateway.changes import Changes
from anyport.gateway.events import Events
from anyport.gateway.feed import Feed
from anyport.gateway.hooks import Hooks
from anyport.gateway.metrics import Metrics
from anyport.gateway.profile import Profile
from anyport.gateway.relay import Relay
from anyport.gateway.reload import Reload
from anyport.gateway.shifts import Shift
from anyport.gateway.status import backend_status, event_monitoring
from anyport.gateway.telemetry import Telemetry
from anyport.protocol.method import Kind
from anyport.record.journal import Journal
from anyport.routing.catalog import Catalog, Entry
from anyport.routing.offers import Listing
from anyport.upstream.server import Server

NAME: Final = "anyport"


class Gateway(Protocol):
    """What of the running gateway is looked at."""

    draining: bool
    """Whether it only finishes what it has begun."""
    journal: Journal
    events: Events
    metrics: Metrics
    relay: Relay
    feed: Feed
    hooks: Hooks
    telemetry: Telemetry

    @property
    def servers(self) -> Mapping[str, Server]: ...

    @property
    def profiles(self) -> Mapping[str, Profile]: ...

    @property
    def reload(self) -> Reload: ...

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run a task that someone waits for."""


def server_view(gateway: Gateway, server: Server) -> ServerAnswer:
    """One server."""
    config = server.config
    return ServerAnswer(
        slug=server.slug,
        name=config.name,
        profiles=tuple(
            slug for slug, profile in gateway.profiles.items() if server.slug in profile.servers
        ),
        protocol=config.protocol,
        scope=config.scope,
        timeout_s=config.timeout_seconds,
        connections=len(server.connections()),
        offers=OfferCounts(
            tools=_listed(server, Kind.TOOLS),
            resources=_listed(server, Kind.RESOURCES),
            resource_templates=_listed(server, Kind.TEMPLATES),
            prompts=_listed(server, Kind.PROMPTS),
        ),
        status=_backend(server, _listed(server, Kind.TOOLS)),
    )


def profile_view(profile: Profile) -> ProfileAnswer:
    """One profile."""
    config = profile.config
    return ProfileAnswer(
        slug=profile.slug,
        path=f"/mcp/{profile.slug}",
        servers=config.servers,
        prefix=config.prefix,
        separator=config.separator,
        errors=config.errors,
        gateway_tools=config.gateway_tools,
        offers=_counts(profile.catalog),
    )


def profile_detail(profile: Profile) -> ProfileDetail:
    """One profile with all that it offers."""
    catalog = profile.catalog
    tools = tuple(_offer(entry) for entry in catalog.entries(Kind.TOOLS))
    visible = {slug: sum(tool.server == slug for tool in tools) for slug in profile.servers}
    return ProfileDetail(
        profile=profile_view(profile),
        servers={slug: _backend(server, visible[slug]) for slug, server in profile.servers.items()},
        tools=tools,
        resources=tuple(_resource(entry) for entry in catalog.entries(Kind.RESOURCES)),
        resource_templates=tuple(_resource(entry) for entry in catalog.entries(Kind.TEMPLATES)),
        prompts=tuple(_offer(entry) for entry in catalog.entries(Kind.PROMPTS)),
    )


def status_view(gateway: Gateway) -> StatusAnswer:
    """Everything at a glance."""
    return StatusAnswer(
        gateway=GatewayAnswer(
            name=NAME,
            version=__version__,
            uptime_s=round(gateway.metrics.uptime_seconds, 3),
            draining=gateway.draining,
            event_monitoring=msgspec.convert(
                event_monitoring(gateway.journal, gateway.hooks, gateway.telemetry), Monitoring
            ),
        ),
        traffic=Traffic(
            sessions=len(gateway.feed.sessions),
            open_exchanges=len(gateway.relay.deadlines),
            streams=gateway.metrics.streams(),
        ),
        servers={
            slug: _backend(server, _listed(server, Kind.TOOLS))
            for slug, server in gateway.servers.items()
        },
        profiles={slug: _counts(profile.catalog) for slug, profile in gateway.profiles.items()},
    )


class _Item(msgspec.Struct, frozen=True):
    """What of a raw offer is shown."""

    name: str | None = None
    title: str | None = None
    description: str | None = None
    mimeType: str | None = None


_EMPTY: Final = Listing()
_UNREADABLE: Final = _Item()
_read: Final = msgspec.json.Decoder(_Item).decode


def _item(entry: Entry) -> _Item:
    try:
        return _read(entry.raw)
    except msgspec.DecodeError:  # Clients get it as it is; here its name must do.
        return _UNREADABLE


def _offer(entry: Entry) -> Offer:
    item = _item(entry)
    return Offer(
        name=entry.public,
        server=entry.slug or None,
        native_name=entry.native,
        title=item.title,
        description=item.description,
    )


def _resource(entry: Entry) -> Resource:
    item = _item(entry)
    return Resource(
        uri=entry.public,
        server=entry.slug,
        native_uri=entry.native,
        name=item.name,
        title=item.title,
        description=item.description,
        mime_type=item.mimeType,
    )


def _backend(server: Server, tool_count: int) -> Backend:
    return msgspec.convert(backend_status(server, tool_count), Backend)


def _listed(server: Server, kind: Kind) -> int:
    return len(server.listings.get(kind, _EMPTY).offers)


def _counts(catalog: Catalog) -> OfferCounts:
    return OfferCounts(
        tools=len(catalog.entries(Kind.TOOLS)),
        resources=len(catalog.entries(Kind.RESOURCES)),
        resource_templates=len(catalog.entries(Kind.TEMPLATES)),
        prompts=len(catalog.entries(Kind.PROMPTS)),
    )


def reload_view(found: Changes, lists: tuple[Shift, ...] | None = None) -> Reloaded:
    """What a changed configuration has changed, or would."""
    return Reloaded(
        added=found.added,
        removed=found.removed,
        changed=found.changed,
        profiles=found.profiles,
        settings=found.sections,
        at_start=found.at_start,
        lists=UNSET if lists is None else tuple(map(_shift, lists)),
    )


def _shift(shift: Shift) -> ListShift:
    return ListShift(
        profile=shift.profile,
        kind=shift.kind.value,
        added=shift.added,
        removed=shift.removed,
        renamed=shift.renamed,
        changed=shift.changed,
    )

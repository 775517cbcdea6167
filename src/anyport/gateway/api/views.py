"""Views: the state of the running gateway in the schemas of the API."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET

from anyport import __version__
from anyport.catalog.catalog import Catalog, CatalogEntry
from anyport.catalog.diff import CatalogDiff
from anyport.catalog.offers import Listing
from anyport.gateway.api.schemas import (
    Backend,
    DetailsAnswer,
    GatewayAnswer,
    ListShift,
    Monitoring,
    OfferAnswer,
    OfferCounts,
    ProfileAnswer,
    ProfileDetail,
    ReloadAnswer,
    Resource,
    ServerAnswer,
    StatusAnswer,
    Traffic,
)
from anyport.gateway.config_diff import ConfigDiff
from anyport.gateway.gateway import Gateway
from anyport.gateway.local.event_queries import BadQuery, EventQueries
from anyport.gateway.profile import Profile
from anyport.gateway.status import backend_status, event_monitoring
from anyport.protocol.methods import OfferKind
from anyport.record.filter.ast import Filter
from anyport.record.filter.parser import BadFilter, parse_filter
from anyport.record.index.traffic import find_by_id
from anyport.record.journal.payloads import PayloadReader
from anyport.record.redact.escape import escape_line
from anyport.record.traffic import Detail, build_detail, decode_row
from anyport.upstream.server import Server

if TYPE_CHECKING:
    from anyport.record.index.index import Index


NAME: Final = "anyport"


def server_view(gateway: Gateway, server: Server) -> ServerAnswer:
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
            tools=_count_listed(server, OfferKind.TOOLS),
            resources=_count_listed(server, OfferKind.RESOURCES),
            resource_templates=_count_listed(server, OfferKind.TEMPLATES),
            prompts=_count_listed(server, OfferKind.PROMPTS),
        ),
        status=_backend(server, _count_listed(server, OfferKind.TOOLS)),
    )


def profile_view(profile: Profile) -> ProfileAnswer:
    config = profile.config
    return ProfileAnswer(
        slug=profile.slug,
        path=f"/mcp/{profile.slug}",
        servers=config.servers,
        prefix=config.prefix,
        separator=config.separator,
        errors=config.errors,
        gateway_tools=config.gateway_tools,
        offers=_count_offers(profile.catalog),
    )


def profile_detail(profile: Profile) -> ProfileDetail:
    catalog = profile.catalog
    tools = tuple(_offer(entry) for entry in catalog.entries(OfferKind.TOOLS))
    visible = {slug: sum(tool.server == slug for tool in tools) for slug in profile.servers}
    return ProfileDetail(
        profile=profile_view(profile),
        servers={slug: _backend(server, visible[slug]) for slug, server in profile.servers.items()},
        tools=tools,
        resources=tuple(_resource(entry) for entry in catalog.entries(OfferKind.RESOURCES)),
        resource_templates=tuple(
            _resource(entry) for entry in catalog.entries(OfferKind.TEMPLATES)
        ),
        prompts=tuple(_offer(entry) for entry in catalog.entries(OfferKind.PROMPTS)),
    )


def status_view(gateway: Gateway) -> StatusAnswer:
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
            sessions=len(gateway.notifications.sessions),
            open_exchanges=len(gateway.relay.calls),
            streams=gateway.metrics.count_streams(),
        ),
        servers={
            slug: _backend(server, _count_listed(server, OfferKind.TOOLS))
            for slug, server in gateway.servers.items()
        },
        profiles={
            slug: _count_offers(profile.catalog) for slug, profile in gateway.profiles.items()
        },
    )


class _OfferInfo(msgspec.Struct, frozen=True):
    """The members of an offer that the API shows."""

    name: str | None = None
    title: str | None = None
    description: str | None = None
    mimeType: str | None = None


_EMPTY: Final = Listing()
_UNREADABLE_OFFER: Final = _OfferInfo()
_decode_offer: Final = msgspec.json.Decoder(_OfferInfo).decode


def _offer_info(entry: CatalogEntry) -> _OfferInfo:
    try:
        return _decode_offer(entry.raw)
    except msgspec.DecodeError:  # Clients get such an offer as it is; the API only shows its name.
        return _UNREADABLE_OFFER


def _offer(entry: CatalogEntry) -> OfferAnswer:
    info = _offer_info(entry)
    return OfferAnswer(
        name=entry.public,
        server=entry.slug or None,
        native_name=entry.native,
        title=info.title,
        description=info.description,
    )


def _resource(entry: CatalogEntry) -> Resource:
    info = _offer_info(entry)
    return Resource(
        uri=entry.public,
        server=entry.slug,
        native_uri=entry.native,
        name=info.name,
        title=info.title,
        description=info.description,
        mime_type=info.mimeType,
    )


def _backend(server: Server, tool_count: int) -> Backend:
    return msgspec.convert(backend_status(server, tool_count), Backend)


def _count_listed(server: Server, kind: OfferKind) -> int:
    return len(server.listings.get(kind, _EMPTY).offers)


def _count_offers(catalog: Catalog) -> OfferCounts:
    return OfferCounts(
        tools=len(catalog.entries(OfferKind.TOOLS)),
        resources=len(catalog.entries(OfferKind.RESOURCES)),
        resource_templates=len(catalog.entries(OfferKind.TEMPLATES)),
        prompts=len(catalog.entries(OfferKind.PROMPTS)),
    )


def reload_view(changes: ConfigDiff, lists: tuple[CatalogDiff, ...] | None = None) -> ReloadAnswer:
    """The outcome of a reload, or of its preview."""
    return ReloadAnswer(
        added=changes.added,
        removed=changes.removed,
        changed=changes.changed,
        profiles=changes.profiles,
        settings=changes.sections,
        at_start=changes.at_start,
        lists=UNSET if lists is None else tuple(map(_list_shift, lists)),
    )


def _list_shift(diff: CatalogDiff) -> ListShift:
    return ListShift(
        profile=diff.profile,
        kind=diff.kind.value,
        added=diff.added,
        removed=diff.removed,
        renamed=diff.renamed,
        changed=diff.changed,
    )


DETAILS_BYTES_MAX: Final = 4 * 1024 * 1024
"""Payload bytes in one answer. A trace may span a year: beyond this, only rows are returned."""


def encode_rows(lines: list[bytes]) -> list[bytes]:
    """Rows of traffic from events. May take some milliseconds: run it in a thread."""
    decoded = (decode_row(line) for line in lines)
    return [escape_line(msgspec.json.encode(row)) for row in decoded if row is not None]


async def encode_details(events: EventQueries, id_text: str) -> bytes:
    """Everything that is recorded under an id, as JSON.

    Raises:
        NoSuchId: no record has the id, or several have ids that begin with it.
        EventsBusy: another process has locked the index.
    """

    def answer(index: "Index") -> bytes:
        matches = find_by_id(index.query, id_text)
        bytes_left, details = DETAILS_BYTES_MAX, []
        with PayloadReader(events.state_dir) as payload_reader:
            for row, line in matches:
                detail = (
                    Detail(row=row) if bytes_left <= 0 else build_detail(row, line, payload_reader)
                )
                details.append(detail)
                bytes_left -= sum(len(bytes(frame.payload or b"")) for frame in detail.frames)
        return escape_line(msgspec.json.encode(DetailsAnswer(details=tuple(details))))

    return await events.run_query(answer)


def parse_follow_filter(parameters: Mapping[str, str]) -> Filter:
    """The filter of a request that follows the journal.

    Raises:
        BadQuery: a parameter cannot be used.
    """
    unknown = next((name for name in parameters if name != "filter"), None)
    if unknown is not None:
        raise BadQuery("There is nothing to follow by but filter")
    try:
        return parse_filter(parameters.get("filter", ""), time.time())
    except BadFilter as error:
        raise BadQuery(f"filter: {error}") from None

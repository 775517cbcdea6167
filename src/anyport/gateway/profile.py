"""Profiles: a named view of some servers, and the catalogs that its callers see."""

from collections.abc import Collection, Mapping
from typing import Final

from anyport.catalog.catalog import NAMED_KINDS, Catalog, CatalogEntry, ProfileView
from anyport.catalog.names import NameConflict, NameOwners, Naming
from anyport.catalog.uris import split_qualified
from anyport.config.model import ProfileConfig
from anyport.policy.tool_rules import ToolRules
from anyport.protocol.capabilities import SERVER_CAPABILITIES, ClientCapabilities
from anyport.protocol.exchange import Caller
from anyport.protocol.extensions import APPS, EXTENSIONS, merged_extensions
from anyport.protocol.methods import OfferKind
from anyport.protocol.principal import Principal
from anyport.protocol.revisions import Era, Revision
from anyport.upstream.connection_lists import ListDifference
from anyport.upstream.lists import CAPABILITY
from anyport.upstream.server import Server
from anyport.upstream.supervisor import ServerState

VARIANTS_MAX: Final = 128
"""Catalogs of one profile for callers whose connections have lists of their own; the least recently
used one is dropped, and built again when it is needed."""

ListDifferences = tuple[tuple[str, ListDifference], ...]
"""How a caller's lists differ from the common ones, by slug."""


class _ServersView(ProfileView):
    """Tools as the profile's rules allow them, extensions as its servers offer them."""

    def __init__(
        self,
        config: ProfileConfig,
        servers: Mapping[str, Server],
        local_tools: tuple[CatalogEntry, ...],
    ) -> None:
        naming = Naming(prefix=config.prefix, separator=config.separator)
        super().__init__(naming, config.servers, local_tools)
        self._rules = ToolRules(allow=config.allow, deny=config.deny)
        self._servers = servers

    def allows(self, slug: str, native: str) -> bool:
        return self._rules.decide(slug, native).allowed

    def extension_settings(self, slug: str, extension: str) -> bytes | None:
        return self._servers[slug].extensions.get(extension)


class Profile:
    """One named view of some servers. Catalogs are replaced as a whole, never changed."""

    def __init__(
        self,
        config: ProfileConfig,
        servers: Mapping[str, Server],
        local_tools: tuple[CatalogEntry, ...],
        before: "Profile | None" = None,
    ) -> None:
        """`before` is the profile under the old configuration: names keep their owners."""
        self.config = config
        self.slug = config.slug
        self.servers = {slug: servers[slug] for slug in config.servers}
        self._view = view = _ServersView(
            config, self.servers, local_tools if config.gateway_tools else ()
        )
        self._owners = {kind: NameOwners() for kind in NAMED_KINDS}
        if before is not None and before.config.prefix == config.prefix:
            self._owners = {
                kind: before._owners[kind].restricted_to(config.servers) for kind in NAMED_KINDS
            }
        self.catalog = Catalog(view, ())
        """The common catalog, for callers without lists of their own."""
        self._variants: dict[ListDifferences, Catalog] = {}
        """Catalogs of the other callers, the least recently used first."""
        self._varying_servers: tuple[Server, ...] = ()
        """Servers that list different things over different connections."""
        self.refresh()

    @property
    def transparent(self) -> bool:
        """Whether its one server keeps its own names."""
        return self._view.transparent

    def passes_results_unchanged(self, client: Revision, server: Revision) -> bool:
        """Whether results pass untouched: the profile is transparent, and both sides are legacy.

        The client judges results by the server's lists, which pass untouched, too.
        """
        return self.config.transparent and client.era is server.era is Era.LEGACY

    def passes_unknown(self, capabilities: ClientCapabilities) -> bool:
        """Whether methods that no revision has pass between such a client and the one server.

        They may belong to an extension that both declare and the gateway does not know.
        """
        if self.config.transparent or not capabilities.unknown or not self.config.passes_unknown:
            return self.config.transparent
        (server,) = self.servers.values()
        return not capabilities.unknown.isdisjoint(server.extensions)

    @property
    def extensions(self) -> Mapping[str, bytes]:
        """Extensions that its servers offer, or last offered, with the settings they agree on.

        While the lists of a server are pending, no settings are certain.
        """
        offered = merged_extensions(server.extensions for server in self.servers.values())
        if any(has_pending_lists(server) for server in self.servers.values()):
            offered = dict.fromkeys(offered, b"{}")
        if not self.config.passes_unknown:
            offered = {id: settings for id, settings in offered.items() if id in EXTENSIONS}
        if self.catalog.has_app_views:
            offered.setdefault(APPS, b"{}")
        return offered

    @property
    def offered_capabilities(self) -> frozenset[str]:
        """Capabilities that its servers offer, or last offered; all, if one is unknown."""
        capabilities = {CAPABILITY[kind] for kind in CAPABILITY if self.catalog.entries(kind)}
        for server in self.servers.values():
            if server.offered_capabilities is not None:
                capabilities |= server.offered_capabilities
            elif server.disabled_reason is None:
                return SERVER_CAPABILITIES
        return frozenset(capabilities)

    @property
    def has_variants(self) -> bool:
        """Whether some callers see another catalog than the common one."""
        return bool(self._varying_servers)

    def catalog_of(self, caller: Caller) -> Catalog:
        """The catalog that a caller sees."""
        if not self._varying_servers:
            return self.catalog
        session = "" if caller.session is None else caller.session.id
        return self.catalog_for(session, caller.principal, askable=caller.askable)

    def catalog_for(self, session: str, principal: Principal, *, askable: bool = False) -> Catalog:
        """The catalog of a session; without one, of callers who can be asked (`askable`) or not."""
        differences = (
            (server.slug, server.difference_for(session, principal, askable=askable))
            for server in self._varying_servers
        )
        own_differences = tuple((slug, own) for slug, own in differences if own is not None)
        if not own_differences:
            return self.catalog
        catalog = self._variants.pop(own_differences, None) or self._build_catalog(own_differences)
        self._variants[own_differences] = catalog
        if len(self._variants) > VARIANTS_MAX:
            del self._variants[next(iter(self._variants))]
        return catalog

    @property
    def settled(self) -> bool:
        """Whether all its lists are known, or no longer worth waiting for."""
        return all(server.lists_settled for server in self.servers.values())

    @property
    def outdated(self) -> bool:
        """Whether its catalog withholds names for a server that is no longer awaited."""
        return any(self.servers[slug].lists_settled for slug in self.catalog.awaited_servers)

    def take_conflicts(self) -> dict[OfferKind, list[NameConflict]]:
        """Names that servers could not get because others have them; each is returned once."""
        return {kind: self._owners[kind].take_conflicts() for kind in NAMED_KINDS}

    def down_owner(self, public: str) -> Server | None:
        """The server that a name's prefix points to, if it is down and has never listed."""
        for slug, server in self.servers.items():
            down = not server.listings and server.state is not ServerState.READY
            if down and public.startswith(self._view.naming.prefix_of(slug)):
                return server
        return None

    def possible_owners(self, public: str, kinds: Collection[OfferKind]) -> list[Server]:
        """The servers that may have an offer with this name or URI."""
        slugs, naming = self._view.slugs, self._view.naming
        if not set(kinds) <= set(NAMED_KINDS):
            qualified = split_qualified(public, slugs if len(slugs) > 1 else ())
            named = None if qualified is None else qualified[0]
        else:
            named = naming.prefixes(slugs).get(naming.prefix_in(public))
            if named is None and naming.prefix == "always":
                return []
        return list(self.servers.values()) if named is None else [self.servers[named]]

    def starting_owner(self, public: str) -> Server | None:
        """The server that a name's prefix points to, if its lists are pending."""
        for slug, server in self.servers.items():
            named = self.transparent or public.startswith(self._view.naming.prefix_of(slug))
            if named and has_pending_lists(server):
                return server
        return None

    def refresh(self) -> frozenset[OfferKind]:
        """Rebuild the catalog from what the servers offer; returns the kinds that changed."""
        before = self.catalog
        self.catalog = self._build_catalog(())
        self._variants.clear()
        self.refresh_variants()
        return changed_kinds(before, self.catalog)

    def refresh_variants(self) -> None:
        """Take over the lists of single connections."""
        servers = self.servers.items()
        differences = {slug: own for slug, server in servers if (own := server.differences)}
        self._varying_servers = tuple(self.servers[slug] for slug in differences)
        for known in list(self._variants):
            if any(difference not in differences.get(slug, ()) for slug, difference in known):
                del self._variants[known]

    def _build_catalog(self, differences: ListDifferences) -> Catalog:
        own = {slug: difference.listings for slug, difference in differences}
        offered = [
            (slug, {**server.listings, **own[slug]} if slug in own else server.listings)
            for slug, server in self.servers.items()
        ]
        unsettled = [slug for slug, server in self.servers.items() if not server.lists_settled]
        return Catalog(self._view, offered, self._owners, unsettled)


def changed_kinds(before: Catalog, after: Catalog) -> frozenset[OfferKind]:
    """The kinds whose lists differ between two catalogs."""
    return frozenset(kind for kind in OfferKind if before.entries(kind) != after.entries(kind))


def has_pending_lists(server: Server) -> bool:
    """Whether a server is about to list its offers for the first time."""
    is_running = server.disabled_reason is None and server.state in (
        ServerState.STARTING,
        ServerState.READY,
    )
    return is_running and not server.lists_ready and not server.listings

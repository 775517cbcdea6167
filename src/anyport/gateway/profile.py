"""A profile in operation: its configuration, and the catalog its callers see now."""

from collections.abc import Mapping

from anyport.config.schema import ProfileConfig
from anyport.policy.judge import ToolRules
from anyport.protocol.extension import APPS, merged_extensions
from anyport.protocol.method import Kind
from anyport.routing.catalog import Catalog, Entry, View
from anyport.routing.names import Naming
from anyport.upstream.server import Server
from anyport.upstream.tender import State


class Profile:
    """One named view of some servers. The catalog is replaced as a whole, never changed."""

    def __init__(
        self, config: ProfileConfig, servers: Mapping[str, Server], local_tools: tuple[Entry, ...]
    ) -> None:
        self.config = config
        self.slug = config.slug
        self.servers = {slug: servers[slug] for slug in config.servers}
        rules = ToolRules(allow=config.allow, deny=config.deny)
        view = View(
            naming=Naming(prefix=config.prefix, separator=config.separator),
            allows=lambda slug, native: rules.judge(slug, native).allowed,
            slugs=config.servers,
            local_tools=local_tools if config.gateway_tools else (),
            settings=lambda slug, extension: self.servers[slug].extensions.get(extension),
        )
        self._view = view
        self.catalog = Catalog(view, ())
        self.refresh()

    @property
    def transparent(self) -> bool:
        """One server under its own names."""
        return self._view.transparent

    @property
    def extensions(self) -> Mapping[str, bytes]:
        """What its servers offer, or last offered, with the settings that hold for all of them.

        For a server of which nothing is known yet, none do.
        """
        offered = merged_extensions(server.extensions for server in self.servers.values())
        if any(is_awaited(server) for server in self.servers.values()):
            offered = dict.fromkeys(offered, b"{}")
        if self.catalog.has_views:
            offered.setdefault(APPS, b"{}")
        return offered

    @property
    def settled(self) -> bool:
        """Whether waiting longer would not change its lists."""
        return all(server.settled for server in self.servers.values())

    def silent_owner(self, public: str) -> Server | None:
        """The server whose name this would be, if it is down and never told what it offers."""
        for slug, server in self.servers.items():
            down = not server.listings and server.state is not State.READY
            if down and public.startswith(self._view.naming.head(slug)):
                return server
        return None

    def awaited_owner(self, public: str) -> Server | None:
        """The server whose name this would be, if it is only about to tell what it offers."""
        for slug, server in self.servers.items():
            named = self.transparent or public.startswith(self._view.naming.head(slug))
            if named and is_awaited(server):
                return server
        return None

    def refresh(self) -> frozenset[Kind]:
        """Take over what the servers offer now; the kinds whose visible lists changed."""
        before = self.catalog
        offered = [(slug, server.listings) for slug, server in self.servers.items()]
        self.catalog = Catalog(self._view, offered)
        return frozenset(
            kind for kind in Kind if before.entries(kind) != self.catalog.entries(kind)
        )


def is_awaited(server: Server) -> bool:
    """Whether a server has not told yet what it offers, and is about to."""
    coming = server.obstacle is None and server.state in (State.STARTING, State.READY)
    return coming and not server.listed and not server.listings

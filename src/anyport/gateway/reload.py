"""Reload: replaces the configuration of a running gateway.

New servers are started beside the running ones. Then everything is swapped in one turn of the event
loop, so that a client sees either the old configuration or the new one. Calls in flight end with
the servers that they began with. A configuration that cannot be used changes nothing.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from anyport.catalog.diff import CatalogDiff, diff_catalogs
from anyport.config.faults import ConfigError
from anyport.config.model import Config
from anyport.gateway.config_diff import ConfigDiff, diff_configs
from anyport.gateway.local.gateway_tools import GATEWAY_TOOLS
from anyport.gateway.profile import Profile, changed_kinds
from anyport.observe.call_events import record_conflicts
from anyport.protocol.methods import OfferKind
from anyport.upstream.server import Server

if TYPE_CHECKING:
    from anyport.gateway.gateway import Gateway

PROVISION_SECONDS_MAX: Final = 5.0
"""How long a reload waits for the lists of new servers before clients get to see them."""
PROVISION_POLL_SECONDS: Final = 0.02
"""Interval of checking whether they are there."""
FAULTS_SHOWN_MAX: Final = 5
"""Faults of a file in one event; `anyport check` shows all of them."""


class ReloadRefused(Exception):
    """A configuration that must not be used; the text says why."""


class Reload:
    """Reads the configuration again and applies what has changed, one reload at a time."""

    def __init__(self, gateway: "Gateway") -> None:
        self.source: Callable[[Config], Config] | None = None
        """Reads the configuration, given the current one; raises `ConfigError` or
        `ReloadRefused`."""
        self.listeners: list[Callable[[Config], None]] = []
        """Called with a new configuration in the turn of the loop in which it takes effect."""
        self.on_outcome: Callable[[ConfigDiff | ReloadRefused], None] = lambda _: None
        """Called with the outcome of every reload, whatever triggered it."""
        self._last_refusal: str | None = None
        """Why the last reload was refused."""
        self._gateway = gateway
        self._lock = asyncio.Lock()

    async def run(self, *, again: bool = False) -> ConfigDiff:
        """Read the configuration again and apply what has changed.

        `again` says that the files are unchanged since they were refused: something they refer to
        may have changed. The same refusal is then not reported twice.

        Raises:
            ReloadRefused: the configuration cannot be used, and nothing has changed.
        """
        async with self._lock:
            try:
                diff, config = await self._read()
                journal_error = self._gateway.journal.last_error
                if diff and journal_error is not None:
                    # Calls may go on without a record; a change by the operator must be recorded.
                    raise ReloadRefused(
                        f"{journal_error}, and a change of the configuration has to be recorded"
                    )
            except ReloadRefused as error:
                if not again or str(error) != self._last_refusal:
                    self._report_refusal(error)
                raise
            recovered, self._last_refusal = self._last_refusal is not None, None
            if diff:
                new_servers = await self._provision(config, diff)
                self._swap(config, diff, new_servers)
            if diff or recovered:
                self.on_outcome(diff)
            return diff

    async def preview(self) -> tuple[ConfigDiff, tuple[CatalogDiff, ...]]:
        """What a reload would change: in the configuration, and in the lists that clients see.

        Raises:
            ReloadRefused: the configuration cannot be used.
        """
        async with self._lock:
            diff, config = await self._read()
            new_servers = await self._provision(config, diff)
            registry = self._gateway.server_registry
            try:
                # The running servers may still be starting, too.
                await _wait_until_settled(registry.servers.values())
                profiles = self._profiles(config, self._servers(config, new_servers))
                before = {slug: profile.catalog for slug, profile in self._gateway.profiles.items()}
                after = {slug: profile.catalog for slug, profile in profiles.items()}
                return diff, diff_catalogs(before, after)
            finally:
                registry.discard(new_servers.values())

    async def _read(self) -> tuple[ConfigDiff, Config]:
        source, before = self.source, self._gateway.config
        if source is None:
            raise ReloadRefused(
                "this gateway was not started from files, and has nothing to read again"
            )
        try:
            config = await asyncio.to_thread(source, before)
        except ConfigError as error:
            shown = [str(fault) for fault in error.faults[:FAULTS_SHOWN_MAX]]
            more = len(error.faults) - len(shown)
            reason = "; ".join(shown) + (f"; and {more} more" if more else "")
            raise ReloadRefused(reason) from None
        return diff_configs(before, config), config

    def _report_refusal(self, error: ReloadRefused) -> None:
        self._last_refusal = str(error)
        self._gateway.note("gateway.config_reloaded", "failure", error_message=str(error))
        self.on_outcome(error)

    async def _provision(self, config: Config, diff: ConfigDiff) -> dict[str, Server]:
        """Start new and changed servers; the old ones go on serving meanwhile."""
        gateway = self._gateway
        # New servers may write to stderr before the swap: their secrets must be redacted by now.
        gateway.redact.add_secrets(config.secrets, config.record.redact_keys)
        configs = [config.servers[slug] for slug in (*diff.added, *diff.changed)]
        new_servers = gateway.server_registry.make(configs, config.transparent_servers)
        try:
            for server in new_servers.values():
                gateway.start_server(server, config)
            await _wait_until_settled(new_servers.values())
        except asyncio.CancelledError:
            gateway.server_registry.discard(new_servers.values())
            raise
        return new_servers

    def _swap(self, config: Config, diff: ConfigDiff, new_servers: Mapping[str, Server]) -> None:
        """Put the configuration into effect, without a moment in which it is half old, half new.

        Nothing in here waits, and the order matters: servers first, then everybody who still needs
        the old profiles, then the profiles, then what is told to clients.
        """
        gateway, old_profiles = self._gateway, dict(self._gateway.profiles)
        servers = gateway.server_registry.servers
        replaced = [servers[slug] for slug in (*diff.removed, *diff.changed)]
        gateway.config = _keep_startup_settings(config, gateway.config)
        gateway.capture.configure(config)
        gateway.server_registry.replace(self._servers(config, new_servers))
        for server in replaced:
            gateway.leases.retire(server)
            gateway.local_methods.transparent_subscriptions.retire(server)
        # A server whose profile is no longer transparent has never had its lists read.
        for slug in servers.keys() - config.transparent_servers:
            servers[slug].read_lists()
        for listener in self.listeners:
            listener(config)  # It may look up profiles that are about to go.
        for profile in old_profiles.values():
            # Fast paths remember how calls are recorded until their catalog is replaced.
            profile.refresh()
        new_profiles = self._profiles(config, servers)
        gateway.profiles.clear()  # The same mapping stays: everything holds on to it.
        gateway.profiles.update(new_profiles)
        gateway.hooks.replace(config.hooks, config.gateway.hooks_match)
        gateway.maintenance.apply_config(config.record)
        gateway.local_methods.list_seconds = config.gateway.list_seconds
        gateway.resource_subscriptions.sync(servers.values())
        for slug, profile in new_profiles.items():
            record_conflicts(profile.slug, profile.take_conflicts(), gateway.note)
            kinds = _visible_changes(old_profiles.get(slug), profile)
            if kinds:
                gateway.notifications.notify_lists_changed(profile, kinds)
        gateway.local_methods.on_lists_settled()
        gateway.note(
            "gateway.config_reloaded",
            added=list(diff.added),
            removed=list(diff.removed),
            changed=list(diff.changed),
            profiles=list(diff.profiles),
            settings=list(diff.sections),
        )

    def _servers(self, config: Config, new_servers: Mapping[str, Server]) -> dict[str, Server]:
        """The servers of a configuration: new ones, and those that are unchanged."""
        running = self._gateway.server_registry.servers
        return {slug: new_servers.get(slug) or running[slug] for slug in config.servers}

    def _profiles(self, config: Config, servers: Mapping[str, Server]) -> dict[str, Profile]:
        """The profiles of a configuration; one that is unchanged stays the same object."""
        profiles: dict[str, Profile] = {}
        for slug, profile in config.profiles.items():
            old = self._gateway.profiles.get(slug)
            own_servers = [servers[each] for each in profile.servers]
            if old is None or old.config != profile or list(old.servers.values()) != own_servers:
                profiles[slug] = Profile(profile, servers, GATEWAY_TOOLS, old)
            else:
                profiles[slug] = old
        return profiles


def _keep_startup_settings(config: Config, before: Config) -> Config:
    """The configuration, but with the settings that only take effect at the next start."""
    gateway = replace(config.gateway, listen=before.gateway.listen)
    return replace(config, gateway=gateway, telemetry=before.telemetry)


async def _wait_until_settled(servers: Collection[Server]) -> None:
    """Wait until every server has listed its offers or failed, up to a limit."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PROVISION_SECONDS_MAX
    while loop.time() < deadline and not all(server.lists_settled for server in servers):
        await asyncio.sleep(PROVISION_POLL_SECONDS)


def _visible_changes(before: Profile | None, after: Profile) -> frozenset[OfferKind]:
    """The kinds of lists in which clients of a profile see a difference."""
    if before is None or before is after:
        return frozenset()
    return changed_kinds(before.catalog, after.catalog)

"""A changed configuration, taken over while everything goes on.

What is new is made ready beside what runs. Then, within one turn of the loop, callers see the new
and nothing else; calls that are under way end with what they began with. A configuration that
cannot be used changes nothing. Where it comes from, and who asks for it, is not known here.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Final, Protocol

from anyport.config.faults import ConfigError
from anyport.config.schema import Config
from anyport.gateway.changes import Changes, changes
from anyport.gateway.desk import Desk
from anyport.gateway.feed import Feed
from anyport.gateway.fleet import Fleet
from anyport.gateway.hooks import Hooks
from anyport.gateway.interest import Interest
from anyport.gateway.leases import Leases
from anyport.gateway.noting import Note
from anyport.gateway.profile import Profile
from anyport.gateway.shifts import Shift, shifts
from anyport.gateway.tap import Tap
from anyport.gateway.tools import GATEWAY_TOOLS
from anyport.gateway.upkeep import Upkeep
from anyport.protocol.method import Kind
from anyport.record.journal import Journal
from anyport.record.redact import Redactor
from anyport.routing.catalog import Catalog
from anyport.upstream.server import Server

PROVISION_SECONDS_MAX: Final = 5.0
"""How long a new server may take to tell what it offers before clients get to see it."""
PROVISION_LOOK_SECONDS: Final = 0.02
"""Between two looks whether it has."""
FAULTS_TOLD_MAX: Final = 5
"""Of what is wrong with a file, in one event; `anyport check` has the rest."""


class Unfit(Exception):
    """A configuration that must not be taken over; the text says why."""


class Inside(Protocol):
    """What of the gateway a configuration decides about."""

    config: Config
    profiles: dict[str, Profile]
    fleet: Fleet
    feed: Feed
    desk: Desk
    interest: Interest
    hooks: Hooks
    leases: Leases
    tap: Tap
    redact: Redactor
    journal: Journal
    upkeep: Upkeep

    @property
    def note(self) -> Note:
        """Notes an event of the gateway itself."""

    def start(self, server: Server, config: Config) -> None:
        """Start a server of a new configuration, if one of its kind would be running now."""


class Reload:
    """Takes over one configuration after the other."""

    def __init__(self, inside: Inside) -> None:
        self.source: Callable[[Config], Config] | None = None
        """Reads the configuration anew, given the one in use; raises `ConfigError` or `Unfit`."""
        self.heard: list[Callable[[Config], None]] = []
        """Who else has to know: they are told in the same turn of the loop."""
        self.on_outcome: Callable[[Changes | Unfit], None] = _nobody
        """Takes what came of it, whoever asked."""
        self._refusal: str | None = None
        """Why it could not be used the last time."""
        self._inside = inside
        self._turn = asyncio.Lock()

    async def run(self, *, again: bool = False) -> Changes:
        """Read the configuration again, and take over what has changed.

        `again` is said of files that are as they were when they could not be used: something else
        may have changed. That they still cannot is no news.

        Raises:
            Unfit: it cannot be used, and nothing has changed.
        """
        async with self._turn:
            try:
                found, config = await self._read()
                trouble = self._inside.journal.last_error
                if found and trouble is not None:
                    # Whatever becomes of calls: what an operator changes has to be on record.
                    raise Unfit(f"{trouble}, and a change of the configuration has to be recorded")
            except Unfit as error:
                if not again or str(error) != self._refusal:
                    self._refused(error)
                raise
            recovered, self._refusal = self._refusal is not None, None
            if found:
                fresh = await self._provision(config, found)
                self._swap(config, found, fresh)
            if found or recovered:
                self.on_outcome(found)
            return found

    def _refused(self, error: Unfit) -> None:
        self._refusal = str(error)
        self._inside.note("gateway.config_reloaded", "failure", error_message=str(error))
        self.on_outcome(error)

    async def preview(self) -> tuple[Changes, tuple[Shift, ...]]:
        """What a reload would change: in the configuration, and in what clients see.

        Raises:
            Unfit: it cannot be used.
        """
        async with self._turn:
            found, config = await self._read()
            fresh = await self._provision(config, found)
            inside = self._inside
            try:
                await _settled(inside.fleet.servers.values())  # Or nobody knows what they offer.
                profiles = self._profiles(config, self._servers(config, fresh))
                return found, shifts(_catalogs(inside.profiles), _catalogs(profiles))
            finally:
                inside.fleet.discard(fresh.values())

    async def _read(self) -> tuple[Changes, Config]:
        source, before = self.source, self._inside.config
        if source is None:
            raise Unfit("this gateway was not started from files, and has nothing to read again")
        try:
            config = await asyncio.to_thread(source, before)
        except ConfigError as error:
            told = [str(fault) for fault in error.faults[:FAULTS_TOLD_MAX]]
            more = len(error.faults) - len(told)
            words = "; ".join(told) + (f"; and {more} more" if more else "")
            raise Unfit(words) from None
        return changes(before, config), config

    async def _provision(self, config: Config, found: Changes) -> dict[str, Server]:
        """The new servers, ready if they can be; what they replace serves on meanwhile."""
        inside = self._inside
        # What they say may be told before anybody can call them: their secrets are secret now.
        inside.redact.learn(config.secrets, config.record.redact_keys)
        wanted = [config.servers[slug] for slug in (*found.added, *found.changed)]
        fresh = inside.fleet.make(wanted)
        try:
            for server in fresh.values():
                inside.start(server, config)
            await _settled(fresh.values())
        except asyncio.CancelledError:
            inside.fleet.discard(fresh.values())
            raise
        return fresh

    def _swap(self, config: Config, found: Changes, fresh: Mapping[str, Server]) -> None:
        """All at once, without a moment in which one half is new and the other old."""
        inside, before = self._inside, dict(self._inside.profiles)
        servers = inside.fleet.servers
        gone = [servers[slug] for slug in (*found.removed, *found.changed)]
        inside.config = _as_started(config, inside.config)
        inside.tap.take(config)
        inside.fleet.replace(self._servers(config, fresh))
        for server in gone:
            inside.leases.retire(server)
        for hear in self.heard:
            hear(config)  # While those profiles are still known that are about to go.
        for profile in before.values():
            profile.refresh()  # Whoever remembers how it was recorded has to ask again.
        _put(inside.profiles, self._profiles(config, servers))
        inside.hooks.replace(config.hooks, config.gateway.hooks_match)
        inside.upkeep.take(config.record)
        inside.desk.list_seconds = config.gateway.list_seconds
        inside.interest.sync(servers.values())
        for slug, profile in inside.profiles.items():
            visible = _visible(before.get(slug), profile)
            if visible:
                inside.feed.lists_changed(profile, visible)
        inside.desk.lists_settled()
        inside.note(
            "gateway.config_reloaded",
            added=list(found.added),
            removed=list(found.removed),
            changed=list(found.changed),
            profiles=list(found.profiles),
            settings=list(found.sections),
        )

    def _servers(self, config: Config, fresh: Mapping[str, Server]) -> dict[str, Server]:
        """As the configuration has them; those that are as they were, and the new ones."""
        kept = self._inside.fleet.servers
        return {slug: fresh.get(slug) or kept[slug] for slug in config.servers}

    def _profiles(self, config: Config, servers: Mapping[str, Server]) -> dict[str, Profile]:
        """As the configuration has them; one that is as it was stays what it is."""
        kept = self._inside.profiles
        made: dict[str, Profile] = {}
        for slug, profile in config.profiles.items():
            old = kept.get(slug)
            mine = [servers[each] for each in profile.servers]
            if old is None or old.config != profile or list(old.servers.values()) != mine:
                made[slug] = Profile(profile, servers, GATEWAY_TOOLS)
            else:
                made[slug] = old
        return made


def _nobody(_: Changes | Unfit) -> None:
    """Nobody wants to know."""


def _as_started(config: Config, before: Config) -> Config:
    """With what holds from the start on as it was: the files may say otherwise until the next."""
    gateway = replace(config.gateway, listen=before.gateway.listen)
    return replace(config, gateway=gateway, telemetry=before.telemetry)


async def _settled(servers: Collection[Server]) -> None:
    """Wait until they offer what they have, or cannot be used; for so long and no longer."""
    loop = asyncio.get_running_loop()
    over = loop.time() + PROVISION_SECONDS_MAX
    while loop.time() < over and not all(server.settled for server in servers):
        await asyncio.sleep(PROVISION_LOOK_SECONDS)


def _catalogs(profiles: Mapping[str, Profile]) -> dict[str, Catalog]:
    return {slug: profile.catalog for slug, profile in profiles.items()}


def _put(profiles: dict[str, Profile], new: Mapping[str, Profile]) -> None:
    """Into the same mapping: everybody looks there."""
    profiles.clear()
    profiles.update(new)


def _visible(before: Profile | None, after: Profile) -> frozenset[Kind]:
    """The kinds of which clients see another list than before."""
    if before is None or before is after:
        return frozenset()
    return frozenset(
        kind for kind in Kind if before.catalog.entries(kind) != after.catalog.entries(kind)
    )

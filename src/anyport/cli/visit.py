"""A gateway that runs elsewhere, visited by one command.

Tools are listed and called as any client would. Whose they are, and how servers are doing, is
asked of the gateway's API; an MCP server that has none can be visited, too, but tells less.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from anyport.cli import occasion
from anyport.cli.caller import Ask, Caller, Tell
from anyport.cli.ending import CommandFailed, say
from anyport.cli.lookup import explain_missing, meant
from anyport.cli.outside import outside
from anyport.cli.reach import API, NotThere, Reach, no_gateway
from anyport.cli.target import Target
from anyport.config.schema import DEFAULT_PROFILE
from anyport.routing.catalog import Entry

CONFIG_KEYS: Final = ("prefix", "separator", "errors")
WELL: Final = frozenset({"running", "disabled"})

LOOK_SECONDS: Final = 0.1
"""Between two looks at servers that are starting; a gateway has more to do than to answer us."""


class Named(msgspec.Struct, frozen=True):
    """A profile in a list of them."""

    slug: str


class Profiles(msgspec.Struct, frozen=True):
    """Every profile."""

    profiles: tuple[Named, ...]


class Owned(msgspec.Struct, frozen=True, kw_only=True):
    """Whose a tool is."""

    name: str
    native_name: str
    server: str | None = None


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A profile, as the API describes it."""

    profile: dict[str, Any] = {}
    servers: dict[str, dict[str, Any]] = {}
    tools: tuple[Owned, ...] = ()


class Visit:
    """A running gateway and a client in front of it."""

    takes_any_name = False

    def __init__(self, reach: Reach, caller: Caller) -> None:
        self.caller = caller
        self.entries: Sequence[Entry] = ()
        """The tools that are known so far."""
        self._reach = reach
        self._shown = Shown()

    @property
    def knows_servers(self) -> bool:
        """Whether it is a gateway of ours, and tells whose a tool is."""
        return bool(self._shown.profile)

    @property
    def servers(self) -> tuple[str, ...]:
        """The servers of the profile."""
        return tuple(self._shown.servers)

    async def settle(self) -> None:
        """Wait until no server is starting, for as long as at home, then ask for everything."""
        await self._wait(lambda: self._starting)
        await self._ask()

    def tell_troubles(self, name: str | None = None) -> None:
        """Say on stderr which servers are missing, and why; for a named tool, only its own."""
        for slug, server in self._shown.servers.items():
            if name is not None and not meant(name, slug, self._separator):
                continue
            if server["status"] not in WELL:
                say(f"server '{slug}' {describe_trouble(server)}")

    async def find(self, name: str) -> Entry | None:
        """The tool of that name, or with that native name if one server alone has it.

        Waits no longer than its own server needs.
        """
        await self._ask()
        entry = self._named(name)
        if self._starting and (entry is None or entry.slug in self._starting):
            await self._wait(lambda: self._starting if entry is None else self._still(entry.slug))
            await self._ask()
            entry = self._named(name)
        return entry

    def _named(self, name: str) -> Entry | None:
        for entry in self.entries:
            if entry.public == name:
                return entry
        same = [entry for entry in self.entries if entry.native == name]
        return same[0] if len(same) == 1 else None

    @property
    def _separator(self) -> str:
        return str(self._shown.profile.get("separator", "__"))

    @property
    def _starting(self) -> list[str]:
        """Who may be worth waiting for: one that has failed before has told enough."""
        servers = self._shown.servers.items()
        return [slug for slug, server in servers if is_first_start(server)]

    def _still(self, slug: str) -> list[str]:
        return [slug] if slug in self._starting else []

    async def _wait(self, waiting_for: Callable[[], list[str]]) -> None:
        """Look until nobody is waited for any more, or until waiting is pointless."""
        began = time.monotonic()
        told = False
        self._shown = await self._shown_now()
        while waiting := waiting_for():
            waited = time.monotonic() - began
            if waited > occasion.SETTLE_SECONDS_MAX:
                return
            if waited > occasion.PATIENCE_SECONDS and not told:
                told = True
                say(f"waiting for {', '.join(waiting)}")
            await asyncio.sleep(LOOK_SECONDS)
            self._shown = await self._shown_now()

    async def _ask(self) -> None:
        """What is offered, and whose it is."""
        tools = await self.caller.list_all("tools/list", "tools")
        self._shown = await self._shown_now()
        owners = {tool.name: tool for tool in self._shown.tools}
        self.entries = [_entry(tool, owners) for tool in tools]

    async def _shown_now(self) -> Shown:
        try:
            return await self._look()
        except NotThere:
            return Shown()  # No gateway of ours: what it lists must do.

    def explain_missing(self, name: str) -> str:
        """Why no tool has this name, and which one may be meant."""
        servers = self._shown.servers.items()
        disabled = [slug for slug, server in servers if server["status"] == "disabled"]
        return explain_missing(name, self.entries, disabled=disabled, separator=self._separator)

    async def report(self) -> dict[str, Any]:
        """What `gateway_status` says.

        Raises:
            CommandFailed: the gateway does not tell.
        """
        self._shown = shown = await self._look()
        status = msgspec.json.decode(await self._reach.get(f"{API}/status"))
        config = {key: shown.profile[key] for key in CONFIG_KEYS}
        return {
            "gateway": status["gateway"] | {"config": {"profile": shown.profile["slug"]} | config},
            "backends": shown.servers,
            "capabilities": shown.profile["offers"],
        }

    async def _look(self) -> Shown:
        profiles = await profiles_at(self._reach)
        slug = _meant(self._reach.target, profiles)
        page = await self._reach.get(f"{API}/profiles/{slug}")
        return msgspec.json.decode(page, type=Shown)


@asynccontextmanager
async def visit(
    target: Target,
    *,
    ask: Ask | None = None,
    on_log: Tell | None = None,
    log_level: str | None = None,
) -> AsyncIterator[Visit]:
    """A session with a running gateway for the time of a block.

    Raises:
        CommandFailed: nobody answers there, or not as a gateway would.
    """
    reach = Reach(target)
    try:
        caller = Caller(outside(reach), ask=ask, on_log=on_log, log_level=log_level)
        try:
            await caller.open()
        except NotThere as error:
            raise await _named_profiles(reach, error) from None
        try:
            yield Visit(reach, caller)
        finally:
            await caller.close()
    finally:
        reach.close()


async def profiles_at(reach: Reach) -> list[str]:
    """The profiles of a gateway.

    Raises:
        CommandFailed: it does not tell.
    """
    page = await reach.get(f"{API}/profiles")
    try:
        profiles = msgspec.json.decode(page, type=Profiles).profiles
    except msgspec.DecodeError:
        raise no_gateway(reach.target) from None
    return [profile.slug for profile in profiles]


def is_first_start(server: Mapping[str, Any]) -> bool:
    """Whether a server is starting and has not failed yet."""
    return bool(server["status"] == "starting" and server["last_error"] is None)


def describe_trouble(server: Mapping[str, Any]) -> str:
    """Why the tools of a server that does not run are missing or old."""
    if is_first_start(server):
        return f"has not started in {occasion.SETTLE_SECONDS_MAX:g} s"
    return f"is not running: {server['last_error'] or 'no reason is known'}"


async def _named_profiles(reach: Reach, error: NotThere) -> CommandFailed:
    """A path that is not there is most often a profile that is not there."""
    try:
        profiles = await profiles_at(reach)
    except CommandFailed:
        return error
    named = profile_of(reach.target)
    asked = "no profile is named" if named is None else f"there is no profile '{named}'"
    return CommandFailed(f"{asked} at {reach.target}; the profiles are: {', '.join(profiles)}")


def _meant(target: Target, profiles: list[str]) -> str:
    """The profile at the endpoint; `/mcp` itself is the default one, or the only one there is."""
    named = profile_of(target)
    return named or (profiles[0] if len(profiles) == 1 else DEFAULT_PROFILE)


def profile_of(target: Target) -> str | None:
    """The profile that an endpoint names."""
    _, _, name = target.place.target.removeprefix(target.root).removeprefix("/mcp").partition("/")
    return unquote(name) or None


def _entry(raw: msgspec.Raw, owners: Mapping[str, Owned]) -> Entry:
    name = str(msgspec.json.decode(raw)["name"])
    owner = owners.get(name)
    if owner is None:
        return Entry(name, "", name, bytes(raw))
    return Entry(name, owner.server or "", owner.native_name, bytes(raw))

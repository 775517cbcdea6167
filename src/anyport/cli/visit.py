"""A gateway that runs elsewhere, visited by one command.

Tools are listed and called as any client would. Whose they are, and how servers are doing, is
asked of the gateway's API; an MCP server that has none can be visited, too, but tells less.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from anyport.cli.caller import Ask, Caller, Tell
from anyport.cli.ending import CommandFailed, say
from anyport.cli.lookup import explain_missing
from anyport.cli.outside import outside
from anyport.cli.reach import NotThere, Reach
from anyport.cli.target import Target
from anyport.config.schema import DEFAULT_PROFILE
from anyport.routing.catalog import Entry

API: Final = "/api/v1"
CONFIG_KEYS: Final = ("prefix", "separator", "errors")
WELL: Final = frozenset({"running", "disabled"})


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
    def servers(self) -> tuple[str, ...]:
        """The servers of the profile."""
        return tuple(self._shown.servers)

    async def settle(self) -> None:
        """Ask for everything anew. The gateway itself waits for servers that are starting."""
        tools = await self.caller.list_all("tools/list", "tools")
        try:
            self._shown = await self._look()
        except NotThere:
            self._shown = Shown()  # No gateway of ours: what it lists must do.
        owners = {tool.name: tool for tool in self._shown.tools}
        self.entries = [_entry(tool, owners) for tool in tools]

    def tell_troubles(self) -> None:
        """Say on stderr which servers are missing, and why."""
        for slug, server in self._shown.servers.items():
            if server["status"] not in WELL:
                reason = server["last_error"] or "no reason is known"
                say(f"server '{slug}' is not running: {reason}")

    async def find(self, name: str) -> Entry | None:
        """The tool of that name, or with that native name if one server alone has it."""
        await self.settle()
        for entry in self.entries:
            if entry.public == name:
                return entry
        same = [entry for entry in self.entries if entry.native == name]
        return same[0] if len(same) == 1 else None

    def explain_missing(self, name: str) -> str:
        """Why no tool has this name, and which one may be meant."""
        servers = self._shown.servers.items()
        disabled = [slug for slug, server in servers if server["status"] == "disabled"]
        separator = self._shown.profile.get("separator", "__")
        return explain_missing(name, self.entries, disabled=disabled, separator=separator)

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
    page = msgspec.json.decode(await reach.get(f"{API}/profiles"))
    return [str(profile["slug"]) for profile in page["profiles"]]


async def _named_profiles(reach: Reach, error: NotThere) -> CommandFailed:
    """A path that is not there is most often a profile that is not there."""
    try:
        profiles = await profiles_at(reach)
    except CommandFailed:
        return error
    named = _profile_of(reach.target)
    asked = "no profile is named" if named is None else f"there is no profile '{named}'"
    return CommandFailed(f"{asked} at {reach.target}; the profiles are: {', '.join(profiles)}")


def _meant(target: Target, profiles: list[str]) -> str:
    """The profile at the endpoint; `/mcp` itself is the default one, or the only one there is."""
    named = _profile_of(target)
    return named or (profiles[0] if len(profiles) == 1 else DEFAULT_PROFILE)


def _profile_of(target: Target) -> str | None:
    _, _, name = target.place.target.removeprefix(target.root).removeprefix("/mcp").partition("/")
    return unquote(name) or None


def _entry(raw: msgspec.Raw, owners: Mapping[str, Owned]) -> Entry:
    name = str(msgspec.json.decode(raw)["name"])
    owner = owners.get(name)
    if owner is None:
        return Entry(name, "", name, bytes(raw))
    return Entry(name, owner.server or "", owner.native_name, bytes(raw))

"""A running gateway that a command connects to over HTTP.

Tools are listed and called over MCP, as by any client. The management API tells whose they are and
how the servers are doing; another MCP server, which has no such API, can be used all the same.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Final

import msgspec

from anyport.catalog.catalog import CatalogEntry
from anyport.cli.connect import client as connect_client
from anyport.cli.connect.client import (
    ConnectedGateway,
    ElicitationHandler,
    GatewayClient,
    NotificationHandler,
)
from anyport.cli.connect.http import (
    API,
    ApiClient,
    PathNotFound,
    Target,
    connect_over_http,
    not_a_gateway_error,
)
from anyport.cli.exit_codes import CommandFailed
from anyport.config.model import DEFAULT_PROFILE

PROFILE_CONFIG_KEYS: Final = ("prefix", "separator", "errors")
HEALTHY_STATUSES: Final = frozenset({"running", "idle", "disabled"})

POLL_SECONDS: Final = 0.1
"""Between two requests for the state of starting servers."""


class ProfileSummary(msgspec.Struct, frozen=True):
    """A profile in the list of profiles."""

    slug: str


class ProfileList(msgspec.Struct, frozen=True):
    """`GET /api/v1/profiles`."""

    profiles: tuple[ProfileSummary, ...]


class ToolOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The server of a tool, and its name there."""

    name: str
    native_name: str
    server: str | None = None


class ProfileDetails(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /api/v1/profiles/{slug}`."""

    profile: dict[str, Any] = {}
    servers: dict[str, dict[str, Any]] = {}
    tools: tuple[ToolOwner, ...] = ()


class RemoteGateway(ConnectedGateway):
    """A running gateway, with a session."""

    poll_seconds: ClassVar[float] = POLL_SECONDS

    def __init__(self, api: ApiClient, client: GatewayClient) -> None:
        self.client = client
        self._api = api
        self._entries: list[CatalogEntry] = []
        self._details = ProfileDetails()

    @property
    def entries(self) -> Sequence[CatalogEntry]:
        return self._entries

    @property
    def servers(self) -> tuple[str, ...]:
        return tuple(self._details.servers)

    @property
    def separator(self) -> str:
        return str(self._details.profile.get("separator", "__"))

    @property
    def is_anyport(self) -> bool:
        return bool(self._details.profile)

    async def wait_settled(self) -> None:
        await self.wait_while(self._starting_servers)
        await self._list_tools()

    async def find(self, name: str) -> CatalogEntry | None:
        await self._list_tools()
        entry = self.find_entry(name)
        slug = None if entry is None else entry.slug
        starting = self._starting_servers()
        if starting and (slug is None or slug in starting):
            await self.wait_while(
                lambda: [each for each in self._starting_servers() if slug in (None, each)]
            )
            await self._list_tools()
            entry = self.find_entry(name)
        return entry

    def _starting_servers(self) -> list[str]:
        servers = self._details.servers.items()
        return [slug for slug, server in servers if is_first_start(server)]

    async def refresh(self) -> None:
        try:
            self._details = await self._fetch_details()
        except PathNotFound:
            self._details = ProfileDetails()  # Another MCP server.

    async def _list_tools(self) -> None:
        tools = await self.client.list_all("tools/list", "tools")
        await self.refresh()
        owners = {tool.name: tool for tool in self._details.tools}
        self._entries = [_to_entry(tool, owners) for tool in tools]

    async def report(self) -> dict[str, Any]:
        """What `gateway_status` returns.

        Raises:
            CommandFailed: it is not an Anyport gateway.
        """
        self._details = details = await self._fetch_details()
        status = msgspec.json.decode(await self._api.get(f"{API}/status"))
        config = {key: details.profile[key] for key in PROFILE_CONFIG_KEYS}
        return {
            "gateway": status["gateway"]
            | {"config": {"profile": details.profile["slug"]} | config},
            "backends": details.servers,
            "capabilities": details.profile["offers"],
        }

    async def _fetch_details(self) -> ProfileDetails:
        profiles = await fetch_profiles(self._api)
        # `/mcp` is the default profile, or the only one.
        slug = self._api.target.profile or (profiles[0] if len(profiles) == 1 else DEFAULT_PROFILE)
        page = await self._api.get(f"{API}/profiles/{slug}")
        return msgspec.json.decode(page, type=ProfileDetails)

    def is_disabled(self, slug: str) -> bool:
        return bool(self._details.servers[slug]["status"] == "disabled")

    def trouble_of(self, slug: str) -> str | None:
        server = self._details.servers[slug]
        if server["status"] in HEALTHY_STATUSES:
            return None
        if is_first_start(server):
            return f"has not started in {connect_client.SETTLE_SECONDS_MAX:g} s"
        return f"is not running: {server['last_error'] or 'no reason is known'}"


@asynccontextmanager
async def connect_remote_gateway(
    target: Target,
    *,
    ask: ElicitationHandler | None = None,
    on_log: NotificationHandler | None = None,
    log_level: str | None = None,
) -> AsyncIterator[RemoteGateway]:
    """A session with a running gateway for the time of a block.

    Raises:
        CommandFailed: there is no MCP server at this URL.
    """
    api = ApiClient(target)
    try:
        client = GatewayClient(connect_over_http(api), ask=ask, on_log=on_log, log_level=log_level)
        try:
            await client.open()
        except PathNotFound as error:
            raise await _missing_profile_error(api, error) from None
        try:
            yield RemoteGateway(api, client)
        finally:
            await client.close()
    finally:
        api.close()


async def fetch_profiles(api: ApiClient) -> list[str]:
    """The profiles of a gateway.

    Raises:
        CommandFailed: it is not an Anyport gateway.
    """
    page = await api.get(f"{API}/profiles")
    try:
        profiles = msgspec.json.decode(page, type=ProfileList).profiles
    except msgspec.DecodeError:
        raise not_a_gateway_error(api.target) from None
    return [profile.slug for profile in profiles]


def is_first_start(server: Mapping[str, Any]) -> bool:
    """Whether a server is starting and has not failed yet: the case worth waiting for."""
    return bool(server["status"] == "starting" and server["last_error"] is None)


async def _missing_profile_error(api: ApiClient, error: PathNotFound) -> CommandFailed:
    """A better error for HTTP 404, whose usual cause is the name of a profile."""
    try:
        profiles = await fetch_profiles(api)
    except CommandFailed:
        return error
    named = api.target.profile
    reason = "no profile is named" if named is None else f"there is no profile '{named}'"
    return CommandFailed(f"{reason} at {api.target}; the profiles are: {', '.join(profiles)}")


def _to_entry(raw: msgspec.Raw, owners: Mapping[str, ToolOwner]) -> CatalogEntry:
    name = str(msgspec.json.decode(raw)["name"])
    owner = owners.get(name)
    if owner is None:
        return CatalogEntry(name, "", name, bytes(raw))
    return CatalogEntry(name, owner.server or "", owner.native_name, bytes(raw))

"""`anyport tools`: what a client of this configuration would see; all of it, or one tool."""

from typing import Any, Final

import msgspec

from anyport.cli.ending import GOOD, CommandFailed, WrongUsage
from anyport.cli.lookup import explain_missing, find
from anyport.cli.loop import run
from anyport.cli.occasion import Occasion, occasion
from anyport.cli.options import Given
from anyport.cli.render import out_json, table
from anyport.cli.setup import Setup, read_setup
from anyport.cli.sheet import out_sheet
from anyport.protocol.method import Kind

GATEWAY_ITSELF: Final = "(gateway)"


def tools(given: Given, server: str | None, name: str | None = None) -> int:
    """List the tools, of one server or of all, or describe the one of that name; the exit code."""
    if server is not None and name is not None:
        raise WrongUsage("name a tool or a server, not both")
    setup = read_setup(given)
    if name is not None:
        return _describe(given, setup, name)
    servers = setup.config.profiles[setup.profile].servers
    if server is not None and server not in servers:
        known = ", ".join(servers) or "none"
        raise WrongUsage(f"there is no server '{server}' in this profile; there are: {known}")
    found = run(_listed(setup, server))
    if given.json:
        out_json([tool for _, tool in found])
        return GOOD
    table(("NAME", "SERVER", "DESCRIPTION"), (_row(slug, tool) for slug, tool in found))
    return GOOD


def _describe(given: Given, setup: Setup, name: str) -> int:
    found = run(_named(setup, name))
    if isinstance(found, CommandFailed):
        raise found
    slug, tool = found
    if given.json:
        out_json(tool)
    else:
        out_sheet(msgspec.json.decode(tool), f"server '{slug}'" if slug else "the gateway itself")
    return GOOD


async def _named(setup: Setup, name: str) -> tuple[str, bytes] | CommandFailed:
    async with occasion(setup) as here:
        entry = await find(here, name)
        if entry is None:
            here.tell_troubles()
            return CommandFailed(explain_missing(here, name))
        for tool in await here.caller.list_all("tools/list", "tools"):
            if msgspec.json.decode(tool)["name"] == entry.public:
                return entry.slug, bytes(tool)
        return CommandFailed(f"the tool '{name}' is not listed any more")


async def _listed(setup: Setup, wanted: str | None) -> list[tuple[str, msgspec.Raw]]:
    async with occasion(setup) as here:
        await here.settle()
        here.tell_troubles()
        owners = _owners(here)
        found = []
        for tool in await here.caller.list_all("tools/list", "tools"):
            slug = owners.get(msgspec.json.decode(tool)["name"], "")
            if wanted is None or slug == wanted:
                found.append((slug, tool))
        return found


def _owners(here: Occasion) -> dict[str, str]:
    return {entry.public: entry.slug for entry in here.profile.catalog.entries(Kind.TOOLS)}


def _row(slug: str, raw: msgspec.Raw) -> tuple[str, str, str]:
    tool: dict[str, Any] = msgspec.json.decode(raw)
    told = str(tool.get("description") or tool.get("title") or "")
    first_line = next((line for line in told.splitlines() if line.strip()), "")
    return str(tool["name"]), slug or GATEWAY_ITSELF, first_line.strip()

"""`anyport tools`: what a client of this configuration would see; all of it, or one tool."""

from typing import Any, Final

import msgspec

from anyport.cli.ending import GOOD, CommandFailed, WrongUsage
from anyport.cli.front import Front, front
from anyport.cli.loop import run
from anyport.cli.options import Given
from anyport.cli.render import out_json, table
from anyport.cli.sheet import out_sheet

GATEWAY_ITSELF: Final = "(gateway)"


def tools(given: Given, server: str | None, name: str | None = None) -> int:
    """List the tools, of one server or of all, or describe the one of that name; the exit code."""
    if server is not None and name is not None:
        raise WrongUsage("name a tool or a server, not both")
    if name is not None:
        return _describe(given, name)
    found = run(_listed(given, server))
    if isinstance(found, CommandFailed):
        raise found
    if given.json:
        out_json([tool for _, tool in found])
        return GOOD
    table(("NAME", "SERVER", "DESCRIPTION"), (_row(owner, tool) for owner, tool in found))
    return GOOD


def _describe(given: Given, name: str) -> int:
    found = run(_named(given, name))
    if isinstance(found, CommandFailed):
        raise found
    owner, tool = found
    if given.json:
        out_json(tool)
    else:
        out_sheet(msgspec.json.decode(tool), owner)
    return GOOD


async def _named(given: Given, name: str) -> tuple[str, bytes] | CommandFailed:
    async with front(given) as here:
        entry = await here.find(name)
        if entry is None:
            here.tell_troubles(name)
            return CommandFailed(here.explain_missing(name))
        for tool in await here.caller.list_all("tools/list", "tools"):
            if msgspec.json.decode(tool)["name"] == entry.public:
                return _owner(here, entry.slug), bytes(tool)
        return CommandFailed(f"the tool '{name}' is not listed any more")


async def _listed(
    given: Given, wanted: str | None
) -> list[tuple[str, msgspec.Raw]] | CommandFailed:
    async with front(given) as here:
        await here.settle()
        if wanted is not None and wanted not in here.servers:
            known = ", ".join(here.servers) or "none"
            return WrongUsage(f"there is no server '{wanted}' in this profile; there are: {known}")
        here.tell_troubles()
        owners = {entry.public: entry.slug for entry in here.entries}
        nobody = GATEWAY_ITSELF if here.knows_servers else ""
        found = []
        for tool in await here.caller.list_all("tools/list", "tools"):
            slug = owners.get(msgspec.json.decode(tool)["name"], "")
            if wanted is None or slug == wanted:
                found.append((slug or nobody, tool))
        return found


def _owner(here: Front, slug: str) -> str:
    if slug:
        return f"server '{slug}'"
    return "the gateway itself" if here.knows_servers else "the server there"


def _row(owner: str, raw: msgspec.Raw) -> tuple[str, str, str]:
    tool: dict[str, Any] = msgspec.json.decode(raw)
    told = str(tool.get("description") or tool.get("title") or "")
    first_line = next((line for line in told.splitlines() if line.strip()), "")
    return str(tool["name"]), owner, first_line.strip()

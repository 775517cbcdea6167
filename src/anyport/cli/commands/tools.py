"""`anyport tools`: lists the tools of a gateway, or describes one."""

import shlex
from typing import Any, Final

import msgspec

from anyport.cli.arguments import ToolParameter, example_words, list_parameters
from anyport.cli.connect import connect_gateway
from anyport.cli.connect.client import ConnectedGateway
from anyport.cli.exit_codes import SUCCESS, CommandFailed, WrongUsage, run_async
from anyport.cli.options import SharedOptions
from anyport.cli.output import clean, out, out_json, table
from anyport.record.redact.escape import make_printable

TITLES: Final = ("ARGUMENT", "TYPE", "REQUIRED", "DEFAULT", "DESCRIPTION")
NO_WRAP: Final = ("ARGUMENT", "REQUIRED")


def out_tool_help(tool: dict[str, Any], owner: str) -> None:
    """Print a tool's description, its parameters and an example call."""
    name, schema = str(tool["name"]), tool.get("inputSchema")
    schema = schema if isinstance(schema, dict) else {}
    out(make_printable(f"{name}, of {owner}"))
    description = tool.get("description") or tool.get("title")
    if description:
        out(clean(str(description).strip()))
    out("")
    parameters = list_parameters(schema)
    if parameters:
        table(TITLES, [_parameter_row(each) for each in parameters], no_wrap=NO_WRAP)
    else:
        out("This tool takes no arguments.")
    out("")
    out(
        make_printable(
            " ".join(["Example: anyport call", shlex.quote(name), *example_words(schema)])
        )
    )


def _parameter_row(parameter: ToolParameter) -> tuple[str, ...]:
    schema = parameter.schema
    choices = schema.get("enum")
    kind = " or ".join(parameter.types) or "any"
    return (
        parameter.name,
        " | ".join(map(_to_text, choices)) if isinstance(choices, list) else kind,
        "yes" if parameter.required else "no",
        _to_text(schema["default"]) if "default" in schema else "",
        " ".join(str(schema.get("description") or schema.get("title") or "").split()),
    )


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


GATEWAY_ITSELF: Final = "(gateway)"


def tools(options: SharedOptions, server: str | None, name: str | None = None) -> int:
    """List the tools of one server or of all, or describe one tool; the exit code."""
    if server is not None and name is not None:
        raise WrongUsage("pass NAME or --server, not both")
    if name is not None:
        return _describe(options, name)
    listed = run_async(_list_tools(options, server))
    if isinstance(listed, CommandFailed):
        raise listed
    if options.json:
        out_json([tool for _, tool in listed])
        return SUCCESS
    table(("NAME", "SERVER", "DESCRIPTION"), (_tool_row(owner, tool) for owner, tool in listed))
    return SUCCESS


def _describe(options: SharedOptions, name: str) -> int:
    result = run_async(_find_tool(options, name))
    if isinstance(result, CommandFailed):
        raise result
    owner, tool = result
    if options.json:
        out_json(tool)
    else:
        out_tool_help(msgspec.json.decode(tool), owner)
    return SUCCESS


async def _find_tool(options: SharedOptions, name: str) -> tuple[str, bytes] | CommandFailed:
    async with connect_gateway(options) as gateway:
        entry = await gateway.find(name)
        if entry is None:
            gateway.report_troubles(name)
            return CommandFailed(gateway.explain_missing(name))
        for tool in await gateway.client.list_all("tools/list", "tools"):
            if msgspec.json.decode(tool)["name"] == entry.public:
                return _describe_owner(gateway, entry.slug), bytes(tool)
        return CommandFailed(f"the tool '{name}' is no longer listed")


async def _list_tools(
    options: SharedOptions, server: str | None
) -> list[tuple[str, msgspec.Raw]] | CommandFailed:
    async with connect_gateway(options) as gateway:
        await gateway.wait_settled()
        if server is not None and server not in gateway.servers:
            names = ", ".join(gateway.servers) or "none"
            return WrongUsage(
                f"there is no server '{server}' in this profile; the servers are: {names}"
            )
        gateway.report_troubles()
        owners = {entry.public: entry.slug for entry in gateway.entries}
        no_server = GATEWAY_ITSELF if gateway.is_anyport else ""
        listed = []
        for tool in await gateway.client.list_all("tools/list", "tools"):
            slug = owners.get(msgspec.json.decode(tool)["name"], "")
            if server is None or slug == server:
                listed.append((slug or no_server, tool))
        return listed


def _describe_owner(gateway: ConnectedGateway, slug: str) -> str:
    if slug:
        return f"server '{slug}'"
    return "the gateway itself" if gateway.is_anyport else "the server at this URL"


def _tool_row(owner: str, raw: msgspec.Raw) -> tuple[str, str, str]:
    tool: dict[str, Any] = msgspec.json.decode(raw)
    description = str(tool.get("description") or tool.get("title") or "")
    first_line = next((line for line in description.splitlines() if line.strip()), "")
    return str(tool["name"]), owner, first_line.strip()

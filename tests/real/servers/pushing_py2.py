"""A server on the Python SDK 2.x that asks, logs and fails as servers of sessions do.

It speaks both eras, as its SDK does, but what its tools do while they work there is only in the
older one: they put requests to the client, and log to whoever is there.
"""

import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPError

server = MCPServer("pushing")


@server.tool()
async def sample(ctx: Context) -> str:
    """Ask the client's model."""
    content = types.TextContent(type="text", text="Say something.")
    messages = [types.SamplingMessage(role="user", content=content)]
    return (await ctx.session.create_message(messages, max_tokens=10)).content.text


@server.tool()
async def elicit(ctx: Context) -> str:
    """Ask the user."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    return (await ctx.session.elicit_form("Who are you?", schema)).action


@server.tool()
async def roots(ctx: Context) -> str:
    """Ask for the client's roots."""
    return " ".join(str(root.uri) for root in (await ctx.session.list_roots()).roots)


@server.tool()
async def log(ctx: Context) -> str:
    """Log something."""
    await ctx.session.send_log_message("info", "logged")
    return str(ctx.request_context.protocol_version)


@server.tool()
async def fail() -> str:
    """End with an error of its own."""
    raise MCPError(-32050, "canned failure", {"why": "canned"})


server.run("stdio")

"""A server on any Python SDK 1.x that does whatever that version can.

`corner_py1.py NAME stdio`, or `corner_py1.py NAME sse PORT`, or with `streamable-http`. All servers
called `corner_…` offer the same, as far as their SDK lets them; a tool for which it has no words is
not there. The name is part of the URIs, so that no two servers claim the same.
"""

import sys
from pathlib import Path

import anyio
from mcp import types
from mcp.server.fastmcp import Context, FastMCP
from mcp.server.lowlevel import NotificationOptions
from mcp.shared import exceptions
from pydantic import AnyUrl, BaseModel

PAUSE_SECONDS = 0.05
"""The TypeScript clients lose progress that comes in one read with the answer."""
PATIENCE_SECONDS = 50
"""Over HTTP a cancellation may be overtaken by the question what became of the call. The TypeScript
SDKs wait a minute for the answer to that."""
PIXEL = "iVBORw0KGgo="

name, transport, *ports = sys.argv[1:]
settings = {"port": int(ports[0])} if ports else {}
server = FastMCP(name, log_level="ERROR", **settings)
low = server._mcp_server
NOTE, BYTES = f"note://{name}/counter", f"note://{name}/bytes"
changes = 0


class Answer(BaseModel):
    name: str
    age: int
    agreed: bool


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("canned failure")


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Count, reporting each number as progress."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to)
        await anyio.sleep(PAUSE_SECONDS)
    return f"counted to {to}"


@server.tool()
async def hang(mark: str, ctx: Context) -> str:
    """Report progress once, then wait to be cancelled, and leave a mark."""
    try:
        await ctx.report_progress(1)
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        Path(mark).touch()
        raise
    return "never"


@server.tool()
async def how_it_ended(mark: str) -> str:
    """Tell that a call of `hang` was cancelled, when it has been, in whichever process."""
    with anyio.fail_after(PATIENCE_SECONDS):
        while not Path(mark).exists():
            await anyio.sleep(PAUSE_SECONDS)
    return "cancelled"


@server.tool()
async def think(ctx: Context) -> str:
    """Ask the client's model."""
    content = types.TextContent(type="text", text="Say something.")
    messages = [types.SamplingMessage(role="user", content=content)]
    thought = await ctx.session.create_message(messages, max_tokens=10)
    return thought.content.text


@server.tool()
async def look(ctx: Context) -> str:
    """Ask for the client's roots."""
    found = await ctx.session.list_roots()
    return " ".join(str(root.uri) for root in found.roots)


@server.tool()
async def shout(ctx: Context) -> str:
    """Log a line of each of three levels."""
    await ctx.debug("canned debug")
    await ctx.info("canned info")
    await ctx.error("canned error")
    return "shouted"


@server.tool()
async def change(tool: str, ctx: Context) -> str:
    """Change the note, add a tool, and say so."""
    global changes
    changes += 1
    server.add_tool(add, name=tool)
    await ctx.session.send_resource_updated(AnyUrl(NOTE))
    await ctx.session.send_tool_list_changed()
    return "changed"


@server.tool()
def draw():
    """One pixel."""
    return types.ImageContent(type="image", data=PIXEL, mimeType="image/png")


if hasattr(types, "AudioContent"):

    @server.tool()
    def speak():
        """One sound."""
        return types.AudioContent(type="audio", data=PIXEL, mimeType="audio/wav")


if hasattr(types, "ResourceLink"):

    @server.tool()
    def point():
        """A link to the note."""
        return types.ResourceLink(type="resource_link", uri=AnyUrl(NOTE), name="note")


if hasattr(Context, "elicit"):

    @server.tool()
    async def ask(ctx: Context) -> str:
        """Ask the user with a form."""
        found = await ctx.elicit("Who are you?", Answer)
        return f"{found.data.name}, {found.data.age}, {found.data.agreed}"


if hasattr(Context, "elicit_url"):

    @server.tool()
    async def visit(ctx: Context) -> str:
        """Send the user to an address."""
        found = await ctx.elicit_url("Go there.", "http://[::1]/", "one")
        return found.action

    @server.tool()
    def detour(mark: str) -> str:
        """Fail the first time, until the user has been elsewhere."""
        if Path(mark).exists():
            return "arrived"
        Path(mark).touch()
        there = types.ElicitRequestURLParams(
            mode="url", message="Go there.", url="http://[::1]/", elicitationId="two"
        )
        raise exceptions.UrlElicitationRequiredError([there])


@server.resource(NOTE)
def note() -> str:
    """How often it was changed."""
    return str(changes)


@server.resource(BYTES, mime_type="image/png")
def some_bytes() -> bytes:
    """Bytes that are no text."""
    return b"\x00\xff"


@server.prompt()
def greet(name: str) -> str:
    """A prompt with one argument."""
    return f"Greet {name}."


@low.completion()
async def complete(ref: object, argument: object, context: object = None) -> types.Completion:
    """The same for everything."""
    return types.Completion(values=["Ada", "Alan"])


@low.set_logging_level()
async def set_level(level: str) -> None:
    """Leave it to the one who asked to pick what it wants."""


@low.subscribe_resource()
async def subscribe(uri: AnyUrl) -> None:
    """Whoever has subscribed or not is told."""


@low.unsubscribe_resource()
async def unsubscribe(uri: AnyUrl) -> None:
    """Likewise."""


def declare_all() -> None:
    """These SDKs declare neither subscriptions nor changes of lists, whatever a server does."""
    plain = low.get_capabilities

    def get_capabilities(options: object, experimental: object) -> types.ServerCapabilities:
        found = plain(NotificationOptions(tools_changed=True), experimental)
        found.resources.subscribe = True
        return found

    low.get_capabilities = get_capabilities


if __name__ == "__main__":
    declare_all()
    server.run(transport)

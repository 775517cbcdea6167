"""A small server on the Python SDK 1.x, the last that knows sessions only, on any transport.

`classic_python.py streamable-http PORT` or `classic_python.py sse PORT`. It asks with requests,
counts, logs and changes. What it says about a list goes to the standing stream of a session, what
it says about a call to that call's own.
"""

import sys

import anyio
from mcp import types
from mcp.server.fastmcp import Context, FastMCP
from pydantic import BaseModel

PAUSE_SECONDS = 0.05
"""The TypeScript clients lose progress that comes in one read with the answer."""
PATIENCE_SECONDS = 50
"""Over HTTP a cancellation may be overtaken by the question what became of the call. The TypeScript
SDKs wait a minute for the answer to that."""

transport, port = sys.argv[1:]
server = FastMCP("classic-python", port=int(port), log_level="WARNING")
changes = 0
ended, endings = anyio.create_memory_object_stream[str](100)


class Answer(BaseModel):
    name: str
    age: int
    agreed: bool


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def ask(ctx: Context) -> str:
    """Ask the user with a form."""
    found = await ctx.elicit("Who are you?", Answer)
    return f"{found.data.name}, {found.data.age}, {found.data.agreed}"


@server.tool()
async def visit(ctx: Context) -> str:
    """Send the user to an address."""
    found = await ctx.elicit_url("Go there.", "http://[::1]/", "one")
    return found.action


@server.tool()
async def think(ctx: Context) -> str:
    """Ask the client's model."""
    content = types.TextContent(type="text", text="Say something.")
    messages = [types.SamplingMessage(role="user", content=content)]
    request = ctx.request_id
    thought = await ctx.session.create_message(messages, max_tokens=10, related_request_id=request)
    return thought.content.text


@server.tool()
async def look(ctx: Context) -> str:
    """Ask for the client's roots."""
    found = await ctx.session.list_roots()
    return " ".join(str(root.uri) for root in found.roots)


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Count, reporting each number as progress."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"number {number}")
        await anyio.sleep(PAUSE_SECONDS)
    return f"counted to {to}"


@server.tool()
async def hang(ctx: Context) -> str:
    """Report progress once, then wait to be cancelled."""
    try:
        await ctx.report_progress(1)
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        ended.send_nowait("cancelled")
        raise
    return "never"


@server.tool()
async def how_it_ended() -> str:
    """Tell how a call of `hang` ended, when it has."""
    with anyio.fail_after(PATIENCE_SECONDS):
        return await endings.receive()


@server.tool()
async def shout(ctx: Context) -> str:
    """Log a line of each of two levels."""
    await ctx.info("canned info")
    await ctx.error("canned error")
    return "shouted"


@server.tool()
async def change(ctx: Context, tool: str = "") -> str:
    """Add a tool and say so."""
    global changes
    changes += 1
    server.add_tool(add, name=tool or f"add_{changes}")
    await ctx.session.send_tool_list_changed()
    return f"changed {changes}"


@server.resource("note://greeting")
def greeting() -> str:
    """A resource that never changes."""
    return "hello"


@server.prompt()
def greet(name: str) -> str:
    """A prompt with one argument."""
    return f"Greet {name}."


@server.completion()
async def complete(ref: object, argument: object, context: object) -> types.Completion:
    """The same for everything."""
    return types.Completion(values=["Ada", "Alan"])


if __name__ == "__main__":
    server.run(transport)

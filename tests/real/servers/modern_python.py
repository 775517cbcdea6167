"""A small server on the Python SDK 2.x that asks, counts, logs and changes.

The published servers on that SDK do none of this. It speaks both eras, as its SDK does: to a
modern client it asks with `input_required` and announces on `subscriptions/listen`, to a legacy
one it asks with requests. On stdio, or on /mcp at the port that is its only argument.
"""

import sys
from typing import Annotated

import anyio
import mcp_types as types
from mcp.server.mcpserver import Context, Elicit, ListRoots, MCPServer, Resolve, Sample
from pydantic import BaseModel

NOTE = "note://counter"
PAUSE_SECONDS = 0.05
"""The TypeScript clients lose progress that comes in one read with the answer."""
PATIENCE_SECONDS = 50
"""Over HTTP a cancellation may be overtaken by the question what became of the call. The TypeScript
SDKs wait a minute for the answer to that."""

server = MCPServer("modern-python", instructions="Ask, count, log, change.")
changes = 0
ended, endings = anyio.create_memory_object_stream[str](100)


class Answer(BaseModel):
    name: str
    age: int
    agreed: bool


def question() -> Elicit[Answer]:
    return Elicit("Who are you?", Answer)


def sample() -> Sample:
    content = types.TextContent(type="text", text="Say something.")
    return Sample([types.SamplingMessage(role="user", content=content)], max_tokens=10)


def roots() -> ListRoots:
    return ListRoots()


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def ask(answer: Annotated[Answer, Resolve(question)]) -> str:
    """Ask the user with a form."""
    return f"{answer.name}, {answer.age}, {answer.agreed}"


@server.tool()
def think(thought: Annotated[types.CreateMessageResult, Resolve(sample)]) -> str:
    """Ask the client's model."""
    assert isinstance(thought.content, types.TextContent)
    return thought.content.text


@server.tool()
def look(found: Annotated[types.ListRootsResult, Resolve(roots)]) -> str:
    """Ask for the client's roots."""
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
    """Log a line of each of three levels."""
    await ctx.debug("canned debug")
    await ctx.info("canned info")
    await ctx.error("canned error")
    return "shouted"


@server.tool()
async def change(ctx: Context, tool: str = "") -> str:
    """Change the note, add a tool, and say so."""
    global changes
    changes += 1
    server.add_tool(add, name=tool or f"add_{changes}")
    await ctx.notify_resource_updated(NOTE)
    await ctx.notify_tools_changed()
    return f"changed {changes}"


@server.resource(NOTE)
def note() -> str:
    """How often it was changed."""
    return str(changes)


@server.prompt()
def greet(name: str) -> str:
    """A prompt with one argument."""
    return f"Greet {name}."


if __name__ == "__main__":
    if ports := sys.argv[1:]:
        server.run("streamable-http", port=int(ports[0]))
    else:
        server.run()

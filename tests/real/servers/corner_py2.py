"""A server on the Python SDK 2.x that does whatever it can, in both eras.

Its arguments and its tools are those of `corner_py1.py`. To a modern client it asks with
`input_required`; to a legacy one, which it has over HTTP+SSE, with requests.
"""

import sys
import warnings
from pathlib import Path
from typing import Annotated

import anyio
import mcp_types as types
from mcp.server.mcpserver import Context, Elicit, ListRoots, MCPServer, Resolve, Sample
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

PAUSE_SECONDS = 0.05
"""The TypeScript clients lose progress that comes in one read with the answer."""
PATIENCE_SECONDS = 50
"""Over HTTP a cancellation may be overtaken by the question what became of the call. The TypeScript
SDKs wait a minute for the answer to that."""
PIXEL = "iVBORw0KGgo="

warnings.simplefilter("ignore", MCPDeprecationWarning)
name, transport, *ports = sys.argv[1:]
server = MCPServer(name, log_level="ERROR")
NOTE, BYTES = f"note://{name}/counter", f"note://{name}/bytes"
changes = 0


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


def is_modern(ctx: Context) -> bool:
    return ctx.request_context.protocol_version in MODERN_PROTOCOL_VERSIONS


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
def ask(answer: Annotated[Answer, Resolve(question)]) -> str:
    """Ask the user with a form."""
    return f"{answer.name}, {answer.age}, {answer.agreed}"


@server.tool(structured_output=False)
async def visit(ctx: Context):
    """Send the user to an address."""
    if not is_modern(ctx):
        return (await ctx.elicit_url("Go there.", "http://[::1]/", "one")).action
    if ctx.input_responses:
        return ctx.input_responses["there"].action
    there = types.ElicitRequestURLParams(message="Go there.", url="http://[::1]/")
    return types.InputRequiredResult(input_requests={"there": types.ElicitRequest(params=there)})


@server.tool()
def think(thought: Annotated[types.CreateMessageResult, Resolve(sample)]) -> str:
    """Ask the client's model."""
    return thought.content.text


@server.tool()
def look(found: Annotated[types.ListRootsResult, Resolve(roots)]) -> str:
    """Ask for the client's roots."""
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
    """Change the note, add a tool, and say so; a legacy client cannot subscribe to the note."""
    global changes
    changes += 1
    server.add_tool(add, name=tool)
    await ctx.notify_resource_updated(NOTE)
    await ctx.notify_tools_changed()
    if not is_modern(ctx):
        await ctx.session.send_tool_list_changed()
    return "changed"


@server.tool(structured_output=False)
def draw():
    """One pixel."""
    return types.ImageContent(data=PIXEL, mime_type="image/png")


@server.tool(structured_output=False)
def speak():
    """One sound."""
    return types.AudioContent(data=PIXEL, mime_type="audio/wav")


@server.tool(structured_output=False)
def point():
    """A link to the note."""
    return types.ResourceLink(uri=NOTE, name="note")


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


@server.completion()
async def complete(ref: object, argument: object, context: object) -> types.Completion:
    """The same for everything."""
    return types.Completion(values=["Ada", "Alan"])


if __name__ == "__main__":
    server.run(transport, **({"port": int(ports[0])} if ports else {}))

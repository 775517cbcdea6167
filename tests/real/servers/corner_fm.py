"""A server on FastMCP 4 that does whatever it can, in both eras.

Its arguments and its tools are those of `corner_py1.py`. To a modern client it asks with
`input_required`; to a legacy one, which it has over HTTP+SSE, with requests. It has no streams on
which to announce anything to a modern client, and nobody can subscribe to its resources.
"""

import sys
from pathlib import Path

import anyio
import mcp_types as types
from fastmcp import Context, FastMCP
from fastmcp.resources import ResourceContent, ResourceResult
from fastmcp.tools import ToolResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

PAUSE_SECONDS = 0.05
"""The TypeScript clients lose progress that comes in one read with the answer."""
PATIENCE_SECONDS = 50
"""Over HTTP a cancellation may be overtaken by the question what became of the call. The TypeScript
SDKs wait a minute for the answer to that."""
PIXEL = "iVBORw0KGgo="
FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "agreed": {"type": "boolean"},
    },
    "required": ["name", "age", "agreed"],
}

name, transport, *ports = sys.argv[1:]
server = FastMCP(name)
NOTE, BYTES = f"note://{name}/counter", f"note://{name}/bytes"
changes = 0


def is_modern(ctx: Context) -> bool:
    return ctx.request_context.protocol_version in MODERN_PROTOCOL_VERSIONS


def asking(ctx: Context, question: types.InputRequest):
    """The answer that came along with the request, or the question for it."""
    if ctx.input_responses:
        return ctx.input_responses["it"]
    return types.InputRequiredResult(input_requests={"it": question})


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def fail() -> str:
    """Fail."""
    raise ValueError("canned failure")


@server.tool
async def count(to: int, ctx: Context) -> str:
    """Count, reporting each number as progress."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to)
        await anyio.sleep(PAUSE_SECONDS)
    return f"counted to {to}"


@server.tool
async def hang(mark: str, ctx: Context) -> str:
    """Report progress once, then wait to be cancelled, and leave a mark."""
    try:
        await ctx.report_progress(1)
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        Path(mark).touch()
        raise
    return "never"


@server.tool
async def how_it_ended(mark: str) -> str:
    """Tell that a call of `hang` was cancelled, when it has been, in whichever process."""
    with anyio.fail_after(PATIENCE_SECONDS):
        while not Path(mark).exists():
            await anyio.sleep(PAUSE_SECONDS)
    return "cancelled"


@server.tool
async def ask(ctx: Context):
    """Ask the user with a form."""
    form = types.ElicitRequestFormParams(message="Who are you?", requested_schema=FORM)
    if is_modern(ctx):
        found = asking(ctx, types.ElicitRequest(params=form))
        if isinstance(found, types.InputRequiredResult):
            return found
    else:
        found = await ctx.session.elicit(form.message, FORM, related_request_id=ctx.request_id)
    return f"{found.content['name']}, {found.content['age']}, {found.content['agreed']}"


@server.tool
async def visit(ctx: Context):
    """Send the user to an address."""
    message, url = "Go there.", "http://[::1]/"
    if not is_modern(ctx):
        return (await ctx.session.elicit_url(message, url, "one", ctx.request_id)).action
    there = types.ElicitRequestURLParams(message=message, url=url)
    found = asking(ctx, types.ElicitRequest(params=there))
    return found if isinstance(found, types.InputRequiredResult) else found.action


@server.tool
async def think(ctx: Context):
    """Ask the client's model."""
    content = types.TextContent(text="Say something.")
    messages = [types.SamplingMessage(role="user", content=content)]
    if not is_modern(ctx):
        return (await ctx.session.create_message(messages, max_tokens=10)).content.text
    wanted = types.CreateMessageRequestParams(messages=messages, max_tokens=10)
    found = asking(ctx, types.CreateMessageRequest(params=wanted))
    return found if isinstance(found, types.InputRequiredResult) else found.content.text


@server.tool
async def look(ctx: Context):
    """Ask for the client's roots."""
    found = await ctx.session.list_roots() if not is_modern(ctx) else None
    found = found or asking(ctx, types.ListRootsRequest())
    if isinstance(found, types.InputRequiredResult):
        return found
    return " ".join(str(root.uri) for root in found.roots)


@server.tool
async def shout(ctx: Context) -> str:
    """Log a line of each of three levels."""
    await ctx.debug("canned debug")
    await ctx.info("canned info")
    await ctx.error("canned error")
    return "shouted"


@server.tool
async def change(tool: str, ctx: Context) -> str:
    """Change the note, add a tool, and say so to those who can be told."""
    global changes
    changes += 1

    @server.tool(name=tool)
    def another(a: int, b: int) -> int:
        return a + b

    if not is_modern(ctx):
        await ctx.send_notification(types.ToolListChangedNotification())
    return "changed"


@server.tool
def draw():
    """One pixel."""
    return ToolResult([types.ImageContent(data=PIXEL, mime_type="image/png")])


@server.tool
def speak():
    """One sound."""
    return ToolResult([types.AudioContent(data=PIXEL, mime_type="audio/wav")])


@server.tool
def point():
    """A link to the note."""
    return ToolResult([types.ResourceLink(uri=NOTE, name="note")])


@server.resource(NOTE)
def note() -> str:
    """How often it was changed."""
    return str(changes)


@server.resource(BYTES, mime_type="image/png")
def some_bytes() -> ResourceResult:
    """Bytes that are no text."""
    return ResourceResult([ResourceContent(b"\x00\xff", mime_type="image/png")])


@server.prompt
def greet(name: str) -> str:
    """A prompt with one argument."""
    return f"Greet {name}."


@server.completion
def complete(ref: object, argument: object, context: object) -> list[str]:
    """The same for everything."""
    return ["Ada", "Alan"]


if __name__ == "__main__":
    there = {"port": int(ports[0]), "uvicorn_config": {"ws": "none"}} if ports else {}
    server.run(transport, show_banner=False, log_level="error", **there)

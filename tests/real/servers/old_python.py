"""A small server on a Python SDK of early 2025, as many are still installed.

That SDK does not survive a method it does not know, `server/discover` among them: it answers
nothing, and ends when the next line comes. Who asks for the era has to reckon with it.
"""

import anyio
from mcp.server.fastmcp import Context, FastMCP

PAUSE_SECONDS = 0.05
"""The TypeScript clients lose progress that comes in one read with the answer."""

server = FastMCP("old-python")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Count, reporting each number as progress."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to)
        await anyio.sleep(PAUSE_SECONDS)
    return f"counted to {to}"


@server.resource("note://greeting")
def greeting() -> str:
    """A resource that never changes."""
    return "hello"


@server.prompt()
def greet(name: str) -> str:
    """A prompt with one argument."""
    return f"Greet {name}."


if __name__ == "__main__":
    server.run()

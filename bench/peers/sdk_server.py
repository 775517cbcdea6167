"""A server on the official Python SDK with one small tool, over Streamable HTTP.

sdk_server.py PORT
"""

import sys

from mcp.server.mcpserver import MCPServer

TEXT = "The quick brown fox jumps over the lazy dog; pack my box with five dozen liquor jugs."

server = MCPServer("sdk", log_level="ERROR")


@server.tool()
def echo(message: str, n: int, tags: list[str]) -> str:
    """Answer with a sentence."""
    return TEXT


if __name__ == "__main__":
    server.run("streamable-http", port=int(sys.argv[1]))

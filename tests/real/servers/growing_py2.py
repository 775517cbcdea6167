"""A server on the Python SDK 2.x that gets tools at run time, of which its SDK tells nobody.

It has the tools that its last argument names, and `grow`, which adds another. On stdio, or without
sessions on /mcp at a port: `stdio NAMES` or `streamable-http PORT NAMES`.
"""

import sys

from mcp.server.mcpserver import MCPServer

transport, *ports, names = sys.argv[1:]
server = MCPServer("growing", log_level="ERROR")


def add(name: str) -> None:
    def tool() -> str:
        return f"this is {name}"

    server.add_tool(tool, name=name)


@server.tool()
def grow(name: str) -> str:
    """Add a tool of this name."""
    add(name)
    return f"added {name}"


for each in names.split(","):
    add(each)

if __name__ == "__main__":
    listening = {"port": int(ports[0]), "stateless_http": True} if ports else {}
    server.run(transport, **listening)

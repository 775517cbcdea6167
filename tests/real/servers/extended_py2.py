"""A server on the Python SDK 2.x with an app that has words for those who cannot see it."""

from mcp.server.apps import Apps, client_supports_apps
from mcp.server.mcpserver import Context, MCPServer

VIEW = "ui://view/main.html"
apps = Apps()


@apps.tool(resource_uri=VIEW)
def show(ctx: Context) -> str:
    """Show something."""
    return "look at it" if client_supports_apps(ctx) else "imagine it"


apps.add_html_resource(VIEW, "<p>python</p>")
server = MCPServer("extended", extensions=[apps])

if __name__ == "__main__":
    server.run("stdio")

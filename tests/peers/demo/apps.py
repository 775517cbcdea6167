"""An MCP App: a tool whose result has a view, and one that only the view calls. The view is a
resource, named in the `_meta` of both tools."""

from typing import Final

from tests.peers.demo import content
from tests.peers.demo.calls import Call, Tool
from tests.peers.demo.listing import READ_ONLY, descriptor
from tests.peers.demo.revisions import Json

EXTENSION: Final = "io.modelcontextprotocol/ui"
MIME_TYPE: Final = "text/html;profile=mcp-app"
VIEW: Final = "ui://demo/dice"

_PAGE: Final = """<!doctype html>
<html lang="en">
<title>Dice</title>
<button>Throw</button>
<output></output>
<script>
const ask = (id, method, params) => parent.postMessage({ jsonrpc: "2.0", id, method, params }, "*");
const said = document.querySelector("output");
addEventListener("message", ({ data }) => {
  const result = data.method === "ui/notifications/tool-result" ? data.params : data.result;
  if (result?.content) said.textContent = result.content[0].text;
});
document.querySelector("button").onclick = () =>
  ask(2, "tools/call", { name: "dice_again", arguments: { faces: 6 } });
ask(1, "ui/initialize", {
  protocolVersion: "2026-01-26",
  appInfo: { name: "dice", version: "1" },
  appCapabilities: {},
});
</script>
</html>
"""

RESOURCE: Final[Json] = {
    "uri": VIEW,
    "name": "dice",
    "title": "Dice",
    "description": "The view of the tool 'dice'.",
    "mimeType": MIME_TYPE,
    "_meta": {"ui": {"prefersBorder": True}},
}


def read() -> Json:
    """What the view holds."""
    return {
        "uri": VIEW,
        "mimeType": MIME_TYPE,
        "text": _PAGE,
        "_meta": {"ui": {"csp": {"connectDomains": []}, "prefersBorder": True}},
    }


def _throw(_call: Call, given: Json) -> Json:
    """The same every time, so that tests can tell."""
    return content.result(content.text(f"A {given['faces']}, the best of {given['faces']}."))


def _tool(name: str, says: str, ui: Json) -> Tool:
    faces = {"type": "integer", "default": 6, "minimum": 2}
    schema = {"type": "object", "properties": {"faces": faces}}
    # Hosts of the first days look for the flat one.
    about = {"ui": {"resourceUri": VIEW, **ui}, "ui/resourceUri": VIEW}
    return Tool(descriptor=descriptor(name, says, schema, READ_ONLY, _meta=about), run=_throw)


APP_TOOLS: Final = {
    "dice": _tool("dice", "Throws a die, and shows it to those who can see.", {}),
    "dice_again": _tool("dice_again", "What the view calls.", {"visibility": ["app"]}),
}

"""How a tool is listed."""

from typing import Final

from tests.peers.demo.revisions import Json

READ_ONLY: Final = {"readOnlyHint": True, "openWorldHint": False}
CHANGES: Final = {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False}
DESTROYS: Final = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": False}


def descriptor(name: str, says: str, schema: Json, hints: Json, **more: Json) -> Json:
    """A tool as it is listed; its title is its name, as people write it."""
    return {
        "name": name,
        "title": name.replace("_", " ").capitalize(),
        "description": says,
        "inputSchema": schema,
        "annotations": hints,
        **more,
    }

"""Resources: a text, a picture, one that changes, and a template with four items."""

from typing import Final

from tests.peers.demo import apps, skills
from tests.peers.demo.calls import Call, Change, ServerState
from tests.peers.demo.faults import Fault, string_member
from tests.peers.demo.media import PNG, PNG_BASE64
from tests.peers.demo.paging import page
from tests.peers.demo.revisions import Json

COUNTER: Final = "demo://counter"
GREETING: Final = "demo://greeting"
LOGO: Final = "demo://logo"
ITEM_TEMPLATE: Final = "demo://items/{id}"
ITEM_IDS: Final = ("apple", "apricot", "banana", "cherry")

_ITEM_PREFIX: Final = ITEM_TEMPLATE.removesuffix("{id}")
_GREETING_TEXT: Final = "Hello from the demonstration server.\n"
ICON: Final[Json] = {"src": f"data:image/png;base64,{PNG_BASE64}", "mimeType": "image/png"}

GREETING_RESOURCE: Final[Json] = {
    "uri": GREETING,
    "name": "greeting",
    "title": "Greeting",
    "description": "A line of text that never changes.",
    "mimeType": "text/plain",
    "size": len(_GREETING_TEXT),
    "annotations": {"audience": ["user", "assistant"], "priority": 1.0},
}
_RESOURCES: Final[list[Json]] = [
    GREETING_RESOURCE,
    {
        "uri": LOGO,
        "name": "logo",
        "title": "Logo",
        "description": "A picture of eight by eight pixels.",
        "mimeType": "image/png",
        "size": len(PNG),
        "icons": [ICON],
    },
    {
        "uri": COUNTER,
        "name": "counter",
        "title": "Counter",
        "description": "How often the tool 'touch' has touched it.",
        "mimeType": "text/plain",
    },
]
_TEMPLATES: Final[list[Json]] = [
    {
        "uriTemplate": ITEM_TEMPLATE,
        "name": "item",
        "title": "Item",
        "description": f"One of {', '.join(ITEM_IDS)}.",
        "mimeType": "application/json",
    },
]


def list_resources(call: Call, params: Json) -> Json:
    more = [apps.RESOURCE] if call.server_state.options.apps else []
    entries = [call.revision.trim("resource", entry) for entry in (*_RESOURCES, *more)]
    return page(call.server_state.options, "resources", entries, params)


def list_templates(call: Call, params: Json) -> Json:
    entries = [call.revision.trim("template", entry) for entry in _TEMPLATES]
    return page(call.server_state.options, "resourceTemplates", entries, params)


def read_resource(call: Call, params: Json) -> Json:
    uri = string_member(params, "uri")
    contents = read(call.server_state, uri)
    if contents is None:
        raise not_found(call, uri)
    return {"contents": [call.revision.trim("contents", contents)]}


def read(server_state: ServerState, uri: str) -> Json | None:
    """What the resource holds now; None where there is no such resource."""
    if uri == GREETING:
        return greeting()
    if uri == LOGO:
        return {"uri": uri, "mimeType": "image/png", "blob": PNG_BASE64}
    version = server_state.versions.get(uri, 0)
    if uri == COUNTER:
        return {"uri": uri, "mimeType": "text/plain", "text": str(version)}
    item = uri.removeprefix(_ITEM_PREFIX)
    if uri.startswith(_ITEM_PREFIX) and item in ITEM_IDS:
        words = f'{{"id":"{item}","version":{version}}}'
        return {"uri": uri, "mimeType": "application/json", "text": words}
    if uri == apps.VIEW and server_state.options.apps:
        return apps.read()
    return skills.read(uri) if server_state.options.skills else None


def greeting() -> Json:
    return {"uri": GREETING, "mimeType": "text/plain", "text": _GREETING_TEXT}


def touch(server_state: ServerState, uri: str) -> int | None:
    """Changes a resource and tells who watches it; None where nothing there can change."""
    if uri in (GREETING, LOGO, apps.VIEW, *skills.FILES) or read(server_state, uri) is None:
        return None
    version = server_state.versions[uri] = server_state.versions.get(uri, 0) + 1
    server_state.announce(Change(method="notifications/resources/updated", uri=uri))
    return version


def not_found(call: Call, uri: str) -> Fault:
    return Fault(call.revision.resource_not_found, f"Resource not found: {uri}", {"uri": uri})

"""What is tried between every two endpoints: one function for each feature.

A function drives the client, looks at all that comes, and says what the caller got: `WORKS`, or
one of the other words here. It does not know what was to be expected.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.cli.running import wait_until
from tests.harness import Message
from tests.matrix.clients import CONSENT, FORM, ROOTS, SAMPLED, MatrixClient, ReceivedMessages
from tests.matrix.endpoints import Endpoint
from tests.matrix.environment import FILLERS, MatrixClients
from tests.peers.demo.media import PNG_BASE64, WAV_BASE64
from tests.peers.demo.questions import CONSENT_URL
from tests.peers.demo.resources import COUNTER, GREETING, ITEM_TEMPLATE, LOGO
from tests.peers.demo.tools import TOOLS

WORKS: Final = "works"
SERVER_CANNOT_ASK: Final = "server cannot ask"
CLIENT_CANNOT_BE_ASKED: Final = "client cannot be asked"
AS_TEXT: Final = "as text"
AS_FILE: Final = "as a file"

CHANGED: Final = "notifications/tools/list_changed"
UPDATED: Final = "notifications/resources/updated"
OPENED: Final = "notifications/elicitation/complete"

UNSTRUCTURED: Final = ("2024-11-05", "2025-03-26")
"""Revisions whose clients know nothing but the content of a result."""

URL_ERRORS: Final = "2025-11-25"
"""The one revision whose servers may end a call with an error that asks to visit a page."""

_APPLE: Final = "demo://items/apple"


class Cell:
    """One client and one server."""

    def __init__(self, clients: MatrixClients, server: Endpoint) -> None:
        self.clients = clients
        self.server = server
        self.client = clients.endpoint
        self.mcp_client = clients.mcp_client(server)

    def name(self, native: str) -> str:
        """The public name of a tool or a prompt."""
        return f"{self.server.slug}__{native}"

    def uri(self, native: str) -> str:
        """The public URI of a resource; all servers of the matrix claim the same ones."""
        return native if self.clients.alone else f"{self.server.slug}+{native}"

    def call(self, tool: str, **arguments: object) -> ReceivedMessages:
        return self.mcp_client.call(self.name(tool), arguments)

    def listed(self, kind: str, method: str = "") -> list[Message]:
        """A whole list, as many pages as it has."""
        pages = _pages(self.mcp_client, method or f"{kind}/list")
        return [entry for page in pages for entry in page[kind]]

    def tools(self) -> set[str]:
        """The native names of this server's tools."""
        names = (tool["name"] for tool in self.listed("tools"))
        return {n.removeprefix(self.name("")) for n in names if n.startswith(self.name(""))}


def _pages(mcp_client: MatrixClient, method: str) -> list[Message]:
    """All pages of a list; from the beginning again if the list changes in the meantime."""
    pages: list[Message] = []
    while not pages or "nextCursor" in pages[-1]:
        params = {"cursor": pages[-1]["nextCursor"]} if pages else {}
        told = mcp_client.exchange(method, params)
        if pages and told.ending.get("error", {}).get("code") == -32602:
            pages = []
        else:
            pages.append(told.result)
    return pages


def _list(cell: Cell) -> str:
    """Tools, resources, templates and prompts of the server are listed by their public names."""
    fillers = {f"tool_{number:04}" for number in range(FILLERS)}
    assert {*TOOLS, *fillers} <= cell.tools()
    uris = {resource["uri"] for resource in cell.listed("resources")}
    assert {cell.uri(COUNTER), cell.uri(GREETING), cell.uri(LOGO)} <= uris
    templates = cell.listed("resourceTemplates", "resources/templates/list")
    assert cell.uri(ITEM_TEMPLATE) in {template["uriTemplate"] for template in templates}
    assert cell.name("greet") in {prompt["name"] for prompt in cell.listed("prompts")}
    return WORKS


def _call(cell: Cell) -> str:
    """A tool, a prompt and a resource give what the server gave, to the last character."""
    for number in range(3):
        words = f"zwölf Boxkämpfer\n\ndata: 狐 \u2028 🦊 {number}"
        assert cell.call("echo", text=words).text == words
    prompt = {"name": cell.name("greet"), "arguments": {"name": "Ada", "style": "pirate"}}
    (said,) = cell.mcp_client.exchange("prompts/get", prompt).result["messages"]
    assert said["content"]["text"] == "Greet Ada in a pirate manner."
    (read,) = cell.mcp_client.exchange("resources/read", {"uri": cell.uri(GREETING)}).result[
        "contents"
    ]
    assert read["uri"] == cell.uri(GREETING)
    assert read["text"].startswith("Hello")
    return WORKS


def _progress(cell: Cell) -> str:
    """Progress arrives under the client's own token, in order, and only if it was asked for."""
    for token in ("a token", 7):
        arguments = {"seconds": 0, "steps": 3}
        told = cell.mcp_client.call(cell.name("slow"), arguments, token=token)
        assert told.text == "Done after 3 steps."
        reports = told.of("notifications/progress")
        assert [report["progress"] for report in reports] == [1, 2, 3]
        assert all(report["total"] == 3 for report in reports)
        assert all(report["progressToken"] == token for report in reports)
    assert not cell.call("slow", seconds=0, steps=3).of("notifications/progress")
    return WORKS


def _cancel(cell: Cell) -> str:
    """A call that is cancelled ends at the server, and the next one works."""
    before = cell.clients.cancellations(cell.server)
    cell.mcp_client.cancelled(cell.name("slow"), {"seconds": 60, "steps": 6000})
    cell.clients.wait_cancelled(cell.server, before)
    assert cell.call("echo", text="and on").text == "and on"
    if cell.client.transport == "http":
        # A response in a session ends only with an answer, and this is it.
        assert all(answer["error"]["code"] == -32800 for answer in cell.mcp_client.late)
    else:
        assert not cell.mcp_client.late
    return WORKS


def _log(cell: Cell) -> str:
    """A log message arrives if it is at the level that the client asked for, and otherwise not."""

    def logged(level: str, wanted: str) -> ReceivedMessages:
        arguments = {"level": level, "text": f"at {level}"}
        told = cell.mcp_client.call(cell.name("log"), arguments, level=wanted)
        assert told.text == f"Logged at {level}."
        return told

    quiet = logged("info", "warning")
    for level in ("error", "debug"):
        message = cell.mcp_client.log_of(logged(level, level))
        assert (message["level"], message["data"]) == (level, f"at {level}")
        assert message["logger"] == f"{cell.server.slug}/demo"
    assert not quiet.of("notifications/message")
    return WORKS


def _list_change(cell: Cell) -> str:
    """A tool that appears or vanishes is told to the client, and the next list says so, too."""
    with cell.mcp_client.following():
        cell.tools()  # Who has never seen the list need not hear that it has changed.
        vanishes = "isError" not in cell.call("shrink").result
        if not vanishes:
            wait_until(lambda: "grown_1" not in cell.tools())
            assert cell.call("grow").text == "Added grown_1."
        cell.mcp_client.wait_news(CHANGED)
        while ("grown_1" in cell.tools()) is vanishes:
            cell.mcp_client.wait_news(CHANGED)
    return WORKS


def _subscription(cell: Cell) -> str:
    """A change of a resource is told to a client that follows it, until it no longer does."""
    counter, apple = cell.uri(COUNTER), cell.uri(_APPLE)
    with cell.mcp_client.following(counter):
        cell.call("touch", uri=_APPLE)
        cell.call("touch")
        assert cell.mcp_client.wait_news(UPDATED)["uri"] == counter
    with cell.mcp_client.following(apple):
        cell.call("touch")
        cell.call("touch", uri=_APPLE)
        assert cell.mcp_client.wait_news(UPDATED)["uri"] == apple
    return WORKS


def _sampling(cell: Cell) -> str:
    """A tool asks the client's model in the middle of a call and gets its answer."""
    told = cell.call("sample", prompt="why?")
    (asked,) = told.asked
    assert asked["method"] == "sampling/createMessage"
    (message,) = asked["params"]["messages"]
    assert message["content"] == {"type": "text", "text": "why?"}
    assert json.loads(told.text) == SAMPLED
    return WORKS


def _elicitation(cell: Cell, kind: str, answer: Message) -> tuple[str, Message]:
    """What the caller got, and the params of what it was asked."""
    told = cell.call("elicit", kind=kind)
    if told.asked:
        (asked,) = told.asked
        assert asked["method"] == "elicitation/create"
        assert asked["params"].get("mode", "form") == kind
        assert json.loads(told.text) == answer
        return WORKS, asked["params"]
    assert told.result["isError"] is True
    if told.text == f"Revision {cell.server.revision} has no elicitation of the kind {kind}":
        return SERVER_CANNOT_ASK, {}
    assert "elicitation" in told.text
    return CLIENT_CANNOT_BE_ASKED, {}


def _elicitation_form(cell: Cell) -> str:
    """A tool asks the user to fill in a form in the middle of a call and gets it."""
    return _elicitation(cell, "form", FORM)[0]


def _elicitation_url(cell: Cell) -> str:
    """A tool asks the user to visit a page, in the middle of a call or with an error."""
    got, asked = _elicitation(cell, "url", CONSENT)
    if cell.server.revision != URL_ERRORS:
        return got
    if cell.client.revision == URL_ERRORS:
        same = asked["elicitationId"]
        cell.mcp_client.wait_news(OPENED, lambda told: told["elicitationId"] == same)

    page = {"mode": "url", "elicitationId": "e", "url": CONSENT_URL, "message": "First this."}
    given = {"code": -32042, "message": "Not yet", "data": {"elicitations": [page]}}
    told = cell.mcp_client.attempt("tools/call", {"name": cell.name("error"), "arguments": given})
    if cell.client.modern:
        (question,) = told.result["inputRequests"].values()
        assert (question["params"]["mode"], question["params"]["url"]) == ("url", CONSENT_URL)
    elif cell.client.revision == URL_ERRORS:
        assert told.error["code"] == -32042
        assert told.error["data"]["elicitations"] == [page]
    else:
        assert "URL" in told.error["message"]
    return got


def _roots(cell: Cell) -> str:
    """A tool asks for the client's roots in the middle of a call and gets them."""
    told = cell.call("roots")
    (asked,) = told.asked
    assert asked["method"] == "roots/list"
    assert json.loads(told.text) == ROOTS
    return WORKS


def _completion(cell: Cell) -> str:
    """Arguments of prompts and of templates are completed by the server."""
    of_prompt = {"type": "ref/prompt", "name": cell.name("greet")}
    of_template = {"type": "ref/resource", "uri": cell.uri(ITEM_TEMPLATE)}
    for ref, name, value, found in (
        (of_prompt, "style", "f", ["formal", "friendly"]),
        (of_template, "id", "ap", ["apple", "apricot"]),
    ):
        params = {"ref": ref, "argument": {"name": name, "value": value}}
        completion = cell.mcp_client.exchange("completion/complete", params).result["completion"]
        assert completion["values"] == found
    return WORKS


def _pagination(cell: Cell) -> str:
    """Lists of many pages, the server's and the gateway's, are read to their end."""
    mcp_client = cell.clients.mcp_client()
    pages = _pages(mcp_client, "tools/list")
    names = [tool["name"] for page in pages for tool in page["tools"]]
    assert len(pages) == 2
    assert len(names) == len(set(names))
    # The server has several pages too, the second of which it calls "".
    assert cell.name(f"tool_{FILLERS - 1:04}") in names
    refused = mcp_client.exchange("tools/list", {"cursor": "nobody's"}).error
    assert refused["code"] == -32602
    return WORKS


def _error(cell: Cell) -> str:
    """Errors of the server, of its tools and of the gateway have codes that the client knows."""
    given = {"code": 4001, "message": "so be it", "data": [1]}
    error = cell.call("error", **given).error
    assert (error["code"], error["message"]) == (4001, "so be it")
    assert error["data"] == {"server": cell.server.slug, "originalError": given}

    failed = cell.call("fail", message="no")
    assert failed.result["isError"] is True
    assert failed.text == "no"

    unknown = cell.call("nowhere").error
    oldest = cell.client.revision == "2024-11-05"
    assert unknown["code"] == (-32601 if oldest else -32602)

    missing = cell.mcp_client.exchange(
        "resources/read", {"uri": cell.uri("demo://items/plum")}
    ).error
    assert missing["code"] == (-32602 if cell.client.modern else -32002)
    return WORKS


def _binary(cell: Cell) -> str:
    """A picture, a sound and a binary resource arrive byte for byte."""
    (picture,) = cell.call("image").result["content"]
    assert picture == {"type": "image", "data": PNG_BASE64, "mimeType": "image/png"}
    (logo,) = cell.mcp_client.exchange("resources/read", {"uri": cell.uri(LOGO)}).result["contents"]
    assert logo == {"uri": cell.uri(LOGO), "mimeType": "image/png", "blob": PNG_BASE64}
    (sound,) = cell.call("audio").result["content"]
    if sound["type"] == "audio":
        assert sound == {"type": "audio", "data": WAV_BASE64, "mimeType": "audio/wav"}
        return WORKS
    assert sound["type"] == "resource"
    assert sound["resource"]["mimeType"] == "audio/wav"
    assert sound["resource"]["blob"] == WAV_BASE64
    return AS_FILE


def _structured(cell: Cell) -> str:
    """A result arrives as a value, beside the text."""
    told = cell.call("add", a=1, b=2)
    assert told.text == "3"
    if "structuredContent" not in told.result or cell.client.revision in UNSTRUCTURED:
        return AS_TEXT
    assert told.result["structuredContent"] == {"sum": 3}
    return WORKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """Something that a client and a server can do together."""

    name: str
    attempt: Callable[[Cell], str]

    @property
    def about(self) -> str:
        return self.attempt.__doc__ or ""


FEATURES: Final = (
    Feature(name="list", attempt=_list),
    Feature(name="call", attempt=_call),
    Feature(name="progress", attempt=_progress),
    Feature(name="cancel", attempt=_cancel),
    Feature(name="log", attempt=_log),
    Feature(name="list change", attempt=_list_change),
    Feature(name="resource subscription", attempt=_subscription),
    Feature(name="sampling", attempt=_sampling),
    Feature(name="elicitation form", attempt=_elicitation_form),
    Feature(name="elicitation URL", attempt=_elicitation_url),
    Feature(name="roots", attempt=_roots),
    Feature(name="completion", attempt=_completion),
    Feature(name="pagination", attempt=_pagination),
    Feature(name="error", attempt=_error),
    Feature(name="binary content", attempt=_binary),
    Feature(name="structured content", attempt=_structured),
)

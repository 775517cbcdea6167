"""A server to whose lists clients add, each of whose processes has lists of its own.

Speaks `legacy`, `modern` or `both`, as its argument says; one that speaks both is held to the era
in which it was spoken to first. It tells of a change if it is called with `tell`, in a session.
Uses nothing but the standard library.
"""

import json
import sys
from typing import Any

SPEAKS = sys.argv[1]
era = None if SPEAKS == "both" else SPEAKS

LISTS: dict[str, list[dict[str, Any]]] = {
    "tools": [{"name": "add", "inputSchema": {"type": "object"}}],
    "prompts": [],
    "resources": [],
    "resourceTemplates": [],
}
NAMED_BY = {"resources": "uri", "resourceTemplates": "uriTemplate"}
LISTED_AS = {f"{kind}/list": kind for kind in LISTS} | {
    "resources/templates/list": "resourceTemplates"
}
DECLARED = {kind: {"listChanged": True} for kind in ("tools", "prompts", "resources")}
INFO = {"name": "adding", "version": "1"}


class Refused(Exception):
    """The request has no result."""


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def add(kind: str, name: str, *, tell: bool = False) -> str:
    schema = {"inputSchema": {"type": "object"}} if kind == "tools" else {}
    LISTS[kind].append({"name": name, NAMED_BY.get(kind, "name"): name, **schema})
    if tell:
        changed = "resources" if kind == "resourceTemplates" else kind
        say(method=f"notifications/{changed}/list_changed")
    return f"added in the {era} era"


def call(params: dict[str, Any]) -> str:
    name, arguments = params["name"], params.get("arguments", {})
    if all(tool["name"] != name for tool in LISTS["tools"]):
        raise Refused(f"Unknown tool: {name}")
    return add(**arguments) if name == "add" else f"this is {name}"


def result(method: str, params: dict[str, Any]) -> Any:
    if method in LISTED_AS:
        return {LISTED_AS[method]: LISTS[LISTED_AS[method]]}
    about = {"capabilities": DECLARED, "serverInfo": INFO}
    match method:
        case "server/discover":
            return {"supportedVersions": ["2026-07-28"], **about}
        case "initialize":
            return {"protocolVersion": "2025-11-25", **about}
        case "tools/call":
            return {"content": [{"type": "text", "text": call(params)}]}
        case "prompts/get":
            return {"messages": [{"role": "user", "content": {"type": "text", "text": "p"}}]}
        case "resources/read":
            return {"contents": [{"uri": params["uri"], "text": "r"}]}
        case "ping":
            return {}
    raise Refused(f"Method not found: {method}")


def answer(message: dict[str, Any]) -> None:
    global era
    method, params = message["method"], message.get("params", {})
    opens = {"server/discover": "modern", "initialize": "legacy"}.get(method)
    if era is None and opens is not None:
        era = opens
    try:
        if opens not in (None, era):
            raise Refused(f"Method not found: {method}")
        found = result(method, params)
    except Refused as error:
        code = -32602 if method == "tools/call" else -32601
        say(id=message["id"], error={"code": code, "message": f"{error}"})
        return
    say(id=message["id"], result={"resultType": "complete", **found} if era == "modern" else found)


for line in sys.stdin:
    heard = json.loads(line)
    if "id" in heard and "method" in heard and heard["method"] != "subscriptions/listen":
        answer(heard)

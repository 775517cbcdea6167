"""A server that keeps what it is told in its process, as many real ones do.

Speaks `legacy`, `modern` or `both`, as its argument says; one that speaks both is held to the era
in which it was spoken to first. A second argument names a file for the ids of its processes.
Uses nothing but the standard library.
"""

import json
import os
import sys
from typing import Any

SPEAKS = sys.argv[1]
if len(sys.argv) > 2:
    with open(sys.argv[2], "a", encoding="utf-8") as started:
        started.write(f"{os.getpid()}\n")
KEPT: list[str] = []
FOLLOWED: dict[str, Any] = {}
"""By URI, the request that listens for it; None where the session has subscribed."""
era = None if SPEAKS == "both" else SPEAKS

URI = "kept:all"
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("keep", "tell", "log")]
CAPABILITIES = {"tools": {}, "resources": {"subscribe": True}, "logging": {}}
INFO = {"name": "keeping", "version": "1"}
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


class Refused(Exception):
    """The request has no result."""


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tell(method: str, params: dict[str, Any]) -> None:
    say(method=method, params=params)


def follow(id: Any, params: dict[str, Any]) -> None:
    wanted = params.get("notifications", {}).get("resourceSubscriptions", [])
    FOLLOWED.clear()
    FOLLOWED.update(dict.fromkeys(wanted, id))
    about = {SUBSCRIPTION: id}
    honoured = {"resourceSubscriptions": wanted} if wanted else {}
    tell("notifications/subscriptions/acknowledged", {"_meta": about, "notifications": honoured})


def call(name: str, arguments: dict[str, Any]) -> str:
    if name == "keep":
        KEPT.append(arguments["text"])
        for uri, listening in FOLLOWED.items():
            about = {"pid": os.getpid()} | ({} if listening is None else {SUBSCRIPTION: listening})
            tell("notifications/resources/updated", {"uri": uri, "_meta": about})
    elif name == "log":
        tell("notifications/message", {"level": "info", "data": arguments["text"]})
    return json.dumps({"kept": KEPT, "pid": os.getpid(), "era": era})


def result(method: str, params: dict[str, Any]) -> Any:
    match method:
        case "server/discover":
            return {
                "supportedVersions": ["2026-07-28"],
                "capabilities": CAPABILITIES,
                "_meta": {"io.modelcontextprotocol/serverInfo": INFO},
            }
        case "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": CAPABILITIES,
                "serverInfo": INFO,
            }
        case "tools/list":
            return {"tools": TOOLS, "ttlMs": 60000, "cacheScope": "public"}
        case "tools/call":
            text = call(params["name"], params.get("arguments", {}))
            return {"content": [{"type": "text", "text": text}]}
        case "resources/list":
            return {"resources": [{"uri": URI, "name": "all"}]}
        case "resources/read":
            contents = [{"uri": URI, "text": json.dumps(KEPT)}]
            return {"contents": contents, "ttlMs": 600000, "cacheScope": "public"}
        case "resources/subscribe":
            FOLLOWED[params["uri"]] = None
            return {}
        case "logging/setLevel" | "ping":
            return {}
    raise Refused(method)


def answer(message: dict[str, Any]) -> None:
    global era
    method, params = message["method"], message.get("params", {})
    opens = {"server/discover": "modern", "initialize": "legacy"}.get(method)
    if era is None and opens is not None:
        era = opens
    if method == "subscriptions/listen" and era == "modern":
        follow(message["id"], params)
        return
    try:
        if opens not in (None, era):
            raise Refused(method)
        found = result(method, params)
    except Refused as error:
        say(id=message["id"], error={"code": -32601, "message": f"Method not found: {error}"})
        return
    say(id=message["id"], result={"resultType": "complete", **found} if era == "modern" else found)


for line in sys.stdin:
    heard = json.loads(line)
    if "id" in heard and "method" in heard:
        answer(heard)

"""An MCP server of one page, for commands: quick to start, and it does as it is told.

Speaks 2025-11-25 only. Uses nothing but the standard library, so that it starts in no time.
"""

import json
import os
import sys
from typing import Any

NUMBERS = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "integer"}}}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
PIXEL = "iVBORw0KGgo="
FORM = {
    "message": "Who are you?",
    "requestedSchema": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name"],
    },
}
TOOLS = {
    "add": ("Adds two numbers.\nSlowly, if need be.", NUMBERS),
    "say": ("Says \x1b[31mred\x1b[0m things.", TEXT),
    "fail": ("Fails.", TEXT),
    "error": ("Is refused.", {"type": "object"}),
    "picture": ("Shows a picture.", {"type": "object"}),
    "steps": ("Goes step by step.", {"type": "object"}),
    "hang": ("Never answers.", {"type": "object"}),
    "ask": ("Asks who you are.", {"type": "object"}),
}


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(words: str, **rest: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}], **rest}


def call(id: Any, name: str, given: dict[str, Any], token: Any) -> None:
    if name == "add":
        total = given["a"] + given["b"]
        send(
            {"id": id, "result": text(json.dumps({"sum": total}), structuredContent={"sum": total})}
        )
    elif name == "say":
        send({"id": id, "result": text(given["text"])})
    elif name == "fail":
        send({"id": id, "result": text("It did \x1b[2Jnot work.", isError=True)})
    elif name == "error":
        send({"id": id, "error": {"code": -7, "message": "Not today"}})
    elif name == "picture":
        picture = {"type": "image", "mimeType": "image/png", "data": PIXEL}
        send({"id": id, "result": {"content": [picture]}})
    elif name == "steps":
        for step in (1, 2):
            progress = {"progressToken": token, "progress": step, "total": 2, "message": "going"}
            send({"method": "notifications/progress", "params": progress})
        log = {"level": "info", "data": "half way"}
        send({"method": "notifications/message", "params": log})
        send({"id": id, "result": text("there")})
    elif name == "hang":
        progress = {"progressToken": token, "progress": 1, "message": "hanging"}
        send({"method": "notifications/progress", "params": progress})
    elif name == "ask":
        send({"id": f"q{id}", "method": "elicitation/create", "params": FORM})


def serve() -> None:
    asking = None
    for line in sys.stdin:
        message = json.loads(line)
        id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if method == "initialize":
            about = {"name": "tiny", "version": "1"}
            offers: dict[str, Any] = {"tools": {}, "logging": {}}
            result = {"protocolVersion": "2025-11-25", "capabilities": offers, "serverInfo": about}
            send({"id": id, "result": result})
        elif method == "tools/list":
            listed = [
                {"name": name, "description": words, "inputSchema": schema}
                for name, (words, schema) in TOOLS.items()
            ]
            send({"id": id, "result": {"tools": listed}})
        elif method == "tools/call":
            asking = id
            token = params.get("_meta", {}).get("progressToken")
            call(id, params["name"], params.get("arguments", {}), token)
        elif method == "notifications/cancelled":
            with open(os.environ["TINY_NOTES"], "a") as notes:
                notes.write("cancelled\n")
        elif method is None and str(id).startswith("q"):
            send({"id": asking, "result": text(json.dumps(message.get("result")))})
        elif id is not None:
            send({"id": id, "error": {"code": -32601, "message": "Method not found"}})


if __name__ == "__main__":
    serve()

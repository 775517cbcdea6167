"""Conversations for tests of lint: files of messages, one JSON-RPC message each, or raw bytes."""

from typing import Any, Final

from anyport.protocol import meta

Line = dict[str, Any] | list[Any] | bytes
Conversation = list[Line]

MODERN: Final = "2026-07-28"
NEWEST: Final = "2025-11-25"


def ask(method: str, params: Any = None, id: Any = 9) -> Line:
    said: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "method": method}
    return said if params is None else said | {"params": params}


def note(method: str, params: Any = None) -> Line:
    said: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    return said if params is None else said | {"params": params}


def give(result: Any, id: Any = 9) -> Line:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def fail(code: Any, message: Any = "No", told: Any = None, id: Any = 9) -> Line:
    error = {"code": code, "message": message}
    return {"jsonrpc": "2.0", "id": id, "error": error if told is None else error | {"data": told}}


def hello(revision: str = NEWEST, client: Any = None, server: Any = None) -> Conversation:
    """A handshake."""
    every: dict[str, Any] = {
        name: {} for name in ("tools", "resources", "prompts", "logging", "completions")
    }
    who = {"name": "someone", "version": "1"}
    asked = {"protocolVersion": revision, "capabilities": client or {}, "clientInfo": who}
    told = {
        "protocolVersion": revision,
        "capabilities": every if server is None else server,
        "serverInfo": who,
    }
    return [
        ask("initialize", asked, 0),
        give(told, 0),
        note("notifications/initialized"),
    ]


def stamped(params: Any = None, able: Any = None, **more: Any) -> dict[str, Any]:
    """The params of a request without a handshake."""
    about = {
        meta.PROTOCOL_VERSION: MODERN,
        meta.CLIENT_CAPABILITIES: able or {},
        meta.CLIENT_INFO: {"name": "someone", "version": "1"},
    }
    return {**(params or {}), "_meta": about | more}


def call(result: Any, revision: str = NEWEST) -> Conversation:
    """A call of a tool in a session, and its result."""
    return [*hello(revision), ask("tools/call", {"name": "a"}), give(result)]


def listed(*tools: Any, revision: str = NEWEST) -> Conversation:
    """A list of tools in a session."""
    return [*hello(revision), ask("tools/list"), give({"tools": list(tools)})]


def afresh(method: str, result: Any, params: Any = None, able: Any = None) -> Conversation:
    """A request without a handshake, and its result."""
    return [ask(method, stamped(params, able)), give(result)]


def whole(**members: Any) -> dict[str, Any]:
    """A modern result that says everything of itself."""
    return {"resultType": "complete", **members}


def kept(**members: Any) -> dict[str, Any]:
    """One that may be used again."""
    return whole(ttlMs=0, cacheScope="private", **members)


def page(scope: str, params: Any, id: int) -> Conversation:
    result = whole(ttlMs=0, cacheScope=scope, tools=[])
    return [ask("tools/list", stamped(params), id), give(result, id)]


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def reports(*params: Any) -> Conversation:
    """A call that asks for progress, and gets some."""
    asked = {"name": "a", "_meta": {"progressToken": "t"}}
    told = [note("notifications/progress", {"progressToken": "t", **each}) for each in params]
    return [*hello(), ask("tools/call", asked), *told, give(text("done"))]


def question(entry: Any, able: Any = None, method: str = "tools/call") -> Conversation:
    asked = {"resultType": "input_required", "inputRequests": {"q": entry}}
    return afresh(method, asked, {"name": "a"}, able)


ELICIT: Final = {"method": "elicitation/create", "params": {"message": "Who?"}}
FORMS: Final[dict[str, Any]] = {"elicitation": {"form": {}}}
TRACE: Final = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError'

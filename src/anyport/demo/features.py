"""Tools, resource and prompt of the demo server, written once for all revisions.

A tool reports progress and asks the user through its `RequestContext`.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct

from anyport.demo.revisions import MODERN, Json, has, trim
from anyport.wire import jsonrpc
from anyport.wire.jsonrpc import INVALID_PARAMS

RESOURCE_NOT_FOUND: Final = -32002
SECONDS_MAX: Final = 3600
STEPS_MAX: Final = 10_000
EXACT_BELOW: Final = 2**53
"""Smaller integers are exact as JSON numbers."""

GREETING: Final = "demo://greeting"
PICTURE: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAMUlEQVR4nGP4//+/QsIBTMQAxFjlGCAUphwDnIUmx4DM"
    "QZZjQDMBLocuAZfDIgGRAwCOhF3pKlILxgAAAABJRU5ErkJggg=="
)
"""A PNG of 8 by 8 pixels."""


class RequestError(Exception):
    """Answers the request with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class ElicitationFailed(Exception):
    """The user could not be asked, or the client's answer is unusable."""


class RequestContext(Struct, frozen=True, kw_only=True):
    """One request that is being answered."""

    revision: str
    params: Json
    send: Callable[[bytes], None]
    """Sends a message that belongs to the request."""
    elicit: Callable[[Json], Awaitable[Json]]
    """Asks the user, with the params of `elicitation/create`; raises `ElicitationFailed`."""

    def progress(self, done: int, total: int, message: str) -> None:
        token = object_member(self.params, "_meta", {}).get("progressToken")
        if token is None:
            return
        params = {"progressToken": token, "progress": done, "total": total}
        if has(self.revision, "progress message"):
            params["message"] = message
        self.send(
            jsonrpc.encode_notification("notifications/progress", msgspec.json.encode(params))
        )


Handler: TypeAlias = Callable[[RequestContext, Json], Awaitable[Json]]
"""Answers the requests of a method."""


class DemoTool(Struct, frozen=True):
    entry: Json
    """As listed in the newest revision."""
    arguments: type[Struct]
    run: Callable[[RequestContext, Any], Awaitable[Json]]


class NoArguments(Struct):
    pass


class Echo(Struct):
    text: str


class Add(Struct):
    a: float
    b: float


class Slow(Struct):
    seconds: Annotated[float, Meta(ge=0, le=SECONDS_MAX)] = 1
    steps: Annotated[int, Meta(ge=1, le=STEPS_MAX)] = 5


async def _echo(_context: RequestContext, arguments: Echo) -> Json:
    return _text(arguments.text)


async def _add(context: RequestContext, arguments: Add) -> Json:
    total = arguments.a + arguments.b
    if not math.isfinite(total):
        return _text("The sum is too large for JSON.", is_error=True)
    if total.is_integer() and abs(total) < EXACT_BELOW:
        total = int(total)
    return trim({**_text(str(total)), "structuredContent": {"sum": total}}, context.revision)


async def _slow(context: RequestContext, arguments: Slow) -> Json:
    for step in range(1, arguments.steps + 1):
        await asyncio.sleep(arguments.seconds / arguments.steps)
        context.progress(step, arguments.steps, f"Step {step} of {arguments.steps}")
    return _text(f"Done after {arguments.steps} steps.")


async def _image(_context: RequestContext, _given: NoArguments) -> Json:
    return {"content": [{"type": "image", "data": PICTURE, "mimeType": "image/png"}]}


async def _elicit(context: RequestContext, _given: NoArguments) -> Json:
    name = {"type": "string", "title": "Name", "minLength": 1}
    schema = {"type": "object", "properties": {"name": name}, "required": ["name"]}
    try:
        answer = await context.elicit({"message": "Who are you?", "requestedSchema": schema})
    except ElicitationFailed as error:
        return _text(str(error), is_error=True)
    return _text(msgspec.json.encode(answer).decode())


def _tool(
    name: str,
    description: str,
    arguments: type[Struct],
    run: Callable[[RequestContext, Any], Awaitable[Json]],
    **more: Json,
) -> DemoTool:
    (_,), schemas = msgspec.json.schema_components([arguments])
    schema = {key: value for key, value in schemas[arguments.__name__].items() if key != "title"}
    entry = {
        "name": name,
        "title": name.capitalize(),
        "description": description,
        "inputSchema": schema,
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    }
    return DemoTool({**entry, **more}, arguments, run)


_SUM: Final[Json] = {
    "type": "object",
    "properties": {"sum": {"type": "number"}},
    "required": ["sum"],
}
_TOOLS: Final = (
    _tool("echo", "Returns the text.", Echo, _echo),
    _tool("add", "Adds two numbers.", Add, _add, outputSchema=_SUM),
    _tool("slow", "Takes its time, and reports progress if asked to.", Slow, _slow),
    _tool("image", "Returns a picture.", NoArguments, _image),
    _tool("elicit", "Asks the user for a name; returns the answer.", NoArguments, _elicit),
)
TOOLS: Final = {each.entry["name"]: each for each in _TOOLS}


async def list_tools(context: RequestContext, params: Json) -> Json:
    return _page("tools", [each.entry for each in _TOOLS], context, params)


async def call_tool(context: RequestContext, params: Json) -> Json:
    name = string_member(params, "name")
    found = TOOLS.get(name)
    if found is None:
        raise RequestError(INVALID_PARAMS, f"Unknown tool: {name}")
    try:
        arguments = msgspec.convert(object_member(params, "arguments", {}), found.arguments)
    except msgspec.ValidationError as error:
        message = f"Wrong arguments: {error}"
        if has(context.revision, "argument errors as results"):
            return _text(message, is_error=True)
        raise RequestError(INVALID_PARAMS, message) from error
    return await found.run(context, arguments)


async def list_resources(context: RequestContext, params: Json) -> Json:
    entry = {
        "uri": GREETING,
        "name": "greeting",
        "title": "Greeting",
        "description": "A line of text.",
        "mimeType": "text/plain",
    }
    return _page("resources", [entry], context, params)


async def list_templates(context: RequestContext, params: Json) -> Json:
    return _page("resourceTemplates", [], context, params)


async def read_resource(context: RequestContext, params: Json) -> Json:
    uri = string_member(params, "uri")
    if uri != GREETING:
        code = INVALID_PARAMS if context.revision == MODERN else RESOURCE_NOT_FOUND
        raise RequestError(code, f"Resource not found: {uri}", {"uri": uri})
    text = "Hello from the demo server.\n"
    return {"contents": [{"uri": GREETING, "mimeType": "text/plain", "text": text}]}


async def list_prompts(context: RequestContext, params: Json) -> Json:
    name = {"name": "name", "title": "Name", "description": "Whom to greet.", "required": True}
    entry = {
        "name": "greet",
        "title": "Greet somebody",
        "description": "Asks for a greeting.",
        "arguments": [trim(name, context.revision)],
    }
    return _page("prompts", [entry], context, params)


async def get_prompt(_context: RequestContext, params: Json) -> Json:
    name = string_member(params, "name")
    if name != "greet":
        raise RequestError(INVALID_PARAMS, f"Unknown prompt: {name}")
    greeted = string_member(object_member(params, "arguments", {}), "name")
    content = {"type": "text", "text": f"Greet {greeted} in a friendly way."}
    return {
        "description": "Asks for a greeting.",
        "messages": [{"role": "user", "content": content}],
    }


METHODS: Final[dict[str, Handler]] = {
    "tools/list": list_tools,
    "tools/call": call_tool,
    "resources/list": list_resources,
    "resources/templates/list": list_templates,
    "resources/read": read_resource,
    "prompts/list": list_prompts,
    "prompts/get": get_prompt,
}
"""Methods of every revision."""


def string_member(params: Json, name: str) -> str:
    """A member that must be a string."""
    value = params.get(name)
    if not isinstance(value, str):
        raise RequestError(INVALID_PARAMS, f"'{name}' must be a string")
    return value


def object_member(params: Json, name: str, default: Json | None = None) -> Json:
    """A member that must be an object; required if there is no default."""
    value = params.get(name, default)
    if not isinstance(value, dict):
        raise RequestError(INVALID_PARAMS, f"'{name}' must be an object")
    return value


def _page(kind: str, entries: list[Json], context: RequestContext, params: Json) -> Json:
    """A list of one page. No cursor is ever issued, so none is valid."""
    if "cursor" in params:
        raise RequestError(INVALID_PARAMS, "Invalid cursor")
    return {kind: [trim(entry, context.revision) for entry in entries]}


def _text(text: str, *, is_error: bool = False) -> Json:
    result: Json = {"content": [{"type": "text", "text": text}]}
    return {**result, "isError": True} if is_error else result

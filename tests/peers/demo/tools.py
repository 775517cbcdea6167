"""The tools: each shows a single thing that a client or a gateway must get right."""

import asyncio
import math
import os
from collections.abc import Callable
from typing import Final, NoReturn

import msgspec

from tests.peers.demo import content, questions
from tests.peers.demo.apps import APP_TOOLS
from tests.peers.demo.arguments import BadArguments, fill
from tests.peers.demo.brew_tools import BREW_TOOLS
from tests.peers.demo.calls import (
    LEVELS,
    TOOLS_CHANGED,
    Call,
    Method,
    Question,
    ServerState,
    Tool,
    Work,
)
from tests.peers.demo.faults import (
    ABSENT,
    INVALID_PARAMS,
    Fault,
    Unanswered,
    object_member,
    string_member,
)
from tests.peers.demo.listing import CHANGES, DESTROYS, READ_ONLY, descriptor
from tests.peers.demo.paging import page
from tests.peers.demo.resources import COUNTER, GREETING_RESOURCE, ICON, greeting, touch
from tests.peers.demo.revisions import Json
from tests.peers.demo.stdio import say

TEXT_BYTES_MAX: Final = 64 * 1024 * 1024  # Enough to pass any sensible limit on a message.
WAIT_SECONDS_MAX: Final = 3600  # A forgotten call must not keep the process for ever.
STEPS_MAX: Final = 10_000  # Bounds the progress messages that one call can cause.

_STRING: Final[Json] = {"type": "string"}
_GROWN: Final = "grown_"

TOOLS: Final[dict[str, Tool]] = {}


def start_tools(fillers: int, *, tasks: bool = False, apps: bool = False) -> dict[str, Tool]:
    """The tools a fresh server has, and as many that do nothing as were asked for."""
    names = [f"tool_{number:04}" for number in range(fillers)]
    more = {**(BREW_TOOLS if tasks else {}), **(APP_TOOLS if apps else {})}
    return {**TOOLS, **more, **{name: _filler(name) for name in names}}


def list_tools(call: Call, params: Json) -> Json:
    tools = call.server_state.tools.values()
    entries = [call.revision.trim("tool", tool.descriptor) for tool in tools]
    return page(call.server_state.options, "tools", entries, params)


def call_tool(call: Call, params: Json) -> Work:
    name = string_member(params, "name")
    arguments = object_member(params, "arguments", default={})
    known = call.server_state.tools.get(name)
    if known is None:
        raise Fault(INVALID_PARAMS, f"Unknown tool: {name}")
    becomes_task = call.starts_task(known.task_support)
    try:
        filled = fill(known.descriptor["inputSchema"], arguments)
    except BadArguments as error:
        # Who asked for a task expects a task or an error, and no result of the tool.
        if call.revision.bad_arguments_are_results and not becomes_task:
            return content.failure(str(error))
        raise Fault(INVALID_PARAMS, str(error)) from error
    run = known.begin if becomes_task else None
    return (run or known.run)(call, filled)


def _tool(
    name: str,
    says: str,
    hints: Json,
    properties: Json | None = None,
    *,
    optional: tuple[str, ...] = (),
    more: Json | None = None,
) -> Callable[[Method], Method]:
    """Offers the function below it. An argument that has a default is not required either."""

    def offer(run: Method) -> Method:
        schema: Json = {"type": "object", "properties": properties or {}}
        rules = schema["properties"].items()
        required = [key for key, rule in rules if "default" not in rule and key not in optional]
        if required:
            schema["required"] = required
        listed = descriptor(name, says, schema, hints, **(more or {}))
        TOOLS[name] = Tool(descriptor=listed, run=run)
        return run

    return offer


@_tool(
    "echo",
    "Gives the text back.",
    READ_ONLY,
    {"text": _STRING},
    more={"_meta": {"demo.anyport/kind": "text"}},
)
def _echo(_call: Call, given: Json) -> Json:
    return content.result(content.text(given["text"]))


@_tool(
    "add",
    "Adds two numbers.",
    READ_ONLY,
    {"a": {"type": "number"}, "b": {"type": "number"}},
    more={
        "outputSchema": {
            "type": "object",
            "properties": {"sum": {"type": "number"}},
            "required": ["sum"],
        }
    },
)
def _add(call: Call, given: Json) -> Json:
    total = given["a"] + given["b"]
    if not math.isfinite(total):
        return content.failure("The sum is too large for JSON")
    return content.structured(call.revision, str(total), {"sum": total})


@_tool(
    "fail",
    "Fails, as a tool does: with a result that says so.",
    READ_ONLY,
    {"message": {"type": "string", "default": "This tool always fails."}},
)
def _fail(_call: Call, given: Json) -> Json:
    return content.failure(given["message"])


@_tool(
    "error",
    "Fails, as a server does: with a JSON-RPC error of your choice.",
    READ_ONLY,
    {
        "code": {"type": "integer", "default": 4001},
        "message": {"type": "string", "default": "This tool always answers with an error."},
        "data": {"description": "Anything."},
    },
    optional=("data",),
)
def _error(_call: Call, given: Json) -> NoReturn:
    raise Fault(given["code"], given["message"], given.get("data", ABSENT))


@_tool(
    "slow",
    "Takes its time, and reports progress to those who ask for it.",
    READ_ONLY,
    {
        "seconds": {"type": "number", "default": 1, "minimum": 0, "maximum": WAIT_SECONDS_MAX},
        "steps": {"type": "integer", "default": 5, "minimum": 1, "maximum": STEPS_MAX},
    },
)
async def _slow(call: Call, given: Json) -> Json:
    steps = given["steps"]
    call.log("info", f"slow: {steps} steps to go")
    try:
        for step in range(1, steps + 1):
            await asyncio.sleep(given["seconds"] / steps)
            call.progress(step, steps, f"Step {step} of {steps}")
    except asyncio.CancelledError:
        say("slow: cancelled")  # The client hears nothing more; others may want to know.
        raise
    call.log("info", "slow: done")
    return content.result(content.text(f"Done after {steps} steps."))


@_tool("image", "Shows a picture.", READ_ONLY, more={"icons": [ICON]})
def _image(_call: Call, _given: Json) -> Json:
    return content.result(content.image())


@_tool("audio", "Plays a sound.", READ_ONLY)
def _audio(call: Call, _given: Json) -> Json:
    return content.result(content.audio(call.revision))


@_tool("everything_content", "Answers with every kind of content but sound.", READ_ONLY)
def _everything_content(call: Call, _given: Json) -> Json:
    blocks = [content.text("Every kind of content:"), content.image()]
    if "resource_link" in call.revision.content:
        blocks.append(content.link(call.revision, GREETING_RESOURCE))
    blocks.append(content.embedded(greeting()))
    return content.result(*blocks)


@_tool(
    "elicit",
    "Asks the user to fill in a form or to visit a page, and reports the answer.",
    READ_ONLY,
    {"kind": {"type": "string", "enum": ["form", "url"], "default": "form"}},
)
async def _elicit(call: Call, given: Json) -> Json:
    kind, revision = given["kind"], call.revision
    if kind not in revision.elicitation_modes:
        return content.failure(f"Revision {revision.name} has no elicitation of the kind {kind}")
    if kind == "form":
        return await _ask_and_report(call, questions.form(revision), "action")
    call.server_state.elicitations += 1
    elicitation_id = f"elicitation-{call.server_state.elicitations}"
    question = questions.url(revision, elicitation_id)
    report = await _ask_and_report(call, question, "action")
    if revision.elicitation_ids and "isError" not in report:
        call.notify("notifications/elicitation/complete", {"elicitationId": elicitation_id})
    return report


@_tool(
    "sample",
    "Asks the client's model to answer a prompt, and reports the answer.",
    READ_ONLY,
    {"prompt": _STRING},
)
async def _sample(call: Call, given: Json) -> Json:
    return await _ask_and_report(call, questions.sampling(given["prompt"]), "content")


@_tool("roots", "Asks the client for its roots, and reports them.", READ_ONLY)
async def _roots(call: Call, _given: Json) -> Json:
    return await _ask_and_report(call, questions.roots(), "roots")


@_tool(
    "consult",
    "Asks the user, the model or the roots about a text, and tells of it in logs and progress.",
    READ_ONLY,
    {
        "text": _STRING,
        "whom": {"type": "string", "enum": ["user", "model", "roots", "nobody"]},
        "seconds": {"type": "number", "default": 0, "minimum": 0, "maximum": WAIT_SECONDS_MAX},
    },
)
async def _consult(call: Call, given: Json) -> Json:
    text, whom = given["text"], given["whom"]
    if whom == "user" and "form" not in call.revision.elicitation_modes:
        return content.failure(f"Revision {call.revision.name} has no elicitation")
    question = questions.about(call.revision, whom, text)
    call.log("info", f"before: {text}")
    call.progress(1, 2, f"before: {text}")
    try:
        answer = {} if question is None else await call.ask(question)
    except Unanswered as error:
        return content.failure(str(error))
    await asyncio.sleep(given["seconds"])
    call.log("info", f"after: {text}")
    call.progress(2, 2, f"after: {text}")
    report = {"about": text, "answer": answer}
    return content.result(content.text(msgspec.json.encode(report).decode()))


async def _ask_and_report(call: Call, question: Question, member: str) -> Json:
    """The client's answer as JSON text. An answer without `member` is no answer."""
    try:
        answer = await call.ask(question)
    except Unanswered as error:
        return content.failure(str(error))
    if member not in answer:
        return content.failure(f"The client's answer to {question.method} has no '{member}'")
    return content.result(content.text(msgspec.json.encode(answer).decode()))


@_tool(
    "log",
    "Writes a log message, which arrives if the client wants that level.",
    READ_ONLY,
    {"level": {"type": "string", "enum": list(LEVELS)}, "text": _STRING},
)
def _log(call: Call, given: Json) -> Json:
    call.log(given["level"], given["text"])
    return content.result(content.text(f"Logged at {given['level']}."))


@_tool(
    "big",
    "Answers with a text of that many bytes.",
    READ_ONLY,
    {"bytes": {"type": "integer", "minimum": 0, "maximum": TEXT_BYTES_MAX}},
)
def _big(_call: Call, given: Json) -> Json:
    size = given["bytes"]
    return content.result(content.text(("0123456789" * (size // 10 + 1))[:size]))


@_tool(
    "touch",
    "Changes the counter or an item, and tells its subscribers.",
    CHANGES,
    {"uri": {"type": "string", "default": COUNTER}},
)
def _touch(call: Call, given: Json) -> Json:
    version = touch(call.server_state, given["uri"])
    if version is None:
        return content.failure(f"There is nothing to touch at {given['uri']}")
    return content.result(content.text(f"{given['uri']} is now at version {version}."))


@_tool("grow", "Adds a tool, and tells that the list has changed.", CHANGES)
def _grow(call: Call, _given: Json) -> Json:
    name = f"{_GROWN}{len(_grown(call.server_state)) + 1}"
    call.server_state.tools[name] = _filler(name)
    call.server_state.announce(TOOLS_CHANGED)
    return content.result(content.text(f"Added {name}."))


@_tool("shrink", "Removes the tool that was added last.", DESTROYS)
def _shrink(call: Call, _given: Json) -> Json:
    grown = _grown(call.server_state)
    if not grown:
        return content.failure("There is no tool to remove; 'grow' adds one")
    del call.server_state.tools[grown[-1]]
    call.server_state.announce(TOOLS_CHANGED)
    return content.result(content.text(f"Removed {grown[-1]}."))


@_tool(
    "env",
    "Tells the value of an environment variable of the server.",
    READ_ONLY,
    {"name": _STRING},
    more={
        "outputSchema": {
            "type": "object",
            "properties": {"value": {"type": ["string", "null"]}},
            "required": ["value"],
        }
    },
)
def _env(call: Call, given: Json) -> Json:
    raw = os.environ.get(given["name"])
    # A value that is not UTF-8 could not be sent; it is shown with question marks.
    value = None if raw is None else raw.encode(errors="replace").decode()
    words = "null" if value is None else value
    return content.structured(call.revision, words, {"value": value})


@_tool(
    "exit",
    "Ends the server without an answer, as a crash does.",
    DESTROYS,
    {"code": {"type": "integer", "default": 1, "minimum": 0, "maximum": 255}},
)
def _exit(_call: Call, given: Json) -> NoReturn:
    say(f"exiting with code {given['code']}, as asked")
    os._exit(given["code"])


@_tool("stderr", "Writes a line to the server's standard error.", READ_ONLY, {"text": _STRING})
def _stderr(_call: Call, given: Json) -> Json:
    say(given["text"])
    return content.result(content.text("Written."))


@_tool(
    "regional",
    "Says which region and shard it was called for, which travel in headers, too, over HTTP.",
    READ_ONLY,
    {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "shard": {"type": "integer", "x-mcp-header": "Shard"},
    },
    optional=("shard",),
)
def _regional(_call: Call, given: Json) -> Json:
    shard = given.get("shard", "any")
    return content.result(content.text(f"Region {given['region']}, shard {shard}."))


def _filler(name: str) -> Tool:
    return Tool(
        descriptor={
            "name": name,
            "description": "Says its own name.",
            "inputSchema": {"type": "object", "properties": {}},
            "annotations": READ_ONLY,
        },
        run=lambda _call, _given: content.result(content.text(name)),
    )


def _grown(server_state: ServerState) -> list[str]:
    return [name for name in server_state.tools if name.startswith(_GROWN)]

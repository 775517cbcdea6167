"""What the modern scenarios of the suite call, on a server that knows sessions only.

The suite has servers answer that input is required, and keep a state. This one asks as its era
does, with requests of its own in the middle of the call, and keeps nothing: what the suite gets to
see of the modern era is not from here. It goes on the reference server of the Python SDK 1.30,
which has none of these tools.
"""

import functools
from types import ModuleType
from typing import Annotated, Any

import anyio
from mcp import types
from mcp.server.fastmcp import Context, FastMCP
from mcp.server.fastmcp.prompts import Prompt
from mcp.server.lowlevel import NotificationOptions
from mcp.shared.exceptions import McpError
from pydantic import Field

MISSING_CAPABILITY = -32021
RESOURCE_NOT_FOUND = -32002

SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def extend(reference: ModuleType) -> None:
    """Add everything to the reference server."""
    server: FastMCP = reference.mcp
    for tool in (*ASKING, streaming_elicitation, logging_tool, x_mcp_header):
        server.add_tool(tool, name=f"test_{tool.__name__}")
    server.add_prompt(
        Prompt.from_function(input_required_result_prompt, name="test_input_required_result_prompt")
    )
    add_schema(server)
    add_changes(server)
    be_strict(server)


async def elicit(ctx: Context, message: str, **properties: str) -> dict[str, Any]:
    """What the user puts into a form of these fields, all of them required."""
    schema = {
        "type": "object",
        "properties": {name: {"type": type} for name, type in properties.items()},
        "required": list(properties),
    }
    answer = await ctx.session.elicit_form(message, schema, ctx.request_id)
    if answer.action != "accept" or answer.content is None:
        raise ValueError(f"the user chose to {answer.action}")
    return {name: answer.content[name] for name in properties}


async def sample(ctx: Context, text: str) -> str:
    """What the client's model says to it."""
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=text))
    answer = await ctx.session.create_message(
        [message], max_tokens=100, related_request_id=ctx.request_id
    )
    return answer.content.text


async def input_required_result_elicitation(ctx: Context) -> str:
    """One question for the user."""
    return "Hello, {name}!".format(**await elicit(ctx, "What is your name?", name="string"))


async def input_required_result_sampling(ctx: Context) -> str:
    """One question for the model."""
    return await sample(ctx, "What is the capital of France?")


async def input_required_result_list_roots(ctx: Context) -> str:
    """One question for the client."""
    # The SDK says nothing of the call here: over HTTP this comes on the stream of the session.
    return str((await ctx.session.list_roots()).roots[0].uri)


async def input_required_result_request_state(ctx: Context) -> str:
    """One question for the user, and no state."""
    return "state-ok: {ok}".format(**await elicit(ctx, "Please confirm", ok="boolean"))


async def input_required_result_tampered_state(ctx: Context) -> str:
    """One question for the user, and no state to tamper with."""
    return "state-ok: {ok}".format(**await elicit(ctx, "Please confirm", ok="boolean"))


async def input_required_result_multiple_inputs(ctx: Context) -> str:
    """Three questions that are open at the same time."""
    async with anyio.create_task_group() as questions:
        questions.start_soon(functools.partial(elicit, ctx, "What is your name?", name="string"))
        questions.start_soon(sample, ctx, "Generate a greeting")
        questions.start_soon(input_required_result_list_roots, ctx)
    return "All inputs received."


async def input_required_result_multi_round(ctx: Context) -> str:
    """A question, and another one when that is answered."""
    first = await elicit(ctx, "Step 1: What is your name?", name="string")
    second = await elicit(ctx, "Step 2: What is your favorite color?", color="string")
    return "{name} likes {color}.".format(**first, **second)


async def input_required_result_capabilities(ctx: Context) -> str:
    """Asks what the client of this session can be asked, no more."""
    if has(ctx, types.ClientCapabilities(elicitation=types.ElicitationCapability())):
        await elicit(ctx, "What is your name?", name="string")
    if has(ctx, types.ClientCapabilities(sampling=types.SamplingCapability())):
        await sample(ctx, "Say hello")
    return "All that can be asked was asked."


ASKING = (
    input_required_result_elicitation,
    input_required_result_sampling,
    input_required_result_list_roots,
    input_required_result_request_state,
    input_required_result_tampered_state,
    input_required_result_multiple_inputs,
    input_required_result_multi_round,
    input_required_result_capabilities,
)


async def input_required_result_prompt(ctx: Context) -> str:
    """A prompt that asks."""
    answer = await elicit(ctx, "What context should the prompt use?", context="string")
    return "Use the following context: {context}".format(**answer)


async def streaming_elicitation(ctx: Context) -> str:
    """One question for the user."""
    return str(await elicit(ctx, "The streaming probe asks for a word", word="string"))


async def logging_tool(ctx: Context) -> str:
    """Logs, whoever wants to hear it."""
    await ctx.info("test_logging_tool ran")
    return "Logged."


def x_mcp_header(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "<none>",
) -> str:
    """An argument that is in a header, too."""
    return f"region={region}"


def has(ctx: Context, capability: types.ClientCapabilities) -> bool:
    return ctx.session.check_client_capability(capability)


def add_schema(server: FastMCP) -> None:
    """A tool whose schema has more than the SDK would derive from a function."""

    @server.tool(name="json_schema_2020_12_tool")
    def tool() -> str:
        """A tool that is never called."""
        return "A schema is what this is about."

    server._tool_manager._tools["json_schema_2020_12_tool"].parameters = SCHEMA_2020_12


def add_changes(server: FastMCP) -> None:
    """Tools that say in the session that a list has changed, as those of the reference server do.

    They change nothing that lasts, either: a gateway may wait with reading a list that was changed
    a moment ago, for longer than the suite waits.
    """
    low = server._mcp_server
    changing = NotificationOptions(tools_changed=True, prompts_changed=True)
    low.create_initialization_options = functools.partial(
        low.create_initialization_options, changing
    )

    @server.tool()
    async def test_trigger_tool_change(ctx: Context) -> str:
        """Says that there are other tools."""
        await ctx.session.send_tool_list_changed()
        return "Said."

    @server.tool()
    async def test_trigger_prompt_change(ctx: Context) -> str:
        """Says that there are other prompts."""
        await ctx.session.send_prompt_list_changed()
        return "Said."


def be_strict(server: FastMCP) -> None:
    """Errors as the protocol wants them, where the SDK has a result, or an error without a code.

    The suite takes any result for a success: a tool that was not answered must not have one.
    """
    handlers = server._mcp_server.request_handlers
    call, read = handlers[types.CallToolRequest], handlers[types.ReadResourceRequest]
    asking = {f"test_{tool.__name__}" for tool in ASKING}

    async def call_strictly(request: types.CallToolRequest) -> types.ServerResult:
        answer = await call(request)
        if answer.root.isError and request.params.name in asking:
            words = answer.root.content[0].text
            raise McpError(types.ErrorData(code=types.INTERNAL_ERROR, message=words))
        if request.params.name == "test_missing_capability" and answer.root.isError:
            needed = {"requiredCapabilities": {"sampling": {}}}
            words = "This tool needs a client with sampling"
            raise McpError(types.ErrorData(code=MISSING_CAPABILITY, message=words, data=needed))
        return answer

    async def read_strictly(request: types.ReadResourceRequest) -> types.ServerResult:
        try:
            return await read(request)
        except ValueError as error:
            unknown = {"uri": str(request.params.uri)}
            raise McpError(
                types.ErrorData(code=RESOURCE_NOT_FOUND, message=str(error), data=unknown)
            ) from error

    handlers[types.CallToolRequest] = call_strictly
    handlers[types.ReadResourceRequest] = read_strictly

    @server.tool()
    async def test_missing_capability(ctx: Context) -> str:
        """Cannot be called by who has no model."""
        if not has(ctx, types.ClientCapabilities(sampling=types.SamplingCapability())):
            raise ValueError("no sampling")
        return "There is sampling."

"""What the legacy scenarios of the suite call, on a server that has no sessions.

The suite has servers ask with requests of their own in the middle of a call. This one asks as its
era does, by answering that input is required, and refuses who begins with a handshake. It goes on
the reference server of the Python SDK 2.3, whose tools of these names need a session.
"""

from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Annotated, Any

import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.mcpserver import Elicit, ElicitationResult, Resolve, Sample
from mcp.shared.exceptions import MCPError

REVISION = "2026-07-28"


def extend(reference: ModuleType) -> None:
    """Put everything in place of what the reference server has."""
    reference.mcp.middleware.append(refuse_handshakes)
    for tool in asking(reference):
        reference.mcp.remove_tool(tool.__name__)
        reference.mcp.add_tool(tool)


async def refuse_handshakes(
    ctx: ServerRequestContext[Any, Any],
    call_next: Callable[[ServerRequestContext[Any, Any]], Awaitable[Any]],
) -> Any:
    if ctx.method == "initialize":
        raise MCPError(
            code=types.UNSUPPORTED_PROTOCOL_VERSION,
            message="This server has no sessions",
            data={"supported": [REVISION], "requested": (ctx.params or {}).get("protocolVersion")},
        )
    return await call_next(ctx)


def asking(reference: ModuleType) -> list[Callable[..., str]]:
    """The tools, with the forms of the reference server."""

    def sampling(prompt: str) -> Sample:
        content = types.TextContent(type="text", text=prompt)
        return Sample([types.SamplingMessage(role="user", content=content)], max_tokens=100)

    def word(message: str) -> Elicit[reference.UserResponse]:
        return Elicit(message, reference.UserResponse)

    def defaults() -> Elicit[reference.SEP1034DefaultsSchema]:
        return Elicit("Please provide user information", reference.SEP1034DefaultsSchema)

    def enums() -> Elicit[reference.EnumSchemasTestSchema]:
        return Elicit("Please select some values", reference.EnumSchemasTestSchema)

    def test_sampling(
        prompt: str, answer: Annotated[types.CreateMessageResult, Resolve(sampling)]
    ) -> str:
        """Asks the client's model."""
        return f"LLM response: {answer.content.text}"

    def test_elicitation(
        message: str, answer: Annotated[ElicitationResult[reference.UserResponse], Resolve(word)]
    ) -> str:
        """Asks the user."""
        return f"User response: {told(answer)}"

    def test_elicitation_sep1034_defaults(
        answer: Annotated[ElicitationResult[reference.SEP1034DefaultsSchema], Resolve(defaults)],
    ) -> str:
        """Asks the user with a form that is filled in."""
        return f"Elicitation completed: {told(answer)}"

    def test_elicitation_sep1330_enums(
        answer: Annotated[ElicitationResult[reference.EnumSchemasTestSchema], Resolve(enums)],
    ) -> str:
        """Asks the user to choose."""
        return f"Elicitation completed: {told(answer)}"

    return [
        test_sampling,
        test_elicitation,
        test_elicitation_sep1034_defaults,
        test_elicitation_sep1330_enums,
    ]


def told(answer: ElicitationResult[Any]) -> str:
    content = answer.data.model_dump_json() if answer.action == "accept" else "{}"
    return f"action={answer.action}, content={content}"

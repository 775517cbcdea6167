"""What the scenarios of the tasks extension call, with the tasks of revision 2025-11-25.

The Python SDK 1.30 has these: a client says which call becomes a task, looks at it, fetches the
result, and is asked on the stream of that. It takes the place of the reference server, which has no
tasks, and knows nothing of the extension.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from itertools import count
from types import ModuleType
from typing import Any

import anyio
from anyio.abc import TaskGroup
from mcp import types
from mcp.server import session
from mcp.server.experimental.task_context import ServerTaskContext
from mcp.server.experimental.task_support import TaskSupport
from mcp.server.lowlevel import Server

FIELDS = {
    "greet": {"name": {"type": "string"}},
    "slow_compute": {"seconds": {"type": "number"}, "label": {"type": "string"}},
    "confirm_delete": {"filename": {"type": "string"}},
}
CONFIRM = {
    "type": "object",
    "properties": {"confirm": {"type": "boolean"}},
    "required": ["confirm"],
}
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


GROUP: ContextVar[TaskGroup] = ContextVar("GROUP")


@asynccontextmanager
async def run(_: TaskSupport) -> AsyncIterator[None]:
    """The work of one session. The SDK has one place for that of all: whichever session ends first
    leaves the others unable to begin a task."""
    async with anyio.create_task_group() as group:
        GROUP.set(group)
        yield


def extend(reference: ModuleType) -> None:
    """Put these tools in place of all others."""
    server: Server[Any] = reference.mcp._mcp_server
    server.experimental.enable_tasks()
    # The SDK names a task's questions after addresses in memory, which are soon used again: two
    # that are open at the same time may get one name.
    numbers = count()
    session.id = lambda _: next(numbers)  # type: ignore[attr-defined]
    TaskSupport.run = run  # type: ignore[method-assign]
    TaskSupport.task_group = property(lambda _: GROUP.get())  # type: ignore[assignment, method-assign]

    @server.list_tools()
    async def list_tools() -> list[types.Tool]:
        return [tool(name) for name in TOOLS]

    @server.call_tool()
    async def call_tool(
        name: str, arguments: dict[str, Any]
    ) -> types.CallToolResult | types.CreateTaskResult:
        ctx = server.request_context
        ctx.experimental.validate_task_mode(support(name))
        if name == "test_tool_with_task":
            # Before it is a task: the question belongs to the call.
            answer = await ctx.session.elicit_form("Who are you?", NAME, ctx.request_id)
            arguments = dict(answer.content or {})

        if not ctx.experimental.is_task:
            return await TOOLS[name](arguments, None)

        async def work(task: ServerTaskContext) -> types.CallToolResult:
            try:
                return await TOOLS[name](arguments, task)
            finally:
                # The SDK ends the session with a task that comes to something when cancelled.
                if (await task._store.get_task(task.task_id)).status == types.TASK_STATUS_CANCELLED:
                    await anyio.sleep_forever()

        return await ctx.experimental.run_task(work)


def support(name: str) -> types.TaskExecutionMode:
    """Whether its calls become tasks. All, or else who is to call it would have the choice."""
    return types.TASK_FORBIDDEN if name == "greet" else types.TASK_REQUIRED


def tool(name: str) -> types.Tool:
    return types.Tool(
        name=name,
        inputSchema={"type": "object", "properties": FIELDS.get(name, {})},
        execution=types.ToolExecution(taskSupport=support(name)),
    )


def said(text: str, *, wrong: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], isError=wrong)


async def greet(arguments: dict[str, Any], task: ServerTaskContext | None) -> types.CallToolResult:
    return said(f"Hello, {arguments.get('name')}!")


async def slow_compute(
    arguments: dict[str, Any], task: ServerTaskContext | None
) -> types.CallToolResult:
    await anyio.sleep(arguments.get("seconds", 0))
    return said("Computed.")


async def failing_job(
    arguments: dict[str, Any], task: ServerTaskContext | None
) -> types.CallToolResult:
    await anyio.sleep(1)
    return said("It did not work.", wrong=True)


async def protocol_error_job(
    arguments: dict[str, Any], task: ServerTaskContext | None
) -> types.CallToolResult:
    raise RuntimeError("It broke.")


async def confirm_delete(
    arguments: dict[str, Any], task: ServerTaskContext
) -> types.CallToolResult:
    answer = await task.elicit(f"Delete {arguments.get('filename')}?", CONFIRM)
    return said(f"{answer.action}: {answer.content}")


async def multi_input(arguments: dict[str, Any], task: ServerTaskContext) -> types.CallToolResult:
    """Two questions that are open at the same time."""
    async with anyio.create_task_group() as questions:
        questions.start_soon(task.elicit, "One?", CONFIRM)
        questions.start_soon(task.elicit, "Two?", CONFIRM)
    return said("Both were answered.")


TOOLS = {
    "greet": greet,
    "slow_compute": slow_compute,
    "failing_job": failing_job,
    "protocol_error_job": protocol_error_job,
    "confirm_delete": confirm_delete,
    "multi_input": multi_input,
    "test_tool_with_task": greet,
}

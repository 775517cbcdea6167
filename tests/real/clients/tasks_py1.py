"""A client made with the Python SDK 1.x that runs tools as tasks, by the SDK's own means.

Its steps are [{tool, arguments}, …]: the first is seen through to its end, the second is cancelled.
It prints one JSON object with what it saw.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp import types
from mcp.client.session import ClientSession
from py1_client import dump, streams
from steps import elicitation_answer, read_task


async def run() -> dict[str, Any]:
    task = read_task()
    first, second = task.steps
    saw: dict[str, Any] = {"asked": [], "notified": [], "stages": []}

    async def elicited(context: Any, params: types.ElicitRequestParams) -> Any:
        saw["asked"].append(dump(params))
        return types.ElicitResult.model_validate(elicitation_answer(dump(params)))

    async def incoming(message: Any) -> None:
        if isinstance(message, types.ServerNotification):
            told = dump(message.root)
            if told["method"] == "notifications/tasks/status":
                saw["notified"].append(told["params"])

    async with (
        streams(task) as (receive, send),
        ClientSession(
            receive, send, elicitation_callback=elicited, message_handler=incoming
        ) as session,
    ):
        opened = dump(await session.initialize())
        saw["declared"] = opened["capabilities"].get("tasks")
        tools = dump(await session.list_tools())["tools"]
        saw["supports"] = {
            tool["name"]: tool.get("execution", {}).get("taskSupport") for tool in tools
        }
        tasks = session.experimental
        made = await tasks.call_tool_as_task(first["tool"], first["arguments"])
        saw["created"] = dump(made)["task"]
        async for status in tasks.poll_task(made.task.taskId):
            saw["stages"].append(status.status)
            if status.status == "input_required":
                break  # Who is to be asked waits for the result.
        result = await tasks.get_task_result(made.task.taskId, types.CallToolResult)
        saw["result"] = dump(result)
        again = await tasks.get_task_result(made.task.taskId, types.CallToolResult)
        saw["again"] = dump(again)

        other = await tasks.call_tool_as_task(second["tool"], second["arguments"])
        saw["cancelled"] = dump(await tasks.cancel_task(other.task.taskId))
        saw["listed"] = dump(await tasks.list_tasks())["tasks"]
    return saw


if __name__ == "__main__":
    json.dump(asyncio.run(run()), sys.stdout)

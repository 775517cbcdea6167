"""FastMCP's client, which speaks both eras.

The modes are those of the Python SDK 2.x, on which it stands. What FastMCP has no word for is
said through the session of the SDK that it hands out: subscribing, and listening for changes.
"""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import anyio
import mcp_types as types
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from mcp import MCPError
from mcp.client.subscriptions import listen
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel
from steps import ROOTS, SAMPLE, Report, Task, elicitation_answer, read_task

Step = Mapping[str, Any]
warnings.simplefilter("ignore", MCPDeprecationWarning)


class Conversation:
    def __init__(self, client: Client[Any], report: Report, listening: AsyncExitStack) -> None:
        self.client = client
        self.report = report
        self.listening = listening
        self.modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS

    def connected(self) -> None:
        server, capabilities = self.client.server_info, self.client.server_capabilities
        self.report.saw(
            "connected",
            protocolVersion=self.client.protocol_version,
            capabilities=dump(capabilities) if capabilities is not None else None,
            serverInfo=dump(server) if server is not None else None,
            instructions=self.client.instructions,
        )

    async def list(self, step: Step) -> set[str]:
        # It walks all pages by itself.
        verbs: Mapping[str, Callable[[], Awaitable[list[Any]]]] = {
            "tools": self.client.list_tools,
            "prompts": self.client.list_prompts,
            "resources": self.client.list_resources,
            "templates": self.client.list_resource_templates,
        }
        items = [dump(item) for item in await verbs[step["what"]]()]
        self.report.saw("listed", what=step["what"], items=items)
        return {item["name"] for item in items}

    async def call(self, step: Step) -> None:
        with anyio.CancelScope() as scope:

            async def progressed(progress: float, total: float | None, message: str | None) -> None:
                if scope.cancel_called:
                    return
                self.report.saw("progress", progress=progress, total=total, message=message)
                if step.get("cancel"):
                    scope.cancel()

            asked = step.get("progress") or step.get("cancel")
            name, arguments = step["name"], step.get("arguments", {})
            handler = progressed if asked else None
            self.result(await self.client.call_tool_mcp(name, arguments, progress_handler=handler))
        if scope.cancelled_caught:
            self.report.saw("cancelled")

    async def read(self, step: Step) -> None:
        self.result(await self.client.read_resource_mcp(step["uri"]))

    async def subscribe(self, step: Step) -> None:
        if self.modern:
            await self._open(resource_subscriptions=[step["uri"]])
        else:
            self.result(await self.client.session.subscribe_resource(step["uri"]))

    async def listen(self, step: Step) -> None:
        if self.modern:
            await self._open(
                tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
            )
        else:
            self.report.saw("result", result={})

    async def _open(self, **filter: Any) -> None:
        stream = listen(self.client.session, **filter)
        subscription = await self.listening.enter_async_context(stream)
        self.report.saw("result", result=dump(subscription.honored))

    async def prompt(self, step: Step) -> None:
        self.result(await self.client.get_prompt_mcp(step["name"], step.get("arguments")))

    async def complete(self, step: Step) -> None:
        prompt = step["ref"]["type"] == "ref/prompt"
        kind = types.PromptReference if prompt else types.ResourceTemplateReference
        ref = kind.model_validate(step["ref"])
        self.result(await self.client.complete_mcp(ref, step["argument"], step.get("context")))

    async def log_level(self, step: Step) -> None:
        # In the modern era it asks for everything, from the first call on.
        if not self.modern:
            await self.client.set_logging_level(step["level"])
        self.report.saw("result", result={})

    async def wait(self, step: Step) -> None:
        while await self.report.wait_notification(step["method"], step.get("uri")):
            if "tool" not in step or step["tool"] in await self.list({"what": "tools"}):
                return

    def result(self, result: BaseModel) -> None:
        self.report.saw("result", result=dump(result))


async def run(task: Task) -> None:
    report = Report()

    async def sampled(messages: Any, params: types.CreateMessageRequestParams, context: Any) -> Any:
        report.saw("asked", method="sampling/createMessage", params=dump(params))
        return types.CreateMessageResult.model_validate(SAMPLE)

    async def elicited(message: str, kind: Any, params: Any, context: Any) -> Any:
        report.saw("asked", method="elicitation/create", params=dump(params))
        return types.ElicitResult.model_validate(elicitation_answer(dump(params)))

    async def rooted(context: Any) -> list[types.Root]:
        report.saw("asked", method="roots/list", params={})
        return types.ListRootsResult.model_validate(ROOTS).roots

    async def incoming(message: Any) -> None:
        if isinstance(message, Exception):
            report.saw("fault", message=str(message))
            return
        notification = dump(message)
        if notification["method"] != "notifications/progress":
            report.notified(notification["method"], notification.get("params"))

    client = Client(
        task.url or server(task),
        mode=task.mode,
        roots=rooted,
        sampling_handler=sampled,
        elicitation_handler=elicited,
        message_handler=incoming,
        client_info=types.Implementation(name="fm", version="1"),
    )
    async with client, AsyncExitStack() as listening:
        conversation = Conversation(client, report, listening)
        conversation.connected()
        for report.step, step in enumerate(task.steps):
            try:
                await getattr(conversation, step["do"])(step)
            except MCPError as error:
                report.saw("error", **dump(error.error))
    report.saw("closed")


def server(task: Task) -> StdioTransport:
    command, *arguments = task.target
    return StdioTransport(command, arguments, env=dict(os.environ), keep_alive=False)


def dump(model: BaseModel) -> dict[str, Any]:
    """What came over the wire, without what the SDK would have filled in."""
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


if __name__ == "__main__":
    asyncio.run(run(read_task()))

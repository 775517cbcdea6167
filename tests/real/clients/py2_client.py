"""A client made with the Python SDK 2.x, which speaks both eras.

`--mode auto` asks the server which it speaks, `--mode legacy` shakes hands without asking, and
a revision as the mode speaks that one without asking. The steps are the same in both eras;
what an era lacks is done in its own way, see `tests/real/rig.py`.
"""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

import anyio
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel
from steps import ROOTS, SAMPLE, Report, Task, elicitation_answer, read_task

Step = Mapping[str, Any]
warnings.simplefilter("ignore", MCPDeprecationWarning)


class Conversation:
    def __init__(self, client: Client, report: Report, listening: AsyncExitStack) -> None:
        self.client = client
        self.report = report
        self.listening = listening
        self.modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
        self.meta: types.RequestParamsMeta = {}

    def connected(self) -> None:
        server = self.client.server_info
        self.report.saw(
            "connected",
            protocolVersion=self.client.protocol_version,
            capabilities=dump(self.client.server_capabilities),
            serverInfo=dump(server) if server is not None else None,
            instructions=self.client.instructions,
        )

    async def list(self, step: Step) -> set[str]:
        verbs: Mapping[str, tuple[Callable[..., Awaitable[BaseModel]], str]] = {
            "tools": (self.client.list_tools, "tools"),
            "prompts": (self.client.list_prompts, "prompts"),
            "resources": (self.client.list_resources, "resources"),
            "templates": (self.client.list_resource_templates, "resourceTemplates"),
        }
        verb, key = verbs[step["what"]]
        items: list[Any] = []
        cursor = None
        while True:
            page = dump(await verb(cursor=cursor))
            items += page[key]
            cursor = page.get("nextCursor")
            if cursor is None:
                break
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
            self.result(
                await self.client.call_tool(
                    step["name"],
                    step.get("arguments", {}),
                    progress_callback=progressed if asked else None,
                    meta=self.meta or None,
                )
            )
        if scope.cancelled_caught:
            self.report.saw("cancelled")

    async def read(self, step: Step) -> None:
        self.result(await self.client.read_resource(step["uri"]))

    async def subscribe(self, step: Step) -> None:
        if self.modern:
            await self._open(self.client.listen(resource_subscriptions=[step["uri"]]))
        else:
            self.result(await self.client.subscribe_resource(step["uri"]))

    async def listen(self, step: Step) -> None:
        if self.modern:
            everything = self.client.listen(
                tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
            )
            await self._open(everything)
        else:
            self.report.saw("result", result={})

    async def _open(self, stream: Any) -> None:
        subscription = await self.listening.enter_async_context(stream)
        self.report.saw("result", result=dump(subscription.honored))

    async def prompt(self, step: Step) -> None:
        self.result(await self.client.get_prompt(step["name"], step.get("arguments")))

    async def complete(self, step: Step) -> None:
        prompt = step["ref"]["type"] == "ref/prompt"
        kind = types.PromptReference if prompt else types.ResourceTemplateReference
        ref = kind.model_validate(step["ref"])
        self.result(await self.client.complete(ref, step["argument"], step.get("context")))

    async def log_level(self, step: Step) -> None:
        if self.modern:
            self.meta = cast(types.RequestParamsMeta, {types.LOG_LEVEL_META_KEY: step["level"]})
            self.report.saw("result", result={})
        else:
            self.result(await self.client.set_logging_level(step["level"]))

    async def wait(self, step: Step) -> None:
        while await self.report.wait_notification(step["method"], step.get("uri")):
            if "tool" not in step or step["tool"] in await self.list({"what": "tools"}):
                return

    def result(self, result: BaseModel) -> None:
        self.report.saw("result", result=dump(result))


async def run(task: Task) -> None:
    report = Report()

    async def sampled(context: Any, params: types.CreateMessageRequestParams) -> Any:
        report.saw("asked", method="sampling/createMessage", params=dump(params))
        return types.CreateMessageResult.model_validate(SAMPLE)

    async def elicited(context: Any, params: types.ElicitRequestParams) -> Any:
        report.saw("asked", method="elicitation/create", params=dump(params))
        return types.ElicitResult.model_validate(elicitation_answer(dump(params)))

    async def rooted(context: Any) -> Any:
        report.saw("asked", method="roots/list", params={})
        return types.ListRootsResult.model_validate(ROOTS)

    async def incoming(message: Any) -> None:
        if isinstance(message, Exception):
            report.saw("fault", message=str(message))
            return
        notification = dump(message)
        if notification["method"] != "notifications/progress":
            report.notified(notification["method"], notification.get("params"))

    client = Client(
        server(task),
        mode=task.mode,
        sampling_callback=sampled,
        elicitation_callback=elicited,
        list_roots_callback=rooted,
        message_handler=incoming,
        client_info=types.Implementation(name="py2", version="1"),
    )
    async with leaving(), client, AsyncExitStack() as listening:
        conversation = Conversation(client, report, listening)
        conversation.connected()
        for report.step, step in enumerate(task.steps):
            try:
                await getattr(conversation, step["do"])(step)
            except MCPError as error:
                report.saw("error", **dump(error.error))
    report.saw("closed")


@asynccontextmanager
async def leaving() -> AsyncIterator[None]:
    """Over HTTP+SSE the SDK breaks when something is said to it while it leaves."""
    try:
        yield
    except* anyio.BrokenResourceError:
        pass


def server(task: Task) -> Any:
    if task.url is not None:
        return sse_client(task.url) if task.over_sse else task.url
    command, *arguments = task.target
    return StdioServerParameters(command=command, args=arguments, env=dict(os.environ))


def dump(model: BaseModel) -> dict[str, Any]:
    """What came over the wire, without what the SDK would have filled in."""
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


if __name__ == "__main__":
    asyncio.run(run(read_task()))

"""A client made with the Python SDK 1.x: a handshake, then a session.

It only obeys steps and tells what it saw; see `tests/real/rig.py` for both. It runs on every 1.x
since 1.6, and declares and does what the one it runs on can.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp import ClientSession, McpError, StdioServerParameters, stdio_client, types
from mcp.client.sse import sse_client
from pydantic import AnyUrl, BaseModel
from steps import ROOTS, SAMPLE, Report, Task, elicitation_answer, read_task

try:
    from mcp.client.streamable_http import streamablehttp_client
except ImportError:  # It came with 1.8.
    streamablehttp_client = None

Step = Mapping[str, Any]
Progressed = Callable[[float, float | None, str | None], Awaitable[None]]
CALLS_BACK = "progress_callback" in inspect.signature(ClientSession.call_tool).parameters
"""Whether the SDK hands out progress. Before, one had to pick it out of the notifications."""


class Conversation:
    def __init__(self, session: ClientSession, report: Report) -> None:
        self.session = session
        self.report = report
        self.progressed: Progressed | None = None

    async def connect(self, step: Step) -> None:
        found = await self.session.initialize()
        self.report.saw("connected", **dump(found))

    async def list(self, step: Step) -> set[str]:
        verbs: Mapping[str, tuple[Callable[..., Awaitable[BaseModel]], str]] = {
            "tools": (self.session.list_tools, "tools"),
            "prompts": (self.session.list_prompts, "prompts"),
            "resources": (self.session.list_resources, "resources"),
            "templates": (self.session.list_resource_templates, "resourceTemplates"),
        }
        verb, key = verbs[step["what"]]
        items: list[Any] = []
        cursor = None
        while True:
            page = dump(await (verb(cursor) if cursor else verb()))
            items += page[key]
            cursor = page.get("nextCursor")
            if cursor is None:
                break
        self.report.saw("listed", what=step["what"], items=items)
        return {item["name"] for item in items}

    async def call(self, step: Step) -> None:
        name, arguments = step["name"], step.get("arguments", {})
        if not step.get("progress") and not step.get("cancel"):
            self.result(await self.session.call_tool(name, arguments))
            return
        with anyio.CancelScope() as scope:
            # This SDK has no way to cancel a call but to name its id, which is the next one.
            request = self.session._request_id

            async def progressed(progress: float, total: float | None, message: str | None) -> None:
                if scope.cancel_called:
                    return
                self.report.saw("progress", progress=progress, total=total, message=message)
                if step.get("cancel"):
                    params = types.CancelledNotificationParams(requestId=request, reason="canned")
                    method = "notifications/cancelled"
                    cancelled = types.CancelledNotification(method=method, params=params)
                    await self.session.send_notification(types.ClientNotification(cancelled))
                    scope.cancel()

            self.result(await self._call(name, arguments, progressed))
        if scope.cancelled_caught:
            self.report.saw("cancelled")

    async def _call(self, name: str, arguments: Any, progressed: Progressed) -> Any:
        if CALLS_BACK:
            return await self.session.call_tool(name, arguments, progress_callback=progressed)
        self.progressed = progressed
        meta = types.RequestParams.Meta(progressToken=self.session._request_id)
        params = types.CallToolRequestParams(name=name, arguments=arguments, _meta=meta)
        request = types.CallToolRequest(method="tools/call", params=params)
        return await self.session.send_request(types.ClientRequest(request), types.CallToolResult)

    async def read(self, step: Step) -> None:
        self.result(await self.session.read_resource(AnyUrl(step["uri"])))

    async def subscribe(self, step: Step) -> None:
        self.result(await self.session.subscribe_resource(AnyUrl(step["uri"])))

    async def listen(self, step: Step) -> None:
        self.report.saw("result", result={})

    async def prompt(self, step: Step) -> None:
        self.result(await self.session.get_prompt(step["name"], step.get("arguments")))

    async def complete(self, step: Step) -> None:
        prompt = step["ref"]["type"] == "ref/prompt"
        kind = types.PromptReference if prompt else types.ResourceTemplateReference
        ref = kind.model_validate(step["ref"])
        context = [step["context"]] if "context" in step else []
        self.result(await self.session.complete(ref, step["argument"], *context))

    async def log_level(self, step: Step) -> None:
        self.result(await self.session.set_logging_level(step["level"]))

    async def wait(self, step: Step) -> None:
        while await self.report.wait_notification(step["method"], step.get("uri")):
            if "tool" not in step or step["tool"] in await self.list({"what": "tools"}):
                return

    async def heard(self, notification: Any) -> None:
        told = dump(notification)
        if told["method"] != "notifications/progress":
            self.report.notified(told["method"], told.get("params"))
        elif self.progressed is not None:
            progress = notification.params
            await self.progressed(progress.progress, progress.total, None)

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
        elif isinstance(message, types.ServerNotification):
            await conversation.heard(message.root)

    # What an SDK has no word for it does not declare.
    words = inspect.signature(ClientSession).parameters
    newer = {
        "elicitation_callback": elicited,
        "client_info": types.Implementation(name="py1", version="1"),
    }
    ended = False
    try:
        async with (
            streams(task) as (receive, send),
            ClientSession(
                receive,
                send,
                sampling_callback=sampled,
                list_roots_callback=rooted,
                message_handler=incoming,
                **{word: newer[word] for word in newer if word in words},
            ) as session,
        ):
            conversation = Conversation(session, report)
            await converse(conversation, task)
            ended = True
    except* anyio.BrokenResourceError:
        # This SDK trips over what a server still sends while the connection is being closed.
        if not ended:
            raise
    report.saw("closed")


async def converse(conversation: Conversation, task: Task) -> None:
    report = conversation.report
    for report.step, step in enumerate([{"do": "connect"}, *task.steps], start=-1):
        try:
            await getattr(conversation, step["do"])(step)
        except McpError as error:
            report.saw("error", **dump(error.error))


@asynccontextmanager
async def streams(task: Task) -> AsyncIterator[tuple[Any, Any]]:
    if task.url is not None and task.over_sse:
        async with sse_client(task.url) as (receive, send):
            yield receive, send
        return
    if task.url is not None:
        async with streamablehttp_client(task.url) as (receive, send, _):
            yield receive, send
        return
    command, *arguments = task.target
    server = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    async with stdio_client(server) as (receive, send):
        yield receive, send


def dump(model: BaseModel) -> dict[str, Any]:
    """What came over the wire, without what the SDK would have filled in."""
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


if __name__ == "__main__":
    asyncio.run(run(read_task()))

"""MCP of the demo server, independent of the transport: legacy sessions and modern requests."""

import asyncio
import itertools
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

import msgspec

from anyport.demo.features import (
    METHODS,
    ElicitationFailed,
    Handler,
    RequestContext,
    RequestError,
    object_member,
    string_member,
)
from anyport.demo.revisions import LEGACY, MODERN, WITH_BATCHES, Json, has, trim
from anyport.wire import jsonrpc
from anyport.wire.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    BadFrame,
    Failure,
    Frame,
    Notification,
    Request,
    Result,
)

MISSING_CLIENT_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022
BATCH_MAX: Final = 100
CACHE_MS: Final = 3_600_000  # Nothing here ever changes.

META: Final = "io.modelcontextprotocol/"
CAPABILITIES: Final[Json] = {"tools": {}, "resources": {}, "prompts": {}}
INSTRUCTIONS: Final = (
    "A server for trying things out. Call 'echo' or 'add' to see an answer, 'slow' to see "
    "progress, 'elicit' to be asked a question."
)


class ReplyTo(Protocol):
    """Where the answer to a message goes."""

    def send(self, message: bytes) -> None:
        """Send a message that belongs to the request."""

    def finish(self, answer: bytes | None) -> None:
        """Send the response, if any; called once, last."""


def log(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def implementation(revision: str) -> Json:
    full = {"name": "anyport-demo", "version": "1.0.0", "title": "Anyport demo server"}
    return trim(full, revision)


def refusal(error: BadFrame | RequestError, id: bytes | None, *, null_id: bool = False) -> bytes:
    """An error response. Without an id, older revisions have `null`, newer ones no member."""
    data = error.data if isinstance(error, RequestError) else None
    raw = None if data is None else msgspec.json.encode(data)
    return jsonrpc.encode_failure(
        id, jsonrpc.encode_error(error.code, error.message, raw), null_id=null_id
    )


async def respond(request: Request, work: Coroutine[Any, Any, Json]) -> bytes:
    """The response to a request; every exception becomes an error."""
    try:
        return jsonrpc.encode_result(request.id, msgspec.json.encode(await work))
    except RequestError as error:
        return refusal(error, request.id)
    except Exception as error:  # noqa: BLE001 - every request gets its response.
        log(f"internal error: {type(error).__name__}: {error}")
        return refusal(RequestError(INTERNAL_ERROR, "Internal error"), request.id)


class DemoSession:
    """A session that begins with `initialize`, and its requests in flight."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self.revision = ""
        """Empty until `initialize` was answered."""
        self._capabilities: Json = {}
        self._group = group
        self._calls: dict[str | int, asyncio.Task[bytes]] = {}
        self._questions: dict[int, asyncio.Future[Json]] = {}
        self._ids = itertools.count(1)
        self._methods: dict[str, Handler] = {
            **METHODS,
            "initialize": self._initialize,
            "ping": self._ping,
        }

    def receive(self, frame: Frame | BadFrame, reply: ReplyTo) -> None:
        if isinstance(frame, Request):
            self.start(frame, self.answer(frame, reply), reply)
        elif isinstance(frame, BadFrame):
            reply.finish(self.refuse(frame) if frame.answerable else None)
        else:
            if isinstance(frame, Result | Failure):
                self._on_answer(frame)
            elif frame.method == "notifications/cancelled":
                self._cancel(frame)
            reply.finish(None)

    def receive_batch(self, raw: bytes, reply: ReplyTo) -> None:
        """Handle a batch, whose responses go back together."""
        parts: list[bytes] | BadFrame = BadFrame(INVALID_REQUEST, "Only 2025-03-26 has batches")
        if self.revision == WITH_BATCHES:
            parts = jsonrpc.split_batch(raw, BATCH_MAX)
        if isinstance(parts, BadFrame):
            reply.finish(self.refuse(parts))
            return
        batch = BatchReply(reply, len(parts))
        for part in parts:
            self.receive(jsonrpc.decode(part), batch)

    def refuse(self, bad: BadFrame) -> bytes:
        revision = self.revision or LEGACY[-1]
        return refusal(bad, bad.id, null_id=not has(revision, "errors without id"))

    def start(self, request: Request, work: Coroutine[Any, Any, Json], reply: ReplyTo) -> None:
        """Answer in a task, which `notifications/cancelled` ends without a response."""
        id = jsonrpc.id_value(request.id)
        if id in self._calls:
            work.close()
            error = RequestError(INVALID_REQUEST, f"The id {id!r} is in use")
            reply.finish(refusal(error, request.id))
            return
        self._calls[id] = self._group.create_task(respond(request, work))

        def finish(task: asyncio.Task[bytes]) -> None:
            del self._calls[id]
            reply.finish(None if task.cancelled() else task.result())

        self._calls[id].add_done_callback(finish)

    async def drain(self) -> None:
        """Wait for the requests in flight; their questions fail, because the client is gone."""
        while self._calls:
            for question in self._questions.values():
                if not question.done():
                    question.set_exception(ElicitationFailed("The client is gone"))
            await asyncio.wait(self._calls.values(), return_when=asyncio.FIRST_COMPLETED)

    def close(self) -> None:
        for task in self._calls.values():
            task.cancel()

    async def answer(self, request: Request, reply: ReplyTo) -> Json:
        handler = self._methods.get(request.method)
        if handler is None:
            raise RequestError(METHOD_NOT_FOUND, f"Method not found: {request.method}")
        if not self.revision and request.method not in ("initialize", "ping"):
            raise RequestError(INVALID_REQUEST, "Send 'initialize' first")

        async def elicit(params: Json) -> Json:
            return await self._elicit(params, reply)

        params = params_of(request)
        context = RequestContext(
            revision=self.revision, params=params, send=reply.send, elicit=elicit
        )
        return await handler(context, params)

    async def _initialize(self, _context: RequestContext, params: Json) -> Json:
        if self.revision:
            raise RequestError(INVALID_REQUEST, "The session is initialized already")
        requested = string_member(params, "protocolVersion")
        client = object_member(params, "clientInfo")
        string_member(client, "name")
        string_member(client, "version")
        self._capabilities = object_member(params, "capabilities")
        self.revision = requested if requested in LEGACY else LEGACY[-1]
        return {
            "protocolVersion": self.revision,
            "capabilities": CAPABILITIES,
            "serverInfo": implementation(self.revision),
            "instructions": INSTRUCTIONS,
        }

    async def _ping(self, _context: RequestContext, _params: Json) -> Json:
        return {}

    async def _elicit(self, params: Json, reply: ReplyTo) -> Json:
        """Send `elicitation/create` to the client; returns its result."""
        if not has(self.revision, "elicitation"):
            raise ElicitationFailed(f"Revision {self.revision} has no elicitation")
        if not _has_forms(self._capabilities):
            raise ElicitationFailed("The client does not support elicitation")
        id = next(self._ids)
        self._questions[id] = asyncio.get_running_loop().create_future()
        reply.send(
            jsonrpc.encode_request(b"%d" % id, "elicitation/create", msgspec.json.encode(params))
        )
        try:
            return await self._questions[id]
        except asyncio.CancelledError:
            reason = {"requestId": id, "reason": "The call was cancelled"}
            raw = msgspec.json.encode(reason)
            reply.send(jsonrpc.encode_notification("notifications/cancelled", raw))
            raise
        finally:
            del self._questions[id]

    def _on_answer(self, frame: Result | Failure) -> None:
        id = jsonrpc.id_value(frame.id) if frame.id else None
        question = self._questions.get(id) if isinstance(id, int) else None
        if question is None or question.done():
            return
        result = msgspec.json.decode(frame.result if isinstance(frame, Result) else frame.error)
        if isinstance(frame, Failure):
            question.set_exception(ElicitationFailed(f"The client refused: {result['message']}"))
        elif isinstance(result, dict) and "action" in result:
            question.set_result(result)
        else:
            question.set_exception(ElicitationFailed("The client's answer has no 'action'"))

    def _cancel(self, notification: Notification) -> None:
        params = msgspec.json.decode(notification.params) if notification.params else None
        id = params.get("requestId") if isinstance(params, dict) else None
        if isinstance(id, str | int) and id in self._calls:
            self._calls[id].cancel()


class BatchReply:
    """Collects the responses to a batch."""

    def __init__(self, reply: ReplyTo, size: int) -> None:
        self.send = reply.send
        self._finish = reply.finish
        self._missing = size
        self._answers: list[bytes] = []

    def finish(self, answer: bytes | None) -> None:
        self._missing -= 1
        self._answers += [] if answer is None else [answer]
        if not self._missing:
            self._finish(b"[%b]" % b",".join(self._answers) if self._answers else None)


class InputRequired(Exception):
    """A tool has a question that this request does not answer."""

    def __init__(self, params: Json) -> None:
        self.requests = {"elicit": {"method": "elicitation/create", "params": params}}


def is_modern(request: Request) -> bool:
    """Whether a request needs no session."""
    params = msgspec.json.decode(request.params) if request.params else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    return request.method == "server/discover" or (
        isinstance(meta, dict) and f"{META}protocolVersion" in meta
    )


async def answer_modern(
    request: Request,
    send: Callable[[bytes], None],
    check_headers: Callable[[str, Json], None] = lambda _version, _params: None,
) -> Json:
    """The result of a request of 2026-07-28.

    A tool that asks the user ends with `input_required`. The client then repeats the request with
    its answer, and the tool starts over: no `requestState` is needed.
    """
    params = params_of(request)
    meta = object_member(params, "_meta", {})
    version = string_member(meta, f"{META}protocolVersion")
    capabilities = object_member(meta, f"{META}clientCapabilities")
    check_headers(version, params)
    if version != MODERN:
        data = {"supported": [MODERN], "requested": version}
        raise RequestError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)

    async def elicit(requested: Json) -> Json:
        if not _has_forms(capabilities):
            required: Json = {"requiredCapabilities": {"elicitation": {"form": {}}}}
            message = "The client must support elicitation"
            raise RequestError(MISSING_CLIENT_CAPABILITY, message, required)
        answer = object_member(params, "inputResponses", {}).get("elicit")
        if not isinstance(answer, dict):
            raise InputRequired(requested)
        return answer

    methods = {**METHODS, "server/discover": _discover}
    if request.method not in methods:
        raise RequestError(METHOD_NOT_FOUND, f"Method not found: {request.method}")
    context = RequestContext(revision=MODERN, params=params, send=send, elicit=elicit)
    try:
        result = await methods[request.method](context, params)
    except InputRequired as question:
        result = {"resultType": "input_required", "inputRequests": question.requests}
    if request.method not in ("tools/call", "prompts/get"):
        result = {**result, "ttlMs": CACHE_MS, "cacheScope": "public"}
    own = {f"{META}serverInfo": implementation(MODERN)}
    return {"resultType": "complete", **result, "_meta": own}


async def _discover(_context: RequestContext, _params: Json) -> Json:
    return {
        "supportedVersions": [MODERN],
        "capabilities": CAPABILITIES,
        "instructions": INSTRUCTIONS,
    }


def params_of(request: Request) -> Json:
    params = msgspec.json.decode(request.params) if request.params else {}
    if not isinstance(params, dict):
        raise RequestError(INVALID_PARAMS, "'params' must be an object")
    return params


def _has_forms(capabilities: Json) -> bool:
    declared = capabilities.get("elicitation")
    # MCP 2025-11-25, elicitation: an empty object means form mode.
    return isinstance(declared, dict) and (not declared or "form" in declared)

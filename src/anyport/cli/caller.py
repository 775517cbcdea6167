"""A client for commands: one legacy session with a gateway, wherever that runs.

What a command shows is what every other client would get. How frames travel is the business of
the `Line` it is given; what to ask, and what to show of the answer, is the command's.
"""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from anyport import __version__
from anyport.cli.ending import CommandFailed
from anyport.protocol import meta
from anyport.protocol.progress import PROGRESS
from anyport.wire import codec, members
from anyport.wire.frame import BadFrame, Failure, Notification, Request, Result

REVISION: Final = "2025-11-25"
"""The newest with a handshake: a server can ask in the middle of a call and simply be answered."""

PAGES_MAX: Final = 1000
"""Of one list; the gateway's pages hold hundreds of entries."""

Tell: TypeAlias = Callable[[dict[str, Any]], None]
"""Takes the parameters of a notification."""

Ask: TypeAlias = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Takes the parameters of `elicitation/create`, gives its result; cancelled when withdrawn."""

Hear: TypeAlias = Callable[[bytes], None]
"""Takes a frame from the gateway."""

Lost: TypeAlias = Callable[[CommandFailed], None]
"""Is told why a request will have no answer; ignored if it has one."""


class Line(Protocol):
    """The way to a gateway. What comes back goes to the `Hear` it was made with."""

    def tell(self, frame: bytes, on_lost: Lost | None = None) -> None:
        """Send a frame; a request says who is to know if no answer can come."""

    async def listen(self) -> None:
        """Hear also what belongs to no request."""

    async def arrived(self) -> None:
        """Wait until what was sent without awaiting an answer is there."""

    async def close(self) -> None:
        """The session is over."""


class ErrorAnswer(Exception):
    """The gateway answered a request with a JSON-RPC error."""

    def __init__(self, error: bytes) -> None:
        decoded = msgspec.json.decode(error)
        super().__init__(str(decoded["message"]))
        self.raw = error
        self.code = int(decoded["code"])


class Caller:
    """One session with a gateway."""

    def __init__(
        self,
        connect: Callable[[Hear], Line],
        *,
        ask: Ask | None = None,
        on_log: Tell | None = None,
        log_level: str | None = None,
    ) -> None:
        self._ask = ask
        self._on_log = on_log
        self._log_level = log_level
        self._ids = count(1)
        self._waiting: dict[bytes, asyncio.Future[Result | Failure | CommandFailed]] = {}
        self._progress: dict[int, Tell] = {}
        self._questions: dict[bytes, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._line = connect(self._hear)

    async def open(self) -> None:
        """The handshake, and the log level: a modern server is silent unless it is told one."""
        capabilities: dict[str, Any] = {} if self._ask is None else {"elicitation": {}}
        hello = {
            "protocolVersion": REVISION,
            "capabilities": capabilities,
            "clientInfo": {"name": "anyport", "version": __version__},
        }
        await self.request("initialize", hello)
        self._notify("notifications/initialized", {})
        await self._line.arrived()
        if self._log_level is not None:
            await self._line.listen()
            await self.request("logging/setLevel", {"level": self._log_level})

    async def close(self) -> None:
        """The end of the session."""
        await self._line.close()

    async def request(
        self, method: str, params: dict[str, Any] | None = None, on_progress: Tell | None = None
    ) -> bytes:
        """The raw result. Cancelling this cancels the request at the gateway.

        Raises:
            ErrorAnswer: it was answered with an error.
            CommandFailed: it was not answered at all.
        """
        number = next(self._ids)
        id = b"%d" % number
        sent = dict(params or {})
        if on_progress is not None:
            sent["_meta"] = {meta.PROGRESS_TOKEN: number}
            self._progress[number] = on_progress
        self._waiting[id] = future = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.TaskGroup() as self._group:
                frame = codec.request(id, method, msgspec.json.encode(sent))
                self._line.tell(frame, lambda trouble: _settle(future, trouble))
                answer = await self._answer(number, future)
        finally:
            del self._waiting[id]
            self._progress.pop(number, None)
        if isinstance(answer, Failure):
            raise ErrorAnswer(answer.error)
        if isinstance(answer, CommandFailed):
            raise answer
        return answer.result

    async def list_all(self, method: str, member: str) -> list[msgspec.Raw]:
        """The raw entries of a list, from all its pages."""
        entries: list[msgspec.Raw] = []
        params: dict[str, Any] = {}
        for _ in range(PAGES_MAX):
            page = members.members(await self.request(method, params))
            entries += msgspec.json.decode(page[member], type=list[msgspec.Raw])
            if "nextCursor" not in page:
                break
            params = {"cursor": msgspec.json.decode(page["nextCursor"])}
        return entries

    async def _answer(
        self, number: int, future: "asyncio.Future[Result | Failure | CommandFailed]"
    ) -> Result | Failure | CommandFailed:
        try:
            return await future
        except asyncio.CancelledError:
            self._notify("notifications/cancelled", {"requestId": number})
            raise
        finally:
            # Whatever was still being asked, nobody wants to know any more.
            for question in self._questions.values():
                question.cancel()

    def _notify(self, method: str, params: dict[str, Any]) -> None:
        self._line.tell(codec.notification(method, msgspec.json.encode(params)))

    def _hear(self, raw: bytes) -> None:
        """Take one frame from the gateway."""
        frame = codec.decode(raw, codec.OUTBOUND)
        match frame:
            case Result() | Failure():
                future = self._waiting.get(frame.id or b"")
                if future is not None:
                    _settle(future, frame)
            case Notification():
                self._hear_notification(frame)
            case Request():
                self._hear_question(frame)
            case BadFrame():
                words = f"what came back is no message of MCP: {frame.message}"
                for future in self._waiting.values():
                    _settle(future, CommandFailed(words))

    def _hear_notification(self, notification: Notification) -> None:
        params = msgspec.json.decode(notification.params or b"{}")
        if notification.method == PROGRESS:
            tell = self._progress.get(params.get(meta.PROGRESS_TOKEN))
            if tell is not None:
                tell(params)
        elif notification.method == "notifications/message" and self._on_log is not None:
            self._on_log(params)
        elif notification.method == "notifications/cancelled":
            question = self._questions.get(msgspec.json.encode(params.get("requestId")))
            if question is not None:
                question.cancel()

    def _hear_question(self, request: Request) -> None:
        if request.method != "elicitation/create" or self._ask is None or self._group is None:
            refusal = codec.error(-32601, f"Method not found: {request.method}")
            self._line.tell(codec.failure(request.id, refusal))
            return
        asking = self._group.create_task(self._put(request, self._ask))
        self._questions[request.id] = asking
        asking.add_done_callback(lambda _: self._questions.pop(request.id, None))

    async def _put(self, request: Request, ask: Ask) -> None:
        answer = await ask(msgspec.json.decode(request.params or b"{}"))
        self._line.tell(codec.result(request.id, msgspec.json.encode(answer)))


def _settle(
    future: "asyncio.Future[Result | Failure | CommandFailed]",
    answer: Result | Failure | CommandFailed,
) -> None:
    """The first answer counts."""
    if not future.done():
        future.set_result(answer)

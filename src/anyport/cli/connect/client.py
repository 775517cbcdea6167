"""The MCP client of the commands, and the interface of the gateway that it talks to.

A command shows what every other client would get: it uses an ordinary legacy session.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from difflib import get_close_matches
from itertools import count
from typing import Any, ClassVar, Final, Protocol, TypeAlias

import msgspec

from anyport import __version__
from anyport.catalog.catalog import CatalogEntry
from anyport.catalog.names import Naming
from anyport.cli.exit_codes import CommandFailed, notify_user
from anyport.protocol import meta
from anyport.protocol.meta import PROGRESS
from anyport.wire import jsonrpc, raw_json
from anyport.wire.jsonrpc import BadFrame, Failure, Notification, Request, Result

REVISION: Final = "2025-11-25"
"""The newest legacy revision: a server can send requests in the middle of a call."""

PAGES_MAX: Final = 1000
"""Of one list; a page of the gateway has hundreds of entries."""

SUGGESTIONS_MAX: Final = 3
"""Of the names in "did you mean"."""

SETTLE_SECONDS_MAX: Final = 30.0
"""How long commands wait for servers: `npx` or `uvx` may have to download one first."""

WAIT_NOTICE_SECONDS: Final = 2.0
"""After this a command says what it waits for."""

NotificationHandler: TypeAlias = Callable[[dict[str, Any]], None]
"""Takes the params of a notification."""

ElicitationHandler: TypeAlias = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Takes the params of `elicitation/create`, returns its result; cancelled with the request."""

FrameHandler: TypeAlias = Callable[[bytes], None]
"""Takes a message from the gateway."""

LostHandler: TypeAlias = Callable[[CommandFailed], None]
"""Called when a request will get no answer; ignored after an answer."""


# The session


class GatewayTransport(Protocol):
    """Carries the messages of one session: in this process, or over HTTP."""

    def send(self, frame: bytes, on_lost: LostHandler | None = None) -> None:
        """Send a message; requests have an `on_lost`."""

    async def open_stream(self) -> None:
        """Also receive messages that belong to no request."""

    async def wait_sent(self) -> None:
        """Wait until the gateway has accepted all notifications and responses."""

    async def close(self) -> None:
        """End the session."""


class ErrorAnswer(Exception):
    """A JSON-RPC error in answer to a request."""

    def __init__(self, error: bytes) -> None:
        decoded = msgspec.json.decode(error)
        super().__init__(str(decoded["message"]))
        self.raw = error
        self.code = int(decoded["code"])


class GatewayClient:
    """One MCP session with a gateway."""

    def __init__(
        self,
        connect: Callable[[FrameHandler], GatewayTransport],
        *,
        ask: ElicitationHandler | None = None,
        on_log: NotificationHandler | None = None,
        log_level: str | None = None,
    ) -> None:
        self._ask = ask
        self._on_log = on_log
        self._log_level = log_level
        self._ids = count(1)
        self._pending: dict[bytes, asyncio.Future[Result | Failure | CommandFailed]] = {}
        self._progress_handlers: dict[int, NotificationHandler] = {}
        self._elicitations: dict[bytes, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._transport = connect(self._on_frame)

    async def open(self) -> None:
        """Initialize the session, and set the log level.

        Without a log level, a modern server behind the gateway sends no log messages.
        """
        capabilities: dict[str, Any] = {} if self._ask is None else {"elicitation": {}}
        params = {
            "protocolVersion": REVISION,
            "capabilities": capabilities,
            "clientInfo": {"name": "anyport", "version": __version__},
        }
        await self.request("initialize", params)
        self._notify("notifications/initialized", {})
        await self._transport.wait_sent()
        if self._log_level is not None:
            await self._transport.open_stream()
            await self.request("logging/setLevel", {"level": self._log_level})

    async def close(self) -> None:
        await self._transport.close()

    async def request(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        on_progress: NotificationHandler | None = None,
    ) -> bytes:
        """The raw result. Cancelling this coroutine cancels the request at the gateway.

        Raises:
            ErrorAnswer: the answer is an error.
            CommandFailed: there is no answer.
        """
        number = next(self._ids)
        id = b"%d" % number
        params = dict(params or {})
        if on_progress is not None:
            params["_meta"] = {meta.PROGRESS_TOKEN: number}
            self._progress_handlers[number] = on_progress
        self._pending[id] = future = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.TaskGroup() as self._group:
                frame = jsonrpc.encode_request(id, method, msgspec.json.encode(params))
                self._transport.send(frame, lambda error: _settle(future, error))
                answer = await self._wait_answer(number, future)
        finally:
            del self._pending[id]
            self._progress_handlers.pop(number, None)
        if isinstance(answer, Failure):
            raise ErrorAnswer(answer.error)
        if isinstance(answer, CommandFailed):
            raise answer
        return answer.result

    async def list_all(self, method: str, member: str) -> list[msgspec.Raw]:
        """The raw entries on all pages of a list."""
        entries: list[msgspec.Raw] = []
        params: dict[str, Any] = {}
        for _ in range(PAGES_MAX):
            page = raw_json.members(await self.request(method, params))
            entries += msgspec.json.decode(page[member], type=list[msgspec.Raw])
            if "nextCursor" not in page:
                break
            params = {"cursor": msgspec.json.decode(page["nextCursor"])}
        return entries

    async def _wait_answer(
        self, number: int, future: "asyncio.Future[Result | Failure | CommandFailed]"
    ) -> Result | Failure | CommandFailed:
        try:
            return await future
        except asyncio.CancelledError:
            self._notify("notifications/cancelled", {"requestId": number})
            raise
        finally:
            # The call is over: a form that is still open for it has no purpose any more.
            for elicitation in self._elicitations.values():
                elicitation.cancel()

    def _notify(self, method: str, params: dict[str, Any]) -> None:
        self._transport.send(jsonrpc.encode_notification(method, msgspec.json.encode(params)))

    def _on_frame(self, raw: bytes) -> None:
        frame = jsonrpc.decode(raw, jsonrpc.OUTBOUND)
        match frame:
            case Result() | Failure():
                future = self._pending.get(frame.id or b"")
                if future is not None:
                    _settle(future, frame)
            case Notification():
                self._on_notification(frame)
            case Request():
                self._on_request(frame)
            case BadFrame():
                reason = f"the answer is not an MCP message: {frame.message}"
                for future in self._pending.values():
                    _settle(future, CommandFailed(reason))

    def _on_notification(self, notification: Notification) -> None:
        params = msgspec.json.decode(notification.params or b"{}")
        if notification.method == PROGRESS:
            on_progress = self._progress_handlers.get(params.get(meta.PROGRESS_TOKEN))
            if on_progress is not None:
                on_progress(params)
        elif notification.method == "notifications/message" and self._on_log is not None:
            self._on_log(params)
        elif notification.method == "notifications/cancelled":
            elicitation = self._elicitations.get(msgspec.json.encode(params.get("requestId")))
            if elicitation is not None:
                elicitation.cancel()

    def _on_request(self, request: Request) -> None:
        if request.method != "elicitation/create" or self._ask is None or self._group is None:
            error = jsonrpc.encode_error(-32601, f"Method not found: {request.method}")
            self._transport.send(jsonrpc.encode_failure(request.id, error))
            return
        elicitation = self._group.create_task(self._elicit(request, self._ask))
        self._elicitations[request.id] = elicitation
        elicitation.add_done_callback(lambda _: self._elicitations.pop(request.id, None))

    async def _elicit(self, request: Request, ask: ElicitationHandler) -> None:
        answer = await ask(msgspec.json.decode(request.params or b"{}"))
        self._transport.send(jsonrpc.encode_result(request.id, msgspec.json.encode(answer)))


def _settle(
    future: "asyncio.Future[Result | Failure | CommandFailed]",
    answer: Result | Failure | CommandFailed,
) -> None:
    """The first answer counts."""
    if not future.done():
        future.set_result(answer)


# The gateway


class ConnectedGateway(ABC):
    """A gateway with a session: the interface that commands use."""

    poll_seconds: ClassVar[float]

    client: GatewayClient

    @property
    @abstractmethod
    def entries(self) -> Sequence[CatalogEntry]:
        """The tools that are known so far."""

    @property
    @abstractmethod
    def servers(self) -> tuple[str, ...]:
        """The servers of the profile."""

    @property
    @abstractmethod
    def separator(self) -> str:
        """Between server and tool in public names."""

    @property
    @abstractmethod
    def is_anyport(self) -> bool:
        """False for another MCP server, which does not tell whose tools are whose."""

    @property
    def is_transparent(self) -> bool:
        """Whether tools can be called that are not listed."""
        return False

    @abstractmethod
    async def wait_settled(self) -> None:
        """Wait until every server has listed its tools or failed, or until time is up."""

    @abstractmethod
    async def find(self, name: str) -> CatalogEntry | None:
        """The tool of that public or unambiguous native name; waits only for its server."""

    @abstractmethod
    async def report(self) -> dict[str, Any]:
        """What `gateway_status` returns."""

    @abstractmethod
    def is_disabled(self, slug: str) -> bool: ...

    @abstractmethod
    def trouble_of(self, slug: str) -> str | None:
        """Why the tools of a server are missing or out of date; None if they are not."""

    @abstractmethod
    async def refresh(self) -> None:
        """Read the state of the servers again."""

    def report_troubles(self, tool: str | None = None) -> None:
        """Print the servers that do not run, and why; with a tool name, only the tool's server."""
        for slug in self.servers:
            if tool is None or has_server_prefix(tool, slug, self.separator):
                trouble = self.trouble_of(slug)
                if trouble is not None:
                    notify_user(f"server '{slug}' {trouble}")

    def find_entry(self, name: str) -> CatalogEntry | None:
        """The tool of that name among the entries known so far."""
        return find_tool(name, self.entries, self.servers, self.separator)

    def explain_missing(self, name: str) -> str:
        """Why there is no tool of that name, with similar names."""
        disabled = [slug for slug in self.servers if self.is_disabled(slug)]
        return explain_missing(name, self.entries, disabled=disabled, separator=self.separator)

    async def wait_while(self, waiting: Callable[[], list[str]]) -> None:
        """Wait until `waiting` lists no server any more, or until time is up."""
        started_at = time.monotonic()
        is_notified = False
        await self.refresh()
        while slugs := waiting():
            waited = time.monotonic() - started_at
            if waited > SETTLE_SECONDS_MAX:
                return
            if waited > WAIT_NOTICE_SECONDS and not is_notified:
                is_notified = True
                notify_user(f"waiting for {', '.join(slugs)}")
            await asyncio.sleep(self.poll_seconds)
            await self.refresh()


# Names of tools


def has_server_prefix(name: str, slug: str, separator: str) -> bool:
    """Whether a tool name begins with the prefix of this server."""
    return name.startswith(Naming(prefix="always", separator=separator).prefix_of(slug))


def find_tool(
    name: str, entries: Sequence[CatalogEntry], slugs: Iterable[str], separator: str
) -> CatalogEntry | None:
    """The tool with that public name, or with that native name if only one server has it.

    A name with the prefix of a server is never a native name of another one.
    """
    for entry in entries:
        if entry.public == name:
            return entry
    if any(has_server_prefix(name, slug, separator) for slug in slugs):
        return None
    natives = [entry for entry in entries if entry.native == name]
    return natives[0] if len(natives) == 1 else None


def explain_missing(
    name: str, entries: Sequence[CatalogEntry], *, disabled: Collection[str], separator: str
) -> str:
    """Why `find_tool` returns None, with similar names."""
    natives = [entry.public for entry in entries if entry.native == name]
    if len(natives) > 1:
        number = "two" if len(natives) == 2 else "several"
        return f"{number} servers have '{name}': {', '.join(natives)}"
    for slug in disabled:
        if has_server_prefix(name, slug, separator):
            return f"there is no tool '{name}'; server '{slug}' is disabled in the configuration"
    public_names = {entry.native: entry.public for entry in entries} | {
        entry.public: entry.public for entry in entries
    }
    matches = get_close_matches(name, public_names, n=SUGGESTIONS_MAX)
    suggestions = ", ".join(dict.fromkeys(public_names[match] for match in matches))
    hint = f"did you mean {suggestions}?" if suggestions else "'anyport tools' lists all tools"
    return f"there is no tool '{name}'; {hint}"

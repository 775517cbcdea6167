"""One request as a tool, prompt or resource sees it, and the state that all requests share.

A tool is written once for both eras: it reports progress, writes logs and asks the client through a
`Call`.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from tests.peers.demo.brew import Brew
from tests.peers.demo.faults import INVALID_PARAMS, Fault, NeedsClient, object_member
from tests.peers.demo.headers import Headers
from tests.peers.demo.options import Options
from tests.peers.demo.revisions import Json, Revision
from tests.peers.demo.tasks import Tasks

Send: TypeAlias = Callable[[Json], None]
"""Sends one message to the client, now.

Raises:
    Unanswered: the message is a question, and there is no way to put it to this client.
"""


class Channel(Protocol):
    """The way back to whoever sent a message, or several at once."""

    def send(self, message: Json) -> None:
        """Sends what belongs to the message: its progress, its logs, its questions."""

    def finish(self, answer: Json | list[Json] | None) -> None:
        """Called once, last: with the answer, or None where there is none to give."""


LEVELS: Final = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)
"""The levels of a log message, the least urgent first."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One JSON-RPC request, known to be well formed."""

    identity: str | int
    method: str
    params: Json
    headers: Headers | None = None
    """What was said beside the message; None where nothing can be."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """Something only the client can answer."""

    key: str
    """Its name where several questions travel together."""
    method: str
    params: Json | None
    capability: Json
    """What the client must have declared to be asked this."""

    def body(self) -> Json:
        asked: Json = {"method": self.method}
        if self.params is not None:
            asked["params"] = self.params
        return asked


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Something that those who asked to be told are told."""

    method: str
    uri: str | None = None


TOOLS_CHANGED: Final = Change(method="notifications/tools/list_changed")

ChangeListener: TypeAlias = Callable[[Change], None]
"""Called once for each change; decides for itself whether its client wanted to know."""


class ServerState:
    """All that outlives a request: the same for every client of this process and both eras."""

    def __init__(
        self, options: Options, tools: "dict[str, Tool]", new_tasks: Callable[[], Tasks]
    ) -> None:
        self.options = options
        self.tools = tools
        self.new_tasks = new_tasks
        """Makes room for the tasks of one session."""
        self.tasks = new_tasks()
        """Those that belong to no session."""
        self.closing = asyncio.Event()
        """Set when there will be no more requests: what waits for nothing else must end."""
        self.versions: dict[str, int] = {}
        """How often each resource has been touched."""
        self.elicitations = 0
        """How many have been given an id."""
        self.watchers: list[ChangeListener] = []

    def announce(self, change: Change) -> None:
        for watcher in list(self.watchers):
            watcher(change)


class Call(ABC):
    """One request being answered, in the words of its revision."""

    def __init__(
        self,
        server_state: ServerState,
        revision: Revision,
        send: Send,
        request: Request,
        log_level: str | None,
    ) -> None:
        self.server_state = server_state
        self.revision = revision
        self.request = request
        self._send = send
        self._log_level = log_level
        """The least urgent level the client wants; None for no logs at all."""
        self._progress_token = _progress_token(request.params)
        self.cancelled = False
        """Once set, the client hears nothing more of this request."""

    @property
    @abstractmethod
    def capabilities(self) -> Json:
        """What the client declared that it can do."""

    @abstractmethod
    def starts_task(self, support: str) -> bool:
        """Whether this call of a tool becomes a task, given how far the tool supports that.

        Raises:
            Fault: it must and cannot, or cannot and must.
        """

    @abstractmethod
    def start_task(self, brew: Brew) -> Json:
        """The result that stands for a task just begun."""

    @abstractmethod
    async def ask(self, question: Question) -> Json:
        """The client's answer.

        Raises:
            MissingCapability: the client did not declare that it can be asked this.
            Unanswered: it was asked, and there is no answer to use.
        """

    @abstractmethod
    def complete(self, result: Json) -> Json:
        """The result as this era sends it."""

    @abstractmethod
    def without_client(self, need: NeedsClient) -> Json:
        """The result of a call that cannot go on.

        Raises:
            Fault: this era answers with an error instead.
        """

    def notify(self, method: str, params: Json) -> None:
        if not self.cancelled:
            self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def progress(self, done: int, total: int, message: str) -> None:
        report = self.progress_report(done, total, message)
        if report is not None:
            self.notify("notifications/progress", report)

    def progress_report(self, done: int, total: int, message: str) -> Json | None:
        """What there is to notify of; None where the client did not ask for it."""
        if self._progress_token is None:
            return None
        params: Json = {"progressToken": self._progress_token, "progress": done, "total": total}
        if self.revision.progress_message:
            params["message"] = message
        return params

    def log(self, level: str, text: str) -> None:
        if self._log_level is None or LEVELS.index(level) < LEVELS.index(self._log_level):
            return
        self.notify("notifications/message", {"level": level, "logger": "demo", "data": text})


Work: TypeAlias = Json | Coroutine[Any, Any, Json]
"""A result, or the wait for one."""

Method: TypeAlias = Callable[[Call, Json], Work]
"""What answers the requests of one method, given their params."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool: how it is described in the newest revision, and what it does."""

    descriptor: Json
    run: Method
    begin: Method | None = None
    """Begins a task instead, where the tool can be one."""

    @property
    def task_support(self) -> str:
        support: str = self.descriptor.get("execution", {}).get("taskSupport", "forbidden")
        return support


def declares(capabilities: Json, required: Json) -> bool:
    """Whether `capabilities` contain all of `required`."""
    for name, inner in required.items():
        declared = capabilities.get(name)
        if not isinstance(declared, dict):
            return False
        # "An empty capabilities object is equivalent to declaring support for form mode only"
        # (client/elicitation).
        if name == "elicitation" and not declared:
            declared = {"form": {}}
        if not declares(declared, inner):
            return False
    return True


def _progress_token(params: Json) -> str | int | None:
    token = object_member(params, "_meta", default={}).get("progressToken")
    if isinstance(token, bool) or not isinstance(token, str | int | None):
        raise Fault(INVALID_PARAMS, "'progressToken' must be a string or an integer")
    return token

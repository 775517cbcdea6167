"""The scripted clients: each has one revision, and all have the same verbs.

Everything that a client receives is held against its revision here, before anybody looks at it.
A client declares all that its revision has, and answers every question in the same way.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from tests.harness import MODERN_META, Message
from tests.matrix import legality
from tests.matrix.legality import META
from tests.matrix.transports import ClientTransport

SAMPLED: Final[Message] = {
    "role": "assistant",
    "content": {"type": "text", "text": "forty-two"},
    "model": "scripted",
    "stopReason": "endTurn",
}
ROOTS: Final[Message] = {"roots": [{"uri": "file:///somewhere", "name": "here"}]}
FORM: Final[Message] = {"action": "accept", "content": {"name": "Ada", "subscribe": True}}
CONSENT: Final[Message] = {"action": "accept"}

CAPABILITIES: Final[dict[str, Message]] = {
    "2024-11-05": {"sampling": {}, "roots": {"listChanged": True}},
    "2025-03-26": {"sampling": {}, "roots": {"listChanged": True}},
    "2025-06-18": {"sampling": {}, "roots": {"listChanged": True}, "elicitation": {}},
    "2025-11-25": {
        "sampling": {},
        "roots": {"listChanged": True},
        "elicitation": {"form": {}, "url": {}},
    },
    "2026-07-28": {"sampling": {}, "roots": {}, "elicitation": {"form": {}, "url": {}}},
}
"""All that a client of each revision can say that it can be asked."""

_ids: Final = count(1)


@dataclass(slots=True, kw_only=True)
class ReceivedMessages:
    """All that a client got for one request."""

    ending: Message = field(default_factory=dict)
    notes: list[Message] = field(default_factory=list)
    """Notifications that came before the ending."""
    asked: list[Message] = field(default_factory=list)
    """What it was asked, by method and params."""

    @property
    def result(self) -> Message:
        assert "result" in self.ending, self.ending
        result: Message = self.ending["result"]
        return result

    @property
    def error(self) -> Message:
        assert "error" in self.ending, self.ending
        error: Message = self.ending["error"]
        return error

    @property
    def text(self) -> str:
        """The first text of a tool's answer."""
        words: str = self.result["content"][0]["text"]
        return words

    def of(self, method: str) -> list[Message]:
        """The params of the notifications with a method."""
        return [note.get("params", {}) for note in self.notes if note["method"] == method]


class MatrixClient(ABC):
    """A client of one revision on one line."""

    def __init__(self, revision: str, line: ClientTransport) -> None:
        self.revision = revision
        self._line = line
        self._methods: dict[Any, str] = {}
        """What the requests that are open are for."""
        self._news: list[Message] = []
        """Notifications that nobody has looked at."""
        self._left: set[Any] = set()
        """Requests whose answers nobody waits for any more."""
        self.late: list[Message] = []
        """What came as an answer to those."""

    @abstractmethod
    def exchange(
        self,
        method: str,
        params: Message | None = None,
        *,
        token: Any = None,
        level: str | None = None,
    ) -> ReceivedMessages:
        """One request to its end, with every question answered."""

    @abstractmethod
    def attempt(self, method: str, params: Message) -> ReceivedMessages:
        """One request, without coming back if its answer is a question."""

    @abstractmethod
    @contextmanager
    def following(self, *uris: str) -> Iterator[None]:
        """All the while it is told when tools or these resources change."""

    @abstractmethod
    def log_of(self, told: ReceivedMessages) -> Message:
        """The log message that a call led to."""

    def call(self, name: str, arguments: Message | None = None, **about: Any) -> ReceivedMessages:
        """Call a tool."""
        return self.exchange("tools/call", {"name": name, "arguments": arguments or {}}, **about)

    def cancelled(self, name: str, arguments: Message) -> ReceivedMessages:
        """Call a tool and cancel it when it has begun."""
        params = {"name": name, "arguments": arguments}
        id = self._start("tools/call", params, token="to be cancelled")
        told = ReceivedMessages()
        while not told.of("notifications/progress"):
            self._take(id, told)
        assert not told.ending
        self._line.cancel(id)
        self._left.add(id)
        return told

    def wait_news(self, method: str, fits: Callable[[Message], bool] = lambda _: True) -> Message:
        """The next notification of a kind; those before it have been looked at."""
        while True:
            for at, note in enumerate(self._news):
                params: Message = note.get("params", {})
                if note["method"] == method and fits(params):
                    del self._news[: at + 1]
                    return params
            self._news.clear()
            self._take(self._standing(), ReceivedMessages())

    def close(self) -> None:
        """Leave."""
        self._line.close()

    def _start(
        self, method: str, params: Message | None, *, token: Any = None, level: str | None = None
    ) -> Any:
        id = self._id()
        about = self._about(token, level)
        sent = {**(params or {}), "_meta": about} if about else params
        message: Message = {"jsonrpc": "2.0", "id": id, "method": method}
        self._methods[id] = method
        self._line.start(message if sent is None else {**message, "params": sent})
        return id

    def _take(self, id: Any, told: ReceivedMessages) -> Message | None:
        """Take one message; a question is returned."""
        message = self._line.coming(id)
        method = None if "method" in message else self._methods.get(message.get("id"))
        legality.check(self.revision, method, message)
        if "method" not in message:
            del self._methods[message["id"]]
            if message["id"] in self._left:
                self.late.append(message)
                return None
            assert message["id"] == id and type(message["id"]) is type(id), message
            told.ending = message
        elif "id" in message:
            return message
        else:
            told.notes.append(message)
            self._news.append(message)
        return None

    def _id(self) -> Any:
        """Numbers and strings in turn: both must come back as they were."""
        number = next(_ids)
        return number if number % 2 else f"request-{number}"

    @abstractmethod
    def _about(self, token: Any, level: str | None) -> Message:
        """The `_meta` of a request."""

    @abstractmethod
    def _standing(self) -> Any:
        """The request on whose stream news come; None where they need none."""

    @staticmethod
    def _reply(asked: Message) -> Message:
        if asked["method"] == "elicitation/create":
            return CONSENT if asked["params"].get("mode") == "url" else FORM
        return {"sampling/createMessage": SAMPLED, "roots/list": ROOTS}[asked["method"]]


class LegacyMatrixClient(MatrixClient):
    """A client that has a session: it is asked by requests."""

    def exchange(
        self,
        method: str,
        params: Message | None = None,
        *,
        token: Any = None,
        level: str | None = None,
    ) -> ReceivedMessages:
        if level is not None:
            self.exchange("logging/setLevel", {"level": level})
        id, told = self._start(method, params, token=token), ReceivedMessages()
        while not told.ending:
            question = self._take(id, told)
            if question is not None:
                told.asked.append(question)
                answer = {"jsonrpc": "2.0", "id": question["id"], "result": self._reply(question)}
                self._line.tell(answer)
        return told

    def attempt(self, method: str, params: Message) -> ReceivedMessages:
        return self.exchange(method, params)

    @contextmanager
    def following(self, *uris: str) -> Iterator[None]:
        self._news.clear()
        for uri in uris:
            assert self.exchange("resources/subscribe", {"uri": uri}).result == {}
        yield
        for uri in uris:
            assert self.exchange("resources/unsubscribe", {"uri": uri}).result == {}

    def log_of(self, told: ReceivedMessages) -> Message:
        # On the stream of the call or on that of the session: either may be read first.
        return self.wait_news("notifications/message", lambda log: log["data"].startswith("at "))

    def _about(self, token: Any, level: str | None) -> Message:
        return {} if token is None else {"progressToken": token}

    def _standing(self) -> Any:
        return None


class ModernMatrixClient(MatrixClient):
    """A client without a session: it is asked by answers, and asks again."""

    def __init__(self, revision: str, line: ClientTransport) -> None:
        super().__init__(revision, line)
        self._listening: Any = None

    def exchange(
        self,
        method: str,
        params: Message | None = None,
        *,
        token: Any = None,
        level: str | None = None,
    ) -> ReceivedMessages:
        told = ReceivedMessages()
        self._round(told, method, params or {}, token=token, level=level)
        while told.ending.get("result", {}).get("resultType") == "input_required":
            again = {**(params or {}), **self._answers(told)}
            self._round(told, method, again, token=token, level=level)
        return told

    def attempt(self, method: str, params: Message) -> ReceivedMessages:
        told = ReceivedMessages()
        self._round(told, method, params)
        return told

    @contextmanager
    def following(self, *uris: str) -> Iterator[None]:
        wishes = {"toolsListChanged": True, "resourceSubscriptions": list(uris)}
        self._news.clear()
        self._listening = self._start("subscriptions/listen", {"notifications": wishes})
        granted = self.wait_news("notifications/subscriptions/acknowledged")["notifications"]
        assert granted["toolsListChanged"] is True
        assert granted.get("resourceSubscriptions", []) == list(uris)
        yield
        self._line.cancel(self._listening)
        self._left.add(self._listening)

    def log_of(self, told: ReceivedMessages) -> Message:
        (message,) = told.of("notifications/message")
        return message

    def wait_news(self, method: str, fits: Callable[[Message], bool] = lambda _: True) -> Message:
        params = super().wait_news(method, fits)
        assert params["_meta"][f"{META}subscriptionId"] == self._listening
        return params

    def _round(self, told: ReceivedMessages, method: str, params: Message, **about: Any) -> None:
        id = self._start(method, params, **about)
        told.ending = {}
        while not told.ending:
            assert self._take(id, told) is None

    def _answers(self, told: ReceivedMessages) -> Message:
        asked = told.ending["result"]
        told.asked += asked["inputRequests"].values()
        answers = {key: self._reply(question) for key, question in asked["inputRequests"].items()}
        state = {"requestState": asked["requestState"]} if "requestState" in asked else {}
        return {"inputResponses": answers, **state}

    def _about(self, token: Any, level: str | None) -> Message:
        about: Message = {
            **MODERN_META,
            f"{META}clientCapabilities": CAPABILITIES[self.revision],
        }
        if token is not None:
            about["progressToken"] = token
        if level is not None:
            about[f"{META}logLevel"] = level
        return about

    def _standing(self) -> Any:
        return self._listening

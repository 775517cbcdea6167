"""A gateway over HTTP as a process, and raw requests to it.

Each request has a connection of its own, so that several can be open at once. What is checked
here is what no response may ever break; everything else is for the tests to say.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tests.cli.running import Running, running
from tests.harness import WAIT_SECONDS, Message, write_config
from tests.journeys.scripts import LIST_SECONDS

ACCEPT: Final = "application/json, text/event-stream"
JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"

Field = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of a stream."""

    data: str
    id: str | None = None
    name: str | None = None
    retry: str | None = None

    @property
    def message(self) -> Message:
        message: Message = json.loads(self.data)
        return message


class HttpAnswer:
    """A response, from the moment its head is there."""

    def __init__(self, connection: HTTPConnection, response: HTTPResponse) -> None:
        self.status = response.status
        self.fields = response.headers
        self.seen: list[Message] = []
        """Every message on it so far."""
        self.last_id: str | None = None
        """The id of the last event."""
        self._connection = connection
        self._response = response

    @property
    def kind(self) -> str:
        return self.fields["Content-Type"] or ""

    def text(self) -> str:
        """All of it, as it is."""
        try:
            return self._response.read().decode()
        finally:
            self.close()

    def events(self) -> Iterator[Event]:
        """The events of a stream, as they come."""
        found: dict[str, str] = {}
        since = time.monotonic()
        for line in self._response:
            # Comments keep a stream open, and would have a test wait for ever.
            assert time.monotonic() - since < WAIT_SECONDS, "no event comes"
            assert line.endswith(b"\n"), "the stream ended within a line"
            # A parser may take a bare carriage return for the end of a line.
            assert b"\r" not in line, line
            text = line.decode().removesuffix("\n")
            if text:
                name, _, value = text.partition(":")
                assert name in ("", "event", "data", "id", "retry"), text
                assert not name or name not in found, f"{name} stands twice in one event"
                found[name] = value.removeprefix(" ")
                continue
            found.pop("", None)  # Comments.
            if found:
                self.last_id = found.get("id", self.last_id)
                yield Event(
                    data=found.get("data", ""),
                    id=found.get("id"),
                    name=found.get("event"),
                    retry=found.get("retry"),
                )
                since = time.monotonic()
            found = {}
        assert not found, "the stream ended within an event"
        self.close()  # Whoever has kept it would keep a socket.

    def messages(self) -> Iterator[Message]:
        """The messages, as they come: those of a stream, or the one that the response is."""
        for message in self._streamed() if self.kind == EVENTS else self._whole():
            self.seen.append(message)
            yield message

    def _streamed(self) -> Iterator[Message]:
        return (event.message for event in self.events() if event.data)

    def _whole(self) -> list[Message]:
        found: Message | list[Message] = json.loads(self.text() or "[]")
        return found if isinstance(found, list) else [found]

    def next(self) -> Message:
        """The next message."""
        return next(self.messages())

    def wait_method(self, method: str) -> Message:
        """The next message with that method."""
        return next(message for message in self.messages() if message.get("method") == method)

    def wait_methods(self, *methods: str) -> None:
        """Read on until each of these methods has come, in whatever order."""
        while not {*methods} <= {message.get("method") for message in self.seen}:
            self.next()

    def rest(self) -> list[Message]:
        """All messages that are still to come, up to the end of the response."""
        try:
            return list(self.messages())
        finally:
            self.close()

    def ending(self) -> Message:
        """The answer; what came before it is in `seen`."""
        (*_, ending) = self.rest()
        assert "result" in ending or "error" in ending, ending
        return ending

    def close(self) -> None:
        """Hang up."""
        self._response.close()
        self._connection.close()


class HttpGateway:
    """A gateway that accepts connections, and one of its addresses."""

    def __init__(self, there: Running, state: Path, path: str = "/mcp") -> None:
        self.there = there
        self.state = state
        self.path = path

    @property
    def netloc(self) -> str:
        return urlsplit(self.there.url).netloc

    def at(self, path: str) -> "HttpGateway":
        """Another address of the same gateway."""
        return HttpGateway(self.there, self.state, path)

    def send(
        self, verb: str, body: bytes | None = None, fields: Iterable[Field] = (), path: str = ""
    ) -> HttpAnswer:
        """Send a request with exactly these header fields, besides those that HTTP needs."""
        connection = HTTPConnection(self.netloc, timeout=WAIT_SECONDS)
        self.there.connections.append(connection)
        return HttpAnswer(connection, ask(connection, verb, path or self.path, body, fields))

    def post(self, message: Any, *fields: Field) -> HttpAnswer:
        """Post a message, or raw bytes, in the usual media type."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self.send("POST", body, [("Content-Type", JSON), ("Accept", ACCEPT), *fields])


def ask(
    connection: HTTPConnection,
    verb: str,
    path: str,
    body: bytes | None = None,
    fields: Iterable[Field] = (),
) -> HTTPResponse:
    """One request on a connection that may be used again; fields may stand twice."""
    connection.putrequest(verb, path, skip_accept_encoding=True)
    for name, value in fields:
        connection.putheader(name, value)
    if body is not None:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    return connection.getresponse()


@contextmanager
def serving(
    tmp_path: Path, servers: Mapping[str, Any], *environ: Field, **rest: Any
) -> Iterator[HttpGateway]:
    """A gateway over HTTP with these servers, whose lists wait for every one of them."""
    settings: Message = {"gateway": {"listSeconds": LIST_SECONDS}}
    config = write_config(tmp_path, servers, **{**settings, **rest})
    state = tmp_path / "state"
    argv = ["--config", str(config), "--state-dir", str(state)]
    with running(*argv, **dict(environ)) as there:
        yield HttpGateway(there, state)

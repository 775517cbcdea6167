"""Clients of every kind before servers of both eras, all in raw bytes, and what is recorded of it.

What a client wrote and read and what a server heard and said is kept byte for byte, so that a test
can hold the record against it.
"""

import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Raw

from anyport.record.traffic import PayloadFrame, decode_captured, expand_frames
from tests.harness import MODERN_META, WAIT_SECONDS, LineClient, Message
from tests.journeys.clients import META, MODERN, hello, mirrored
from tests.journeys.http_gateway import (
    ACCEPT,
    EVENTS,
    JSON,
    Field,
    HttpAnswer,
    HttpGateway,
    serving,
)
from tests.journeys.scripts import POLL_SECONDS, Scripted, gateway
from tests.record.recorded import find_payload

ROWS: Final = frozenset(
    f"gateway.{name}" for name in ("tool_call", "resource_read", "prompt_get", "exchange")
)
ABLE: Final[Message] = {"elicitation": {}, "sampling": {}, "roots": {}}

_ids: Final = count(1)


def raw_member(frame: bytes, *names: str) -> bytes | None:
    """The first of these members that a frame has, as it stands there."""
    found = msgspec.json.decode(frame, type=dict[str, Raw])
    return next((bytes(found[name]) for name in names if name in found), None)


@dataclass(slots=True)
class RawExchange:
    """One request, as its client saw it."""

    id: int
    method: str
    params: bytes
    """As they were sent."""
    frames: list[bytes] = field(default_factory=list)
    """What came back, as it came; the answer last."""

    @property
    def answer(self) -> bytes:
        """The result or the error."""
        answer = raw_member(self.frames[-1], "result", "error")
        assert answer is not None
        return answer

    @property
    def told(self) -> list[bytes]:
        """The params of what came on the way."""
        return [raw_member(frame, "params") or b"" for frame in self.frames[:-1]]


class CaptureClient(ABC):
    """A client of some kind."""

    name: str
    revision: str
    transport: str
    book: "RecordReader"
    """Where its gateway records what it says."""

    @property
    def modern(self) -> bool:
        return self.revision == MODERN

    def params(self, of: Message, **about: Any) -> bytes:
        """Params as this client writes them."""
        own = {**MODERN_META, f"{META}clientCapabilities": ABLE} if self.modern else {}
        whole = {**of, "_meta": {**own, **about}} if own or about else of
        return json.dumps(whole, separators=(",", ":")).encode()

    def start(self, method: str, of: Message | bytes, **about: Any) -> RawExchange:
        """Send a request."""
        params = of if isinstance(of, bytes) else self.params(of, **about)
        talk = RawExchange(next(_ids), method, params)
        frame = b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}'
        self.post(talk, frame % (talk.id, method.encode(), params))
        return talk

    def ask(self, method: str, of: Message | bytes, **about: Any) -> RawExchange:
        """Send a request and wait for its answer."""
        talk = self.start(method, of, **about)
        for _ in self.heard(talk):
            pass
        return talk

    def heard(self, talk: RawExchange) -> Iterator[Message]:
        """What comes back, up to the answer."""
        for frame in self.frames(talk):
            message: Message = json.loads(frame)
            mine = "method" not in message and message.get("id") == talk.id
            if mine or message.get("method") in ON_THE_WAY:
                talk.frames.append(frame)
                yield message
            if mine:
                return

    def answers(self, asked: Message, result: Message) -> bytes:
        """Answer a question; the result as it was sent."""
        raw = json.dumps(result).encode()
        frame = b'{"jsonrpc":"2.0","id":%b,"result":%b}'
        self.tell(frame % (json.dumps(asked["id"]).encode(), raw))
        return raw

    @abstractmethod
    def post(self, talk: RawExchange, frame: bytes) -> None:
        """Send the frame of a request."""

    @abstractmethod
    def frames(self, talk: RawExchange) -> Iterator[bytes]:
        """The frames that come, as they come."""

    @abstractmethod
    def tell(self, frame: bytes) -> None:
        """Send what is not answered."""

    def cancel(self, talk: RawExchange) -> None:
        """Give a request up."""
        params = b'{"requestId":%d,"reason":"enough"}' % talk.id
        method = b'"method":"notifications/cancelled"'
        self.tell(b'{"jsonrpc":"2.0",%b,"params":%b}' % (method, params))


ON_THE_WAY: Final = frozenset(
    {
        "notifications/progress",
        "notifications/message",
        "elicitation/create",
        "sampling/createMessage",
    }
)


class StdioCaptureClient(CaptureClient):
    """A client on a pipe; with a session unless it is modern."""

    transport = "stdio"

    def __init__(self, client: LineClient, revision: str) -> None:
        self.client = client
        self.revision = revision
        self.name = f"stdio {revision}"

    def post(self, talk: RawExchange, frame: bytes) -> None:
        self.client.send(frame + b"\n")

    def frames(self, talk: RawExchange) -> Iterator[bytes]:
        while True:
            self.client.next()
            yield self.client.lines[-1]

    def tell(self, frame: bytes) -> None:
        self.client.send(frame + b"\n")


class HttpCaptureClient(CaptureClient):
    """A client over Streamable HTTP; with a session unless it is modern."""

    transport = "streamable-http"

    def __init__(self, site: HttpGateway, revision: str) -> None:
        self.site = site
        self.revision = revision
        self.name = f"http {revision}"
        self.fields: list[Field] = []
        self._answers: dict[int, HttpAnswer] = {}

    def open(self) -> RawExchange:
        """The handshake."""
        talk = self.start("initialize", hello(self.revision, ABLE))
        answer = self._answers[talk.id]
        talk.frames += self.frames(talk)
        self.fields = [("Mcp-Session-Id", answer.fields["Mcp-Session-Id"])]
        if self.revision not in ("2024-11-05", "2025-03-26"):
            self.fields.append(("MCP-Protocol-Version", self.revision))
        self.tell(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return talk

    def post(self, talk: RawExchange, frame: bytes) -> None:
        fields = mirrored(json.loads(frame)) if self.modern else self.fields
        self._answers[talk.id] = self.site.post(frame, *fields)

    def frames(self, talk: RawExchange) -> Iterator[bytes]:
        answer = self._answers[talk.id]
        if answer.kind == EVENTS:
            yield from (event.data.encode() for event in answer.events() if event.data)
        else:
            yield answer.text().encode()

    def tell(self, frame: bytes) -> None:
        fields = [("MCP-Protocol-Version", MODERN)] if self.modern else self.fields
        answer = self.site.send(
            "POST", frame, [("Content-Type", JSON), ("Accept", ACCEPT), *fields]
        )
        answer.text()

    def cancel(self, talk: RawExchange) -> None:
        if self.modern:  # "The client MUST close the stream" (basic/utilities/cancellation).
            self._answers[talk.id].close()
        else:
            super().cancel(talk)


class SseCaptureClient(CaptureClient):
    """A client over HTTP+SSE."""

    transport = "sse"

    def __init__(self, site: HttpGateway, revision: str) -> None:
        self.site = site
        self.revision = revision
        self.name = f"sse {revision}"
        self._stream = site.send("GET", None, [("Accept", EVENTS)])
        self._events = self._stream.events()
        self._address = next(self._events).data

    def open(self) -> RawExchange:
        """The handshake."""
        talk = self.start("initialize", hello(self.revision, ABLE))
        talk.frames.append(next(self.frames(talk)))
        self.tell(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return talk

    def post(self, talk: RawExchange, frame: bytes) -> None:
        self.tell(frame)

    def frames(self, talk: RawExchange) -> Iterator[bytes]:
        return (event.data.encode() for event in self._events if event.data)

    def tell(self, frame: bytes) -> None:
        self.site.send("POST", frame, [("Content-Type", JSON)], self._address).text()


class RecordReader:
    """What a gateway has recorded since somebody last looked."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self._read = 0

    def turn(self) -> None:
        """Look from here on."""
        self._read = len(self._whole())

    def events(self) -> list[Message]:
        """Everything, oldest first."""
        lines = self._whole()[self._read :].splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith(b"\n")]

    def rows(self) -> list[Message]:
        """The exchanges of clients that have ended."""
        return [
            event
            for event in self.events()
            if event["event_type"] in ROWS
            and event["status"] != "pending"
            and "profile" in event["metadata"]
        ]

    def row(self, method: str) -> Message:
        """The one exchange there is, when it is there."""
        self.wait(1)
        (row,) = self.rows()
        assert row["metadata"]["method"] == method
        return row

    def wait(self, wanted: int) -> None:
        """Wait for what nobody is told of."""
        end = time.monotonic() + WAIT_SECONDS
        while len(self.rows()) < wanted:
            assert time.monotonic() < end, f"{wanted} rows: {self.rows()}"
            time.sleep(POLL_SECONDS)

    def asides(self, kind: str) -> list[Message]:
        """The metadata of frames of a kind that belong to no exchange."""
        frames = [e["metadata"] for e in self.events() if e["event_type"] == "gateway.frame"]
        return [frame for frame in frames if frame["kind"] == kind]

    def payloads(self, row: Message) -> list[PayloadFrame]:
        """What was said in an exchange."""
        about = row["metadata"]
        line = find_payload(self.state, about["payload_file"], about["span_id"])
        assert line is not None
        captured = decode_captured(line)
        assert captured is not None
        assert captured.span_id == about["span_id"]
        times = [frame.ms for frame in captured.frames]
        assert times == sorted(times), "in the order of time"
        return expand_frames(captured.frames)

    def _whole(self) -> bytes:
        files = sorted((self.state / "events").glob("*/events.jsonl"))
        return b"".join(file.read_bytes() for file in files)


class ReceivingServer(Scripted):
    """A scripted server that can tell what it has heard lately."""

    def turn(self) -> None:
        """Listen from here on."""
        self._heard = len(self.lines)

    def params(self, method: str) -> list[bytes]:
        """The params of each request of a method, as they came."""
        named = b'"method":"%b"' % method.encode()
        lines = [line for line in self.lines[self._heard :] if named in line]
        return [raw_member(line, "params") or b"{}" for line in lines]

    def results(self) -> list[bytes]:
        """The answers to what it asked, as they came."""
        lines = [line for line in self.lines[self._heard :] if b'"method"' not in line]
        return [raw_member(line, "result", "error") or b"" for line in lines]


def texts(row: Message) -> list[str]:
    """Kind and method of each frame between request and answer."""
    frames = row["metadata"].get("frames", [])
    times = [float(text.split(" ")[0]) for text in frames]
    assert times == sorted(times), "in the order of time"
    assert all(re.fullmatch(r"[0-9]+\.[0-9]{3} [a-z-]+ [\w/-]+ [0-9]+", text) for text in frames)
    return [" ".join(text.split(" ")[1:3]) for text in frames]


@contextmanager
def all_fronts(path: Path, servers: Message, **rest: Any) -> Iterator[dict[str, CaptureClient]]:
    """Clients of every kind, each before a gateway with these servers."""
    with ExitStack() as stack:
        site = stack.enter_context(serving(path / "http", servers, **rest))
        pipes = [
            stack.enter_context(gateway(path / name, servers, **rest)) for name in ("old", "new")
        ]
        session, events = (
            HttpCaptureClient(site, "2025-11-25"),
            SseCaptureClient(site, "2025-06-18"),
        )
        old, new = StdioCaptureClient(pipes[0], "2025-11-25"), StdioCaptureClient(pipes[1], MODERN)
        fronts: list[CaptureClient] = [old, session, events, HttpCaptureClient(site, MODERN), new]
        pipes[0].initialize(capabilities=ABLE)
        session.open()
        events.open()
        for front in fronts:
            folder = "old" if front is old else "new" if front is new else "http"
            front.book = RecordReader(path / folder / "state")
            front.ask("tools/list", {})
        yield {front.name: front for front in fronts}

"""Fakes on both sides of the protocol: a reply writer, a request handler, a client."""

import json
from collections.abc import Callable, Hashable
from typing import Any

from anyport.protocol.adapters.client import UnroutedMessage
from anyport.protocol.adapters.legacy_client import GatewayDescription
from anyport.protocol.capabilities import NO_CAPABILITIES, ClientCapabilities
from anyport.protocol.conversation import Conversation
from anyport.protocol.errors import RetryAfter
from anyport.protocol.exchange import (
    Caller,
    ClientAdapter,
    Exchange,
    ExchangeEvent,
    PreparedCall,
    Question,
    ReplyWriter,
    Session,
)
from anyport.protocol.methods import METHODS
from anyport.protocol.request import PlainCall
from anyport.protocol.revisions import REVISIONS
from anyport.wire import raw_json
from anyport.wire.jsonrpc import Failure, Notification, Result
from anyport.wire.lines import Overlong

IDENTITY = b'{"name":"anyport","version":"0"}'
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
Json = dict[str, Any]


class FakeReplyWriter:
    """Keeps the frames that were sent."""

    reply_only = False

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.codes: list[int | None] = []
        """The error code of each answer."""

    def send_frames(self, *frames: bytes) -> None:
        self.frames += frames

    def end(
        self, frame: bytes, code: int | None = None, retry_after: RetryAfter | None = None
    ) -> None:
        self.codes.append(code)
        self.frames.append(frame)

    def take(self) -> list[Any]:
        """Return and forget the frames sent so far."""
        frames, self.frames = self.frames, []
        return [json.loads(frame) for frame in frames]

    def take_one(self) -> Any:
        (frame,) = self.take()
        return frame


class FakeRequestHandler:
    """Keeps exchanges open until a test ends them."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.sessions: list[tuple[str, Session]] = []
        self.notifications: list[tuple[Session | None, Notification]] = []
        self.recorded: list[tuple[Caller, UnroutedMessage, Result | Failure | None]] = []
        self.on_begin: Callable[[Exchange], None] = lambda exchange: None
        self.instructions: str | None = None

    def server_info(self, profile: str) -> bytes:
        return IDENTITY

    def find_unknown_method(self, caller: Caller, method: str) -> None:
        """No unknown methods."""

    @property
    def last(self) -> Exchange:
        return self.exchanges[-1]

    def begin(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)
        self.on_begin(exchange)

    def prepare_fast_call(
        self,
        plain: PlainCall,
        caller: Caller,
        client: ClientAdapter,
        writer: ReplyWriter,
        key: Hashable,
    ) -> PreparedCall | None:
        return None

    def describe(self, profile: str) -> GatewayDescription:
        return GatewayDescription(IDENTITY, self.instructions)

    def on_session_opened(self, session: Session) -> None:
        self.sessions.append(("opened", session))

    def on_session_closed(self, session: Session) -> None:
        self.sessions.append(("closed", session))

    def on_notification(self, caller: Caller, notification: Notification) -> None:
        self.notifications.append((caller.session, notification))

    def record_message(
        self, caller: Caller, message: UnroutedMessage, answer: Result | Failure | None = None
    ) -> None:
        self.recorded.append((caller, message, answer))


class FakeClient:
    """A client in a conversation with a fake request handler."""

    def __init__(self) -> None:
        self.writer = FakeReplyWriter()
        self.handler = FakeRequestHandler()
        self.idle = 0
        self.conversation = Conversation(
            profile="default",
            handler=self.handler,
            writer=self.writer,
            transport="stdio",
            new_session_id=lambda: f"session-{len(self.handler.sessions)}",
        )
        self.conversation.on_idle = self._rested

    def send(self, *messages: Json | list[Any] | bytes | Overlong) -> list[Any]:
        """Send messages; returns the frames that follow at once."""
        for message in messages:
            raw = message if isinstance(message, bytes | Overlong) else json.dumps(message).encode()
            for _ in self.conversation.receive(raw) or ():
                pass
        return self.writer.take()

    def ask(self, method: str, params: Any = None, id: Any = 1) -> list[Any]:
        """Send a legacy request."""
        return self.send(request(method, params, id))

    def ask_modern(self, method: str, params: Json | None = None, id: Any = 1) -> list[Any]:
        """Send a modern request."""
        return self.send(request(method, {**(params or {}), "_meta": META}, id))

    def notify(self, method: str, params: Any = None) -> list[Any]:
        message = {"jsonrpc": "2.0", "method": method}
        return self.send(message if params is None else {**message, "params": params})

    def handshake(self, revision: str = "2025-11-25", capabilities: Json | None = None) -> Any:
        """Open a legacy session; returns the result of `initialize`."""
        params = {"protocolVersion": revision, "capabilities": capabilities or {}}
        (answer,) = self.ask("initialize", params, "hello")
        assert self.notify("notifications/initialized") == []
        return answer["result"]

    def _rested(self, _: Conversation) -> None:
        self.idle += 1


class FakeQuestion:
    """A question and its answers."""

    def __init__(
        self,
        method: str = "elicitation/create",
        params: bytes | None = b"{}",
        on_progress: Callable[[bytes], None] | None = None,
    ) -> None:
        self.answers: list[Result | Failure] = []
        self.question = Question(method, params, self.answers.append, on_progress)

    @property
    def error(self) -> Json:
        (answer,) = self.answers
        assert isinstance(answer, Failure)
        error: Json = json.loads(answer.error)
        return error


def request(method: str, params: Any = None, id: Any = 1) -> Json:
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    return message if params is None else {**message, "params": params}


def caller(
    revision: str = "2025-11-25",
    session: Session | None = None,
    capabilities: ClientCapabilities = NO_CAPABILITIES,
    log_level: str | None = None,
) -> Caller:
    return Caller(
        profile="default",
        session=session,
        revision=REVISIONS[revision],
        capabilities=capabilities,
        log_level=log_level,
    )


def exchange(
    method: str = "tools/call",
    by: Caller | None = None,
    id: bytes = b"1",
    params: bytes = b"{}",
    writer: FakeReplyWriter | None = None,
) -> tuple[Exchange, list[ExchangeEvent]]:
    """An exchange, and the events delivered to its client."""
    events: list[ExchangeEvent] = []
    made = Exchange(
        id=id,
        method=METHODS[method],
        params=params,
        param_members=raw_json.members(params),
        caller=by or caller(),
        writer=writer or FakeReplyWriter(),
        deliver=lambda _, event: events.append(event),
    )
    return made, events

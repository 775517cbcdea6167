"""The other sides of the protocol: a relay that writes down what it gets, a wire one can read."""

import json
from collections.abc import Callable, Hashable
from typing import Any

from anyport.protocol.capability import NOTHING, ClientCapabilities
from anyport.protocol.conversation import Conversation
from anyport.protocol.errors import Pause
from anyport.protocol.exchange import (
    Again,
    Caller,
    Exchange,
    Front,
    Happening,
    Question,
    Session,
    Teller,
)
from anyport.protocol.front import Aside
from anyport.protocol.legacy_front import Description
from anyport.protocol.method import METHODS
from anyport.protocol.reading import PlainCall
from anyport.protocol.revision import REVISIONS
from anyport.wire import members
from anyport.wire.frame import Failure, Notification, Result
from anyport.wire.framing import Overlong

IDENTITY = b'{"name":"anyport","version":"0"}'
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
Json = dict[str, Any]


class Wire:
    """Keeps the frames that were sent."""

    mute = False

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.codes: list[int | None] = []
        """Of each answer, the code it came with."""

    def note(self, *frames: bytes) -> None:
        self.frames += frames

    def end(self, frame: bytes, code: int | None = None, pause: Pause | None = None) -> None:
        self.codes.append(code)
        self.frames.append(frame)

    def take(self) -> list[Any]:
        """What was sent since the last look."""
        frames, self.frames = self.frames, []
        return [json.loads(frame) for frame in frames]

    def take_one(self) -> Any:
        (frame,) = self.take()
        return frame


class FakeRelay:
    """Takes exchanges and leaves them open, until a test ends them."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.sessions: list[tuple[str, Session]] = []
        self.notifications: list[tuple[Session | None, Notification]] = []
        self.asides: list[tuple[Caller, Aside, Result | Failure | None]] = []
        self.on_begin: Callable[[Exchange], None] = lambda exchange: None
        self.instructions: str | None = None

    @property
    def identity(self) -> bytes:
        return IDENTITY

    @property
    def last(self) -> Exchange:
        return self.exchanges[-1]

    def begin(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)
        self.on_begin(exchange)

    def again(
        self, plain: PlainCall, caller: Caller, front: Front, teller: Teller, key: Hashable
    ) -> Again | None:
        return None

    def describe(self, profile: str) -> Description:
        return Description(IDENTITY, self.instructions)

    def opened(self, session: Session) -> None:
        self.sessions.append(("opened", session))

    def closed(self, session: Session) -> None:
        self.sessions.append(("closed", session))

    def heard(self, session: Session | None, notification: Notification) -> None:
        self.notifications.append((session, notification))

    def aside(self, caller: Caller, said: Aside, answer: Result | Failure | None = None) -> None:
        self.asides.append((caller, said, answer))


class Talk:
    """One client's conversation with the gateway, over a fake relay."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.relay = FakeRelay()
        self.idle = 0
        self.conversation = Conversation(
            profile="default",
            relay=self.relay,
            teller=self.wire,
            transport="stdio",
            new_session_id=lambda: f"session-{len(self.relay.sessions)}",
        )
        self.conversation.on_idle = self._rested

    def say(self, *messages: Json | list[Any] | bytes | Overlong) -> list[Any]:
        """Send messages; what came back at once."""
        for message in messages:
            raw = message if isinstance(message, bytes | Overlong) else json.dumps(message).encode()
            self.conversation.receive(raw)
        return self.wire.take()

    def ask(self, method: str, params: Any = None, id: Any = 1) -> list[Any]:
        """Send a request of a legacy client."""
        return self.say(request(method, params, id))

    def ask_modern(self, method: str, params: Json | None = None, id: Any = 1) -> list[Any]:
        """Send a request that needs no handshake."""
        return self.say(request(method, {**(params or {}), "_meta": META}, id))

    def tell(self, method: str, params: Any = None) -> list[Any]:
        """Send a notification."""
        message = {"jsonrpc": "2.0", "method": method}
        return self.say(message if params is None else {**message, "params": params})

    def shake_hands(self, revision: str = "2025-11-25", capabilities: Json | None = None) -> Any:
        """Open a legacy session; the result of `initialize`."""
        params = {"protocolVersion": revision, "capabilities": capabilities or {}}
        (answer,) = self.ask("initialize", params, "hello")
        assert self.tell("notifications/initialized") == []
        return answer["result"]

    def _rested(self, _: Conversation) -> None:
        self.idle += 1


class Asked:
    """A question, and the answers that came to it."""

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
    capabilities: ClientCapabilities = NOTHING,
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
    teller: Wire | None = None,
) -> tuple[Exchange, list[Happening]]:
    """An exchange, and what it was told."""
    told: list[Happening] = []
    made = Exchange(
        id=id,
        method=METHODS[method],
        params=params,
        found=members.members(params),
        caller=by or caller(),
        teller=teller or Wire(),
        tell=lambda _, happening: told.append(happening),
    )
    return made, told

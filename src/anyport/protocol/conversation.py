"""Everything one client says on one pipe, both eras, message by message.

A pipe is not tied to an era: a client may probe with `server/discover` and then fall back to
`initialize`. This file sorts what comes in and keeps the ledger of open requests; the fronts
tell what comes back; a `Relay` does the work. No I/O: bytes are handed over through `send`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import Final, Protocol

import msgspec
from msgspec import Raw

from anyport.protocol import meta
from anyport.protocol.capability import NOTHING, ClientCapabilities
from anyport.protocol.errors import Fault, Situation, invalid_params, method_not_found
from anyport.protocol.exchange import (
    Answered,
    Caller,
    Exchange,
    Failed,
    Happening,
    Refused,
    Session,
)
from anyport.protocol.legacy_front import Description, LegacySession, Send, initialize, tell_legacy
from anyport.protocol.method import INITIALIZED, find_method
from anyport.protocol.modern_front import is_modern, open_envelope, tell_modern
from anyport.protocol.revision import UNNEGOTIATED, Revision
from anyport.protocol.session import State, Step
from anyport.wire import codec, members
from anyport.wire.frame import BadFrame, Failure, Frame, Notification, Request, Result
from anyport.wire.framing import Overlong

BATCH_MAX: Final = 100
"""Messages in one batch; the batches of real clients hold a handful."""

PARAMETERS: Final = frozenset({"name", "uri", "arguments", "_meta"})
"""What routing and policy look at; a variant in another case could slip past them."""

OPEN_REQUESTS_MAX: Final = 4096
"""Unanswered requests of one client; more is a client that never reads."""

OPEN_BYTES_MAX: Final = 64 * 1024 * 1024
"""What the large ones among them may hold together; a message is in memory up to four times."""
LARGE_BYTES: Final = 64 * 1024
"""Smaller requests are bounded by their number alone, and need not be added up."""


Tell = Callable[[Exchange, Happening, Send], None]
"""Tells a client of one era what happened."""


class Relay(Protocol):
    """What the inside of the gateway offers a front."""

    def begin(self, exchange: Exchange) -> None:
        """Take an exchange to its ending."""

    @property
    def identity(self) -> bytes:
        """The gateway's raw `serverInfo`."""

    def describe(self, profile: str) -> Description:
        """How the gateway presents itself, known without waiting."""

    def opened(self, session: Session) -> None:
        """A legacy session was opened."""

    def closed(self, session: Session) -> None:
        """A legacy session has ended."""

    def heard(self, session: Session | None, notification: Notification) -> None:
        """A client sent a notification that concerns the servers."""


class Batch:
    """The answers to one batch, sent together when the last is there."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._answers: list[bytes] = []
        self._awaited = 0

    def expect(self) -> None:
        """One more answer will come."""
        self._awaited += 1

    def add(self, frame: bytes) -> None:
        """One answer is there."""
        self._answers.append(frame)
        self.forget()

    def forget(self) -> None:
        """One answer will not come after all, or has just come."""
        self._awaited -= 1
        if self._awaited == 0 and self._answers:
            self._send(b"[%b]" % b",".join(self._answers))


class Conversation:
    """One client's side of a pipe."""

    def __init__(
        self,
        *,
        profile: str,
        relay: Relay,
        send: Send,
        new_session_id: Callable[[], str],
        bytes_max: int = codec.INBOUND.bytes_max,
    ) -> None:
        self.session: LegacySession | None = None
        self.on_idle: Callable[[], None] | None = None
        """Called whenever the last open request has its ending."""
        self._profile = profile
        self._relay = relay
        self._send = send
        self._new_session_id = new_session_id
        self._bytes_max = bytes_max
        self._open: dict[str | int, Exchange] = {}
        self._batches: dict[str | int, Batch] = {}
        self._question_ids = count(1)
        self._caller: Caller | None = None
        """The session's caller, the same from request to request."""

    @property
    def open_requests(self) -> int:
        """How many requests have no ending yet, long-lived ones included."""
        return len(self._open)

    def receive(self, raw: bytes | Overlong) -> None:
        """Take one message, or one batch, from the client."""
        if isinstance(raw, Overlong):
            id = codec.id_at_edge(raw.edges)
            self._take(codec.too_large(raw.size, self._bytes_max, id), None)
        elif codec.is_batch(raw):
            self._take_batch(raw)
        else:
            self._take(codec.decode(raw), None)

    def finish(self) -> None:
        """No more will come from the client: end what would otherwise never end."""
        for exchange in list(self._open.values()):
            if exchange.method.name == "subscriptions/listen":
                exchange.end(Answered(b"{}"))
        if self.session is not None:
            self.session.go_deaf()

    def close(self) -> None:
        """Nothing more will be sent to the client either."""
        if self.session is not None:
            self._relay.closed(self.session)
            self.session.take(Step.CLOSE)

    def _take_batch(self, raw: bytes) -> None:
        if not self._revision.batches:
            words = f"Invalid Request: revision {self._revision.name} has no batches"
            self._take(BadFrame(-32600, words), None)
            return
        frames = codec.decode_batch(raw, BATCH_MAX)
        if isinstance(frames, BadFrame):
            # JSON-RPC 6: what is not a batch at all is answered by one object, not by an array.
            self._take(frames, None)
            return
        batch = Batch(self._send)
        batch.expect()
        for frame in frames:
            if isinstance(frame, Request) and frame.method == "initialize":
                words = "Invalid Request: initialize must not be part of a batch"
                frame = BadFrame(-32600, words, id=frame.id)
            self._take(frame, batch)
        batch.forget()

    def _take(self, frame: Frame | BadFrame, batch: Batch | None) -> None:
        match frame:
            case Request():
                if batch is not None:
                    batch.expect()
                refusal = self._request(frame, batch)
                if refusal is not None:
                    error = refusal.render(self._revision)
                    self._reply(codec.failure(frame.id, error), batch)
            case Notification():
                self._notification(frame)
            case Result() | Failure():
                if self.session is not None:
                    self.session.answer(frame)
            case BadFrame() if frame.answerable:
                if batch is not None:
                    batch.expect()
                null = self._revision.null_ids
                error = codec.error(frame.code, frame.message)
                self._reply(codec.failure(frame.id, error, null_id=null), batch)

    def _request(self, frame: Request, batch: Batch | None) -> Fault | None:
        """Begin an exchange, or say why not."""
        params = frame.params or b"{}"
        found = _read_meta(params)
        if isinstance(found, Fault):
            return found
        if frame.method == "initialize":
            return self._initialize(frame, batch)
        modern = is_modern(frame.method, found)
        if modern and batch is not None:
            words = "Invalid Request: a request without a session must not be part of a batch"
            return Fault(situation=Situation.INVALID_REQUEST, message=words)
        caller = self._modern_caller(found) if modern else self._legacy_caller()
        if isinstance(caller, Fault):
            return caller
        method = find_method(frame.method, caller.revision)
        if method is None:
            return method_not_found(frame.method)
        key = msgspec.json.decode(frame.id, type=str | int)
        refusal = self._no_room(key, len(params))
        if refusal is not None:
            return refusal
        tell = partial(self._tell_modern if modern else self._tell_legacy, key)
        exchange = Exchange(id=frame.id, method=method, params=params, caller=caller, tell=tell)
        token = found.get(meta.PROGRESS_TOKEN)
        if token is not None and codec.legal_id(bytes(token)):
            # The same two types as for ids; a token of another would not come back to anybody.
            exchange.progress_token = bytes(token)
        self._open[key] = exchange
        if batch is not None:
            self._batches[key] = batch
        self._relay.begin(exchange)
        return None

    def _no_room(self, key: str | int, size: int) -> Fault | None:
        if key in self._open:
            words = "Invalid Request: a request with this id is still open"
            return Fault(situation=Situation.INVALID_REQUEST, message=words)
        if len(self._open) >= OPEN_REQUESTS_MAX:
            words = f"Too many open requests: the limit is {OPEN_REQUESTS_MAX}"
            return Fault(situation=Situation.INTERNAL, message=words)
        if size > LARGE_BYTES:
            held = sum(len(exchange.params) for exchange in self._open.values())
            if held + size > OPEN_BYTES_MAX:
                words = f"Too many bytes in open requests: the limit is {OPEN_BYTES_MAX}"
                return Fault(situation=Situation.INTERNAL, message=words)
        return None

    def _initialize(self, frame: Request, batch: Batch | None) -> Fault | None:
        outcome = initialize(frame, self._open_session)
        if isinstance(outcome, Fault):
            return outcome
        self._reply(codec.result(frame.id, outcome), batch)
        return None

    def _open_session(
        self, revision: Revision, capabilities: ClientCapabilities, client: bytes | None
    ) -> Description:
        if self.session is not None:
            self.session.go_deaf()
            self.close()
        self.session = LegacySession(
            id=self._new_session_id(),
            profile=self._profile,
            revision=revision,
            capabilities=capabilities,
            client=client,
            send=self._send,
            question_ids=self._question_ids,
        )
        self._relay.opened(self.session)
        return self._relay.describe(self._profile)

    def _notification(self, frame: Notification) -> None:
        params = frame.params if frame.params is not None and frame.params[:1] == b"{" else b"{}"
        if frame.method == "notifications/cancelled":
            self._cancel(params)
        elif frame.method in INITIALIZED:
            if self.session is not None:
                self.session.take(Step.INITIALIZED)
        elif frame.method == "notifications/progress":
            if self.session is not None:
                self.session.progress(params)
        else:
            self._relay.heard(self.session, frame)

    def _cancel(self, params: bytes) -> None:
        """Cancel an open request; one that is unknown, finished or malformed is ignored."""
        try:
            found = members.distinct(params)
            key = msgspec.json.decode(found.get("requestId", Raw(b"null")), type=str | int)
        except (msgspec.DecodeError, members.Ambiguous):
            return
        exchange = self._open.pop(key, None)
        if exchange is None:
            return
        reason = found.get("reason")
        exchange.cancel(None if reason is None else bytes(reason))
        batch = self._batches.pop(key, None)
        if batch is not None:
            batch.forget()
        self._rest()

    def _tell_legacy(self, key: str | int, exchange: Exchange, happening: Happening) -> None:
        self._tell(tell_legacy, key, exchange, happening)

    def _tell_modern(self, key: str | int, exchange: Exchange, happening: Happening) -> None:
        tell = partial(tell_modern, server_info=self._relay.identity)
        self._tell(tell, key, exchange, happening)

    def _tell(self, tell: Tell, key: str | int, exchange: Exchange, happening: Happening) -> None:
        if not isinstance(happening, Answered | Refused | Failed):
            tell(exchange, happening, self._send)
            return
        reply = partial(self._reply, batch=self._close(key))
        try:
            tell(exchange, happening, reply)
        except members.Ambiguous:
            tell(exchange, _failed("The server's result names a member twice"), reply)
        except Exception:
            # Whatever broke, nobody waits for ever; what broke is for others to report.
            tell(exchange, _failed("Internal error: the answer could not be told"), reply)
            raise
        finally:
            self._rest()

    def _close(self, key: str | int) -> Batch | None:
        self._open.pop(key, None)
        return self._batches.pop(key, None)

    def _rest(self) -> None:
        if not self._open and self.on_idle is not None:
            self.on_idle()

    def _reply(self, frame: bytes, batch: Batch | None) -> None:
        if batch is None:
            self._send(frame)
        else:
            batch.add(frame)

    @property
    def _revision(self) -> Revision:
        return UNNEGOTIATED if self.session is None else self.session.revision

    def _legacy_caller(self) -> Caller:
        session = self.session
        if session is None or session.state is State.CLOSED:
            return Caller(
                profile=self._profile, session=None, revision=UNNEGOTIATED, capabilities=NOTHING
            )
        session.take(Step.REQUEST)
        caller = self._caller
        if caller is None or caller.session is not session or caller.log_level != session.log_level:
            caller = self._caller = Caller(
                profile=self._profile,
                session=session,
                revision=session.revision,
                capabilities=session.capabilities,
                client=session.client,
                log_level=session.log_level,
            )
        return caller

    def _modern_caller(self, found: Mapping[str, Raw]) -> Caller | Fault:
        envelope = open_envelope(found)
        if isinstance(envelope, Fault):
            return envelope
        return Caller(
            profile=self._profile,
            session=None,
            revision=envelope.revision,
            capabilities=envelope.capabilities,
            client=envelope.client,
            log_level=envelope.log_level,
        )


def _failed(words: str) -> Failed:
    return Failed(Fault(situation=Situation.INTERNAL, message=words))


def _read_meta(params: bytes) -> dict[str, Raw] | Fault:
    """The members of `_meta`, once params are known to be sound."""
    if params[:1] == b"[":
        return invalid_params("Invalid params: MCP takes parameters by name, not by position")
    try:
        found = members.distinct(params)
    except members.Ambiguous as error:
        return invalid_params(f"Invalid params: {error}")
    misspelt = members.lookalike(found, PARAMETERS)
    if misspelt is not None:
        return invalid_params(f"Invalid params: {misspelt!r} is a misspelt parameter")
    try:
        return members.distinct(bytes(found["_meta"])) if "_meta" in found else {}
    except members.Ambiguous as error:
        return invalid_params(f"Invalid params: in _meta {error}")
    except msgspec.DecodeError:
        return invalid_params("Invalid params: _meta must be an object")

"""Everything one client says in one conversation, both eras, message by message.

A conversation is not tied to an era: a client may probe with `server/discover` and then fall
back to `initialize`. This file sorts what comes in and keeps the ledger of open requests; the
fronts tell what comes back; a `Relay` does the work. No I/O: a `Teller` takes bytes to the
client, one for the whole conversation on a pipe, one for each message over HTTP.
"""

from collections.abc import Callable, Hashable
from itertools import count

import msgspec
from msgspec import Raw

from anyport.protocol.batch import BATCH_MAX, Batch
from anyport.protocol.capability import NOTHING, ClientCapabilities
from anyport.protocol.errors import Fault, Situation, method_not_found
from anyport.protocol.exchange import NOBODY, Answered, Caller, Exchange, Happening, Pending, Teller
from anyport.protocol.front import CANCELLED, ENDINGS, Relay, Tell, modern_caller, tell_ending
from anyport.protocol.legacy_front import Description, LegacySession, initialize, tell_legacy
from anyport.protocol.method import INITIALIZED, find_method
from anyport.protocol.modern_front import is_modern, tell_modern
from anyport.protocol.principal import LOCAL, Principal
from anyport.protocol.progress import PROGRESS
from anyport.protocol.reading import PlainCall, Reading, read_plain_call, read_request
from anyport.protocol.revision import UNNEGOTIATED, Revision
from anyport.protocol.room import LARGE_BYTES, OPEN_REQUESTS_MAX, no_room
from anyport.protocol.session import State, Step
from anyport.wire import codec, members
from anyport.wire.frame import BadFrame, Failure, Frame, Notification, Request, Result
from anyport.wire.framing import Overlong


class Conversation:
    """One client's side of a conversation."""

    __slots__ = (
        "_assumed",
        "_bytes_max",
        "_caller",
        "_new_session_id",
        "_open",
        "_principal",
        "_profile",
        "_question_ids",
        "_relay",
        "_teller",
        "_transport",
        "on_idle",
        "session",
    )

    def __init__(  # noqa: PLR0913 - who talks with whom over what, all by name
        self,
        *,
        profile: str,
        relay: Relay,
        teller: Teller,
        transport: str,
        new_session_id: Callable[[], str],
        principal: Principal = LOCAL,
        assumed: Revision = UNNEGOTIATED,
        bytes_max: int = codec.INBOUND.bytes_max,
    ) -> None:
        self.session: LegacySession | None = None
        self.on_idle: Callable[[Conversation], None] | None = None
        """Called whenever the last open request has its ending."""
        self._profile = profile
        self._relay = relay
        self._teller: Teller = teller
        self._transport = transport
        self._new_session_id = new_session_id
        self._principal = principal
        self._assumed = assumed
        """Of a client that skips the handshake."""
        self._bytes_max = bytes_max
        self._open: dict[Hashable, Pending] = {}
        self._question_ids = count(1)
        self._caller: Caller | None = None
        """The session's caller, the same from request to request."""

    @property
    def open_requests(self) -> int:
        """How many requests have no ending yet, long-lived ones included."""
        return len(self._open)

    @property
    def revision(self) -> Revision:
        """What was negotiated, or is assumed."""
        return self._assumed if self.session is None else self.session.revision

    @property
    def any_teller(self) -> Teller | None:
        """The way of some answer that is still to come."""
        return next((exchange.teller for exchange in self._open.values()), None)

    def asked_over(self, teller: Teller) -> bytes | None:
        """The raw id of the request whose answer goes this way, while it is open."""
        return next((ex.id for ex in self._open.values() if ex.teller is teller), None)

    def receive(self, raw: bytes | Overlong) -> None:
        """Take one message, or one batch, from a pipe."""
        if isinstance(raw, Overlong):
            id = codec.id_at_edge(raw.edges)
            self.take(codec.too_large(raw.size, self._bytes_max, id), self._teller)
        elif codec.is_batch(raw):
            self.take_batch(raw, self._teller)
        else:
            plain = None if self._caller is None else read_plain_call(raw)
            if plain is None or plain.is_modern or not self.repeat(plain, self._teller):
                self.take(codec.decode(raw), self._teller)

    def finish(self) -> None:
        """No more will come from the client: end what would otherwise never end."""
        for exchange in list(self._open.values()):
            if isinstance(exchange, Exchange) and exchange.method.name == "subscriptions/listen":
                exchange.end(Answered(b"{}"))
        if self.session is not None:
            self.session.go_deaf()

    def leave(self) -> None:
        """Nothing more will be sent to the client either."""
        if self.session is not None:
            self._relay.closed(self.session)
            self.session.take(Step.CLOSE)

    def cancel_all(self) -> None:
        """The client is gone for good and wants no answer any more."""
        exchanges, self._open = list(self._open.values()), {}
        for exchange in exchanges:
            exchange.cancel()
            self._drop(exchange)

    def abandon(self) -> None:
        """The client is gone for good: nothing is heard, wanted or said any more."""
        self.finish()
        self.cancel_all()
        self.leave()
        self._teller = NOBODY  # What holds each other is not freed.
        if self._caller is not None:
            self._caller.memory.clear()

    def take_batch(self, raw: bytes, teller: Teller) -> bool:
        """Take a JSON array; False if nothing in it is answered."""
        if not self.revision.batches:
            words = f"Invalid Request: revision {self.revision.name} has no batches"
            self.take(BadFrame(-32600, words), teller)
            return True
        frames = codec.decode_batch(raw, BATCH_MAX)
        if isinstance(frames, BadFrame):
            # JSON-RPC 6: what is not a batch at all is answered by one object, not by an array.
            self.take(frames, teller)
            return True
        batch = Batch(teller)
        batch.expect()
        for frame in frames:
            if isinstance(frame, Request) and frame.method == "initialize":
                words = "Invalid Request: initialize must not be part of a batch"
                frame = BadFrame(-32600, words, id=frame.id)
            self.take(frame, batch)
        batch.forget()
        return batch.owing

    def take(self, frame: Frame | BadFrame, teller: Teller) -> None:
        """Take one message; what it is answered with goes to the teller."""
        match frame:
            case Request():
                reading = read_request(frame)
                if isinstance(reading, Fault):
                    self.refuse(frame, reading, teller)
                else:
                    self.request(reading, teller)
            case Notification():
                self._notification(frame)
            case Result() | Failure():
                if self.session is not None:
                    self.session.answer(frame)
            case BadFrame():
                self._relay.aside(self._speaker(), frame)
                if not frame.answerable:
                    return
                if isinstance(teller, Batch):
                    teller.expect()
                null = self.revision.null_ids
                error = codec.error(frame.code, frame.message)
                teller.end(codec.failure(frame.id, error, null_id=null), frame.code)

    def refuse(
        self, frame: Request, fault: Fault, teller: Teller, caller: Caller | None = None
    ) -> None:
        """Answer a request that cannot be."""
        if isinstance(teller, Batch):
            teller.expect()
        error = fault.render(self.revision)
        self._relay.aside(caller or self._speaker(), frame, Failure(frame.id, error))
        teller.end(codec.failure(frame.id, error), fault.code(self.revision), fault.pause)

    def repeat(self, plain: PlainCall, teller: Teller) -> bool:
        """Make a call that was made before; False if that cannot be told from the call alone."""
        caller = self._same_caller()
        if caller is None:
            return False
        key = plain.key
        if key in self._open or len(self._open) >= OPEN_REQUESTS_MAX:
            return False
        again = self._relay.again(plain, caller, self, teller, key)
        if again is None:
            return False
        self._open[key] = again
        again.go()
        return True

    def request(self, reading: Reading, teller: Teller) -> None:
        """Begin an exchange, or say why not."""
        frame = reading.frame
        if frame.method == "initialize":
            outcome = initialize(frame, self._open_session)
            if isinstance(outcome, Fault):
                self.refuse(frame, outcome, teller)
            else:
                self._relay.aside(self._speaker(), frame, Result(frame.id, outcome))
                teller.end(codec.result(frame.id, outcome))
            return
        modern = is_modern(frame.method, reading.about)
        caller = self._modern_caller(reading, teller) if modern else self._legacy_caller()
        if isinstance(caller, Fault):
            self.refuse(frame, caller, teller)
            return
        refusal = self._begin(reading, teller, caller, modern=modern)
        if refusal is not None:
            self.refuse(frame, refusal, teller, caller)

    def _begin(
        self, reading: Reading, teller: Teller, caller: Caller, *, modern: bool
    ) -> Fault | None:
        frame = reading.frame
        method = find_method(frame.method, caller.revision)
        if method is None:
            return method_not_found(frame.method)
        key = codec.id_value(frame.id)
        full = key in self._open or len(self._open) >= OPEN_REQUESTS_MAX
        if full or len(reading.params) > LARGE_BYTES:
            refusal = no_room(self._open, key, len(reading.params))
            if refusal is not None:
                return refusal
        exchange = Exchange(
            id=frame.id,
            method=method,
            params=reading.params,
            found=reading.found,
            caller=caller,
            teller=teller,
            tell=self._tell_modern if modern else self.tell,
            key=key,
            progress_token=reading.progress_token if reading.about else None,
            carried=reading.carried,
        )
        self._open[key] = exchange
        if isinstance(teller, Batch):
            teller.expect()
        self._relay.begin(exchange)
        return None

    def _open_session(
        self, revision: Revision, capabilities: ClientCapabilities, client: bytes | None
    ) -> Description:
        if self.session is not None:
            self.session.go_deaf()
            self.leave()
        self.session = LegacySession(
            id=self._new_session_id(),
            profile=self._profile,
            revision=revision,
            capabilities=capabilities,
            client=client,
            teller=self._teller,
            transport=self._transport,
            question_ids=self._question_ids,
            principal=self._principal,
        )
        self._relay.opened(self.session)
        return self._relay.describe(self._profile)

    def _notification(self, frame: Notification) -> None:
        self._relay.aside(self._speaker(), frame)
        params = frame.params if frame.params is not None and frame.params[:1] == b"{" else b"{}"
        if frame.method == "notifications/cancelled":
            self._cancel(params)
        elif frame.method in INITIALIZED:
            if self.session is not None:
                self.session.take(Step.INITIALIZED)
        elif frame.method == PROGRESS:
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
        self._drop(exchange)
        self._rest()

    def _drop(self, exchange: Pending) -> None:
        """A request was cancelled: nobody waits for what will not come."""
        teller = exchange.teller
        way = teller.teller if isinstance(teller, Batch) else teller
        if way is not self._teller:
            # Over HTTP a request has a response of its own, which ends only with an answer.
            error = codec.error(CANCELLED, "Request cancelled")
            teller.end(codec.failure(exchange.id, error), CANCELLED)
        elif isinstance(teller, Batch):
            teller.forget()

    def tell(self, exchange: Exchange, happening: Happening) -> None:
        """Tell a legacy client what happened."""
        self._tell(tell_legacy, exchange, happening)

    def close(self, key: Hashable) -> None:
        """What was kept under this key has its answer."""
        del self._open[key]
        self._rest()

    def swap(self, key: Hashable, exchange: Exchange) -> None:
        """What was kept under this key goes on as an exchange."""
        if key in self._open:  # It may have been cancelled.
            self._open[key] = exchange

    def _tell_modern(self, exchange: Exchange, happening: Happening) -> None:
        self._tell(self._say_modern, exchange, happening)

    def _tell(self, say: Tell, exchange: Exchange, happening: Happening) -> None:
        if not isinstance(happening, ENDINGS):
            say(exchange, happening)
            return
        del self._open[exchange.key]
        tell_ending(say, exchange, happening)
        self._rest()

    def _say_modern(self, exchange: Exchange, happening: Happening) -> None:
        tell_modern(exchange, happening, self._relay.identity)

    def _rest(self) -> None:
        if not self._open and self.on_idle is not None:
            self.on_idle(self)

    def _legacy_caller(self) -> Caller:
        if self.session is not None and self.session.state not in (State.READY, State.CLOSED):
            self.session.take(Step.REQUEST)
        return self._speaker()

    def _modern_caller(self, reading: Reading, teller: Teller) -> Caller | Fault:
        if isinstance(teller, Batch):
            words = "Invalid Request: a request without a session must not be part of a batch"
            return Fault(situation=Situation.INVALID_REQUEST, message=words)
        return modern_caller(reading.about, self._profile, self._principal, self._transport)

    def _speaker(self) -> Caller:
        """Who speaks: the same object as long as that is the same."""
        session = self.session
        if session is None or session.state is State.CLOSED:
            return Caller(
                profile=self._profile,
                session=None,
                revision=self._assumed,
                capabilities=NOTHING,
                principal=self._principal,
                transport=self._transport,
            )
        caller = self._same_caller()
        if caller is None:
            caller = self._caller = Caller(
                profile=self._profile,
                session=session,
                revision=session.revision,
                capabilities=session.capabilities,
                client=session.client,
                log_level=session.log_level,
                principal=self._principal,
                transport=self._transport,
            )
        return caller

    def _same_caller(self) -> Caller | None:
        """Who asked last, if whoever asks now is still the same."""
        caller, session = self._caller, self.session
        if caller is None or session is None or caller.session is not session:
            return None
        return caller if caller.log_level == session.log_level else None

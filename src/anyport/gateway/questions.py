"""What servers ask, brought to the client whose call caused it, and the answer back."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol

import msgspec

from anyport.config.address import is_local
from anyport.protocol import meta
from anyport.protocol.capability import ClientCapabilities
from anyport.protocol.exchange import Exchange, Question, Session
from anyport.protocol.method import QUESTIONS
from anyport.protocol.openable import unfit_question, wants_address
from anyport.protocol.passage import Passage
from anyport.protocol.progress import PROGRESS
from anyport.protocol.timeouts import Timeout
from anyport.upstream.connection import Connection
from anyport.upstream.key import LeaseKey
from anyport.upstream.server import Server
from anyport.wire import codec, members
from anyport.wire.frame import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Failure,
    Notification,
    Request,
    Result,
)

QUESTION_SECONDS_MAX: Final = 600.0
"""People take their time; after this they are not coming back."""

OPEN_QUESTIONS_MAX: Final = 256
"""Questions of all servers together that no client has answered yet."""

_TOO_MANY: Final = codec.error(-32000, "Too many questions are waiting for an answer")


class Audience(NamedTuple):
    """Whom a question is for."""

    capabilities: ClientCapabilities
    put: Callable[[Question], None]


class Work(Protocol):
    """The relay, as questions see it."""

    def open_exchanges(self, server: Server) -> list[Exchange]:
        """What a server works on now."""

    def exchange_on(self, owner: str) -> Exchange | None:
        """The call that has a connection to itself, once the server knows of it."""

    def audience(self, server: Server, line: Connection, request: Request) -> Audience | None:
        """Whom a server asks that asks for one of its tasks; None if it does not."""

    def may_ask(self, exchange: Exchange) -> bool:
        """Whether there is room for one more question."""

    def ask(self, exchange: Exchange, question: Question) -> None:
        """Put a question to the client of a call."""


class Witness(Protocol):
    """Keeps what servers say outside any client's request, for the record."""

    def told(self, server: Server, said: Request) -> None:
        """A server asks something on its own."""

    def answered(self, server: Server, method: str, answer: Result | Failure) -> None:
        """A server's question has its answer."""


class Questions:
    """The open questions of all servers."""

    def __init__(
        self,
        sessions: Mapping[str, Session],
        work: Work,
        later: Callable[[float, Callable[[], None]], object],
        witness: Witness,
    ) -> None:
        self._later = later
        self._sessions = sessions
        self._work = work
        self._witness = witness
        self._open: dict[tuple[Connection, bytes], Question] = {}
        self.on_late: Callable[[Timeout], None] = lambda _: None
        """Told that nobody has answered one in time."""

    def asked(
        self, server: Server, key: LeaseKey, connection: Connection, request: Request
    ) -> None:
        """Take a server's request to a client, or answer it ourselves."""
        asking = Asking(server, connection, request, self._witness)
        if request.method == "ping":
            asking.begin(None)
            asking.answer(Result(request.id, b"{}"))
            return
        audience = self._work.audience(server, connection, request)
        if audience is not None:
            asking.begin(None)
            refusal = self._refusal(connection, request, server, audience.capabilities)
            if refusal is None:
                audience.put(self._question(asking))
            else:
                asking.answer(Failure(request.id, refusal))
            return
        exchange = self._cause(server, key)
        session = self._sessions.get(key.owner)
        if exchange is not None:
            capabilities = exchange.caller.capabilities
        elif session is not None:
            capabilities = session.capabilities
        else:
            capabilities = None
        refusal = self._refusal(connection, request, server, capabilities)
        if refusal is None and exchange is not None and not self._work.may_ask(exchange):
            refusal = _TOO_MANY
        # Roots belong to the session: servers ask for them when they start, and must get them
        # even if a call that happens to be open ends before the client has answered.
        apart = session is not None and (exchange is None or request.method == "roots/list")
        asking.begin(None if apart or exchange is None else exchange.passage)
        if refusal is not None:
            asking.answer(Failure(request.id, refusal))
            return
        question = self._question(asking)
        if apart and session is not None:
            session.ask(question)
        elif exchange is not None:
            self._work.ask(exchange, question)

    def _refusal(
        self,
        connection: Connection,
        request: Request,
        server: Server,
        capabilities: ClientCapabilities | None,
    ) -> bytes | None:
        """Why a question is not put to anybody, as an error for the server."""
        if (connection, request.id) in self._open:
            return codec.error(INVALID_REQUEST, "A request with this id is still open")
        if len(self._open) >= OPEN_QUESTIONS_MAX:
            return _TOO_MANY
        refusal = refusal_of(request, capabilities)
        if refusal is not None:
            return refusal
        local = is_local(server.config)
        reason = unfit_question(request.method, request.params, local=local)
        if reason is not None:
            return codec.error(INVALID_PARAMS, f"This address is not passed on: {reason}")
        return None

    def withdrawn(self, connection: Connection, notification: Notification) -> None:
        """A server cancels one of its questions."""
        found = members.members(notification.params or b"{}")
        id = found.get("requestId")
        question = self._open.pop((connection, b"" if id is None else bytes(id)), None)
        if question is not None:
            reason = found.get("reason")
            question.withdraw(None if reason is None else bytes(reason))

    def waits(self, connection: Connection) -> bool:
        """Whether a server waits for an answer over this connection."""
        return any(asking is connection for asking, _ in self._open)

    def lost(self, connection: Connection) -> None:
        """A server is gone, and with it the wish to know."""
        for where in [where for where in self._open if where[0] is connection]:
            self._open.pop(where).withdraw()

    def renewed(self, server: Server, key: LeaseKey) -> None:
        """A connection begins a session; what was asked in the one before, nobody wants to know.

        Only over HTTP does one connection have several. A process may ask at once, even before
        its handshake is known to be over.
        """
        for other, line in server.connections() if server.config.url is not None else ():
            if other == key:
                self.lost(line)

    def _question(self, asking: "Asking") -> Question:
        connection, request = asking.connection, asking.request
        where = (connection, request.id)

        def answered(frame: Result | Failure) -> None:
            self._open.pop(where, None)
            asking.answer(frame, said=question.heard)

        token = _progress_token(request.params)
        progress = None if token is None else partial(_progress, connection, token)
        question = Question(request.method, _bare(request.params), answered, progress)
        question.relayed = asking.passage is not None
        self._open[where] = question
        self._later(QUESTION_SECONDS_MAX, partial(self._expire, where, question))
        return question

    def _expire(self, where: tuple[Connection, bytes], question: Question) -> None:
        if question.open:
            self._open.pop(where, None)
            question.withdraw()
            connection, id = where
            self.on_late(Timeout.ANSWER)
            words = f"Nobody answered within {QUESTION_SECONDS_MAX:g} s"
            told = members.join([("timeout", members.text(Timeout.ANSWER.value))])
            connection.answer(id, Failure(id, codec.error(-32000, words, told)))

    def _cause(self, server: Server, key: LeaseKey) -> Exchange | None:
        """The call that made the server ask, where only one can have."""
        if key.owner and key.owner not in self._sessions:
            return self._work.exchange_on(key.owner)
        exchanges = [
            exchange
            for exchange in self._work.open_exchanges(server)
            if not key.owner
            or (exchange.caller.session is not None and exchange.caller.session.id == key.owner)
        ]
        return exchanges[0] if len(exchanges) == 1 else None


class Asking:
    """One question in the server's own conversation, and what is recorded of it."""

    __slots__ = ("_witness", "connection", "passage", "request", "server")

    def __init__(
        self, server: Server, connection: Connection, request: Request, witness: Witness
    ) -> None:
        self.server = server
        self.connection = connection
        self.request = request
        self.passage: Passage | None = None
        """Of the call in which the server asks."""
        self._witness = witness

    def begin(self, passage: Passage | None) -> None:
        """The server asks: in the middle of a call, or outside any."""
        self.passage = passage
        if passage is None:
            self._witness.told(self.server, self.request)
        else:
            request = self.request
            passage.note("server-request", "server", request.method, request.params)

    def answer(self, frame: Result | Failure, *, said: bool = False) -> None:
        """Answer the server; with what a client has just said, or in its place."""
        self.connection.answer(self.request.id, frame)
        method, passage = self.request.method, self.passage
        if passage is None:
            self._witness.answered(self.server, method, frame)
            return
        failed = isinstance(frame, Failure)
        answer = frame.error if isinstance(frame, Failure) else frame.result
        note = passage.pass_on if said else passage.note
        note("client-response", "server", method, answer, failed=failed)


def refusal_of(request: Request, capabilities: ClientCapabilities | None) -> bytes | None:
    """Why a question cannot be put to the client, as an error for the server."""
    capability = QUESTIONS.get(request.method)
    if capability is None:
        return codec.error(METHOD_NOT_FOUND, f"Method not found: {request.method}")
    if capabilities is None or capability not in capabilities.questions:
        words = f"Method not found: the client does not support {capability}"
        return codec.error(METHOD_NOT_FOUND, words)
    if wants_address(request.method, request.params) and not capabilities.elicitation_url:
        return codec.error(INVALID_PARAMS, "The client does not support elicitation by URL")
    return None


def _bare(params: bytes | None) -> bytes | None:
    """Without the name of a task that no client knows by that."""
    if params is None or meta.RELATED_TASK.encode() not in params:
        return params
    return meta.restamp(params, {meta.RELATED_TASK: None})


def _progress_token(params: bytes | None) -> bytes | None:
    if params is None or params[:1] != b"{":
        return None
    raw = members.members(params).get("_meta")
    if raw is None:
        return None
    try:
        token = members.members(raw).get(meta.PROGRESS_TOKEN)
    except msgspec.DecodeError:
        return None
    return None if token is None else bytes(token)


def _progress(connection: Connection, token: bytes, params: bytes) -> None:
    own = members.edit(params, {meta.PROGRESS_TOKEN: token})
    connection.notify(PROGRESS, own)

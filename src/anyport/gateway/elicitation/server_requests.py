"""Requests of servers: elicitation, sampling and roots, brought to the right client and back.

A server's request does not say which call caused it. It belongs to the call that has the connection
to itself, or is the only one open on it; roots belong to the session.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from anyport.clock import Clock
from anyport.config.addresses import is_local
from anyport.gateway.calls.call_table import CallTable
from anyport.gateway.elicitation.parked_calls import ParkedCalls
from anyport.gateway.local.notifications import remember_elicitation
from anyport.gateway.recording.messages import MessageRecorder
from anyport.protocol import meta
from anyport.protocol.adapters.elicitation import explain_unsafe_question, is_url_elicitation
from anyport.protocol.capabilities import ClientCapabilities
from anyport.protocol.errors import SERVER_FAULT, Timeout
from anyport.protocol.exchange import Exchange, NeedInput, Question, Session
from anyport.protocol.meta import PROGRESS
from anyport.protocol.methods import QUESTION_CAPABILITIES
from anyport.protocol.transcript import Transcript
from anyport.upstream.connection import Connection
from anyport.upstream.lease_key import LeaseKey
from anyport.upstream.server import Server
from anyport.wire import jsonrpc, raw_json
from anyport.wire.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Failure,
    Notification,
    Request,
    Result,
)

if TYPE_CHECKING:
    from anyport.gateway.tasks.tasks import TaskMethods

QUESTION_SECONDS_MAX: Final = 600.0
"""How long a person may take to answer."""

OPEN_QUESTIONS_MAX: Final = 256
"""Open questions of all servers."""

_TOO_MANY: Final = jsonrpc.encode_error(
    SERVER_FAULT, "Too many questions are waiting for an answer"
)


class QuestionTarget(NamedTuple):
    """The client that a question is for."""

    capabilities: ClientCapabilities
    ask: Callable[[Question], None]


class ServerRequests:
    """The open questions of all servers."""

    def __init__(
        self,
        sessions: Mapping[str, Session],
        calls: CallTable,
        parked_calls: ParkedCalls,
        tasks: "TaskMethods",
        recorder: MessageRecorder,
        clock: Clock,
    ) -> None:
        self._sessions = sessions
        self._calls = calls
        self._parked_calls = parked_calls
        self._tasks = tasks
        self._recorder = recorder
        self._clock = clock
        self._open: dict[tuple[Connection, bytes], Question] = {}
        self.on_timeout: Callable[[Timeout], None] = lambda _: None
        """Called when a question was not answered in time."""
        self.passes_unknown: Callable[[Session], bool] = lambda _: False
        """Whether a session's client gets requests that no revision has."""

    def on_request(
        self, server: Server, key: LeaseKey, connection: Connection, request: Request
    ) -> None:
        """Bring a server's request to a client, or answer it here."""
        server_question = ServerQuestion(server, connection, request, self._recorder)
        if request.method == "ping":
            server_question.begin(None)
            server_question.answer(Result(request.id, b"{}"))
            return
        target = self._tasks.question_target(server, connection, request)
        if target is not None:
            server_question.begin(None)
            refusal = refusal_of(request, target.capabilities)
            refusal = refusal or self._refusal(connection, request, server)
            if refusal is None:
                target.ask(self._open_question(server_question))
            else:
                server_question.answer(Failure(request.id, refusal))
            return
        exchange = self._causing_exchange(server, key)
        session = self._sessions.get(key.owner)
        if exchange is not None:
            capabilities = exchange.caller.capabilities
        elif session is not None:
            capabilities = session.capabilities
        else:
            capabilities = None
        unchanged = self._passes_unchanged(request, key, session)
        refusal = None if unchanged else refusal_of(request, capabilities)
        refusal = refusal or self._refusal(connection, request, server)
        if refusal is None and exchange is not None and not self._can_ask(exchange):
            refusal = _TOO_MANY
        # Roots belong to the session: servers ask for them when they start, and must get them
        # even if a call that happens to be open ends before the client has answered.
        for_session = session is not None and (exchange is None or request.method == "roots/list")
        server_question.begin(None if exchange is None else exchange.transcript)
        server_question.unattached_exchange = exchange if for_session else None
        if refusal is not None:
            server_question.answer(Failure(request.id, refusal))
            return
        question = self._open_question(server_question)
        question.verbatim = unchanged
        _remember_elicitation(
            session if exchange is None else exchange.caller.session, server, request
        )
        if for_session and session is not None:
            session.ask(question)
        elif exchange is not None:
            self._ask_client(exchange, question)

    def _can_ask(self, exchange: Exchange) -> bool:
        """Whether there is room for one more parked call, where the question needs one."""
        if not exchange.lease_owner:
            return True
        return not self._parked_calls.is_full(exchange.caller.principal)

    def _ask_client(self, exchange: Exchange, question: Question) -> None:
        """Ask the client of a call: in its session, or by parking the call."""
        call = self._calls.find(exchange)
        if exchange.lease_owner and exchange.caller.session is None and call is not None:
            self._parked_calls.add_question(call, question)
        else:
            exchange.emit(NeedInput(question))

    def _passes_unchanged(self, request: Request, key: LeaseKey, session: Session | None) -> bool:
        """Whether a session's client gets a question whatever it is, and judges for itself.

        So it does with the server of a transparent profile.
        """
        if session is None:
            return False
        return bool(key.revision) or (
            request.method not in QUESTION_CAPABILITIES and self.passes_unknown(session)
        )

    def _refusal(self, connection: Connection, request: Request, server: Server) -> bytes | None:
        """Why a question is refused, as an error for the server; None if it is not."""
        if (connection, request.id) in self._open:
            return jsonrpc.encode_error(INVALID_REQUEST, "A request with this id is still open")
        if len(self._open) >= OPEN_QUESTIONS_MAX:
            return _TOO_MANY
        local = is_local(server.config)
        reason = explain_unsafe_question(request.method, request.params, local=local)
        if reason is not None:
            return jsonrpc.encode_error(INVALID_PARAMS, f"This address is not passed on: {reason}")
        return None

    def on_cancelled(self, connection: Connection, notification: Notification) -> None:
        """A server cancels one of its questions."""
        found = raw_json.members(notification.params or b"{}")
        id = found.get("requestId")
        question = self._open.pop((connection, b"" if id is None else bytes(id)), None)
        if question is not None:
            reason = found.get("reason")
            question.withdraw(None if reason is None else bytes(reason))

    def has_open(self, connection: Connection) -> bool:
        """Whether a server waits for an answer over this connection."""
        return any(asking is connection for asking, _ in self._open)

    def on_connection_lost(self, connection: Connection) -> None:
        """Withdraw the questions of a connection that is closed."""
        for open_key in [where for where in self._open if where[0] is connection]:
            self._open.pop(open_key).withdraw()

    def on_session_renewed(self, server: Server, key: LeaseKey) -> None:
        """Withdraw the questions of the session that a new one replaces.

        Only over HTTP does one connection have several. A process may ask at once, even before
        its handshake is known to be over.
        """
        for other, connection in server.connections() if server.config.url is not None else ():
            if other == key:
                self.on_connection_lost(connection)

    def _open_question(self, server_question: "ServerQuestion") -> Question:
        connection, request = server_question.connection, server_question.request
        open_key = (connection, request.id)

        def on_answer(frame: Result | Failure) -> None:
            self._open.pop(open_key, None)
            server_question.answer(frame, from_client=question.answered_by_client)

        token = _progress_token(request.params)
        progress = None if token is None else partial(_send_progress, connection, token)
        question = Question(
            request.method, _without_related_task(request.params), on_answer, progress
        )
        question.in_transcript = (
            server_question.transcript is not None and server_question.unattached_exchange is None
        )
        self._open[open_key] = question
        self._clock.later(QUESTION_SECONDS_MAX, partial(self._expire, open_key, question))
        return question

    def _expire(self, open_key: tuple[Connection, bytes], question: Question) -> None:
        if question.open:
            self._open.pop(open_key, None)
            question.withdraw()
            connection, id = open_key
            self.on_timeout(Timeout.ANSWER)
            message = f"Nobody answered within {QUESTION_SECONDS_MAX:g} s"
            error_data = raw_json.encode_object(
                [("timeout", raw_json.encode_string(Timeout.ANSWER.value))]
            )
            connection.answer(
                id, Failure(id, jsonrpc.encode_error(SERVER_FAULT, message, error_data))
            )

    def _causing_exchange(self, server: Server, key: LeaseKey) -> Exchange | None:
        """The call that made the server ask; None if several may have."""
        if key.of_one_call:
            call = self._calls.find_by_owner(key.owner)
            return None if call is None else call.exchange
        exchanges = self._calls.exchanges_over(server, key)
        return exchanges[0] if len(exchanges) == 1 else None


class ServerQuestion:
    """One question, answered to the server and recorded."""

    __slots__ = (
        "_recorder",
        "connection",
        "request",
        "server",
        "transcript",
        "unattached_exchange",
    )

    def __init__(
        self, server: Server, connection: Connection, request: Request, recorder: MessageRecorder
    ) -> None:
        self.server = server
        self.connection = connection
        self.request = request
        self.transcript: Transcript | None = None
        """The transcript of the call in which the server asks; None outside any."""
        self.unattached_exchange: Exchange | None = None
        """The call, where it may end before the answer comes."""
        self._recorder = recorder

    def begin(self, transcript: Transcript | None) -> None:
        """Record the question: with a call, or outside any."""
        self.transcript = transcript
        if transcript is None:
            self._recorder.record_server_message(self.server, self.request)
        else:
            request = self.request
            transcript.record("server-request", "server", request.method, request.params)

    def answer(self, frame: Result | Failure, *, from_client: bool = False) -> None:
        """Answer the server, with the client's answer (`from_client`) or in the client's place."""
        self.connection.answer(self.request.id, frame)
        method, transcript = self.request.method, self.transcript
        if transcript is None or (
            self.unattached_exchange is not None and self.unattached_exchange.ended
        ):
            self._recorder.record_client_response(self.server, method, frame)
            return
        failed = isinstance(frame, Failure)
        answer = frame.error if isinstance(frame, Failure) else frame.result
        note = (
            transcript.record_forwarded
            if from_client and self.unattached_exchange is None
            else transcript.record
        )
        note("client-response", "server", method, answer, failed=failed)


def _remember_elicitation(session: Session | None, server: Server, request: Request) -> None:
    if request.method == "elicitation/create":
        remember_elicitation(session, server.slug, request.params)


def refusal_of(request: Request, capabilities: ClientCapabilities | None) -> bytes | None:
    """Why a client cannot be asked, as an error for the server; None if it can."""
    capability = QUESTION_CAPABILITIES.get(request.method)
    if capability is None:
        return jsonrpc.encode_error(METHOD_NOT_FOUND, f"Method not found: {request.method}")
    if capabilities is None or capability not in capabilities.questions:
        message = f"Method not found: the client does not support {capability}"
        return jsonrpc.encode_error(METHOD_NOT_FOUND, message)
    if is_url_elicitation(request.method, request.params) and not capabilities.elicitation_url:
        return jsonrpc.encode_error(
            INVALID_PARAMS, "The client does not support elicitation by URL"
        )
    return None


def _without_related_task(params: bytes | None) -> bytes | None:
    """Remove the server's own task id, which no client knows."""
    if params is None or meta.RELATED_TASK.encode() not in params:
        return params
    return meta.edit_meta(params, {meta.RELATED_TASK: None})


def _progress_token(params: bytes | None) -> bytes | None:
    if params is None or params[:1] != b"{":
        return None
    raw = raw_json.members(params).get("_meta")
    if raw is None:
        return None
    try:
        token = raw_json.members(raw).get(meta.PROGRESS_TOKEN)
    except msgspec.DecodeError:
        return None
    return None if token is None else bytes(token)


def _send_progress(connection: Connection, token: bytes, params: bytes) -> None:
    own = raw_json.edit(params, {meta.PROGRESS_TOKEN: token})
    connection.notify(PROGRESS, own)

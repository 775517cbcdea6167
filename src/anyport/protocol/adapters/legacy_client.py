"""Legacy client adapter: its session, and events delivered in the words of its revision.

Questions become real requests on the client's channel.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from anyport.protocol import meta
from anyport.protocol.adapters.downgrade import (
    downgrade_question_params,
    downgrade_result,
    explain_inexpressible,
)
from anyport.protocol.capabilities import (
    SERVER_CAPABILITIES,
    ClientCapabilities,
    client_capabilities,
    gateway_capabilities,
)
from anyport.protocol.errors import SERVER_FAULT, Fault, error_code, invalid_params
from anyport.protocol.exchange import (
    LOG_MESSAGE,
    NULL_WRITER,
    Answered,
    ErrorAnswered,
    Exchange,
    ExchangeEvent,
    Failed,
    Log,
    NeedInput,
    Progress,
    Question,
    ReplyWriter,
    ServerNotification,
)
from anyport.protocol.meta import PROGRESS
from anyport.protocol.principal import LOCAL, Principal
from anyport.protocol.result import GATEWAY_SHAPE
from anyport.protocol.revisions import Revision, negotiate
from anyport.protocol.session import SessionEvent, SessionState, next_state
from anyport.wire import jsonrpc, raw_json
from anyport.wire.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Failure, Request, Result

LOG_LEVELS: Final = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)
"""The levels of syslog (RFC 5424), least severe first."""

_PROGRESS: Final = b'{"jsonrpc":"2.0","method":"notifications/progress","params":%b}'
_OUR_TOKEN: Final = re.compile(rb'\{"progressToken":[0-9]+(?=[,}])')
"""Where every SDK writes it; the value is the token that the gateway sent."""

_CLIENT_GONE: Final = Failure(
    None, jsonrpc.encode_error(SERVER_FAULT, "The client has disconnected")
)


class GatewayDescription(msgspec.Struct, frozen=True):
    """The identity and capabilities of the gateway in a profile."""

    server_info: bytes
    instructions: str | None
    extensions: Mapping[str, bytes] = {}
    """Extensions that its servers offer, with their settings."""
    offered: frozenset[str] = SERVER_CAPABILITIES
    """Capabilities that its servers offer, or may offer."""


class LegacySession:
    """A session that began with `initialize`."""

    __slots__ = (
        "_input_closed",
        "_question_ids",
        "_questions",
        "_queued_questions",
        "_writer",
        "capabilities",
        "client",
        "close_reason",
        "elicitations",
        "id",
        "log_level",
        "principal",
        "profile",
        "resumed",
        "revision",
        "state",
        "subscriptions",
        "transport",
    )

    def __init__(  # noqa: PLR0913 - what an `initialize` settles, all by name
        self,
        *,
        id: str,
        profile: str,
        revision: Revision,
        capabilities: ClientCapabilities,
        client: bytes | None,
        writer: ReplyWriter,
        transport: str,
        question_ids: Iterator[int],
        principal: Principal = LOCAL,
    ) -> None:
        self.id = id
        self.principal = principal
        self.profile = profile
        self.revision = revision
        self.capabilities = capabilities
        self.client = client
        self.state = SessionState.OPENING
        self.log_level: str | None = None
        """None until the client sets one: then the server decides what to send."""
        self.subscriptions: set[str] = set()
        """Public URIs."""
        self.elicitations: tuple[tuple[str, str], ...] = ()
        self.transport = transport
        self.close_reason = "ended by the client"
        """Why it ended, for the record."""
        self.resumed = False
        """Whether it began in another process, for the record."""
        self._writer: ReplyWriter = writer
        self._question_ids = question_ids
        self._questions: dict[int, Question] = {}
        self._queued_questions: list[tuple[Question, ReplyWriter | None]] = []
        """Asked before the client confirmed the handshake."""
        self._input_closed = False

    def apply(self, event: SessionEvent) -> None:
        """Apply an event to the state; queued questions are sent when the session becomes ready."""
        self.state = next_state(self.state, event)
        if self.state is SessionState.CLOSED:
            self._writer = NULL_WRITER  # Breaks a reference cycle.
        if self.state is SessionState.READY and self._queued_questions:
            queued, self._queued_questions = self._queued_questions, []
            for question, writer in queued:
                if question.open:
                    self.ask(question, writer)

    def ask(self, question: Question, writer: ReplyWriter | None = None) -> None:
        """Send a server's question to the client, as a request with an id of the gateway."""
        if self._input_closed:
            question.answer(_CLIENT_GONE)
            return
        if self.state is SessionState.OPENING:
            # MCP 2025-11-25, lifecycle: "The server SHOULD NOT send requests other than pings and
            # logging before receiving the initialized notification."
            self._queued_questions.append((question, writer))
            return
        params = question.params
        if params is not None and not question.verbatim:
            params = downgrade_question_params(question.method, params, self.revision)
            if params is None:
                message = explain_inexpressible(question.method, self.revision)
                question.answer(Failure(None, jsonrpc.encode_error(INVALID_PARAMS, message)))
                return
        number = next(self._question_ids)
        if params is not None and question.on_progress is not None:
            # Two servers may use the same token; the id is unique on this channel.
            params = meta.edit_meta(params, {meta.PROGRESS_TOKEN: b"%d" % number})
        target = writer or self._writer
        self._questions[number] = question
        if question.transcript is not None:
            record = (
                question.transcript.record_forwarded
                if question.in_transcript
                else question.transcript.record
            )
            record("server-request", "client", question.method, params)
        question.on_withdrawn = lambda reason: self._cancel_question(number, target, reason)
        target.send_frames(jsonrpc.encode_request(b"%d" % number, question.method, params))

    def on_answer(self, frame: Result | Failure) -> None:
        """The client answers a question; answers to unknown ids are dropped."""
        question = self._questions.pop(jsonrpc.parse_own_id(frame.id), None)
        if question is None:
            return
        question.answered_by_client = question.open
        if question.transcript is not None and question.answered_by_client:
            failed = isinstance(frame, Failure)
            payload = frame.error if isinstance(frame, Failure) else frame.result
            question.transcript.record(
                "client-response", "client", question.method, payload, failed=failed
            )
        question.answer(frame)

    def on_progress(self, params: bytes) -> bool:
        """The client reports progress on a question; False if the token is none of ours."""
        token = raw_json.members(params).get(meta.PROGRESS_TOKEN)
        question = self._questions.get(
            jsonrpc.parse_own_id(bytes(token)) if token is not None else -1
        )
        if question is None or question.on_progress is None:
            return question is not None
        question.on_progress(params)
        return True

    def notify(self, method: str, params: bytes | None) -> None:
        """Send a notification, once the handshake is complete."""
        if self.state is SessionState.READY:
            self._writer.send_frames(jsonrpc.encode_notification(method, params))

    def close_input(self) -> None:
        """The client sends nothing more: answer all questions with an error."""
        self._input_closed = True
        questions = [
            *self._questions.values(),
            *(question for question, _ in self._queued_questions),
        ]
        self._questions, self._queued_questions = {}, []
        for question in questions:
            question.answer(_CLIENT_GONE)

    def _cancel_question(self, number: int, target: ReplyWriter, reason: bytes | None) -> None:
        if self._questions.pop(number, None) is None:
            return
        params = [("requestId", b"%d" % number)]
        if reason is not None:
            params.append(("reason", reason))
        target.send_frames(
            jsonrpc.encode_notification("notifications/cancelled", raw_json.encode_object(params))
        )


SessionOpener: TypeAlias = Callable[
    [Revision, ClientCapabilities, bytes | None], GatewayDescription | None
]
"""Opens the session of an accepted `initialize`: revision, capabilities, raw `clientInfo`."""


def initialize(request: Request, open_session: SessionOpener) -> bytes | Fault | None:
    """Answer `initialize`: the result, a fault, or None if the server of a transparent profile
    answers."""
    params = raw_json.members(request.params or b"{}")
    requested = params.get("protocolVersion")
    if requested is None or bytes(requested)[:1] != b'"':
        return invalid_params("initialize needs a protocolVersion, a string such as 2025-11-25")
    declared = params.get("capabilities")
    capabilities = client_capabilities(None if declared is None else bytes(declared))
    if capabilities is None:
        return invalid_params("initialize needs capabilities to be an object")
    revision = negotiate(msgspec.json.decode(requested, type=str))
    client = params.get("clientInfo")
    description = open_session(revision, capabilities, None if client is None else bytes(client))
    if description is None:
        return None
    result = {
        "protocolVersion": revision.name,
        "capabilities": gateway_capabilities(revision, description.offered, description.extensions),
        "serverInfo": msgspec.Raw(description.server_info),
    }
    if description.instructions is not None:
        result["instructions"] = description.instructions
    return msgspec.json.encode(result)


def deliver_legacy(exchange: Exchange, event: ExchangeEvent) -> None:
    """Deliver an event of an exchange to a legacy client."""
    writer = exchange.writer
    match event:
        case Answered(result, shape, as_it_is):
            if shape is not GATEWAY_SHAPE and not as_it_is:
                result = downgrade_result(
                    exchange.method.name, result, exchange.caller.revision, shape
                )
            exchange.send_result(result)
        case ErrorAnswered(error):
            exchange.send_error(error, error_code(error))
        case Failed(fault):
            revision = exchange.caller.revision
            exchange.send_error(fault.render(revision), fault.code(revision), fault.retry_after)
        case Progress(params):
            deliver_progress(exchange, params)
        case Log(params):
            writer.send_frames(jsonrpc.encode_notification(LOG_MESSAGE, params))
        case ServerNotification(method, params):
            writer.send_frames(jsonrpc.encode_notification(method, params))
        case NeedInput(question):
            _ask(exchange, question)


def deliver_progress(exchange: Exchange, params: bytes) -> None:
    """Deliver progress to a client of either era, under the client's own token."""
    token = exchange.progress_token
    if token is None:
        return
    exchange.progress_reported = True
    match = _OUR_TOKEN.match(params)
    if match is not None:
        rewritten = b'{"progressToken":%b%b' % (token, params[match.end() :])
    else:
        rewritten = raw_json.edit(params, {meta.PROGRESS_TOKEN: token})
    if exchange.transcript is not None:
        exchange.transcript.record_forwarded("server-notification", "client", PROGRESS, rewritten)
    exchange.writer.send_frames(_PROGRESS % rewritten)


def refuse_question(question: Question) -> None:
    """Answer a question that this client cannot be asked."""
    message = f"The client does not answer {question.method}"
    question.answer(Failure(None, jsonrpc.encode_error(METHOD_NOT_FOUND, message)))


def _ask(exchange: Exchange, question: Question) -> None:
    session = exchange.caller.session
    if session is None or exchange.writer.reply_only:
        refuse_question(question)
        return
    exchange.questions += (question,)
    session.ask(question, exchange.writer)

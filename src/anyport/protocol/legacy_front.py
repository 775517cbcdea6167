"""A legacy client, seen from the gateway: its session, and happenings told in its words.

Questions become real requests on the client's channel. This file knows the handshake era; it
does not know what stands behind the gateway, nor which bytes carry the session.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

import msgspec

from anyport.protocol import meta
from anyport.protocol.capability import (
    ClientCapabilities,
    client_capabilities,
    gateway_capabilities,
)
from anyport.protocol.downgrade import downgrade
from anyport.protocol.downgrade_question import inexpressible, question_for
from anyport.protocol.errors import Fault, error_code, invalid_params
from anyport.protocol.exchange import (
    MESSAGE,
    NOBODY,
    Answered,
    Exchange,
    Failed,
    Happening,
    Log,
    NeedInput,
    Notice,
    Progress,
    Question,
    Refused,
    Teller,
)
from anyport.protocol.principal import LOCAL, Principal
from anyport.protocol.progress import PROGRESS, rises
from anyport.protocol.revision import Revision, negotiate
from anyport.protocol.session import State, Step, advance
from anyport.protocol.shape import OWN
from anyport.wire import codec, members
from anyport.wire.frame import INVALID_PARAMS, METHOD_NOT_FOUND, Failure, Request, Result

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
"""Syslog's levels, least grave first."""

_PROGRESS: Final = b'{"jsonrpc":"2.0","method":"notifications/progress","params":%b}'
_OUR_TOKEN: Final = re.compile(rb'\{"progressToken":[0-9]+(?=[,}])')
"""Where every SDK writes it; what stands in its place is what we sent."""

_GONE: Final = Failure(None, codec.error(-32000, "The client has disconnected"))


class Description(msgspec.Struct, frozen=True):
    """How the gateway presents itself in one profile."""

    server_info: bytes
    instructions: str | None
    extensions: Mapping[str, bytes] = {}
    """What its servers offer of them, with their settings."""


class LegacySession:
    """One conversation that began with `initialize`."""

    __slots__ = (
        "_deaf",
        "_early",
        "_question_ids",
        "_questions",
        "_teller",
        "capabilities",
        "client",
        "id",
        "log_level",
        "parting",
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
        teller: Teller,
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
        self.state = State.OPENING
        self.log_level: str | None = None
        """None until the client sets one: then the server decides what to send."""
        self.subscriptions: set[str] = set()
        """Public URIs."""
        self.transport = transport
        self.parting = "ended by the client"
        """Why it is over, once it is; for the record."""
        self.resumed = False
        """Whether it began in another process than this one; for the record."""
        self._teller: Teller = teller
        self._question_ids = question_ids
        self._questions: dict[int, Question] = {}
        self._early: list[tuple[Question, Teller | None]] = []
        """Asked before the client confirmed the handshake."""
        self._deaf = False

    def take(self, step: Step) -> None:
        """Move along the session's table."""
        self.state = advance(self.state, step)
        if self.state is State.CLOSED:
            self._teller = NOBODY  # What holds each other is not freed.
        if self.state is State.READY and self._early:
            early, self._early = self._early, []
            for question, teller in early:
                if question.open:
                    self.ask(question, teller)

    def ask(self, question: Question, teller: Teller | None = None) -> None:
        """Put a server's question to the client as a request with an id of our own."""
        if self._deaf:
            question.answer(_GONE)
            return
        if self.state is State.OPENING:
            # "The server SHOULD NOT send requests other than pings and logging before receiving
            # the initialized notification" (basic/lifecycle).
            self._early.append((question, teller))
            return
        params = question.params
        if params is not None:
            params = question_for(question.method, params, self.revision)
            if params is None:
                words = inexpressible(question.method, self.revision)
                question.answer(Failure(None, codec.error(INVALID_PARAMS, words)))
                return
        number = next(self._question_ids)
        if params is not None and question.on_progress is not None:
            # Two servers may use one token; ours is unique on this channel.
            params = meta.restamp(params, {meta.PROGRESS_TOKEN: b"%d" % number})
        way = teller or self._teller
        self._questions[number] = question
        if question.passage is not None:
            put = question.passage.pass_on if question.relayed else question.passage.note
            put("server-request", "client", question.method, params)
        question.on_withdrawn = lambda reason: self._withdraw(number, way, reason)
        way.note(codec.request(b"%d" % number, question.method, params))

    def answer(self, frame: Result | Failure) -> None:
        """The client's answer to a question; answers to nothing are dropped."""
        question = self._questions.pop(codec.own_number(frame.id), None)
        if question is None:
            return
        question.heard = question.open
        if question.passage is not None and question.heard:
            failed = isinstance(frame, Failure)
            said = frame.error if isinstance(frame, Failure) else frame.result
            question.passage.note("client-response", "client", question.method, said, failed=failed)
        question.answer(frame)

    def progress(self, params: bytes) -> None:
        """The client's progress on a question that takes it long."""
        token = members.members(params).get(meta.PROGRESS_TOKEN)
        question = self._questions.get(codec.own_number(bytes(token)) if token is not None else -1)
        if question is not None and question.on_progress is not None:
            question.on_progress(params)

    def notify(self, method: str, params: bytes | None) -> None:
        """Send a notification, once the handshake is complete."""
        if self.state is State.READY:
            self._teller.note(codec.notification(method, params))

    def go_deaf(self) -> None:
        """The client says no more: nobody will answer what is asked, now or later."""
        self._deaf = True
        questions = [*self._questions.values(), *(question for question, _ in self._early)]
        self._questions, self._early = {}, []
        for question in questions:
            question.answer(_GONE)

    def _withdraw(self, number: int, way: Teller, reason: bytes | None) -> None:
        if self._questions.pop(number, None) is None:
            return
        params = [("requestId", b"%d" % number)]
        if reason is not None:
            params.append(("reason", reason))
        way.note(codec.notification("notifications/cancelled", members.join(params)))


class Handshake(Protocol):
    """Makes the session that an accepted `initialize` opens."""

    def __call__(
        self, revision: Revision, capabilities: ClientCapabilities, client: bytes | None
    ) -> Description: ...


def initialize(request: Request, handshake: Handshake) -> bytes | Fault:
    """The result of `initialize`, or why it cannot be."""
    params = members.members(request.params or b"{}")
    asked = params.get("protocolVersion")
    if asked is None or bytes(asked)[:1] != b'"':
        return invalid_params("initialize needs a protocolVersion, a string such as 2025-11-25")
    declared = params.get("capabilities")
    capabilities = client_capabilities(None if declared is None else bytes(declared))
    if capabilities is None:
        return invalid_params("initialize needs capabilities to be an object")
    revision = negotiate(msgspec.json.decode(asked, type=str))
    client = params.get("clientInfo")
    description = handshake(revision, capabilities, None if client is None else bytes(client))
    result = {
        "protocolVersion": revision.name,
        "capabilities": gateway_capabilities(revision, description.extensions),
        "serverInfo": msgspec.Raw(description.server_info),
    }
    if description.instructions is not None:
        result["instructions"] = description.instructions
    return msgspec.json.encode(result)


def tell_legacy(exchange: Exchange, happening: Happening) -> None:
    """Tell a legacy client what happened in its exchange."""
    teller = exchange.teller
    match happening:
        case Answered(result, shape):
            if shape is not OWN:
                result = downgrade(exchange.method.name, result, exchange.caller.revision, shape)
            exchange.give(result)
        case Refused(error):
            exchange.deny(error, error_code(error))
        case Failed(fault):
            revision = exchange.caller.revision
            exchange.deny(fault.render(revision), fault.code(revision), fault.pause)
        case Progress(params):
            tell_progress(exchange, params)
        case Log(params):
            teller.note(codec.notification(MESSAGE, params))
        case Notice(method, params):
            teller.note(codec.notification(method, params))
        case NeedInput(question):
            _ask(exchange, question)


def tell_progress(exchange: Exchange, params: bytes) -> None:
    """Tell a client of either era how far its request has come, under its own token."""
    token = exchange.progress_token
    if token is None or not rises(exchange, params):
        return
    ours = _OUR_TOKEN.match(params)
    if ours is not None:
        own = b'{"progressToken":%b%b' % (token, params[ours.end() :])
    else:
        own = members.edit(params, {meta.PROGRESS_TOKEN: token})
    if exchange.passage is not None:
        exchange.passage.pass_on("server-notification", "client", PROGRESS, own)
    exchange.teller.note(_PROGRESS % own)


def refuse(question: Question) -> None:
    """Answer a question that this client cannot be asked."""
    words = f"The client does not answer {question.method}"
    question.answer(Failure(None, codec.error(METHOD_NOT_FOUND, words)))


def _ask(exchange: Exchange, question: Question) -> None:
    session = exchange.caller.session
    if session is None or exchange.teller.mute:
        refuse(question)
        return
    exchange.questions += (question,)
    session.ask(question, exchange.teller)

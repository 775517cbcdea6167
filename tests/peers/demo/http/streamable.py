"""Streamable HTTP: one URL for both eras, distinguished by the body first.

A legacy client has a session, whose streams it can resume. Modern requests are independent, and
closing the connection cancels one.
"""

import asyncio
import itertools
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from tests.peers.demo.calls import Request, ServerState
from tests.peers.demo.conversation import Conversation
from tests.peers.demo.faults import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    Fault,
)
from tests.peers.demo.header_checks import VERSION_HEADER
from tests.peers.demo.http.answers import Answer, drop
from tests.peers.demo.http.connection import Fields, Response
from tests.peers.demo.http.events import PlainStream, ReplayBuffer, ResumableStream
from tests.peers.demo.http.refusals import (
    EVENTS_TYPE,
    JSON_TYPE,
    MessageRefused,
    RequestRefused,
    check_brings_json,
    check_takes,
    wrong_method,
)
from tests.peers.demo.http.requests import HttpRequest
from tests.peers.demo.http.sessions import Sessions
from tests.peers.demo.legacy import LegacySession
from tests.peers.demo.messages import Identity, Reply, decode, identity_of, read_message
from tests.peers.demo.modern import UNKNOWN_TO_LEGACY, ModernEra, is_enveloped
from tests.peers.demo.revisions import Json

SESSION_HEADER: Final = "Mcp-Session-Id"

MODERN_STATUSES: Final[Mapping[int, HTTPStatus]] = {
    PARSE_ERROR: HTTPStatus.BAD_REQUEST,
    INVALID_REQUEST: HTTPStatus.BAD_REQUEST,
    INVALID_PARAMS: HTTPStatus.BAD_REQUEST,
    HEADER_MISMATCH: HTTPStatus.BAD_REQUEST,
    MISSING_CLIENT_CAPABILITY: HTTPStatus.BAD_REQUEST,
    UNSUPPORTED_VERSION: HTTPStatus.BAD_REQUEST,
    METHOD_NOT_FOUND: HTTPStatus.NOT_FOUND,
}


class Session:
    """One session of the era of the handshake, and its streams."""

    def __init__(self, identity: str, server_state: ServerState, group: asyncio.TaskGroup) -> None:
        self.identity = identity
        self.legacy = LegacySession(server_state, self._tell, server_state.options.legacy)
        self.conversation = Conversation(server_state, group, legacy=self.legacy)
        self.replay_buffer = ReplayBuffer()
        self._options = server_state.options
        self._numbers = itertools.count()
        self.standalone = self._new_stream()
        """Carries what belongs to no request, from the session's first moment to its last."""

    def answer(self, response: Response) -> Answer:
        style = self._options.style
        stream = self._new_stream()
        return Answer(response, stream, style, statuses={}, headers=self.headers)

    def headers(self) -> Fields:
        """A session that has not begun has no name yet."""
        return {SESSION_HEADER: self.identity} if self.legacy.begun else {}

    def close(self) -> None:
        self.conversation.abandon()
        self.standalone.end()

    def _new_stream(self) -> ResumableStream:
        return ResumableStream(
            next(self._numbers),
            self.replay_buffer,
            lambda: self.legacy.revision.primes_streams,
            drops=self._options.drop_streams,
        )

    def _tell(self, message: Json) -> None:
        if self._options.style == "json":
            drop(message)
        else:
            self.standalone.send(message)


class Streamable:
    """What answers at the one address."""

    def __init__(
        self,
        server_state: ServerState,
        group: asyncio.TaskGroup,
        modern: ModernEra | None,
        new_id: Callable[[], str],
    ) -> None:
        self._server_state = server_state
        self._group = group
        self._modern = modern
        self._legacy = server_state.options.legacy
        self.sessions: Sessions[Session] = Sessions(new_id, server_state.options.lose_sessions)

    def answer(self, request: HttpRequest, response: Response) -> None:
        """
        Raises:
            Refused: it cannot be answered here.
        """
        # Where there are no sessions, GET and DELETE should get 405 (basic/transports, 2026-07-28).
        modern = not self._legacy or self._is_modern_header(request)
        if request.method == "POST":
            self._post(request, response)
        elif modern or request.method not in ("GET", "DELETE"):
            raise wrong_method(["POST"] if modern else ["GET", "POST", "DELETE"])
        elif request.method == "GET":
            self._listen(request, response, self._find(request))
        else:
            self.sessions.end(self._find(request).identity)
            response.whole(HTTPStatus.NO_CONTENT, {})

    def _post(self, request: HttpRequest, response: Response) -> None:
        check_brings_json(request)
        check_takes(request, JSON_TYPE, EVENTS_TYPE)
        decoded = None
        try:
            decoded = decode(request.body)
            if self._is_modern(request, decoded):
                self._post_modern(request, response, decoded)
            else:
                self._post_legacy(request, response, decoded)
        except Fault as fault:
            raise MessageRefused(HTTPStatus.BAD_REQUEST, fault, identity_of(decoded)) from fault

    def _is_modern(self, request: HttpRequest, decoded: Any) -> bool:
        """The body decides; the header only where the body says nothing."""
        if self._modern is None or not self._legacy:
            return self._modern is not None
        if not isinstance(decoded, dict):
            return self._is_modern_header(request)
        if is_enveloped(decoded.get("params")) or decoded.get("method") in UNKNOWN_TO_LEGACY:
            return True
        # A client that falls back to the handshake may have left the header as it was.
        return decoded.get("method") != "initialize" and self._is_modern_header(request)

    def _is_modern_header(self, request: HttpRequest) -> bool:
        return request.headers.get(VERSION_HEADER) in self._server_state.options.modern

    def _post_modern(self, request: HttpRequest, response: Response, decoded: Any) -> None:
        message = read_message(decoded, request.headers)
        if isinstance(message, Reply):
            raise Fault(INVALID_REQUEST, "This revision has no messages for a client to answer")
        # Ids are told apart by their connections, so that each request is a conversation of its
        # own; and what a client might notify of, it says by hanging up.
        conversation = Conversation(self._server_state, self._group, modern=self._modern)
        answer = Answer(
            response,
            PlainStream(),
            self._server_state.options.style,
            statuses=MODERN_STATUSES,
            headers=dict,
        )
        # To close the response stream is to cancel the request (basic/utilities/cancellation).
        response.on_lost = conversation.abandon
        conversation.take(message, answer)
        answer.wait()

    def _post_legacy(self, request: HttpRequest, response: Response, decoded: Any) -> None:
        if isinstance(decoded, list):
            session = self._find(request, None, counts=True)
            answer = session.answer(response)
            session.conversation.take_batch(decoded, answer)
            answer.wait()
            return
        message = read_message(decoded)
        begins = isinstance(message, Request) and message.method == "initialize"
        if begins and request.headers.get(SESSION_HEADER) is None:
            session = self.sessions.add(lambda name: Session(name, self._server_state, self._group))
        else:
            counts = isinstance(message, Request) and not begins
            session = self._find(request, identity_of(decoded), counts=counts)
        answer = session.answer(response)
        session.conversation.take(message, answer)
        answer.wait()
        if not session.legacy.begun:
            self.sessions.end(session.identity)

    def _listen(self, request: HttpRequest, response: Response, session: Session) -> None:
        check_takes(request, EVENTS_TYPE)
        if self._server_state.options.style == "json":
            raise wrong_method(["POST", "DELETE"])
        seen = request.headers.get("Last-Event-ID")
        if seen is not None:
            found = session.replay_buffer.find(seen)
            if found is None:
                raise RequestRefused(
                    HTTPStatus.BAD_REQUEST, f"Nothing can be resumed after {seen!r}"
                )
            found[0].resume(response, session.headers(), found[1])
        elif session.standalone.connected:
            raise RequestRefused(HTTPStatus.CONFLICT, "The session has its stream already")
        else:
            session.standalone.attach(response, session.headers())

    def _find(
        self, request: HttpRequest, identity: Identity | None = None, *, counts: bool = False
    ) -> Session:
        """The session that a request names, if it may still be used.

        `identity` is the id of the message that wants to use it, if it has one.
        """

        def refused(text: str) -> RequestRefused:
            return MessageRefused(HTTPStatus.BAD_REQUEST, Fault(INVALID_REQUEST, text), identity)

        name, version = (request.headers.get(each) for each in (SESSION_HEADER, VERSION_HEADER))
        # "If the server receives a request with an invalid or unsupported MCP-Protocol-Version, it
        # MUST respond with 400 Bad Request" (basic/transports).
        if version is not None and version not in self._legacy:
            raise refused(f"Unsupported protocol version: {version}")
        if name is None:
            raise refused(f"There is no {SESSION_HEADER}")
        if counts:
            self.sessions.count(name)
        session = self.sessions.find(name)
        if session is None:
            # Without the id of the message: nobody has looked at it.
            fault = Fault(INVALID_REQUEST, "There is no such session; begin one with 'initialize'")
            raise MessageRefused(HTTPStatus.NOT_FOUND, fault)
        if version is not None and version != session.legacy.revision.name:
            raise refused(f"The session speaks {session.legacy.revision.name}")
        return session

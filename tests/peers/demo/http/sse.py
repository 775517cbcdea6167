"""HTTP+SSE, the transport of 2024-11-05: one stream for what the server sends, POST for the rest.

A session lives as long as its stream, and may have any legacy revision.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import msgspec

from tests.peers.demo.calls import Request, ServerState
from tests.peers.demo.conversation import Conversation
from tests.peers.demo.faults import Fault
from tests.peers.demo.http.connection import TEXT, Response
from tests.peers.demo.http.events import event_of
from tests.peers.demo.http.refusals import (
    EVENTS_TYPE,
    MessageRefused,
    RequestRefused,
    check_brings_json,
    check_takes,
    wrong_method,
)
from tests.peers.demo.http.requests import HttpRequest
from tests.peers.demo.http.sessions import Sessions
from tests.peers.demo.legacy import LegacySession
from tests.peers.demo.messages import decode, identity_of, read_message
from tests.peers.demo.revisions import Json

MESSAGES_PATH: Final = "/messages"
SESSION_QUERY: Final = "session_id"


class Session:
    """One client and its stream: whatever is sent to it takes the same way."""

    def __init__(
        self, identity: str, server_state: ServerState, group: asyncio.TaskGroup, response: Response
    ) -> None:
        self.identity = identity
        self._response = response
        legacy = LegacySession(server_state, self.send, server_state.options.legacy)
        self.conversation = Conversation(server_state, group, legacy=legacy)
        response.open_events({})
        # The first event must tell the client where to post (basic/transports, 2024-11-05).
        endpoint = f"{MESSAGES_PATH}?{SESSION_QUERY}={identity}"
        response.event(event_of(endpoint.encode(), kind=b"endpoint"))

    def send(self, message: Json) -> None:
        self._response.event(event_of(msgspec.json.encode(message)))

    def finish(self, answer: Json | list[Json] | None) -> None:
        if answer is not None:
            self._response.event(event_of(msgspec.json.encode(answer)))

    def close(self) -> None:
        self.conversation.abandon()
        self._response.end()


class HttpSse:
    """What answers at the two addresses."""

    def __init__(
        self, server_state: ServerState, group: asyncio.TaskGroup, new_id: Callable[[], str]
    ) -> None:
        self._server_state = server_state
        self._group = group
        self.sessions: Sessions[Session] = Sessions(new_id, server_state.options.lose_sessions)

    def open(self, request: HttpRequest, response: Response) -> None:
        if request.method != "GET":
            raise wrong_method(["GET"])
        check_takes(request, EVENTS_TYPE)
        session = self.sessions.add(
            lambda identity: Session(identity, self._server_state, self._group, response)
        )
        response.on_lost = lambda: self.sessions.end(session.identity)

    def post(self, request: HttpRequest, response: Response) -> None:
        if request.method != "POST":
            raise wrong_method(["POST"])
        check_brings_json(request)
        session = self._find(request)
        decoded = None
        try:
            decoded = decode(request.body)
            if isinstance(decoded, list):
                session.conversation.take_batch(decoded, session)
            else:
                message = read_message(decoded)
                if isinstance(message, Request) and message.method != "initialize":
                    self.sessions.count(session.identity)
                    session = self._find(request)  # That may have been one too many.
                session.conversation.take(message, session)
        except Fault as fault:
            raise MessageRefused(HTTPStatus.BAD_REQUEST, fault, identity_of(decoded)) from fault
        response.whole(HTTPStatus.ACCEPTED, TEXT, b"Accepted\n")

    def _find(self, request: HttpRequest) -> Session:
        identity = request.query.get(SESSION_QUERY)
        if identity is None:
            raise RequestRefused(HTTPStatus.BAD_REQUEST, f"There is no {SESSION_QUERY}")
        session = self.sessions.find(identity)
        if session is None:
            raise RequestRefused(HTTPStatus.NOT_FOUND, "There is no such session")
        return session

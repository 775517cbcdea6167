"""HTTP+SSE, the transport of 2024-11-05: one stream for what the server says, POST for the rest.

A session lives as long as its stream. It can speak any revision that begins with a handshake.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import msgspec

from anyport.demo.calls import Request, World
from anyport.demo.conversation import Conversation
from anyport.demo.faults import Fault
from anyport.demo.http.connection import TEXT, Response
from anyport.demo.http.events import event_of
from anyport.demo.http.refusals import (
    EVENTS_TYPE,
    Refused,
    RefusedMessage,
    check_brings_json,
    check_takes,
    wrong_method,
)
from anyport.demo.http.sessions import Sessions
from anyport.demo.http.wire import HttpRequest
from anyport.demo.legacy import LegacySession
from anyport.demo.messages import decode, identity_of, read_message
from anyport.demo.revisions import Json

MESSAGES_PATH: Final = "/messages"
SESSION_QUERY: Final = "session_id"


class Session:
    """One client and its stream: whatever is sent to it takes the same way."""

    def __init__(
        self, identity: str, world: World, group: asyncio.TaskGroup, response: Response
    ) -> None:
        self.identity = identity
        self._response = response
        legacy = LegacySession(world, self.send, world.options.legacy)
        self.conversation = Conversation(world, group, legacy=legacy)
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

    def __init__(self, world: World, group: asyncio.TaskGroup, new_id: Callable[[], str]) -> None:
        self._world = world
        self._group = group
        self.sessions: Sessions[Session] = Sessions(new_id, world.options.lose_sessions)

    def open(self, request: HttpRequest, response: Response) -> None:
        if request.method != "GET":
            raise wrong_method(["GET"])
        check_takes(request, EVENTS_TYPE)
        session = self.sessions.add(
            lambda identity: Session(identity, self._world, self._group, response)
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
            raise RefusedMessage(HTTPStatus.BAD_REQUEST, fault, identity_of(decoded)) from fault
        response.whole(HTTPStatus.ACCEPTED, TEXT, b"Accepted\n")

    def _find(self, request: HttpRequest) -> Session:
        identity = request.query.get(SESSION_QUERY)
        if identity is None:
            raise Refused(HTTPStatus.BAD_REQUEST, f"There is no {SESSION_QUERY}")
        session = self.sessions.find(identity)
        if session is None:
            raise Refused(HTTPStatus.NOT_FOUND, "There is no such session")
        return session

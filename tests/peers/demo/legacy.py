"""The legacy era: revisions 2024-11-05 to 2025-11-25.

The client introduces itself once; after that the server may send it requests at any time.
"""

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any

from tests.peers.demo import content, identity, questions
from tests.peers.demo.brew import Brew
from tests.peers.demo.calls import (
    LEVELS,
    Call,
    Change,
    Method,
    Question,
    Request,
    Send,
    ServerState,
    declares,
)
from tests.peers.demo.faults import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Fault,
    MissingCapability,
    NeedsClient,
    Unanswered,
    object_member,
    string_member,
)
from tests.peers.demo.legacy_tasks import LegacyTasks
from tests.peers.demo.resources import not_found, read
from tests.peers.demo.revisions import Json, Revision
from tests.peers.demo.stdio import say

BEFORE_HANDSHAKE = frozenset({"initialize", "ping"})


class LegacySession:
    """One session, from `initialize` to its end.

    `send` is for what belongs to no request: news of changes, and questions of the session's own.
    """

    def __init__(
        self, server_state: ServerState, send: Send, known: Mapping[str, Revision]
    ) -> None:
        self.server_state = server_state
        self.begun = False
        self.revision = list(known.values())[-1]
        """The newest that this server knows, until a handshake settles on another."""
        self.log_level = "info"
        self.capabilities: Json = {}
        self._send = send
        self._known = known
        self._subscribed: set[str] = set()
        self._ids = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Json]] = {}
        self._hung_up = False
        self._tasks = LegacyTasks(server_state.new_tasks(), send)
        self._methods: dict[str, Method] = {
            **identity.METHODS,
            "initialize": self._initialize,
            "ping": lambda _call, _params: {},
            "logging/setLevel": self._set_level,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
        }
        server_state.watchers.append(self._changed)

    @property
    def tasks(self) -> LegacyTasks | None:
        """None where the session has none, nor ever heard of any."""
        return self._tasks if self.server_state.options.tasks and self.revision.tasks else None

    def open(self, request: Request, send: Send) -> tuple[Call, Method]:
        """Judges a request by the state of the session."""
        tasks = self.tasks
        method = self._methods.get(request.method)
        if method is None and tasks is not None:
            method = tasks.methods.get(request.method)
        if method is None:
            raise Fault(METHOD_NOT_FOUND, f"Method not found: {request.method}")
        # "The client SHOULD NOT send requests other than pings before the server has responded
        # to the initialize request" (basic/lifecycle).
        if not self.begun and request.method not in BEFORE_HANDSHAKE:
            raise Fault(INVALID_REQUEST, "The session has not begun; send 'initialize' first")
        return LegacyCall(self, request, send), method

    async def initialized(self) -> None:
        """What follows the client's word that it is ready."""
        if not (
            self.begun and self.server_state.options.ask_roots and "roots" in self.capabilities
        ):
            return
        try:
            answer = await self.ask(questions.roots(), self._send)
        except (MissingCapability, Unanswered) as error:
            say(f"no roots: {error}")
        else:
            say(f"roots: {answer}")

    async def ask(self, question: Question, send: Send) -> Json:
        """Sends a request to the client and waits for its answer."""
        if not declares(self.capabilities, question.capability):
            raise MissingCapability(question.capability)
        if self._hung_up:
            raise Unanswered("The client closed the connection before it could be asked")
        identity = next(self._ids)
        self._asked[identity] = asyncio.get_running_loop().create_future()
        try:
            send({"jsonrpc": "2.0", "id": identity, **question.body()})
            return await self._asked[identity]
        except asyncio.CancelledError:
            # Nobody waits for the answer any more, so the client need not look for one.
            params = {"requestId": identity, "reason": "The call that asked was cancelled"}
            send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
            raise
        finally:
            del self._asked[identity]

    def answered(self, message: Json) -> None:
        """Takes the client's answer to a question; an answer to no question is dropped."""
        identity = message.get("id")
        waiting = self._asked.get(identity) if type(identity) is int else None
        if waiting is None or waiting.done():
            return
        result = message.get("result")
        if isinstance(result, dict):
            waiting.set_result(result)
        else:
            waiting.set_exception(Unanswered(_complaint(message.get("error"))))

    def close(self) -> None:
        """Nobody is there to be told anything any more."""
        self.hang_up()
        if self._changed in self.server_state.watchers:
            self.server_state.watchers.remove(self._changed)

    def hang_up(self) -> None:
        """The client will answer nothing more."""
        self._hung_up = True
        self._tasks.hang_up()
        for waiting in self._asked.values():
            if not waiting.done():
                waiting.set_exception(Unanswered("The client closed the connection unanswered"))

    def _initialize(self, _call: Call, params: Json) -> Json:
        if self.begun:
            raise Fault(INVALID_REQUEST, "The session has already begun")
        asked = string_member(params, "protocolVersion")
        client = object_member(params, "clientInfo")
        string_member(client, "name")
        string_member(client, "version")
        self.capabilities = object_member(params, "capabilities")
        # "Otherwise, the server MUST respond with another protocol version it supports. This
        # SHOULD be the latest version supported by the server" (basic/lifecycle).
        self.revision = self._known.get(asked, self.revision)
        self.begun = True
        options = self.server_state.options
        return {
            "protocolVersion": self.revision.name,
            "capabilities": identity.capabilities(options, self.revision),
            "serverInfo": identity.implementation(options, self.revision),
            "instructions": options.instructions,
        }

    def _set_level(self, _call: Call, params: Json) -> Json:
        level = string_member(params, "level")
        if level not in LEVELS:
            raise Fault(INVALID_PARAMS, f"Unknown log level: {level}")
        self.log_level = level
        return {}

    def _subscribe(self, call: Call, params: Json) -> Json:
        uri = string_member(params, "uri")
        if read(self.server_state, uri) is None:
            raise not_found(call, uri)
        self._subscribed.add(uri)
        return {}

    def _unsubscribe(self, _call: Call, params: Json) -> Json:
        self._subscribed.discard(string_member(params, "uri"))
        return {}

    def _changed(self, change: Change) -> None:
        if not self.begun:
            return
        if change.uri is None:
            self._send({"jsonrpc": "2.0", "method": change.method})
        elif change.uri in self._subscribed:
            params = {"uri": change.uri}
            self._send({"jsonrpc": "2.0", "method": change.method, "params": params})


class LegacyCall(Call):
    """A request within the session: what the session agreed on holds for it."""

    def __init__(self, session: LegacySession, request: Request, send: Send) -> None:
        super().__init__(session.server_state, session.revision, send, request, session.log_level)
        self._session = session

    @property
    def capabilities(self) -> Json:
        return self._session.capabilities

    def starts_task(self, support: str) -> bool:
        tasks = self._session.tasks
        # A server that has no tasks must ignore that a request asks for one.
        return tasks is not None and tasks.starts(self.request.params, support)

    def start_task(self, brew: Brew) -> Json:
        assert self._session.tasks is not None
        return self._session.tasks.start(self, brew)

    async def ask(self, question: Question) -> Json:
        return await self._session.ask(question, self._send)

    def complete(self, result: Json) -> Json:
        return result

    def without_client(self, need: NeedsClient) -> Json:
        return content.failure(str(need))


def _complaint(error: Any) -> str:
    if not isinstance(error, dict):
        return "The client's answer is neither a result nor an error"
    return f"The client refused with code {error.get('code')}: {error.get('message')}"

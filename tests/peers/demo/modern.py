"""The modern era: revision 2026-07-28.

Every request states its revision and the capabilities of its client in `_meta`, and nothing is kept
between requests. A tool asks with the result of its call; the client repeats the call with the
answer.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tests.peers.demo import identity
from tests.peers.demo.brew import Brew
from tests.peers.demo.calls import (
    LEVELS,
    TOOLS_CHANGED,
    Call,
    Change,
    Method,
    Question,
    Request,
    Send,
    ServerState,
    Work,
    declares,
)
from tests.peers.demo.faults import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
    Fault,
    MissingCapability,
    NeedsClient,
    object_member,
    string_member,
)
from tests.peers.demo.header_checks import check_arguments, check_envelope
from tests.peers.demo.modern_tasks import ModernTasks, detailed
from tests.peers.demo.resources import read
from tests.peers.demo.revisions import Json, Revision
from tests.peers.demo.sealing import Seal
from tests.peers.demo.tasks import Task

_PREFIX: Final = "io.modelcontextprotocol/"
VERSION_KEY: Final = f"{_PREFIX}protocolVersion"
CAPABILITIES_KEY: Final = f"{_PREFIX}clientCapabilities"
CLIENT_KEY: Final = f"{_PREFIX}clientInfo"
LOG_LEVEL_KEY: Final = f"{_PREFIX}logLevel"
SERVER_KEY: Final = f"{_PREFIX}serverInfo"
SUBSCRIPTION_KEY: Final = f"{_PREFIX}subscriptionId"

DISCOVER: Final = "server/discover"
LISTEN: Final = "subscriptions/listen"
UNKNOWN_TO_LEGACY: Final = frozenset({DISCOVER, LISTEN})
"""Methods that give their era away even where the envelope was forgotten."""

_FRESH_MS: Final = 0
_HOUR_MS: Final = 3_600_000
CACHE_MS: Final[Mapping[str, int]] = {
    DISCOVER: _HOUR_MS,
    "prompts/list": _HOUR_MS,
    "resources/list": _HOUR_MS,
    "resources/templates/list": _HOUR_MS,
    "skills/list": _HOUR_MS,
    "skills/get": _HOUR_MS,
    # These change when 'grow' or 'touch' is called, whether or not the client listens.
    "tools/list": _FRESH_MS,
    "resources/read": _FRESH_MS,
}
"""How long a result may be kept, for the methods that must say."""

MAY_ASK: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""The only methods that may be answered with `input_required`."""
ROUND_MEMBERS: Final = frozenset({"_meta", "inputResponses", "requestState"})
"""The members of params that may differ between the rounds of one request."""


class InputRequired(NeedsClient):
    """A tool asks something that this round of the request did not answer."""

    def __init__(self, question: Question) -> None:
        super().__init__(question.method)
        self.question = question


def is_enveloped(params: Any) -> bool:
    """Whether a message says that it belongs to this era."""
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and VERSION_KEY in meta


class ModernEra:
    """Answers requests that bring their own envelope."""

    def __init__(
        self, server_state: ServerState, known: Mapping[str, Revision], seal: Seal
    ) -> None:
        self.server_state = server_state
        self.seal = seal
        self.closing = asyncio.Event()
        """Set when the server is about to end; open subscriptions end with it."""
        self.tasks = ModernTasks(server_state)
        self._known = known
        self._methods: dict[str, Method] = {
            **identity.METHODS,
            **self.tasks.methods,
            DISCOVER: self._discover,
        }
        # A subscription is a stream, and nothing but a stream.
        if server_state.options.style != "json":
            self._methods[LISTEN] = self._listen

    def open(self, request: Request, send: Send) -> tuple[Call, Method]:
        """Climbs the ladder: envelope there, headers agree, version known, method known,
        arguments agree, the rest of the envelope sound.
        """
        meta = object_member(request.params, "_meta", default={})
        if request.method == "initialize" and VERSION_KEY not in meta:
            raise self._unsupported(request.params.get("protocolVersion"))
        version = string_member(meta, VERSION_KEY)
        object_member(meta, CAPABILITIES_KEY)
        check_envelope(request, version)
        revision = self._known.get(version)
        if revision is None:
            raise self._unsupported(version)
        method = self._methods.get(request.method)
        if method is None:
            raise Fault(METHOD_NOT_FOUND, f"Method not found: {request.method}")
        if request.method == "tools/call":
            check_arguments(request, self.server_state.tools)
        return ModernCall(self, revision, request, send), method

    def _unsupported(self, requested: Any) -> Fault:
        facts = {"supported": list(self._known), "requested": str(requested)}
        return Fault(UNSUPPORTED_VERSION, "Unsupported protocol version", facts)

    def _discover(self, call: Call, _params: Json) -> Json:
        return {
            "supportedVersions": list(self._known),
            "capabilities": identity.capabilities(self.server_state.options, call.revision),
            "instructions": self.server_state.options.instructions,
        }

    def _listen(self, call: Call, params: Json) -> Work:
        """Tells of changes until the server ends or the client cancels."""
        wanted = object_member(params, "notifications")
        honoured = self._honoured(wanted)
        watched = self.tasks.watched(call, wanted)
        if watched:
            honoured["taskIds"] = [task.identity for task in watched]
        meta = {SUBSCRIPTION_KEY: call.request.identity}

        def changed(change: Change) -> None:
            if change == TOOLS_CHANGED and "toolsListChanged" in honoured:
                call.notify(change.method, {"_meta": meta})
            elif change.uri in honoured.get("resourceSubscriptions", ()):
                call.notify(change.method, {"_meta": meta, "uri": change.uri})

        def moved(task: Task) -> None:
            call.notify("notifications/tasks", {"_meta": meta, **detailed(task, call.revision)})

        acknowledged = {"_meta": meta, "notifications": honoured}
        call.notify("notifications/subscriptions/acknowledged", acknowledged)
        # From now on, not from when the task first runs: no change may fall in between.
        self.server_state.watchers.append(changed)
        for task in watched:
            task.watchers.append(moved)

        async def end() -> Json:
            try:
                await self.closing.wait()
            finally:
                self.server_state.watchers.remove(changed)
                for task in watched:
                    task.watchers.remove(moved)
            return {"_meta": meta}

        return end()

    def _honoured(self, wanted: Json) -> Json:
        """The part of a filter that this server can keep its word on."""
        honoured: Json = {}
        if wanted.get("toolsListChanged") is True:
            honoured["toolsListChanged"] = True
        uris = wanted.get("resourceSubscriptions", [])
        if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
            raise Fault(INVALID_PARAMS, "'resourceSubscriptions' must be an array of strings")
        if found := [uri for uri in uris if read(self.server_state, uri) is not None]:
            honoured["resourceSubscriptions"] = found
        return honoured


class ModernCall(Call):
    """A request that stands for itself."""

    def __init__(self, era: ModernEra, revision: Revision, request: Request, send: Send) -> None:
        meta: Json = request.params["_meta"]
        # A request that names no level wants no log messages at all.
        level = meta.get(LOG_LEVEL_KEY)
        if level is not None and level not in LEVELS:
            raise Fault(INVALID_PARAMS, f"Unknown log level: {level}")
        object_member(meta, CLIENT_KEY, default={})
        super().__init__(era.server_state, revision, send, request, level)
        self._tasks = era.tasks
        self._seal = era.seal
        self._answers = self._read_answers() if request.method in MAY_ASK else {}

    @property
    def capabilities(self) -> Json:
        declared: Json = self.request.params["_meta"][CAPABILITIES_KEY]
        return declared

    def starts_task(self, support: str) -> bool:
        return self._tasks.starts(self, support)

    def start_task(self, brew: Brew) -> Json:
        return self._tasks.start(self, brew)

    async def ask(self, question: Question) -> Json:
        if not declares(self.capabilities, question.capability):
            raise MissingCapability(question.capability)
        answer = self._answers.get(question.key)
        if not isinstance(answer, dict):
            raise InputRequired(question)
        return answer

    def complete(self, result: Json) -> Json:
        stamped = {"resultType": "complete", **result, "_meta": self._meta(result)}
        cache_ms = CACHE_MS.get(self.request.method)
        if cache_ms is not None:
            stamped.update(ttlMs=cache_ms, cacheScope="public")
        return stamped

    def without_client(self, need: NeedsClient) -> Json:
        if isinstance(need, InputRequired):
            return {
                "resultType": "input_required",
                "inputRequests": {need.question.key: need.question.body()},
                "requestState": self._seal.state_for(self._bound()),
                "_meta": self._meta({}),
            }
        if isinstance(need, MissingCapability):
            raise need.fault()
        raise need

    def _meta(self, result: Json) -> Json:
        server = identity.implementation(self.server_state.options, self.revision)
        return {**result.get("_meta", {}), SERVER_KEY: server}

    def _read_answers(self) -> Json:
        """What the client answers in this round.

        They count only with the state of the request that asked, since a client could send
        back anything.
        """
        params = self.request.params
        answers = object_member(params, "inputResponses", default={})
        state = params.get("requestState")
        if state is None and not answers:
            return {}
        if not isinstance(state, str) or not self._seal.fits(state, self._bound()):
            raise Fault(INVALID_PARAMS, "Invalid or expired requestState")
        return answers

    def _bound(self) -> bytes:
        """All of the request that must stay the same from round to round."""
        params = self.request.params.items()
        same = {key: value for key, value in params if key not in ROUND_MEMBERS}
        return msgspec.json.encode([self.request.method, same], order="sorted")

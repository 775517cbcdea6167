"""Rules of revisions without a handshake, where every message says everything of itself."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from anyport.protocol import meta
from anyport.protocol.capability import NOTHING, client_capabilities, lacking
from anyport.protocol.freshness import HINTS
from anyport.protocol.method import LISTS, METHODS, QUESTIONS
from anyport.record.lint import shapes
from anyport.record.lint.model import (
    Depth,
    Fault,
    Faults,
    Leg,
    Rule,
    Severity,
    asking,
    both,
    hears,
    modern,
)
from anyport.record.redact import MARK

DISCOVERY_MS_MAX: Final = 1000.0
"""A client may ask a server for nothing else until this is answered."""

_CACHEABLE: Final = frozenset({"server/discover", "resources/read", *LISTS.values()})
_LISTEN: Final = "subscriptions/listen"
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_RESULT_TYPES: Final = frozenset({"complete", "input_required", "task"})
_ASKED: Final = "inputRequests"
_STATE: Final = "requestState"


def _envelope(leg: Leg) -> Faults:
    request = leg.request
    if request is None:
        return
    if not isinstance(request.meta.get(meta.PROTOCOL_VERSION), str):
        yield Fault(leg=leg, frame=request, words="_meta does not say the revision")
    if not isinstance(request.meta.get(meta.CLIENT_CAPABILITIES), dict):
        words = f"_meta has no {meta.CLIENT_CAPABILITIES} that is an object"
        yield Fault(leg=leg, frame=request, words=words)


def _client(leg: Leg) -> Faults:
    if leg.request is not None and meta.CLIENT_INFO not in leg.request.meta:
        yield Fault(leg=leg, frame=leg.request, words=f"_meta has no {meta.CLIENT_INFO}")


def _result_type(leg: Leg) -> Faults:
    if leg.answer is not None and "resultType" not in shapes.members_of(leg.answer):
        yield Fault(leg=leg, frame=leg.answer, words="the result has no resultType")


def _known_type(leg: Leg) -> Faults:
    kind = leg.result.get("resultType", "complete")
    if kind not in _RESULT_TYPES:
        yield Fault(leg=leg, frame=leg.answer, words=f"resultType is {_json(kind)}")


def _hints(leg: Leg) -> Faults:
    if leg.answer is None or not leg.complete:
        return
    found = shapes.members_of(leg.answer)
    missing = [hint for hint in HINTS if hint not in found]
    if missing and not found.keys() & {_ASKED, _STATE}:
        yield Fault(leg=leg, frame=leg.answer, words=f"{' and '.join(missing)} are missing")


def _hint_values(leg: Leg) -> Faults:
    ttl, scope = (leg.result.get(hint) for hint in HINTS)
    if ttl is not None and (type(ttl) is not int or ttl < 0):
        yield Fault(leg=leg, frame=leg.answer, words=f"ttlMs is {_json(ttl)}")
    if scope not in (None, "public", "private"):
        yield Fault(leg=leg, frame=leg.answer, words=f"cacheScope is {_json(scope)}")


def _hints_on_question(leg: Leg) -> Faults:
    if leg.answer is None or leg.result.get("resultType") != "input_required":
        return
    if leg.result.keys() & set(HINTS):
        yield Fault(leg=leg, frame=leg.answer, words="a question has ttlMs or cacheScope")


def _page_scope(legs: Sequence[Leg]) -> Faults:
    scopes: dict[str | None, Any] = {}
    for leg in legs:
        scope = leg.result.get("cacheScope")
        if "cursor" in leg.params and scope != scopes.get(leg.method, scope):
            words = f"this page is {_json(scope)}, the one before was not"
            yield Fault(leg=leg, frame=leg.answer, words=words)
        scopes[leg.method] = scope


def _asks_input(leg: Leg) -> bool:
    return leg.result.get("resultType") == "input_required"


def _input_place(leg: Leg) -> Faults:
    if not _asks_input(leg):
        return
    row = METHODS.get(leg.method or "")
    if leg.legacy:
        words = "a session's client is asked with requests"
        yield Fault(leg=leg, frame=leg.answer, words=words)
    elif row is None or not row.may_need_input:
        yield Fault(leg=leg, frame=leg.answer, words=f"{leg.method} asks for input")


def _input_form(leg: Leg) -> Faults:
    if not _asks_input(leg):
        return
    asked = leg.result.get(_ASKED)
    if _ASKED not in leg.result and _STATE not in leg.result:
        words = f"it has neither {_ASKED} nor {_STATE}"
        yield Fault(leg=leg, frame=leg.answer, words=words)
    for key, entry in asked.items() if isinstance(asked, dict) else ():
        if not isinstance(entry, dict) or entry.get("method") not in QUESTIONS:
            yield Fault(leg=leg, frame=leg.answer, words=f"{key!r} is no question")
        elif entry.keys() & {"jsonrpc", "id"}:
            words = f"{key!r} is written as a message of its own"
            yield Fault(leg=leg, frame=leg.answer, words=words)


def _input_declared(leg: Leg) -> Faults:
    asked = leg.result.get(_ASKED)
    if not _asks_input(leg) or not isinstance(asked, dict) or leg.request is None:
        return
    declared = leg.request.meta.get(meta.CLIENT_CAPABILITIES)
    capabilities = client_capabilities(msgspec.json.encode(declared)) or NOTHING
    questions = [
        (entry["method"], msgspec.json.encode(entry.get("params")))
        for entry in asked.values()
        if isinstance(entry, dict) and entry.get("method") in QUESTIONS
    ]
    missing = lacking(questions, capabilities)
    if missing:
        words = f"the request did not declare {', '.join(missing)}"
        yield Fault(leg=leg, frame=leg.answer, words=words)


def _state(legs: Sequence[Leg]) -> Faults:
    given: set[str] = set()
    for leg in legs:
        sent = leg.params.get(_STATE)
        if isinstance(sent, str) and MARK not in sent and sent not in given:
            words = "no answer before it had this requestState"
            yield Fault(leg=leg, frame=leg.request, words=words)
        told = leg.result.get(_STATE)
        if isinstance(told, str):
            given.add(told)


def _logs(leg: Leg) -> Faults:
    if leg.request is None or meta.LOG_LEVEL in leg.request.meta:
        return
    for frame in leg.between:
        if frame.method == "notifications/message":
            words = f"the request has no {meta.LOG_LEVEL}"
            yield Fault(leg=leg, frame=frame, words=words)


def _acknowledged(leg: Leg) -> Faults:
    heard = [frame for frame in leg.between if frame.kind == "server-notification"]
    if heard and heard[0].method != _ACKNOWLEDGED:
        yield Fault(leg=leg, frame=heard[0], words=f"it begins with {heard[0].method}")


def _subscription(leg: Leg) -> Faults:
    for frame in leg.between:
        if frame.kind == "server-notification" and meta.SUBSCRIPTION_ID not in frame.meta:
            words = f"{frame.method} does not say to which stream it belongs"
            yield Fault(leg=leg, frame=frame, words=words)


def _slow(leg: Leg) -> Faults:
    if leg.duration_ms is not None and leg.duration_ms > DISCOVERY_MS_MAX:
        yield Fault(leg=leg, frame=leg.answer, words=f"it took {leg.duration_ms:.0f} ms")


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _succeeded(leg: Leg) -> bool:
    return leg.succeeded


def _is_discovery(leg: Leg) -> bool:
    # Where the gateway asks a server, the server has just been started, and that takes its time.
    return leg.side == "client" and leg.method == "server/discover" and leg.answer is not None


def _is_cacheable(leg: Leg) -> bool:
    return leg.modern and leg.method in _CACHEABLE and leg.succeeded


def _is_list(leg: Leg) -> bool:
    return leg.modern and leg.method in LISTS.values() and leg.succeeded


RULES: Final = (
    Rule(
        id="request-envelope",
        title="Every request says in _meta which revision it speaks and what its client can.",
        source="MCP 2026-07-28, basic",
        advice="Stamp both on every request; {} declares that nothing can be asked.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=modern,
        leg=_envelope,
    ),
    Rule(
        id="client-info",
        title="A request says who sends it.",
        source="MCP 2026-07-28, basic",
        advice="Add the name and version of the client: without them nobody can be told apart.",
        severity=Severity.NOTE,
        needs=Depth.FULL,
        about=modern,
        leg=_client,
    ),
    Rule(
        id="result-type",
        title="Every result has a resultType.",
        source="MCP 2026-07-28, basic",
        advice='Add "resultType": "complete".',
        severity=Severity.ERROR,
        needs=Depth.SHAPE,
        about=both(modern, _succeeded),
        leg=_result_type,
    ),
    Rule(
        id="result-type-known",
        title="A resultType is complete, input_required, or one of a declared extension.",
        source="MCP 2026-07-28, basic",
        advice="Clients must treat a result of an unknown type as invalid.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=both(modern, _succeeded),
        leg=_known_type,
    ),
    Rule(
        id="cache-hints",
        title="Lists, resources and discovery say how long they may be used again, and by whom.",
        source="MCP 2026-07-28, server/utilities/caching",
        advice='Add ttlMs and cacheScope; 0 and "private" promise nothing.',
        severity=Severity.ERROR,
        needs=Depth.SHAPE,
        about=_is_cacheable,
        leg=_hints,
    ),
    Rule(
        id="cache-hint-values",
        title="ttlMs is an integer from 0 up; cacheScope is public or private.",
        source="MCP 2026-07-28, server/utilities/caching",
        advice="Send whole milliseconds.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=_is_cacheable,
        leg=_hint_values,
    ),
    Rule(
        id="cache-hints-on-question",
        title="A question is never used again, and has no hints for that.",
        source="MCP 2026-07-28, server/utilities/caching",
        advice="Leave ttlMs and cacheScope out of results that ask for input.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=both(modern, _succeeded),
        leg=_hints_on_question,
    ),
    Rule(
        id="page-scope",
        title="All pages of a list have one cacheScope.",
        source="MCP 2026-07-28, server/utilities/caching",
        advice="Decide it for the list as a whole.",
        severity=Severity.WARNING,
        needs=Depth.FULL,
        about=_is_list,
        conversation=_page_scope,
    ),
    Rule(
        id="input-required",
        title="Only calls of tools, prompts and reads ask for input, and only without a session.",
        source="MCP 2026-07-28, client",
        advice="In a session, send elicitation/create and the like as requests.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=_succeeded,
        leg=_input_place,
    ),
    Rule(
        id="input-form",
        title="What asks for input has questions or a state; a question is a method with params.",
        source="MCP 2026-07-28, client",
        advice="Write each entry of inputRequests as {method, params}, without jsonrpc and id.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=both(modern, _succeeded),
        leg=_input_form,
    ),
    Rule(
        id="input-declared",
        title="A client is asked only what this very request declared that it can answer.",
        source="MCP 2026-07-28, client",
        advice="Look at clientCapabilities, also at the kind of elicitation; else answer -32021.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=both(modern, _succeeded),
        leg=_input_declared,
    ),
    Rule(
        id="request-state",
        title="A requestState is sent back as it came, and none where none came.",
        source="MCP 2026-07-28, client",
        advice="Repeat it byte for byte. The recording may also begin too late.",
        severity=Severity.WARNING,
        needs=Depth.FULL,
        about=both(modern, asking("tools/call", "prompts/get", "resources/read")),
        conversation=_state,
    ),
    Rule(
        id="log-unasked",
        title="A request without a log level gets no log messages.",
        source="MCP 2026-07-28, server/utilities/logging",
        advice="Send notifications/message only where _meta asks for them.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=both(modern, hears("notifications/message")),
        leg=_logs,
    ),
    Rule(
        id="listen-acknowledged",
        title="A stream of changes begins with what it will tell.",
        source="MCP 2026-07-28, basic/utilities/subscriptions",
        advice="Send notifications/subscriptions/acknowledged before anything else.",
        severity=Severity.ERROR,
        needs=Depth.SHAPE,
        about=asking(_LISTEN),
        leg=_acknowledged,
    ),
    Rule(
        id="subscription-id",
        title="What comes on a stream of changes has the id of the request that opened it.",
        source="MCP 2026-07-28, basic/utilities/subscriptions",
        advice="Put the id, in its JSON type, into _meta of every notification.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=asking(_LISTEN),
        leg=_subscription,
    ),
    Rule(
        id="slow-discovery",
        title="server/discover is answered at once.",
        source="MCP 2026-07-28, server/discover",
        advice="Answer from what is configured; do not wait for anything to start.",
        severity=Severity.NOTE,
        needs=Depth.NOTED,
        about=_is_discovery,
        leg=_slow,
    ),
)

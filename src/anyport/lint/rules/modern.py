"""Rules of revisions without a handshake, in which every message is self-contained."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from anyport.lint.model import (
    Depth,
    Faults,
    Leg,
    LintFault,
    Rule,
    Severity,
    all_of,
    has_message_of,
    is_modern,
    requests_of,
)
from anyport.protocol import meta
from anyport.protocol.cache_hints import HINTS
from anyport.protocol.capabilities import (
    NO_CAPABILITIES,
    client_capabilities,
    find_missing_capabilities,
)
from anyport.protocol.methods import LIST_METHODS, METHODS, QUESTION_CAPABILITIES
from anyport.record.redact.redactor import MARK

DISCOVERY_MS_MAX: Final = 1000.0
"""A client may ask a server for nothing else until this is answered."""

_CACHEABLE: Final = frozenset({"server/discover", "resources/read", *LIST_METHODS.values()})
_LISTEN: Final = "subscriptions/listen"
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_RESULT_TYPES: Final = frozenset({"complete", "input_required", "task"})
_INPUT_REQUESTS: Final = "inputRequests"
_REQUEST_STATE: Final = "requestState"


def _client(leg: Leg) -> Faults:
    if leg.request is not None and meta.CLIENT_INFO not in leg.request.meta:
        yield LintFault(leg=leg, frame=leg.request, message=f"_meta has no {meta.CLIENT_INFO}")


def _known_type(leg: Leg) -> Faults:
    kind = leg.result.get("resultType", "complete")
    if isinstance(kind, str) and kind not in _RESULT_TYPES:
        yield LintFault(leg=leg, frame=leg.answer, message=f"resultType is {_json(kind)}")


def _hints_on_question(leg: Leg) -> Faults:
    if leg.answer is None or leg.result.get("resultType") != "input_required":
        return
    if leg.result.keys() & set(HINTS):
        yield LintFault(leg=leg, frame=leg.answer, message="a question has ttlMs or cacheScope")


def _page_scope(legs: Sequence[Leg]) -> Faults:
    scopes: dict[str | None, Any] = {}
    for leg in legs:
        scope = leg.result.get("cacheScope")
        if "cursor" in leg.params and scope != scopes.get(leg.method, scope):
            message = f"this page is {_json(scope)}, the one before was not"
            yield LintFault(leg=leg, frame=leg.answer, message=message)
        scopes[leg.method] = scope


def _asks_input(leg: Leg) -> bool:
    return leg.result.get("resultType") == "input_required"


def _input_place(leg: Leg) -> Faults:
    if not _asks_input(leg):
        return
    row = METHODS.get(leg.method or "")
    if leg.legacy:
        message = "a session's client is asked with requests"
        yield LintFault(leg=leg, frame=leg.answer, message=message)
    elif row is None or not row.may_need_input:
        yield LintFault(leg=leg, frame=leg.answer, message=f"{leg.method} asks for input")


def _input_form(leg: Leg) -> Faults:
    if not _asks_input(leg):
        return
    input_requests = leg.result.get(_INPUT_REQUESTS)
    if _INPUT_REQUESTS not in leg.result and _REQUEST_STATE not in leg.result:
        message = f"it has neither {_INPUT_REQUESTS} nor {_REQUEST_STATE}"
        yield LintFault(leg=leg, frame=leg.answer, message=message)
    for key, entry in input_requests.items() if isinstance(input_requests, dict) else ():
        if isinstance(entry, dict) and entry.keys() & {"jsonrpc", "id"}:
            message = f"{key!r} is written as a message of its own"
            yield LintFault(leg=leg, frame=leg.answer, message=message)


def _input_declared(leg: Leg) -> Faults:
    input_requests = leg.result.get(_INPUT_REQUESTS)
    if not _asks_input(leg) or not isinstance(input_requests, dict) or leg.request is None:
        return
    declared = leg.request.meta.get(meta.CLIENT_CAPABILITIES)
    capabilities = client_capabilities(msgspec.json.encode(declared)) or NO_CAPABILITIES
    questions = [
        (entry["method"], msgspec.json.encode(entry.get("params")))
        for entry in input_requests.values()
        if isinstance(entry, dict) and str(entry.get("method")) in QUESTION_CAPABILITIES
    ]
    missing = find_missing_capabilities(questions, capabilities)
    if missing:
        message = f"the request did not declare {', '.join(missing)}"
        yield LintFault(leg=leg, frame=leg.answer, message=message)


def _request_state(legs: Sequence[Leg]) -> Faults:
    known_states: set[str] = set()
    for leg in legs:
        sent = leg.params.get(_REQUEST_STATE)
        if isinstance(sent, str) and MARK not in sent and sent not in known_states:
            message = "no answer before it had this requestState"
            yield LintFault(leg=leg, frame=leg.request, message=message)
        state = leg.result.get(_REQUEST_STATE)
        if isinstance(state, str):
            known_states.add(state)


def _unrequested_logs(leg: Leg) -> Faults:
    if leg.request is None or meta.LOG_LEVEL in leg.request.meta:
        return
    for frame in leg.between:
        if frame.method == "notifications/message":
            message = f"the request has no {meta.LOG_LEVEL}"
            yield LintFault(leg=leg, frame=frame, message=message)


def _listen_acknowledged(leg: Leg) -> Faults:
    notifications = [frame for frame in leg.between if frame.kind == "server-notification"]
    if notifications and notifications[0].method != _ACKNOWLEDGED:
        yield LintFault(
            leg=leg, frame=notifications[0], message=f"it begins with {notifications[0].method}"
        )


def _subscription_id(leg: Leg) -> Faults:
    for frame in leg.between:
        if frame.kind == "server-notification" and meta.SUBSCRIPTION_ID not in frame.meta:
            message = f"{frame.method} does not say to which stream it belongs"
            yield LintFault(leg=leg, frame=frame, message=message)


def _slow_discovery(leg: Leg) -> Faults:
    if leg.duration_ms is not None and leg.duration_ms > DISCOVERY_MS_MAX:
        yield LintFault(leg=leg, frame=leg.answer, message=f"it took {leg.duration_ms:.0f} ms")


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _has_result(leg: Leg) -> bool:
    return leg.succeeded


def _is_discovery(leg: Leg) -> bool:
    # Only on the client's side: the gateway asks a server that it has just started, which is slow.
    return leg.side == "client" and leg.method == "server/discover" and leg.answer is not None


def _is_cacheable(leg: Leg) -> bool:
    return leg.modern and leg.method in _CACHEABLE and leg.succeeded


def _is_list(leg: Leg) -> bool:
    return leg.modern and leg.method in LIST_METHODS.values() and leg.succeeded


RULES: Final = (
    Rule(
        id="request-envelope",
        title="Every request says in _meta which revision it speaks and what its client can.",
        source="MCP 2026-07-28, basic",
        advice="Stamp both on every request; {} declares that nothing can be asked.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=is_modern,
        schema=r"\S+ params(\._meta(\[\".+/(protocolVersion|clientCapabilities)\"\])?)?:\w+",
    ),
    Rule(
        id="client-info",
        title="A request says who sends it.",
        source="MCP 2026-07-28, basic",
        advice="Add the client's name and version: servers cannot tell clients apart otherwise.",
        severity=Severity.NOTE,
        needs=Depth.FULL,
        applies_to=is_modern,
        check_leg=_client,
    ),
    Rule(
        id="result-type",
        title="Every result has a resultType.",
        source="MCP 2026-07-28, basic",
        advice='Add "resultType": "complete".',
        severity=Severity.ERROR,
        needs=Depth.SHAPE,
        applies_to=all_of(is_modern, _has_result),
        schema=r"\S+ result\.resultType:\w+",
    ),
    Rule(
        id="result-type-known",
        title="A resultType is complete, input_required, or one of a declared extension.",
        source="MCP 2026-07-28, basic",
        advice="Clients must treat a result of an unknown type as invalid.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=all_of(is_modern, _has_result),
        check_leg=_known_type,
    ),
    Rule(
        id="cache-hints",
        title="Lists, resources and discovery say how long they may be used again, and by whom.",
        source="MCP 2026-07-28, server/utilities/caching",
        advice='Add ttlMs and cacheScope; 0 and "private" promise nothing.',
        severity=Severity.ERROR,
        needs=Depth.SHAPE,
        applies_to=_is_cacheable,
        schema=r"\S+ result\.(ttlMs|cacheScope):required",
    ),
    Rule(
        id="cache-hint-values",
        title="ttlMs is an integer from 0 up; cacheScope is public or private.",
        source="MCP 2026-07-28, server/utilities/caching",
        advice="Send whole milliseconds.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=_is_cacheable,
        schema=r"\S+ result\.(ttlMs|cacheScope):(?!required)\w+",
    ),
    Rule(
        id="cache-hints-on-question",
        title="A question is never used again, and has no hints for that.",
        source="MCP 2026-07-28, server/utilities/caching",
        advice="Leave ttlMs and cacheScope out of results that ask for input.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=all_of(is_modern, _has_result),
        check_leg=_hints_on_question,
    ),
    Rule(
        id="page-scope",
        title="All pages of a list have one cacheScope.",
        source="MCP 2026-07-28, server/utilities/caching",
        advice="Decide it for the list as a whole.",
        severity=Severity.WARNING,
        needs=Depth.FULL,
        applies_to=_is_list,
        check_conversation=_page_scope,
    ),
    Rule(
        id="input-required",
        title="Only calls of tools, prompts and reads ask for input, and only without a session.",
        source="MCP 2026-07-28, client",
        advice="In a session, send elicitation/create and the like as requests.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=_has_result,
        check_leg=_input_place,
    ),
    Rule(
        id="input-form",
        title="What asks for input has questions or a state; a question is a method with params.",
        source="MCP 2026-07-28, client",
        advice="Write each entry of inputRequests as {method, params}, without jsonrpc and id.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=all_of(is_modern, _has_result),
        schema=r"\S+ result\.inputRequests(\.\w+|\[\".*\"\])?(\.method|\.params)?:\w+",
        check_leg=_input_form,
    ),
    Rule(
        id="input-declared",
        title="A client is asked only what this very request declared that it can answer.",
        source="MCP 2026-07-28, client",
        advice="Look at clientCapabilities, also at the kind of elicitation; else answer -32021.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=all_of(is_modern, _has_result),
        check_leg=_input_declared,
    ),
    Rule(
        id="request-state",
        title="A requestState is sent back as it came, and none where none came.",
        source="MCP 2026-07-28, client",
        advice="Repeat it byte for byte. The recording may also begin too late.",
        severity=Severity.WARNING,
        needs=Depth.FULL,
        applies_to=all_of(is_modern, requests_of("tools/call", "prompts/get", "resources/read")),
        check_conversation=_request_state,
    ),
    Rule(
        id="log-unasked",
        title="A request without a log level gets no log messages.",
        source="MCP 2026-07-28, server/utilities/logging",
        advice="Send notifications/message only where _meta asks for them.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=all_of(is_modern, has_message_of("notifications/message")),
        check_leg=_unrequested_logs,
    ),
    Rule(
        id="listen-acknowledged",
        title="A stream of changes begins with what it will tell.",
        source="MCP 2026-07-28, basic/utilities/subscriptions",
        advice="Send notifications/subscriptions/acknowledged before anything else.",
        severity=Severity.ERROR,
        needs=Depth.SHAPE,
        applies_to=requests_of(_LISTEN),
        check_leg=_listen_acknowledged,
    ),
    Rule(
        id="subscription-id",
        title="What comes on a stream of changes has the id of the request that opened it.",
        source="MCP 2026-07-28, basic/utilities/subscriptions",
        advice="Put the id, in its JSON type, into _meta of every notification.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=requests_of(_LISTEN),
        check_leg=_subscription_id,
    ),
    Rule(
        id="slow-discovery",
        title="server/discover is answered at once.",
        source="MCP 2026-07-28, server/discover",
        advice="Answer from what is configured; do not wait for anything to start.",
        severity=Severity.NOTE,
        needs=Depth.NOTED,
        applies_to=_is_discovery,
        check_leg=_slow_discovery,
    ),
)

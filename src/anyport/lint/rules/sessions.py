"""Rules about related messages: progress, cancellation, handshake, capabilities."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from anyport.lint.model import (
    Depth,
    Faults,
    Frame,
    Leg,
    LintFault,
    Rule,
    Severity,
    always,
    has_message_of,
    is_legacy,
)
from anyport.protocol import meta
from anyport.protocol.meta import PROGRESS
from anyport.protocol.methods import QUESTION_CAPABILITIES

_CANCELLED: Final = "notifications/cancelled"
_INITIALIZED: Final = "notifications/initialized"
_BEFORE_HANDSHAKE: Final = frozenset({"initialize", "ping", "server/discover"})

_CAPABILITY_OF: Final[Mapping[str, str]] = {
    "tools/list": "tools",
    "tools/call": "tools",
    "resources/list": "resources",
    "resources/read": "resources",
    "resources/templates/list": "resources",
    "resources/subscribe": "resources",
    "prompts/list": "prompts",
    "prompts/get": "prompts",
    "logging/setLevel": "logging",
    "completion/complete": "completions",
}
"""The capability that a server declares for a method."""


def _progress_frames(leg: Leg) -> list[Frame]:
    return [frame for frame in leg.between if frame.method == PROGRESS]


def _progress_rises(leg: Leg) -> Faults:
    reached: dict[bytes, float] = {}
    for frame in _progress_frames(leg):
        value = frame.fields.get("progress")
        token = msgspec.json.encode(frame.fields.get(meta.PROGRESS_TOKEN))
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if value <= reached.get(token, float("-inf")):
            message = f"progress is {value:g} after {reached[token]:g}"
            yield LintFault(leg=leg, frame=frame, message=message)
        reached[token] = value


def _progress_token(leg: Leg) -> Faults:
    # Progress of an open request is part of its leg; a lone frame belongs to no open request.
    for frame in _progress_frames(leg) if leg.request is None else ():
        if leg.depth is not Depth.FRAMES and frame.text is None:
            continue  # Of a client, which reports on what a server asks it: the record has no ids.
        token = frame.fields.get(meta.PROGRESS_TOKEN)
        token_text = (
            "its token" if token is None else f"the token {msgspec.json.encode(token).decode()}"
        )
        yield LintFault(leg=leg, frame=frame, message=f"no open request has {token_text}")


def _cancelled_handshake(legs: Sequence[Leg]) -> Faults:
    initialize_ids = {
        msgspec.json.encode(leg.request.envelope.get("id"))
        for leg in legs
        if leg.method == "initialize" and leg.request and isinstance(leg.request.envelope, dict)
    }
    for leg in legs:
        for frame in leg.between:
            request_id = msgspec.json.encode(frame.fields.get("requestId"))
            if frame.method == _CANCELLED and request_id in initialize_ids:
                yield LintFault(leg=leg, frame=frame, message="it cancels initialize")


def _handshake_first(legs: Sequence[Leg]) -> Faults:
    initialize_answer = next((leg.answer for leg in legs if leg.method == "initialize"), None)
    if initialize_answer is None:
        return
    for leg in legs:
        is_early = leg.request is not None and leg.request.at < initialize_answer.at
        if is_early and leg.method not in _BEFORE_HANDSHAKE and not leg.modern:
            message = f"{leg.method} came before the answer to initialize"
            yield LintFault(leg=leg, frame=leg.request, message=message)


def _initialized(legs: Sequence[Leg]) -> Faults:
    initialize_leg = next(
        (leg for leg in legs if leg.method == "initialize" and leg.succeeded), None
    )
    if initialize_leg is None:
        return
    initialized_at = [
        frame.at
        for leg in legs
        for frame in leg.between
        if frame.method in (_INITIALIZED, "initialized")
    ]
    requests_at = [
        leg.request.at
        for leg in legs
        if leg.request is not None
        and leg.request.kind == "request"
        and leg.method not in _BEFORE_HANDSHAKE
    ]
    if requests_at and (not initialized_at or min(initialized_at) > min(requests_at)):
        message = f"it comes {'too late' if initialized_at else 'not at all'}"
        yield LintFault(
            leg=initialize_leg, frame=initialize_leg.answer, message=f"{_INITIALIZED}: {message}"
        )


def _question_declared(legs: Sequence[Leg]) -> Faults:
    declared: Mapping[str, Any] | None = None
    for leg in legs:
        if leg.method == "initialize":
            found = leg.params.get("capabilities")
            declared = found if isinstance(found, dict) else {}
        for frame in leg.frames if declared is not None else ():
            needed = QUESTION_CAPABILITIES.get(frame.method or "")
            if frame.kind == "server-request" and needed and needed not in (declared or {}):
                message = f"{frame.method} needs {needed}, which the client did not declare"
                yield LintFault(leg=leg, frame=frame, message=message)


def _offer_declared(legs: Sequence[Leg]) -> Faults:
    declared: Mapping[str, Any] | None = None
    for leg in legs:
        if leg.method == "initialize":
            found = leg.result.get("capabilities")
            declared = found if isinstance(found, dict) else None
        needed = _CAPABILITY_OF.get(leg.method or "")
        if declared is None or needed is None or needed in declared:
            continue
        if needed == "completions" and leg.revision and not leg.revision.completions_capability:
            continue
        message = f"{leg.method} needs {needed}, which the server did not declare"
        yield LintFault(leg=leg, frame=leg.request, message=message)


RULES: Final = (
    Rule(
        id="progress-number",
        title="Progress is a number, and so is its total.",
        source="MCP, basic/utilities/progress",
        advice="Send how far it is as a number, and words for people in message.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=has_message_of(PROGRESS),
        schema=r"notifications/progress params(\.progress|\.total)?:\w+",
    ),
    Rule(
        id="progress-rises",
        title="Progress increases with every notification.",
        source="MCP, basic/utilities/progress",
        advice="Count on from what was said before, also where the total is not known.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=has_message_of(PROGRESS),
        check_leg=_progress_rises,
    ),
    Rule(
        id="progress-token",
        title="Progress refers to an open request, by the token that it gave.",
        source="MCP, basic/utilities/progress",
        advice="Take progressToken from the request's _meta, and stop when it is answered.",
        severity=Severity.WARNING,
        needs=Depth.NOTED,
        applies_to=has_message_of(PROGRESS),
        check_leg=_progress_token,
    ),
    Rule(
        id="cancelled-request",
        title="A cancellation names the request that it cancels.",
        source="MCP, basic/utilities/cancellation",
        advice="Add requestId, in the JSON type of the id.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=has_message_of(_CANCELLED),
        schema=r"notifications/cancelled params(\.requestId)?:\w+",
    ),
    Rule(
        id="cancelled-handshake",
        title="The handshake is not cancelled.",
        source="MCP, basic/utilities/cancellation",
        advice="Close the connection instead.",
        severity=Severity.ERROR,
        needs=Depth.FRAMES,
        applies_to=always,
        check_conversation=_cancelled_handshake,
    ),
    Rule(
        id="handshake-first",
        title="Nothing but a ping is asked before initialize is answered.",
        source="MCP, basic/lifecycle",
        advice="Wait for its answer.",
        severity=Severity.WARNING,
        needs=Depth.FRAMES,
        applies_to=always,
        check_conversation=_handshake_first,
    ),
    Rule(
        id="initialized",
        title="After the handshake a client says notifications/initialized, then asks.",
        source="MCP, basic/lifecycle",
        advice="Send it right after the answer to initialize: some servers refuse all before it.",
        severity=Severity.ERROR,
        needs=Depth.FRAMES,
        applies_to=always,
        check_conversation=_initialized,
    ),
    Rule(
        id="question-declared",
        title="A client is asked only what it declared in the handshake.",
        source="MCP, client",
        advice="Look at the client's capabilities, and do without where it has none.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=is_legacy,
        check_conversation=_question_declared,
    ),
    Rule(
        id="offer-declared",
        title="A server is asked only for what it declared in the handshake.",
        source="MCP, basic/lifecycle",
        advice="Look at the server's capabilities first.",
        severity=Severity.WARNING,
        needs=Depth.FULL,
        applies_to=is_legacy,
        check_conversation=_offer_declared,
    ),
)

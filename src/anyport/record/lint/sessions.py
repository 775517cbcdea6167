"""Rules about what belongs together: progress, cancellation, the handshake, what was declared."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from anyport.protocol import meta
from anyport.protocol.method import QUESTIONS
from anyport.protocol.progress import PROGRESS
from anyport.record.lint.model import (
    Depth,
    Fault,
    Faults,
    Frame,
    Leg,
    Rule,
    Severity,
    always,
    hears,
    legacy,
)

_CANCELLED: Final = "notifications/cancelled"
_INITIALIZED: Final = "notifications/initialized"
_BEFORE_HANDSHAKE: Final = frozenset({"initialize", "ping", "server/discover"})

_OFFERED_BY: Final[Mapping[str, str]] = {
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
"""What a server declares if it has a method."""


def _reports(leg: Leg) -> list[Frame]:
    return [frame for frame in leg.between if frame.method == PROGRESS]


def _number(leg: Leg) -> Faults:
    for frame in _reports(leg):
        for member in ("progress", "total"):
            value = frame.fields.get(member, 0 if member == "total" else None)
            if type(value) not in (int, float):
                shown = "missing" if value is None else msgspec.json.encode(value).decode()
                yield Fault(leg=leg, frame=frame, words=f"{member} is {shown}")


def _rises(leg: Leg) -> Faults:
    reached: dict[bytes, float] = {}
    for frame in _reports(leg):
        value = frame.fields.get("progress")
        token = msgspec.json.encode(frame.fields.get(meta.PROGRESS_TOKEN))
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if value <= reached.get(token, float("-inf")):
            words = f"progress is {value:g} after {reached[token]:g}"
            yield Fault(leg=leg, frame=frame, words=words)
        reached[token] = value


def _token(leg: Leg) -> Faults:
    # What belongs to an open request was joined to it, when it came or when the file was read.
    for frame in _reports(leg) if leg.request is None else ():
        if leg.depth is not Depth.FRAMES and frame.text is None:
            continue  # Of a client, which reports on what a server asks it: the record has no ids.
        token = frame.fields.get(meta.PROGRESS_TOKEN)
        told = "its token" if token is None else f"the token {msgspec.json.encode(token).decode()}"
        yield Fault(leg=leg, frame=frame, words=f"no open request has {told}")


def _cancelled(leg: Leg) -> Faults:
    for frame in leg.between:
        if frame.method == _CANCELLED and not isinstance(frame.fields.get("requestId"), str | int):
            yield Fault(leg=leg, frame=frame, words="it has no requestId")


def _cancelled_handshake(legs: Sequence[Leg]) -> Faults:
    greetings = {
        msgspec.json.encode(leg.request.envelope.get("id"))
        for leg in legs
        if leg.method == "initialize" and leg.request and isinstance(leg.request.envelope, dict)
    }
    for leg in legs:
        for frame in leg.between:
            named = msgspec.json.encode(frame.fields.get("requestId"))
            if frame.method == _CANCELLED and named in greetings:
                yield Fault(leg=leg, frame=frame, words="it cancels initialize")


def _handshake_first(legs: Sequence[Leg]) -> Faults:
    greeted = next((leg.answer for leg in legs if leg.method == "initialize"), None)
    if greeted is None:
        return
    for leg in legs:
        early = leg.request is not None and leg.request.at < greeted.at
        if early and leg.method not in _BEFORE_HANDSHAKE and not leg.modern:
            words = f"{leg.method} came before the answer to initialize"
            yield Fault(leg=leg, frame=leg.request, words=words)


def _initialized(legs: Sequence[Leg]) -> Faults:
    greeting = next((leg for leg in legs if leg.method == "initialize" and leg.succeeded), None)
    if greeting is None:
        return
    said = [
        frame.at
        for leg in legs
        for frame in leg.between
        if frame.method in (_INITIALIZED, "initialized")
    ]
    asked = [
        leg.request.at
        for leg in legs
        if leg.request is not None
        and leg.request.kind == "request"
        and leg.method not in _BEFORE_HANDSHAKE
    ]
    if asked and (not said or min(said) > min(asked)):
        words = f"it comes {'too late' if said else 'not at all'}"
        yield Fault(leg=greeting, frame=greeting.answer, words=f"{_INITIALIZED}: {words}")


def _question_declared(legs: Sequence[Leg]) -> Faults:
    declared: Mapping[str, Any] | None = None
    for leg in legs:
        if leg.method == "initialize":
            found = leg.params.get("capabilities")
            declared = found if isinstance(found, dict) else {}
        for frame in leg.frames if declared is not None else ():
            needed = QUESTIONS.get(frame.method or "")
            if frame.kind == "server-request" and needed and needed not in (declared or {}):
                words = f"{frame.method} needs {needed}, which the client did not declare"
                yield Fault(leg=leg, frame=frame, words=words)


def _offer_declared(legs: Sequence[Leg]) -> Faults:
    declared: Mapping[str, Any] | None = None
    for leg in legs:
        if leg.method == "initialize":
            found = leg.result.get("capabilities")
            declared = found if isinstance(found, dict) else None
        needed = _OFFERED_BY.get(leg.method or "")
        if declared is None or needed is None or needed in declared:
            continue
        if needed == "completions" and leg.revision and not leg.revision.completions_capability:
            continue
        words = f"{leg.method} needs {needed}, which the server did not declare"
        yield Fault(leg=leg, frame=leg.request, words=words)


def _must_name(leg: Leg) -> bool:
    # Where tasks are cancelled in a way of their own, a session's notification may lack it.
    if not hears(_CANCELLED)(leg):
        return False
    return leg.revision is None or not leg.revision.tasks


RULES: Final = (
    Rule(
        id="progress-number",
        title="Progress is a number, and so is its total.",
        source="MCP, basic/utilities/progress",
        advice="Send how far it is as a number, and words for people in message.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=hears(PROGRESS),
        leg=_number,
    ),
    Rule(
        id="progress-rises",
        title="Progress increases with every notification.",
        source="MCP, basic/utilities/progress",
        advice="Count on from what was said before, also where the total is not known.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=hears(PROGRESS),
        leg=_rises,
    ),
    Rule(
        id="progress-token",
        title="Progress is told only of open requests that gave a token, with that token.",
        source="MCP, basic/utilities/progress",
        advice="Take progressToken from the request's _meta, and stop when it is answered.",
        severity=Severity.WARNING,
        needs=Depth.NOTED,
        about=hears(PROGRESS),
        leg=_token,
    ),
    Rule(
        id="cancelled-request",
        title="A cancellation names the request that it cancels.",
        source="MCP, basic/utilities/cancellation",
        advice="Add requestId, in the JSON type of the id.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=_must_name,
        leg=_cancelled,
    ),
    Rule(
        id="cancelled-handshake",
        title="The handshake is not cancelled.",
        source="MCP, basic/utilities/cancellation",
        advice="Close the connection instead.",
        severity=Severity.ERROR,
        needs=Depth.FRAMES,
        about=always,
        conversation=_cancelled_handshake,
    ),
    Rule(
        id="handshake-first",
        title="Nothing but a ping is asked before initialize is answered.",
        source="MCP, basic/lifecycle",
        advice="Wait for its answer.",
        severity=Severity.WARNING,
        needs=Depth.FRAMES,
        about=always,
        conversation=_handshake_first,
    ),
    Rule(
        id="initialized",
        title="After the handshake a client says notifications/initialized, then asks.",
        source="MCP, basic/lifecycle",
        advice="Send it right after the answer to initialize: some servers refuse all before it.",
        severity=Severity.ERROR,
        needs=Depth.FRAMES,
        about=always,
        conversation=_initialized,
    ),
    Rule(
        id="question-declared",
        title="A client is asked only what it declared in the handshake.",
        source="MCP, client",
        advice="Look at the client's capabilities, and do without where it has none.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=legacy,
        conversation=_question_declared,
    ),
    Rule(
        id="offer-declared",
        title="A server is asked only for what it declared in the handshake.",
        source="MCP, basic/lifecycle",
        advice="Look at the server's capabilities first.",
        severity=Severity.WARNING,
        needs=Depth.FULL,
        about=legacy,
        conversation=_offer_declared,
    ),
)

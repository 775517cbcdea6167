"""Rules of JSON-RPC 2.0, as MCP uses it."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from anyport.lint.model import (
    ABSENT,
    Depth,
    Faults,
    Frame,
    Leg,
    LintFault,
    Rule,
    Severity,
    always,
    as_list,
)

_ANSWERS: Final = frozenset({"response", "client-response"})
_REQUESTS: Final = frozenset({"request", "server-request"})
_NOTIFICATIONS: Final = frozenset({"client-notification", "server-notification"})


def _envelopes(leg: Leg) -> Iterator[tuple[Frame, dict[str, Any]]]:
    for frame in leg.frames:
        if isinstance(frame.envelope, dict):
            yield frame, frame.envelope


def _not_a_message(leg: Leg) -> Faults:
    for frame in leg.between:
        if frame.kind == "not-json-rpc":
            message = frame.text or "it has neither a method nor a result nor an error"
            yield LintFault(leg=leg, frame=frame, message=message)


def _version(leg: Leg) -> Faults:
    for frame, message in _envelopes(leg):
        if message.get("jsonrpc") != "2.0":
            found = "is missing" if "jsonrpc" not in message else f"is {_json(message['jsonrpc'])}"
            yield LintFault(leg=leg, frame=frame, message=f"jsonrpc {found}")


def _id_type(leg: Leg) -> Faults:
    for frame, message in _envelopes(leg):
        if "id" not in message or type(message["id"]) in (str, int):
            continue
        # The error for an unreadable message has the id null.
        if not (message["id"] is None and "error" in message):
            yield LintFault(leg=leg, frame=frame, message=f"the id is {_json(message['id'])}")


def _id_reuse(legs: Sequence[Leg]) -> Faults:
    used: dict[bytes, Leg] = {}
    for leg in legs:
        request = leg.request
        if request is None or not isinstance(request.envelope, dict):
            continue
        key = request.kind.encode() + msgspec.json.encode(request.envelope.get("id"))
        before = used.get(key)
        if before is not None and (not leg.modern or _is_open(before, request)):
            message = f"the id {_json(request.envelope.get('id'))} is that of {before.id}, too"
            yield LintFault(leg=leg, frame=request, message=message)
        used[key] = leg


def _is_open(leg: Leg, later: Frame) -> bool:
    return leg.answer is None or leg.answer.at > later.at


def _result_or_error(leg: Leg) -> Faults:
    for frame, message in _envelopes(leg):
        if "result" in message and "error" in message:
            yield LintFault(leg=leg, frame=frame, message="it has a result and an error")
        elif "method" in message and ("result" in message or "error" in message):
            yield LintFault(leg=leg, frame=frame, message="it has a method and an answer")


def _stray_answer(leg: Leg) -> Faults:
    # In the record, a client's answer to a request of the server is such a lone frame.
    answer_kinds = _ANSWERS if leg.depth is Depth.FRAMES else {"response"}
    for frame in leg.between if leg.request is None else ():
        if frame.kind in answer_kinds:
            id = frame.envelope.get("id") if isinstance(frame.envelope, dict) else None
            message = "nothing that was asked has its id"
            yield LintFault(
                leg=leg, frame=frame, message=message if id is None else f"{message}, {_json(id)}"
            )


def _answer_to_notification(legs: Sequence[Leg]) -> Faults:
    before: Frame | None = None
    for leg, frame in _frames_in_order(legs):
        if frame.kind in _ANSWERS and before is not None and before.kind in _NOTIFICATIONS:
            id = frame.envelope.get("id") if isinstance(frame.envelope, dict) else None
            if id is None and before.from_server != frame.from_server:
                message = f"{before.method} was a notification, and got an answer"
                yield LintFault(leg=leg, frame=frame, message=message)
        before = frame


def _unanswered_request(legs: Sequence[Leg]) -> Faults:
    cancelled = {
        msgspec.json.encode(frame.fields.get("requestId"))
        for leg in legs
        for frame in leg.frames
        if frame.method == "notifications/cancelled"
    }
    for leg in legs:
        request = leg.request
        if request is None or leg.answer is not None or leg.method == "subscriptions/listen":
            continue
        message = request.envelope if isinstance(request.envelope, dict) else {}
        if msgspec.json.encode(message.get("id")) not in cancelled:
            yield LintFault(
                leg=leg, frame=request, message="no answer follows, nor is it cancelled"
            )


def _batch(leg: Leg) -> Faults:
    for frame in leg.between:
        if frame.kind == "batch" and not (leg.revision is not None and leg.revision.batches):
            revision_text = (
                "no revision" if leg.revision is None else f"revision {leg.revision.name}"
            )
            message = f"{len(as_list(frame.envelope))} messages in one, in {revision_text}"
            yield LintFault(leg=leg, frame=frame, message=message)


def _initialize_in_batch(leg: Leg) -> Faults:
    for frame in leg.between:
        if frame.kind == "batch" and any(
            isinstance(each, dict) and each.get("method") == "initialize"
            for each in as_list(frame.envelope)
        ):
            yield LintFault(leg=leg, frame=frame, message="initialize is in a batch")


def _unstructured_params(leg: Leg) -> Faults:
    for frame, message in _envelopes(leg):
        if "params" in message and not isinstance(message["params"], dict | list):
            yield LintFault(leg=leg, frame=frame, message=f"params is {_json(message['params'])}")


def _positional_params(leg: Leg) -> Faults:
    for frame in leg.frames:
        if frame.kind not in _ANSWERS and isinstance(frame.payload, list):
            yield LintFault(leg=leg, frame=frame, message="params is an array")


def _notification_with_id(leg: Leg) -> Faults:
    for frame in leg.frames:
        if frame.kind in _REQUESTS and (frame.method or "").startswith("notifications/"):
            yield LintFault(leg=leg, frame=frame, message=f"{frame.method} came as a request")


def _method_text(leg: Leg) -> Faults:
    for frame, message in _envelopes(leg):
        if "method" in message and not isinstance(message["method"], str):
            yield LintFault(leg=leg, frame=frame, message=f"method is {_json(message['method'])}")


def _frames_in_order(legs: Sequence[Leg]) -> list[tuple[Leg, Frame]]:
    """All frames of a conversation, in the order of the file."""
    frames = [(leg, frame) for leg in legs for frame in leg.frames]
    return sorted(frames, key=lambda pair: pair[1].at)


def _json(value: Any) -> str:
    return "absent" if value is ABSENT else msgspec.json.encode(value).decode()


def _has_params(leg: Leg) -> bool:
    return any(frame.kind not in _ANSWERS for frame in leg.frames)


def _is_lone_frame(leg: Leg) -> bool:
    return leg.request is None


RULES: Final = (
    Rule(
        id="not-json-rpc",
        title="Nothing but JSON-RPC messages is written where messages go.",
        source="MCP, basic/transports",
        advice="Write logs to stderr; a library that prints must be silenced or redirected.",
        severity=Severity.ERROR,
        needs=Depth.NOTED,
        applies_to=_is_lone_frame,
        check_leg=_not_a_message,
    ),
    Rule(
        id="jsonrpc-version",
        title='Every message has "jsonrpc": "2.0", a string.',
        source="JSON-RPC 2.0, 4 and 5",
        advice='Add "jsonrpc": "2.0" to every message.',
        severity=Severity.ERROR,
        needs=Depth.FRAMES,
        applies_to=always,
        check_leg=_version,
    ),
    Rule(
        id="id-type",
        title="An id is a string or an integer; never null, never a fraction.",
        source="JSON-RPC 2.0, 4; MCP, basic",
        advice="Count requests with integers, or name them with strings.",
        severity=Severity.ERROR,
        needs=Depth.FRAMES,
        applies_to=always,
        check_leg=_id_type,
    ),
    Rule(
        id="id-reuse",
        title="An id is used once in a session; without one, once among the open requests.",
        source="MCP, basic",
        advice="Take a new id for every request.",
        severity=Severity.ERROR,
        needs=Depth.FRAMES,
        applies_to=always,
        check_conversation=_id_reuse,
    ),
    Rule(
        id="method-text",
        title="A method is a string.",
        source="JSON-RPC 2.0, 4",
        advice="Write the method's name in quotes.",
        severity=Severity.ERROR,
        needs=Depth.FRAMES,
        applies_to=always,
        check_leg=_method_text,
    ),
    Rule(
        id="result-or-error",
        title="An answer has a result or an error, never both, and no method.",
        source="JSON-RPC 2.0, 5",
        advice="Leave the other member out; null is not absent.",
        severity=Severity.ERROR,
        needs=Depth.FRAMES,
        applies_to=always,
        check_leg=_result_or_error,
    ),
    Rule(
        id="stray-answer",
        title="An answer has the id of a request, in the same JSON type.",
        source="JSON-RPC 2.0, 5",
        advice='Repeat the id as it came: 1 and "1" are two ids. Answer each request once.',
        severity=Severity.ERROR,
        needs=Depth.NOTED,
        applies_to=_is_lone_frame,
        check_leg=_stray_answer,
    ),
    Rule(
        id="answer-to-notification",
        title="A notification is never answered, not even with an error.",
        source="JSON-RPC 2.0, 4.1",
        advice="Ignore notifications that you do not know.",
        severity=Severity.ERROR,
        needs=Depth.FRAMES,
        applies_to=always,
        check_conversation=_answer_to_notification,
    ),
    Rule(
        id="notification-with-id",
        title="A notification has no id.",
        source="JSON-RPC 2.0, 4.1",
        advice="Leave the id out: with one, the other side must answer.",
        severity=Severity.ERROR,
        needs=Depth.NOTED,
        applies_to=always,
        check_leg=_notification_with_id,
    ),
    Rule(
        id="unanswered",
        title="Every request is answered, unless it was cancelled.",
        source="JSON-RPC 2.0, 5",
        advice="Answer with an error rather than not at all. The recording may also end too early.",
        severity=Severity.WARNING,
        needs=Depth.FRAMES,
        applies_to=always,
        check_conversation=_unanswered_request,
    ),
    Rule(
        id="batch",
        title="Only revision 2025-03-26 has batches.",
        source="MCP, basic",
        advice="Send each message by itself.",
        severity=Severity.ERROR,
        needs=Depth.FRAMES,
        applies_to=_is_lone_frame,
        check_leg=_batch,
    ),
    Rule(
        id="initialize-in-batch",
        title="The handshake is not part of a batch.",
        source="MCP 2025-03-26, basic/lifecycle",
        advice="Send initialize by itself, and wait for its answer.",
        severity=Severity.ERROR,
        needs=Depth.FRAMES,
        applies_to=_is_lone_frame,
        check_leg=_initialize_in_batch,
    ),
    Rule(
        id="params-structured",
        title="Params are an object, or are left out.",
        source="JSON-RPC 2.0, 4.2",
        advice="Leave params out where there are none; null and texts are not allowed.",
        severity=Severity.ERROR,
        needs=Depth.FRAMES,
        applies_to=always,
        check_leg=_unstructured_params,
    ),
    Rule(
        id="positional-params",
        title="Params go by name: every method of MCP takes an object.",
        source="MCP, schema",
        advice="Send an object with named members in place of the array.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=_has_params,
        check_leg=_positional_params,
    ),
)

"""Rules about methods: which end may send them, and in which revision."""

from typing import Final

from anyport.lint.model import (
    CLIENT,
    SERVER,
    Depth,
    Faults,
    Frame,
    Leg,
    LintFault,
    Rule,
    Severity,
    always,
    is_modern,
)
from anyport.lint.vocabulary import (
    MISNAMED_METHODS,
    can_request,
    is_known_method,
    is_notification,
    revisions_with,
    senders,
)

_REQUEST_KINDS: Final = frozenset({"request", "server-request"})
_NOTIFICATION_KINDS: Final = frozenset({"client-notification", "server-notification"})


def _frames_with_method(leg: Leg) -> list[tuple[Frame, str]]:
    """Requests and notifications; answers have no method of their own."""
    return [
        (frame, frame.method)
        for frame in leg.frames
        if frame.method is not None and frame.kind in _REQUEST_KINDS | _NOTIFICATION_KINDS
    ]


def _reserved_name(leg: Leg) -> Faults:
    for frame, method in _frames_with_method(leg):
        if method.startswith("rpc."):
            yield LintFault(leg=leg, frame=frame, message=f"{method} begins with rpc.")


def _misnamed_method(leg: Leg) -> Faults:
    for frame, method in _frames_with_method(leg):
        if method in MISNAMED_METHODS:
            yield LintFault(
                leg=leg, frame=frame, message=f"{method} is called {MISNAMED_METHODS[method]}"
            )


def _unknown_method(leg: Leg) -> Faults:
    for frame, method in _frames_with_method(leg):
        if not (is_known_method(method) or method in MISNAMED_METHODS or method.startswith("rpc.")):
            yield LintFault(leg=leg, frame=frame, message=f"no revision of MCP has {method}")


def _method_of_other_revision(leg: Leg) -> Faults:
    revision = leg.revision
    for frame, method in _frames_with_method(leg):
        if revision is None or not is_known_method(method) or is_notification(method):
            continue
        if can_request(method, CLIENT, revision) or can_request(method, SERVER, revision):
            continue
        # Clients detect the era by probing for the other one; that is not a mistake.
        if method not in ("initialize", "server/discover"):
            revisions = ", ".join(revisions_with(method))
            message = f"{method} is a method of {revisions}, not of {revision.name}"
            yield LintFault(leg=leg, frame=frame, message=message)


def _notification_of_other_revision(leg: Leg) -> Faults:
    revision = leg.revision
    for frame, method in _frames_with_method(leg):
        if revision is None or not is_notification(method) or senders(method, revision):
            continue
        revisions = ", ".join(revisions_with(method))
        message = f"{method} is a notification of {revisions}, not of {revision.name}"
        yield LintFault(leg=leg, frame=frame, message=message)


def _wrong_sender(leg: Leg) -> Faults:
    revision = leg.revision
    for frame, method in _frames_with_method(leg) if revision is not None else ():
        assert revision is not None
        sender, other = (SERVER, CLIENT) if frame.from_server else (CLIENT, SERVER)
        if frame.kind in _NOTIFICATION_KINDS:
            allowed = senders(method, revision)
            wrong = bool(allowed) and sender not in allowed
        else:
            wrong = can_request(method, other, revision) and not can_request(
                method, sender, revision
            )
        if wrong and not (leg.modern and frame.kind == "server-request"):
            yield LintFault(leg=leg, frame=frame, message=f"{method} was sent by the {sender}")


def _server_request(leg: Leg) -> Faults:
    for frame in leg.between:
        if frame.kind == "server-request":
            yield LintFault(leg=leg, frame=frame, message=f"{frame.method} came as a request")


RULES: Final = (
    Rule(
        id="reserved-name",
        title="Method names that begin with rpc. belong to JSON-RPC itself.",
        source="JSON-RPC 2.0, 4.3",
        advice="Choose another name.",
        severity=Severity.ERROR,
        needs=Depth.NOTED,
        applies_to=always,
        check_leg=_reserved_name,
    ),
    Rule(
        id="not-an-mcp-name",
        title="Methods are called what MCP calls them.",
        source="MCP, schema",
        advice="Use the name of the specification; the other side ignores or refuses this one.",
        severity=Severity.ERROR,
        needs=Depth.NOTED,
        applies_to=always,
        check_leg=_misnamed_method,
    ),
    Rule(
        id="unknown-method",
        title="A method is one of MCP, or of an extension that both sides have declared.",
        source="MCP, schema",
        advice="Declare the extension under capabilities, or offer the function as a tool.",
        severity=Severity.WARNING,
        needs=Depth.NOTED,
        applies_to=always,
        check_leg=_unknown_method,
    ),
    Rule(
        id="method-of-other-revision",
        title="A method is used only in revisions that have it.",
        source="MCP, schema of each revision",
        advice="Look at the revision that was agreed on before using the method.",
        severity=Severity.ERROR,
        needs=Depth.NOTED,
        applies_to=always,
        check_leg=_method_of_other_revision,
    ),
    Rule(
        id="notification-of-other-revision",
        title="A notification is used only in revisions that have it.",
        source="MCP, schema of each revision",
        advice="Look at the revision that was agreed on before sending it.",
        severity=Severity.WARNING,
        needs=Depth.SHAPE,
        applies_to=always,
        check_leg=_notification_of_other_revision,
    ),
    Rule(
        id="wrong-sender",
        title="What clients say, servers do not say, and the other way round.",
        source="MCP, schema",
        advice="Check which end of the conversation this code is for.",
        severity=Severity.ERROR,
        needs=Depth.SHAPE,
        applies_to=always,
        check_leg=_wrong_sender,
    ),
    Rule(
        id="server-asks",
        title="Without a session a server sends no requests; it answers with input_required.",
        source="MCP 2026-07-28, basic",
        advice="Return a result with resultType input_required and the question in inputRequests.",
        severity=Severity.ERROR,
        needs=Depth.SHAPE,
        applies_to=is_modern,
        check_leg=_server_request,
    ),
)

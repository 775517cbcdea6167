"""Rules about methods: who may say what, and in which revision."""

from typing import Final

from anyport.record.lint.model import (
    Depth,
    Fault,
    Faults,
    Frame,
    Leg,
    Rule,
    Severity,
    always,
    modern,
)
from anyport.record.lint.vocabulary import (
    CLIENT,
    NOT_MCP,
    NOTIFICATIONS,
    SERVER,
    is_known,
    may_ask,
    revisions_with,
    senders,
)

_CALLS: Final = frozenset({"request", "server-request"})
_NOTIFICATIONS: Final = frozenset({"client-notification", "server-notification"})


def _named(leg: Leg) -> list[tuple[Frame, str]]:
    """Frames that name a method themselves; answers only repeat one."""
    return [
        (frame, frame.method)
        for frame in leg.frames
        if frame.method is not None and frame.kind in _CALLS | _NOTIFICATIONS
    ]


def _reserved(leg: Leg) -> Faults:
    for frame, method in _named(leg):
        if method.startswith("rpc."):
            yield Fault(leg=leg, frame=frame, words=f"{method} begins with rpc.")


def _not_mcp(leg: Leg) -> Faults:
    for frame, method in _named(leg):
        if method in NOT_MCP:
            yield Fault(leg=leg, frame=frame, words=f"{method} is called {NOT_MCP[method]}")


def _unknown(leg: Leg) -> Faults:
    for frame, method in _named(leg):
        if not (is_known(method) or method in NOT_MCP or method.startswith("rpc.")):
            yield Fault(leg=leg, frame=frame, words=f"no revision of MCP has {method}")


def _of_other_revision(leg: Leg) -> Faults:
    revision = leg.revision
    for frame, method in _named(leg):
        if revision is None or not is_known(method) or method in NOTIFICATIONS:
            continue
        if may_ask(method, CLIENT, revision) or may_ask(method, SERVER, revision):
            continue
        # A probe for the other era is how eras are told apart, and not a mistake.
        if method not in ("initialize", "server/discover"):
            have = ", ".join(revisions_with(method))
            words = f"{method} is a method of {have}, not of {revision.name}"
            yield Fault(leg=leg, frame=frame, words=words)


def _notification_of_other_revision(leg: Leg) -> Faults:
    revision = leg.revision
    for frame, method in _named(leg):
        if revision is None or method not in NOTIFICATIONS or senders(method, revision):
            continue
        have = ", ".join(revisions_with(method))
        words = f"{method} is a notification of {have}, not of {revision.name}"
        yield Fault(leg=leg, frame=frame, words=words)


def _wrong_sender(leg: Leg) -> Faults:
    revision = leg.revision
    for frame, method in _named(leg) if revision is not None else ():
        assert revision is not None
        sender, other = (SERVER, CLIENT) if frame.from_server else (CLIENT, SERVER)
        if frame.kind in _NOTIFICATIONS:
            allowed = senders(method, revision)
            wrong = bool(allowed) and sender not in allowed
        else:
            wrong = may_ask(method, other, revision) and not may_ask(method, sender, revision)
        if wrong and not (leg.modern and frame.kind == "server-request"):
            yield Fault(leg=leg, frame=frame, words=f"{method} was sent by the {sender}")


def _asks_modern(leg: Leg) -> Faults:
    for frame in leg.between:
        if frame.kind == "server-request":
            yield Fault(leg=leg, frame=frame, words=f"{frame.method} came as a request")


RULES: Final = (
    Rule(
        id="reserved-name",
        title="Method names that begin with rpc. belong to JSON-RPC itself.",
        source="JSON-RPC 2.0, 4.3",
        advice="Choose another name.",
        severity=Severity.ERROR,
        needs=Depth.NOTED,
        about=always,
        leg=_reserved,
    ),
    Rule(
        id="not-an-mcp-name",
        title="Methods are called what MCP calls them.",
        source="MCP, schema",
        advice="Use the name of the specification; the other side ignores or refuses this one.",
        severity=Severity.ERROR,
        needs=Depth.NOTED,
        about=always,
        leg=_not_mcp,
    ),
    Rule(
        id="unknown-method",
        title="A method is one of MCP, or of an extension that both sides have declared.",
        source="MCP, schema",
        advice="Declare the extension under capabilities, or offer the function as a tool.",
        severity=Severity.WARNING,
        needs=Depth.NOTED,
        about=always,
        leg=_unknown,
    ),
    Rule(
        id="method-of-other-revision",
        title="A method is used only in revisions that have it.",
        source="MCP, schema of each revision",
        advice="Look at the revision that was agreed on before using the method.",
        severity=Severity.ERROR,
        needs=Depth.NOTED,
        about=always,
        leg=_of_other_revision,
    ),
    Rule(
        id="notification-of-other-revision",
        title="A notification is used only in revisions that have it.",
        source="MCP, schema of each revision",
        advice="Look at the revision that was agreed on before sending it.",
        severity=Severity.WARNING,
        needs=Depth.SHAPE,
        about=always,
        leg=_notification_of_other_revision,
    ),
    Rule(
        id="wrong-sender",
        title="What clients say, servers do not say, and the other way round.",
        source="MCP, schema",
        advice="Check which end of the conversation this code is for.",
        severity=Severity.ERROR,
        needs=Depth.SHAPE,
        about=always,
        leg=_wrong_sender,
    ),
    Rule(
        id="server-asks",
        title="Without a session a server sends no requests; it answers with input_required.",
        source="MCP 2026-07-28, basic",
        advice="Return a result with resultType input_required and the question in inputRequests.",
        severity=Severity.ERROR,
        needs=Depth.SHAPE,
        about=modern,
        leg=_asks_modern,
    ),
)

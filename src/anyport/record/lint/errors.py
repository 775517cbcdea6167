"""Rules about errors: their form, their codes, and what they tell."""

import re
from collections.abc import Iterator
from typing import Any, Final

from anyport.protocol.errors import (
    HEADER_MISMATCH,
    MISSING_CAPABILITY,
    UNSUPPORTED_REVISION,
    URL_REQUIRED,
)
from anyport.record.lint.model import (
    ABSENT,
    Depth,
    Fault,
    Faults,
    Frame,
    Leg,
    Rule,
    Severity,
    asking,
    both,
    failed,
    modern,
    objects,
)
from anyport.record.lint.vocabulary import CLIENT

MESSAGE_CHARS_LONG: Final = 300
"""More than a sentence."""

_JSON_RPC: Final = frozenset({-32700, -32600, -32601, -32602, -32603})
_RESERVED: Final = range(-32768, -32099)
"""Of JSON-RPC, but for the five that it defines; servers may use what lies above."""
_SPECIFICATION: Final = range(-32099, -32022)
"""Of MCP since 2026-07-28: not to be used until it says what for."""
_MODERN_CODES: Final = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_REVISION})
_NOT_FOUND: Final = -32002
_REPEATED: Final = "originalError"
"""The member of an error's data in which the gateway passes on the error of a server."""

_TRACE: Final = re.compile(
    r"Traceback \(most recent call last\)"
    r'|^[ \t]{0,16}File "[^"\n]{1,300}", line \d'
    r"|^[ \t]{0,16}at [^\n]{1,300}:\d{1,7}:\d{1,7}\)?[ \t]{0,16}$"
    r"|^[ \t]{0,16}at [\w.$<>]{1,200}\([\w.]{1,100}:\d"
    r"|^goroutine \d{1,9} \["
    r"|panicked at [^\n]{1,200}:\d",
    re.MULTILINE,
)
"""Of Python, JavaScript, Java, Go and Rust. Every part is bounded: texts come from strangers."""


def _object(leg: Leg) -> Faults:
    for frame in leg.frames:
        error = frame.error
        if error is ABSENT:
            continue
        if not isinstance(error, dict):
            yield Fault(leg=leg, frame=frame, words="the error is no object")
        elif type(error.get("code")) is not int:
            yield Fault(leg=leg, frame=frame, words="its code is no integer")
        elif not isinstance(error.get("message"), str):
            yield Fault(leg=leg, frame=frame, words="it has no message")


def _reserved(leg: Leg) -> Faults:
    code = leg.error_code
    if code is None or code in _JSON_RPC:
        return
    if code in _RESERVED:
        yield Fault(leg=leg, frame=leg.answer, words=f"{code} is reserved by JSON-RPC")
    elif leg.modern and code in _SPECIFICATION and code != URL_REQUIRED:
        yield Fault(leg=leg, frame=leg.answer, words=f"{code} is reserved by MCP")


def _of_other_revision(leg: Leg) -> Faults:
    code, revision = leg.error_code, leg.revision
    if revision is None or code is None:
        return
    if leg.modern and code == _NOT_FOUND:
        words = f"{code} means that a resource was not found in older revisions only"
        yield Fault(leg=leg, frame=leg.answer, words=words)
    elif code == URL_REQUIRED and not revision.url_errors:
        words = f"{code} is a code of 2025-11-25, not of {revision.name}"
        yield Fault(leg=leg, frame=leg.answer, words=words)
    elif leg.legacy and code in _MODERN_CODES and leg.method != "server/discover":
        words = f"{code} is a code of 2026-07-28, not of {revision.name}"
        yield Fault(leg=leg, frame=leg.answer, words=words)


def _message(leg: Leg) -> Faults:
    message = leg.error_message or ""
    if "\n" in message.strip() or len(message) > MESSAGE_CHARS_LONG:
        words = f"the message has {len(message)} characters in {message.count(chr(10)) + 1} lines"
        yield Fault(leg=leg, frame=leg.answer, words=words)


def _trace(leg: Leg) -> Faults:
    if _TRACE.search(leg.error_message or ""):
        yield Fault(leg=leg, frame=leg.answer, words="the message holds a stack trace")


def _trace_inside(leg: Leg) -> Faults:
    for frame in leg.frames:
        if any(_TRACE.search(text) for text in _told(leg, frame)):
            yield Fault(leg=leg, frame=frame, words="what it tells besides holds a stack trace")


def _told(leg: Leg, frame: Frame) -> Iterator[str]:
    """The texts of an error's data, and of a tool's report that it failed."""
    if isinstance(frame.error, dict):
        told = frame.error.get("data")
        if leg.side == CLIENT and isinstance(told, dict):
            # The gateway repeats the server's error there, which is judged where it was made.
            told = {key: value for key, value in told.items() if key != _REPEATED}
        yield from _texts(told)
    if frame.fields.get("isError") is True:
        for block in objects(frame.fields.get("content")):
            yield str(block.get("text", ""))


def _texts(value: Any) -> Iterator[str]:
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            pending += each.values()
        elif isinstance(each, list):
            # The lines of a trace are often told one by one.
            yield "\n".join(part for part in each if isinstance(part, str))
            pending += each


def _about_error(leg: Leg, code: int) -> dict[str, Any] | None:
    """The `data` of an error with this code; None if it was answered in another way."""
    if leg.answer is None or not isinstance(leg.answer.error, dict) or leg.error_code != code:
        return None
    told = leg.answer.error.get("data")
    return told if isinstance(told, dict) else {}


def _missing_capability(leg: Leg) -> Faults:
    told = _about_error(leg, MISSING_CAPABILITY)
    if told is None:
        return
    required = told.get("requiredCapabilities")
    if not isinstance(required, dict) or not required:
        words = "data.requiredCapabilities is no object that names them"
        yield Fault(leg=leg, frame=leg.answer, words=words)


def _unsupported(leg: Leg) -> Faults:
    told = _about_error(leg, UNSUPPORTED_REVISION)
    if told is None:
        return
    supported = told.get("supported")
    if not (isinstance(supported, list) and supported):
        yield Fault(leg=leg, frame=leg.answer, words="data.supported names no revision")
    if not isinstance(told.get("requested"), str):
        yield Fault(leg=leg, frame=leg.answer, words="data.requested does not repeat the revision")


def _headers(leg: Leg) -> Faults:
    if leg.error_code == HEADER_MISMATCH:
        told = leg.error_message or "its header fields contradict its body"
        yield Fault(leg=leg, frame=leg.request, words=told)


def _tool_failure(leg: Leg) -> Faults:
    code = leg.error_code
    if code is not None and (code == -32603 or -32019 <= code <= -32000):
        words = f"the call ended with {code}: {leg.error_message or 'no message'}"
        yield Fault(leg=leg, frame=leg.answer, words=words)


RULES: Final = (
    Rule(
        id="error-object",
        title="An error is an object with an integer code and a message.",
        source="JSON-RPC 2.0, 5.1",
        advice="Send both members; put everything else into data.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=failed,
        leg=_object,
    ),
    Rule(
        id="error-code-reserved",
        title="Codes that JSON-RPC or MCP reserve are used only for what they say.",
        source="JSON-RPC 2.0, 5.1; MCP 2026-07-28, basic",
        advice="Choose codes of your own outside of -32768 to -32000.",
        severity=Severity.ERROR,
        needs=Depth.NOTED,
        about=failed,
        leg=_reserved,
    ),
    Rule(
        id="error-code-of-other-revision",
        title="An error has a code of the revision that is spoken.",
        source="MCP, schema of each revision",
        advice="Since 2026-07-28 what is not found is -32602, and URLs are asked for in results.",
        severity=Severity.ERROR,
        needs=Depth.NOTED,
        about=failed,
        leg=_of_other_revision,
    ),
    Rule(
        id="error-message",
        title="The message of an error is one short sentence.",
        source="JSON-RPC 2.0, 5.1",
        advice="Say what went wrong in one line, and put the rest into data.",
        severity=Severity.NOTE,
        needs=Depth.NOTED,
        about=failed,
        leg=_message,
    ),
    Rule(
        id="stack-trace",
        title="The message of an error holds no stack trace.",
        source="MCP, server/tools, security",
        advice="Log the trace, and tell the caller in a sentence what went wrong.",
        severity=Severity.WARNING,
        needs=Depth.NOTED,
        about=failed,
        leg=_trace,
    ),
    Rule(
        id="stack-trace-inside",
        title="Nor does what is told besides: the data of an error, the report of a failed tool.",
        source="MCP, server/tools, security",
        advice="Paths and code are no business of a model, and cost it tokens: log them.",
        severity=Severity.WARNING,
        needs=Depth.FULL,
        about=lambda leg: leg.answer is not None,
        leg=_trace_inside,
    ),
    Rule(
        id="missing-capability-object",
        title="An error about missing capabilities names them, as an object.",
        source="MCP 2026-07-28, basic",
        advice='Send data: {"requiredCapabilities": {"sampling": {}}}, with what is missing.',
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=lambda leg: leg.error_code == MISSING_CAPABILITY,
        leg=_missing_capability,
    ),
    Rule(
        id="unsupported-revision",
        title="An error about a revision repeats it and names those that would do.",
        source="MCP 2026-07-28, basic/versioning",
        advice='Send data: {"requested": ..., "supported": [...]}.',
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=lambda leg: leg.error_code == UNSUPPORTED_REVISION,
        leg=_unsupported,
    ),
    Rule(
        id="header-mismatch",
        title="Mcp-Method, Mcp-Name, Mcp-Param-* and the version field repeat what the body says.",
        source="MCP 2026-07-28, basic/transports",
        advice="Make the fields from the body; encode names that are not plain ASCII in base64.",
        severity=Severity.ERROR,
        needs=Depth.NOTED,
        about=both(modern, failed),
        leg=_headers,
    ),
    Rule(
        id="tool-failure-as-error",
        title="A tool that fails says so in a result with isError, which the model sees.",
        source="MCP, server/tools",
        advice="Keep protocol errors for requests that could not be understood.",
        severity=Severity.NOTE,
        needs=Depth.NOTED,
        # What the gateway tells of a server that is down, no tool has done.
        about=both(asking("tools/call"), failed, lambda leg: leg.side == "server"),
        leg=_tool_failure,
    ),
)

"""Rules about errors: form, codes and content."""

import re
from collections.abc import Iterator
from typing import Any, Final

from anyport.lint.model import (
    CLIENT,
    Depth,
    Faults,
    Frame,
    Leg,
    LintFault,
    Rule,
    Severity,
    all_of,
    has_error,
    is_modern,
    objects_in,
    requests_of,
)
from anyport.protocol.errors import (
    HEADER_MISMATCH,
    MISSING_CAPABILITY,
    UNSUPPORTED_REVISION,
    URL_REQUIRED,
)

MESSAGE_CHARS_LONG: Final = 300
"""More than a sentence."""

_JSON_RPC_CODES: Final = frozenset({-32700, -32600, -32601, -32602, -32603})
_RESERVED_CODES: Final = range(-32768, -32099)
"""Reserved by JSON-RPC, except the five that it defines; servers may use the codes above."""
_MCP_CODES: Final = range(-32099, -32022)
"""Reserved by MCP for future use since 2026-07-28."""
_MODERN_CODES: Final = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_REVISION})
_NOT_FOUND: Final = -32002
_ORIGINAL_ERROR: Final = "originalError"
"""The member of an error's data that holds the error of the server."""

_STACK_TRACE: Final = re.compile(
    r"Traceback \(most recent call last\)"
    r'|^[ \t]{0,16}File "[^"\n]{1,300}", line \d'
    r"|^[ \t]{0,16}at [^\n]{1,300}:\d{1,7}:\d{1,7}\)?[ \t]{0,16}$"
    r"|^[ \t]{0,16}at [\w.$<>]{1,200}\([\w.]{1,100}:\d"
    r"|^goroutine \d{1,9} \["
    r"|panicked at [^\n]{1,200}:\d",
    re.MULTILINE,
)
"""Python, JavaScript, Java, Go and Rust. Every part is bounded, because the texts are untrusted."""


def _reserved_code(leg: Leg) -> Faults:
    code = leg.error_code
    if code is None or code in _JSON_RPC_CODES:
        return
    if code in _RESERVED_CODES:
        yield LintFault(leg=leg, frame=leg.answer, message=f"{code} is reserved by JSON-RPC")
    elif leg.modern and code in _MCP_CODES and code != URL_REQUIRED:
        yield LintFault(leg=leg, frame=leg.answer, message=f"{code} is reserved by MCP")


def _code_of_other_revision(leg: Leg) -> Faults:
    code, revision = leg.error_code, leg.revision
    if revision is None or code is None:
        return
    if leg.modern and code == _NOT_FOUND:
        message = f"{code} means that a resource was not found in older revisions only"
        yield LintFault(leg=leg, frame=leg.answer, message=message)
    elif code == URL_REQUIRED and not revision.url_errors:
        message = f"{code} is a code of 2025-11-25, not of {revision.name}"
        yield LintFault(leg=leg, frame=leg.answer, message=message)
    elif leg.legacy and code in _MODERN_CODES and leg.method != "server/discover":
        message = f"{code} is a code of 2026-07-28, not of {revision.name}"
        yield LintFault(leg=leg, frame=leg.answer, message=message)


def _message(leg: Leg) -> Faults:
    text = leg.error_message or ""
    if "\n" in text.strip() or len(text) > MESSAGE_CHARS_LONG:
        message = f"the message has {len(text)} characters in {text.count(chr(10)) + 1} lines"
        yield LintFault(leg=leg, frame=leg.answer, message=message)


def _stack_trace(leg: Leg) -> Faults:
    if _STACK_TRACE.search(leg.error_message or ""):
        yield LintFault(leg=leg, frame=leg.answer, message="the message holds a stack trace")


def _stack_trace_in_data(leg: Leg) -> Faults:
    for frame in leg.frames:
        if any(_STACK_TRACE.search(text) for text in _error_texts(leg, frame)):
            yield LintFault(
                leg=leg, frame=frame, message="its data or its content holds a stack trace"
            )


def _error_texts(leg: Leg, frame: Frame) -> Iterator[str]:
    """The texts in an error's data and in the result of a failed tool."""
    if isinstance(frame.error, dict):
        error_data = frame.error.get("data")
        if leg.side == CLIENT and isinstance(error_data, dict):
            # The gateway repeats the server's error there, which is checked on the server's side.
            error_data = {key: value for key, value in error_data.items() if key != _ORIGINAL_ERROR}
        yield from _texts_in(error_data)
    if frame.fields.get("isError") is True:
        for block in objects_in(frame.fields.get("content")):
            yield str(block.get("text", ""))


def _texts_in(value: Any) -> Iterator[str]:
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            pending += each.values()
        elif isinstance(each, list):
            # The lines of a trace are often strings of an array.
            yield "\n".join(part for part in each if isinstance(part, str))
            pending += each


def _error_data(leg: Leg, code: int) -> dict[str, Any] | None:
    """The `data` of an error with this code; None if there is no such error."""
    if leg.answer is None or not isinstance(leg.answer.error, dict) or leg.error_code != code:
        return None
    error_data = leg.answer.error.get("data")
    return error_data if isinstance(error_data, dict) else {}


def _missing_capability(leg: Leg) -> Faults:
    error_data = _error_data(leg, MISSING_CAPABILITY)
    if error_data is None:
        return
    required = error_data.get("requiredCapabilities")
    if not isinstance(required, dict) or not required:
        message = "data.requiredCapabilities is no object that names them"
        yield LintFault(leg=leg, frame=leg.answer, message=message)


def _unsupported_revision(leg: Leg) -> Faults:
    error_data = _error_data(leg, UNSUPPORTED_REVISION)
    if error_data is None:
        return
    supported = error_data.get("supported")
    if not (isinstance(supported, list) and supported):
        yield LintFault(leg=leg, frame=leg.answer, message="data.supported names no revision")
    if not isinstance(error_data.get("requested"), str):
        yield LintFault(
            leg=leg, frame=leg.answer, message="data.requested does not repeat the revision"
        )


def _headers(leg: Leg) -> Faults:
    if leg.error_code == HEADER_MISMATCH:
        message = leg.error_message or "its header fields contradict its body"
        yield LintFault(leg=leg, frame=leg.request, message=message)


def _tool_failure(leg: Leg) -> Faults:
    code = leg.error_code
    if code is not None and (code == -32603 or -32019 <= code <= -32000):
        message = f"the call ended with {code}: {leg.error_message or 'no message'}"
        yield LintFault(leg=leg, frame=leg.answer, message=message)


RULES: Final = (
    Rule(
        id="error-object",
        title="An error is an object with an integer code and a message.",
        source="JSON-RPC 2.0, 5.1",
        advice="Send both members; put everything else into data.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=has_error,
        schema=r"\S+ error(\.code|\.message)?:\w+",
    ),
    Rule(
        id="error-code-reserved",
        title="Codes that JSON-RPC or MCP reserve are used only for what they say.",
        source="JSON-RPC 2.0, 5.1; MCP 2026-07-28, basic",
        advice="Choose codes of your own outside of -32768 to -32000.",
        severity=Severity.ERROR,
        needs=Depth.NOTED,
        applies_to=has_error,
        check_leg=_reserved_code,
    ),
    Rule(
        id="error-code-of-other-revision",
        title="An error has a code of the revision that is spoken.",
        source="MCP, schema of each revision",
        advice="Since 2026-07-28 what is not found is -32602, and URLs are asked for in results.",
        severity=Severity.ERROR,
        needs=Depth.NOTED,
        applies_to=has_error,
        check_leg=_code_of_other_revision,
    ),
    Rule(
        id="error-message",
        title="The message of an error is one short sentence.",
        source="JSON-RPC 2.0, 5.1",
        advice="Say what went wrong in one line, and put the rest into data.",
        severity=Severity.NOTE,
        needs=Depth.NOTED,
        applies_to=has_error,
        check_leg=_message,
    ),
    Rule(
        id="stack-trace",
        title="The message of an error holds no stack trace.",
        source="MCP, server/tools, security",
        advice="Log the trace, and tell the caller in a sentence what went wrong.",
        severity=Severity.WARNING,
        needs=Depth.NOTED,
        applies_to=has_error,
        check_leg=_stack_trace,
    ),
    Rule(
        id="stack-trace-inside",
        title="Nor do the data of an error and the text of a failed tool.",
        source="MCP, server/tools, security",
        advice="Paths and code are no business of a model, and cost it tokens: log them.",
        severity=Severity.WARNING,
        needs=Depth.FULL,
        applies_to=lambda leg: leg.answer is not None,
        check_leg=_stack_trace_in_data,
    ),
    Rule(
        id="missing-capability-object",
        title="An error about missing capabilities names them, as an object.",
        source="MCP 2026-07-28, basic",
        advice='Send data: {"requiredCapabilities": {"sampling": {}}}, with what is missing.',
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=lambda leg: leg.error_code == MISSING_CAPABILITY,
        check_leg=_missing_capability,
    ),
    Rule(
        id="unsupported-revision",
        title="An error about a revision repeats it and names those that would do.",
        source="MCP 2026-07-28, basic/versioning",
        advice='Send data: {"requested": ..., "supported": [...]}.',
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=lambda leg: leg.error_code == UNSUPPORTED_REVISION,
        check_leg=_unsupported_revision,
    ),
    Rule(
        id="header-mismatch",
        title="Mcp-Method, Mcp-Name, Mcp-Param-* and the version field repeat what the body says.",
        source="MCP 2026-07-28, basic/transports",
        advice="Make the fields from the body; encode names that are not plain ASCII in base64.",
        severity=Severity.ERROR,
        needs=Depth.NOTED,
        applies_to=all_of(is_modern, has_error),
        check_leg=_headers,
    ),
    Rule(
        id="tool-failure-as-error",
        title="A tool that fails says so in a result with isError, which the model sees.",
        source="MCP, server/tools",
        advice="Keep protocol errors for requests that could not be understood.",
        severity=Severity.NOTE,
        needs=Depth.NOTED,
        # Clients also get errors of the gateway itself, such as for a server that is down.
        applies_to=all_of(requests_of("tools/call"), has_error, lambda leg: leg.side == "server"),
        check_leg=_tool_failure,
    ),
)

"""Faults of the gateway, with their codes and messages by era and revision.

One table: the code that fails names the situation, and the code that answers knows the revision. A
server's own error is not a fault and passes through `add_server_context`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from math import ceil
from typing import Final

import msgspec

from anyport.protocol.revisions import Era, Revision
from anyport.wire import jsonrpc, raw_json
from anyport.wire import jsonrpc as wire_jsonrpc

# The names of all timeouts. One name each, used in `data.timeout` of an error, in the `timeout` of
# an event and in the label of a metric.


class Timeout(Enum):
    """A timeout; the value is its public name."""

    HEAD = "head"
    """A client connected, or began a request, and did not finish the head."""
    BODY = "body"
    """A client finished the head of a request, but not the body."""
    IDLE = "idle"
    """A client did nothing with its connection: it sent nothing, or read nothing."""
    QUEUE = "queue"
    """A call waited in the queue of its server."""
    CONNECT = "connect"
    """No connection to a server was established."""
    HANDSHAKE = "handshake"
    """A server was started or reached, but did not become ready."""
    FIRST_BYTE = "first-byte"
    """A call was sent, and its response did not begin."""
    STREAM_IDLE = "stream-idle"
    """A response had begun, or a stream was open, and nothing more arrived."""
    TOTAL = "total"
    """A call took too long without reporting progress."""
    CAP = "cap"
    """A call took longer than its maximum, whatever progress it reported."""
    ANSWER = "answer"
    """A person was asked, and did not answer."""
    AGE = "age"
    """A connection reached its maximum age, and was closed between two requests."""
    DRAIN = "drain"
    """The gateway was stopping, and an open call did not end."""
    KILL = "kill"
    """A server process was asked to exit, and did not."""


SERVER_FAULT: Final = -32000
"""Legacy revisions have no code for "the server behind me is down"; this one is customary."""
USER_REJECTED: Final = -1
"""The error code of clients for a person who said no."""
HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_REVISION: Final = -32022
TOO_MANY_REQUESTS: Final = 429
UNAVAILABLE: Final = 503
"""The HTTP status for overload; 429 where a single client exceeds its own limit."""
URL_REQUIRED: Final = -32042
"""A URL has to be opened first. MCP 2025-11-25 only."""


class Situation(Enum):
    """What went wrong: its code in legacy sessions, its code in modern requests, and its label."""

    # Qualified, because within this class the bare names are members, not codes.
    INVALID_REQUEST = (jsonrpc.INVALID_REQUEST, jsonrpc.INVALID_REQUEST, "invalid-request")
    INVALID_PARAMS = (jsonrpc.INVALID_PARAMS, jsonrpc.INVALID_PARAMS, "invalid-params")
    METHOD_NOT_FOUND = (jsonrpc.METHOD_NOT_FOUND, jsonrpc.METHOD_NOT_FOUND, "method-not-found")
    INTERNAL = (jsonrpc.INTERNAL_ERROR, jsonrpc.INTERNAL_ERROR, "internal")
    UNKNOWN_TOOL = (jsonrpc.INVALID_PARAMS, jsonrpc.INVALID_PARAMS, "unknown-tool")
    UNKNOWN_RESOURCE = (-32002, jsonrpc.INVALID_PARAMS, "unknown-resource")
    NOT_RUNNING = (SERVER_FAULT, jsonrpc.INTERNAL_ERROR, "not-running")
    TIMED_OUT = (SERVER_FAULT, jsonrpc.INTERNAL_ERROR, "timed-out")
    BUSY = (SERVER_FAULT, jsonrpc.INTERNAL_ERROR, "busy")
    EJECTED = (SERVER_FAULT, jsonrpc.INTERNAL_ERROR, "ejected")
    MISBEHAVED = (SERVER_FAULT, jsonrpc.INTERNAL_ERROR, "misbehaved")
    OVERLOADED = (SERVER_FAULT, jsonrpc.INTERNAL_ERROR, "overloaded")
    # Modern requests only: a handshake negotiates instead.
    HEADER_MISMATCH = (HEADER_MISMATCH, HEADER_MISMATCH, "header-mismatch")
    MISSING_CAPABILITY = (MISSING_CAPABILITY, MISSING_CAPABILITY, "missing-capability")
    UNSUPPORTED_REVISION = (UNSUPPORTED_REVISION, UNSUPPORTED_REVISION, "unsupported-revision")

    def __init__(self, legacy: int, modern: int, label: str) -> None:
        self.legacy = legacy
        self.modern = modern
        self.label = label


_SERVER_SIDE: Final = frozenset(
    {
        Situation.NOT_RUNNING,
        Situation.TIMED_OUT,
        Situation.BUSY,
        Situation.EJECTED,
        Situation.MISBEHAVED,
    }
)
"""Faults of a server rather than of the request. A modern `tools/call` gets them as a tool result
with `isError`, so that the model sees them and can act."""


class RetryAfter(msgspec.Struct, frozen=True, gc=False):
    """How to tell a client over HTTP to retry later."""

    status: int | None = None
    """None for the status of the error itself."""
    seconds: int | None = None
    """When to retry; None if retrying alone does not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A failure of the gateway, with a message that the caller can act on."""

    situation: Situation
    message: str
    data: bytes | None = None
    retry_after: RetryAfter | None = None
    timeout: Timeout | None = None
    """The timeout that expired, if one did; `data` has its name too."""

    def is_tool_result(self, method: str, revision: Revision) -> bool:
        """Whether the caller gets a tool result with `isError` rather than a JSON-RPC error."""
        return (
            method == "tools/call" and revision.era is Era.MODERN and self.situation in _SERVER_SIDE
        )

    def render(self, revision: Revision) -> bytes:
        """Encode the error object for this revision."""
        return wire_jsonrpc.encode_error(self.code(revision), self.message_for(revision), self.data)

    def code(self, revision: Revision) -> int:
        if self.situation is Situation.UNKNOWN_TOOL:
            return revision.unknown_tool[0]
        return self.situation.modern if revision.era is Era.MODERN else self.situation.legacy

    def message_for(self, revision: Revision) -> str:
        if self.situation is Situation.UNKNOWN_TOOL:
            return revision.unknown_tool[1].format(self.message)
        return self.message


def tool_error(message: str) -> bytes:
    """Encode a tool result that reports a failure to the model."""
    content = b'[{"type":"text","text":%b}]' % raw_json.encode_string(message)
    return b'{"content":%b,"isError":true}' % content


def unknown_tool(name: str) -> Fault:
    return Fault(situation=Situation.UNKNOWN_TOOL, message=name)


def invalid_params(message: str) -> Fault:
    return Fault(situation=Situation.INVALID_PARAMS, message=message)


def method_not_found(method: str) -> Fault:
    return Fault(situation=Situation.METHOD_NOT_FOUND, message=f"Method not found: {method}")


def missing_capability(slug: str, required: Mapping[str, object]) -> Fault:
    """A server needs a capability that the request does not declare."""
    names = [
        f"{name}.{kind}" if kind else name
        for name, within in required.items()
        for kind in (within if isinstance(within, dict) and within else ("",))
    ]
    message = f"Server '{slug}' needs a client that declares: {', '.join(names)}"
    return Fault(
        situation=Situation.MISSING_CAPABILITY,
        message=message,
        data=msgspec.json.encode({"requiredCapabilities": required, "server": slug}),
    )


def not_running(slug: str, reason: str) -> Fault:
    return server_failure(slug, Situation.NOT_RUNNING, reason)


def server_failure(
    slug: str, situation: Situation, reason: str, retry_after: float | None = None
) -> Fault:
    """A server gave no answer; `retry_after` says in how many seconds it may."""
    if situation is Situation.TIMED_OUT:
        return timed_out(slug, Timeout.TOTAL, reason)
    fault = Fault(
        situation=situation,
        message=_SERVER_FAILURE_MESSAGES[situation].format(slug=slug, reason=reason),
        data=raw_json.encode_object([("server", raw_json.encode_string(slug))]),
        # The call was carried out, only its result is lost: retrying may do harm.
        retry_after=RetryAfter(UNAVAILABLE) if situation is Situation.OVERLOADED else None,
    )
    return (
        fault
        if retry_after is None
        else add_retry_after(fault, RetryAfter(seconds=ceil(retry_after)))
    )


def timed_out(slug: str, timeout: Timeout, reason: str) -> Fault:
    """A call exceeded a timeout; `reason` is its duration, or what did not arrive."""
    details = [
        ("server", raw_json.encode_string(slug)),
        ("timeout", raw_json.encode_string(timeout.value)),
    ]
    return Fault(
        situation=Situation.TIMED_OUT,
        message=_TIMEOUT_MESSAGES[timeout].format(slug=slug, reason=reason),
        data=raw_json.encode_object(details),
        timeout=timeout,
    )


def add_retry_after(fault: Fault, retry_after: RetryAfter) -> Fault:
    """The fault, with a hint when to retry."""
    if retry_after.seconds is None:
        return replace(fault, retry_after=retry_after)
    details = {"retryAfterSeconds": b"%d" % retry_after.seconds}
    return replace(fault, retry_after=retry_after, data=raw_json.edit(fault.data or b"{}", details))


def overloaded(message: str, *, own: bool = False, seconds: int | None = None) -> Fault:
    """The gateway has reached a limit, or this client has reached its `own`."""
    fault = Fault(situation=Situation.OVERLOADED, message=message)
    return add_retry_after(fault, RetryAfter(TOO_MANY_REQUESTS if own else UNAVAILABLE, seconds))


INTERNAL_ERROR_MESSAGE: Final = "Internal error: the gateway failed to handle this request"
OUT_OF_MEMORY_MESSAGE: Final = "The gateway has no memory for the answer; the call was carried out"


def internal_fault(error: Exception) -> Fault:
    """An unexpected exception; running out of memory is overload."""
    if isinstance(error, MemoryError):
        return overloaded(OUT_OF_MEMORY_MESSAGE)
    return Fault(situation=Situation.INTERNAL, message=INTERNAL_ERROR_MESSAGE)


_SERVER_FAILURE_MESSAGES: Final = {
    Situation.NOT_RUNNING: "Server '{slug}' is not running: {reason}",
    Situation.TIMED_OUT: "Tool execution timeout ({reason})",
    Situation.BUSY: "Server '{slug}' is busy: {reason}",
    Situation.EJECTED: "Server '{slug}' is not taking calls: {reason}",
    Situation.MISBEHAVED: "Server '{slug}' {reason}",
    Situation.OVERLOADED: "The gateway holds too much to pass on what '{slug}' answered: {reason}",
}


_TIMEOUT_MESSAGES: Final[Mapping[Timeout, str]] = {
    Timeout.QUEUE: "Server '{slug}' is busy: no place became free for this call within {reason}",
    Timeout.CONNECT: _SERVER_FAILURE_MESSAGES[Situation.NOT_RUNNING],
    Timeout.HANDSHAKE: _SERVER_FAILURE_MESSAGES[Situation.NOT_RUNNING],
    Timeout.FIRST_BYTE: _SERVER_FAILURE_MESSAGES[Situation.MISBEHAVED],
    Timeout.STREAM_IDLE: _SERVER_FAILURE_MESSAGES[Situation.MISBEHAVED],
    Timeout.TOTAL: _SERVER_FAILURE_MESSAGES[Situation.TIMED_OUT],
    Timeout.CAP: "Tool execution timeout ({reason} in all, the timeoutMax of server '{slug}')",
    Timeout.ANSWER: (
        "Tool execution timeout: the question of server '{slug}' was not answered within {reason}"
    ),
    Timeout.DRAIN: "The gateway is stopping, and server '{slug}' has not answered in time",
}
"""Messages of the timeouts that can end a call."""


def add_server_context(error: bytes, slug: str) -> bytes:
    """Add context to a server's error, for callers of many servers.

    Code and message stay. `data` becomes an object: the members of the server's own data, if that
    is an object, plus `server` and the whole `originalError`.
    """
    server_data = raw_json.members(error).get("data")
    context = {"server": raw_json.encode_string(slug), "originalError": error}
    if server_data is not None and bytes(server_data)[:1] == b"{":
        try:
            cleaned = raw_json.remove_lookalikes(bytes(server_data), frozenset(context))
            merged = raw_json.edit(cleaned, context)
        except raw_json.AmbiguousObject:
            merged = raw_json.encode_object(context.items())
    else:
        merged = raw_json.encode_object(context.items())
    return raw_json.edit(error, {"data": merged})


def error_code(error: bytes) -> int | None:
    code = msgspec.json.decode(error, type=dict[str, msgspec.Raw]).get("code")
    return msgspec.json.decode(code, type=int) if code is not None else None

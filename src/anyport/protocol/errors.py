"""The faults of our own, and the words and codes each era and revision has for them.

One table: whoever makes a fault names the situation; whoever renders it knows the revision. A
server's own error is not a fault of ours and passes through `from_server`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from math import ceil
from typing import Final

import msgspec

from anyport.protocol.revision import Era, Revision
from anyport.protocol.timeouts import Timeout
from anyport.wire import codec, frame, members

SERVER_FAULT: Final = -32000
"""Legacy sessions have no code for "the server behind me is down"; this is the customary one."""
HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_REVISION: Final = -32022
TOO_MANY_REQUESTS: Final = 429
UNAVAILABLE: Final = 503
"""What HTTP calls it when one client, or everybody, asks for too much."""
URL_REQUIRED: Final = -32042
"""Somebody has to open an address first; a word of 2025-11-25 alone."""


class Situation(Enum):
    """What went wrong: the code in a legacy session, the code in a modern request."""

    # `frame.` is needed: within this class the bare names are members, not codes.
    INVALID_REQUEST = (frame.INVALID_REQUEST, frame.INVALID_REQUEST, "invalid-request")
    INVALID_PARAMS = (frame.INVALID_PARAMS, frame.INVALID_PARAMS, "invalid-params")
    METHOD_NOT_FOUND = (frame.METHOD_NOT_FOUND, frame.METHOD_NOT_FOUND, "method-not-found")
    INTERNAL = (frame.INTERNAL_ERROR, frame.INTERNAL_ERROR, "internal")
    UNKNOWN_TOOL = (frame.INVALID_PARAMS, frame.INVALID_PARAMS, "unknown-tool")
    UNKNOWN_RESOURCE = (-32002, frame.INVALID_PARAMS, "unknown-resource")
    NOT_RUNNING = (SERVER_FAULT, frame.INTERNAL_ERROR, "not-running")
    TIMED_OUT = (SERVER_FAULT, frame.INTERNAL_ERROR, "timed-out")
    BUSY = (SERVER_FAULT, frame.INTERNAL_ERROR, "busy")
    EJECTED = (SERVER_FAULT, frame.INTERNAL_ERROR, "ejected")
    MISBEHAVED = (SERVER_FAULT, frame.INTERNAL_ERROR, "misbehaved")
    OVERLOADED = (SERVER_FAULT, frame.INTERNAL_ERROR, "overloaded")
    # Only a request without a handshake can be in these: a handshake negotiates.
    HEADER_MISMATCH = (HEADER_MISMATCH, HEADER_MISMATCH, "header-mismatch")
    MISSING_CAPABILITY = (MISSING_CAPABILITY, MISSING_CAPABILITY, "missing-capability")
    UNSUPPORTED_REVISION = (UNSUPPORTED_REVISION, UNSUPPORTED_REVISION, "unsupported-revision")

    def __init__(self, legacy: int, modern: int, label: str) -> None:
        self.legacy = legacy
        self.modern = modern
        self.label = label


_SERVER_SIDE: Final = frozenset(
    {
        *(Situation.NOT_RUNNING, Situation.TIMED_OUT, Situation.BUSY),
        *(Situation.EJECTED, Situation.MISBEHAVED),
    }
)
"""Faults of a server rather than of the request: a modern `tools/call` gets these as a tool
result with `isError`, so that the model sees them and can act."""


class Pause(msgspec.Struct, frozen=True, gc=False):
    """How somebody who is turned away is told that over HTTP, where that has words for it."""

    status: int | None = None
    """None: the error says it all, in an answer like any other."""
    seconds: int | None = None
    """In how many to come back; None: not by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One failure of our own, told to the caller in a sentence they can act on."""

    situation: Situation
    message: str
    data: bytes | None = None
    pause: Pause | None = None
    timeout: Timeout | None = None
    """Which time was over, if one was; `data` says so too."""

    def as_tool_result(self, method: str, revision: Revision) -> bool:
        """Whether the caller should get a tool result that says so, not a protocol error."""
        return (
            method == "tools/call" and revision.era is Era.MODERN and self.situation in _SERVER_SIDE
        )

    def render(self, revision: Revision) -> bytes:
        """The raw error object for this revision."""
        return codec.error(self.code(revision), self.words(revision), self.data)

    def code(self, revision: Revision) -> int:
        """The JSON-RPC code for this revision."""
        if self.situation is Situation.UNKNOWN_TOOL:
            return revision.unknown_tool[0]
        return self.situation.modern if revision.era is Era.MODERN else self.situation.legacy

    def words(self, revision: Revision) -> str:
        """The message for this revision."""
        if self.situation is Situation.UNKNOWN_TOOL:
            return revision.unknown_tool[1].format(self.message)
        return self.message


def tool_error(words: str) -> bytes:
    """A tool result that reports a failure to the model."""
    content = b'[{"type":"text","text":%b}]' % members.text(words)
    return b'{"content":%b,"isError":true}' % content


def unknown_tool(name: str) -> Fault:
    """No server of the profile has such a tool."""
    return Fault(situation=Situation.UNKNOWN_TOOL, message=name)


def invalid_params(message: str) -> Fault:
    """The caller's params cannot be used."""
    return Fault(situation=Situation.INVALID_PARAMS, message=message)


def method_not_found(method: str) -> Fault:
    """The revision in use has no such method."""
    return Fault(situation=Situation.METHOD_NOT_FOUND, message=f"Method not found: {method}")


def missing_capability(slug: str, required: Mapping[str, object]) -> Fault:
    """A server needs what this request did not declare."""
    names = [
        f"{name}.{kind}" if kind else name
        for name, within in required.items()
        for kind in (within if isinstance(within, dict) and within else ("",))
    ]
    words = f"Server '{slug}' needs a client that declares: {', '.join(names)}"
    return Fault(
        situation=Situation.MISSING_CAPABILITY,
        message=words,
        data=msgspec.json.encode({"requiredCapabilities": required, "server": slug}),
    )


def not_running(slug: str, reason: str) -> Fault:
    """The server that should answer is down."""
    return lost(slug, Situation.NOT_RUNNING, reason)


def lost(slug: str, situation: Situation, reason: str, retry_after: float | None = None) -> Fault:
    """A server gave no answer; `retry_after` is in how many seconds it may give one."""
    if situation is Situation.TIMED_OUT:
        return timed_out(slug, Timeout.TOTAL, reason)
    fault = Fault(
        situation=situation,
        message=_LOST[situation].format(slug=slug, reason=reason),
        data=members.join([("server", members.text(slug))]),
        # What was answered and could not be kept must not be asked for again unthinkingly.
        pause=Pause(UNAVAILABLE) if situation is Situation.OVERLOADED else None,
    )
    return fault if retry_after is None else put_off(fault, Pause(seconds=ceil(retry_after)))


def timed_out(slug: str, timeout: Timeout, reason: str) -> Fault:
    """The time of a call is over; `reason` is how much that was, or what did not come."""
    told = [("server", members.text(slug)), ("timeout", members.text(timeout.value))]
    return Fault(
        situation=Situation.TIMED_OUT,
        message=_TIMED_OUT[timeout].format(slug=slug, reason=reason),
        data=members.join(told),
        timeout=timeout,
    )


def put_off(fault: Fault, pause: Pause) -> Fault:
    """The same fault for somebody who may come back later."""
    if pause.seconds is None:
        return replace(fault, pause=pause)
    told = {"retryAfterSeconds": b"%d" % pause.seconds}
    return replace(fault, pause=pause, data=members.edit(fault.data or b"{}", told))


def overloaded(words: str, *, own: bool = False, seconds: int | None = None) -> Fault:
    """The gateway has as much to do as it may have, or as this client may give it."""
    fault = Fault(situation=Situation.OVERLOADED, message=words)
    return put_off(fault, Pause(TOO_MANY_REQUESTS if own else UNAVAILABLE, seconds))


BROKE: Final = "Internal error: the gateway failed to handle this request"
UNREMEMBERED: Final = "The gateway has no memory for the answer; the call was carried out"


def broken(error: Exception) -> Fault:
    """Something of ours broke on the way, or there was no memory to go on."""
    if isinstance(error, MemoryError):
        return overloaded(UNREMEMBERED)
    return Fault(situation=Situation.INTERNAL, message=BROKE)


_LOST: Final = {
    Situation.NOT_RUNNING: "Server '{slug}' is not running: {reason}",
    Situation.TIMED_OUT: "Tool execution timeout ({reason})",
    Situation.BUSY: "Server '{slug}' is busy: {reason}",
    Situation.EJECTED: "Server '{slug}' is not taking calls: {reason}",
    Situation.MISBEHAVED: "Server '{slug}' {reason}",
    Situation.OVERLOADED: "The gateway holds too much to pass on what '{slug}' answered: {reason}",
}


_TIMED_OUT: Final[Mapping[Timeout, str]] = {
    Timeout.QUEUE: "Server '{slug}' is busy: no place became free for this call within {reason}",
    Timeout.CONNECT: _LOST[Situation.NOT_RUNNING],
    Timeout.HANDSHAKE: _LOST[Situation.NOT_RUNNING],
    Timeout.FIRST_BYTE: _LOST[Situation.MISBEHAVED],
    Timeout.STREAM_IDLE: _LOST[Situation.MISBEHAVED],
    Timeout.TOTAL: _LOST[Situation.TIMED_OUT],
    Timeout.CAP: "Tool execution timeout ({reason} in all, the timeoutMax of server '{slug}')",
    Timeout.ANSWER: "Tool execution timeout: nobody answered server '{slug}' within {reason}",
    Timeout.DRAIN: "The gateway is stopping, and server '{slug}' has not answered in time",
}
"""The sentences of those that can end a call."""


def from_server(error: bytes, slug: str) -> bytes:
    """A server's error with the context a caller of many servers needs.

    Code and message stay. `data` becomes an object: the members of the server's own data where
    that was an object, plus `server` and the whole `originalError`.
    """
    own = members.members(error).get("data")
    context = {"server": members.text(slug), "originalError": error}
    if own is not None and bytes(own)[:1] == b"{":
        try:
            merged = members.edit(bytes(own), context)
        except members.Ambiguous:
            merged = members.join(context.items())
    else:
        merged = members.join(context.items())
    return members.edit(error, {"data": merged})


def error_code(error: bytes) -> int | None:
    """The code of a raw error object."""
    code = msgspec.json.decode(error, type=dict[str, msgspec.Raw]).get("code")
    return msgspec.json.decode(code, type=int) if code is not None else None

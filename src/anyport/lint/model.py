"""Data types of rules: legs, frames, faults and rules.

A *leg* is one exchange on one side of the gateway: between a client and the gateway, or between the
gateway and a server. A *conversation* is all legs of one session or connection.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, Final, TypeAlias

from anyport.protocol.revisions import Era, Revision

CLIENT: Final = "client"
SERVER: Final = "server"
"""The two ends of a conversation."""


class Depth(IntEnum):
    """How much of an exchange was recorded; each level includes the ones before."""

    NOTED = 0
    """Method, outcome and duration."""
    SHAPE = 1
    """Also keys and types of the result, and the kinds of the frames in between."""
    FULL = 2
    """Also all payloads, redacted."""
    FRAMES = 3
    """Also the envelopes: whole messages with their ids."""

    @property
    def requirement(self) -> str:
        """The recording that has this depth, for messages."""
        return _REQUIREMENTS[self]


_REQUIREMENTS: Final = {
    Depth.NOTED: "any recording",
    Depth.SHAPE: "capture = 'shape'",
    Depth.FULL: "capture = 'full'",
    Depth.FRAMES: "a file of whole messages",
}


class Severity(Enum):
    """How serious a finding is."""

    ERROR = "error"
    """The protocol forbids it."""
    WARNING = "warning"
    """The protocol advises against it, or it causes trouble in practice."""
    NOTE = "note"
    """It may be intended, but deserves a look."""


class _AbsentPayload(Enum):
    ABSENT = "absent"


ABSENT: Final = _AbsentPayload.ABSENT
"""Stands for a payload that was not recorded, or that the frame does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One message, as far as it was recorded."""

    kind: str
    """As in the record: `request`, `response`, `server-notification`, ..."""
    method: str | None = None
    payload: Any = ABSENT
    """Params or result."""
    error: Any = ABSENT
    shape: str | None = None
    """The outline of the payload, if only that was recorded."""
    envelope: Any = ABSENT
    """The whole message, if it was recorded; None for a line that is not JSON."""
    text: str | None = None
    """Why this is not a JSON-RPC message, or the line itself."""
    at: int = 0
    """Line number in a file of messages."""

    @property
    def fields(self) -> Mapping[str, Any]:
        """The members of the payload; empty if it is no object or was not recorded."""
        return self.payload if isinstance(self.payload, dict) else {}

    @property
    def meta(self) -> Mapping[str, Any]:
        found = self.fields.get("_meta")
        return found if isinstance(found, dict) else {}

    @property
    def from_server(self) -> bool:
        """Whether the server's end of the conversation sent it."""
        return self.kind in _SERVER_KINDS


_SERVER_KINDS: Final = frozenset(
    {"response", "server-notification", "server-request", "not-json-rpc", "stderr"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One exchange on one side of the gateway, or one frame that belongs to no exchange."""

    id: str
    """The exchange, as `anyport show` takes it, or a line of a file."""
    side: str
    """The peer of the gateway: `client` or `server`."""
    depth: Depth
    method: str | None = None
    revision: Revision | None = None
    request: Frame | None = None
    between: tuple[Frame, ...] = ()
    answer: Frame | None = None
    conversation: str = ""
    """The key that all legs of one session or connection share."""
    server: str | None = None
    error_code: int | None = None
    error_message: str | None = None
    duration_ms: float | None = None

    @property
    def frames(self) -> tuple[Frame, ...]:
        """All frames, in order."""
        ends = ((self.request,) if self.request else (), (self.answer,) if self.answer else ())
        return (*ends[0], *self.between, *ends[1])

    @property
    def legacy(self) -> bool:
        return self.revision is not None and self.revision.era is Era.LEGACY

    @property
    def modern(self) -> bool:
        return self.revision is not None and self.revision.era is Era.MODERN

    @property
    def params(self) -> Mapping[str, Any]:
        return {} if self.request is None else self.request.fields

    @property
    def result(self) -> Mapping[str, Any]:
        """The members of the result; empty for an error."""
        return {} if self.answer is None or not self.succeeded else self.answer.fields

    @property
    def succeeded(self) -> bool:
        """Whether the answer is a result."""
        return self.answer is not None and self.answer.error is ABSENT and self.error_code is None

    @property
    def complete(self) -> bool:
        """Whether the answer is a final result."""
        return self.succeeded and self.result.get("resultType", "complete") == "complete"


@dataclass(frozen=True, slots=True, kw_only=True)
class LintFault:
    """One violation that a rule found."""

    leg: Leg
    frame: Frame | None
    message: str
    """What is wrong."""

    @property
    def place(self) -> str:
        """The line in a file of messages, else the exchange."""
        at = 0 if self.frame is None else self.frame.at
        return f"line {at}" if at else self.leg.id


class NotRecorded(Exception):
    """The recording of a leg lacks something that a rule needs."""


Faults: TypeAlias = Iterator[LintFault]
CheckLeg: TypeAlias = Callable[[Leg], Faults]
CheckConversation: TypeAlias = Callable[[Sequence[Leg]], Faults]
AppliesTo: TypeAlias = Callable[[Leg], bool]
"""Whether a rule concerns a leg; may only use what every recording has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One protocol rule and its check: a schema pattern or a function, or both."""

    id: str
    title: str
    """The rule, in a sentence."""
    source: str
    """The specification, and its chapter."""
    advice: str
    """How to fix a violation."""
    severity: Severity
    needs: Depth
    applies_to: AppliesTo
    schema: str | None = None
    """Pattern for the locations of schema errors that violate the rule."""
    check_leg: CheckLeg | None = None
    """Checks each leg by itself."""
    check_conversation: CheckConversation | None = None
    """Checks all legs of a session together."""


def always(leg: Leg) -> bool:
    return True


def requests_of(*methods: str) -> AppliesTo:
    """Applies to requests of these methods."""
    known = frozenset(methods)
    return lambda leg: leg.method in known


def results_of(*methods: str) -> AppliesTo:
    """Applies to requests of these methods that were answered with a result."""
    known = frozenset(methods)
    return lambda leg: leg.method in known and leg.succeeded


def all_of(*conditions: AppliesTo) -> AppliesTo:
    """Applies if all conditions do."""
    return lambda leg: all(applies(leg) for applies in conditions)


def is_modern(leg: Leg) -> bool:
    """Applies to revisions without a handshake."""
    return leg.modern


def is_legacy(leg: Leg) -> bool:
    """Applies to revisions with a handshake."""
    return leg.legacy


def has_error(leg: Leg) -> bool:
    """Applies to requests that were answered with an error."""
    return leg.error_code is not None or (leg.answer is not None and leg.answer.error is not ABSENT)


def has_message_of(*methods: str) -> AppliesTo:
    """Applies to legs with one of these notifications or questions."""
    known = frozenset(methods)
    return lambda leg: any(frame.method in known for frame in leg.between)


def as_list(value: object) -> list[Any]:
    """The value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def objects_in(values: object) -> Iterable[Mapping[str, Any]]:
    """The elements of a list that are objects."""
    return (value for value in as_list(values) if isinstance(value, dict))

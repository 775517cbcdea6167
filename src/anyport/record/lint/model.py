"""What a rule looks at, and what it finds.

A *leg* is one exchange on one side of the gateway: what a client and the gateway said to each
other, or what the gateway and a server did. Rules see legs and conversations, never files.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, Final, TypeAlias

from anyport.protocol.revision import Era, Revision


class Depth(IntEnum):
    """How much of an exchange was recorded; each has all that the ones before it have."""

    NOTED = 0
    """That it happened, how it ended, and how long it took."""
    SHAPE = 1
    """Also the keys and types of its result, and which frames came in between."""
    FULL = 2
    """Also every payload, redacted."""
    FRAMES = 3
    """Also the envelopes: whole messages, with their ids."""

    @property
    def wanted(self) -> str:
        """What has to be recorded for it."""
        return _WANTED[self]


_WANTED: Final = {
    Depth.NOTED: "any recording",
    Depth.SHAPE: "capture = 'shape'",
    Depth.FULL: "capture = 'full'",
    Depth.FRAMES: "a file of whole messages",
}


class Severity(Enum):
    """What is to be thought of a finding."""

    ERROR = "error"
    """The protocol forbids it."""
    WARNING = "warning"
    """It is advised against, or somebody will stumble over it."""
    NOTE = "note"
    """It may be meant, but is worth a look."""


class _Absent(Enum):
    ABSENT = "absent"


ABSENT: Final = _Absent.ABSENT
"""In place of a payload that was not recorded, or that a frame does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One message, as far as it was recorded."""

    kind: str
    """As the record names it: `request`, `response`, `server-notification`, ..."""
    method: str | None = None
    payload: Any = ABSENT
    """Params or result."""
    error: Any = ABSENT
    shape: str | None = None
    """In place of the payload, where only that was recorded."""
    envelope: Any = ABSENT
    """The whole message, where it was recorded; None for a line that is no JSON."""
    text: str | None = None
    """Why it is no message of JSON-RPC, or the line that it was."""
    at: int = 0
    """Which line of a file of messages it is."""

    @property
    def fields(self) -> Mapping[str, Any]:
        """The members of the payload; none if it is no object, or was not recorded."""
        return self.payload if isinstance(self.payload, dict) else {}

    @property
    def meta(self) -> Mapping[str, Any]:
        """The members of its `_meta`."""
        found = self.fields.get("_meta")
        return found if isinstance(found, dict) else {}

    @property
    def from_server(self) -> bool:
        """Whether the server's end of the conversation said it."""
        return self.kind in _OF_SERVERS


_OF_SERVERS: Final = frozenset(
    {"response", "server-notification", "server-request", "not-json-rpc", "stderr"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One exchange on one side of the gateway, or one frame that belongs to no exchange."""

    id: str
    """Of the exchange; what `anyport show` takes, or a place in a file."""
    side: str
    """`client` or `server`: with whom the gateway spoke."""
    depth: Depth
    method: str | None = None
    revision: Revision | None = None
    request: Frame | None = None
    between: tuple[Frame, ...] = ()
    answer: Frame | None = None
    conversation: str = ""
    """What it shares with the others of its session or connection."""
    server: str | None = None
    error_code: int | None = None
    error_message: str | None = None
    duration_ms: float | None = None

    @property
    def frames(self) -> tuple[Frame, ...]:
        """All of them, in order."""
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
        """The members of the request's params."""
        return {} if self.request is None else self.request.fields

    @property
    def result(self) -> Mapping[str, Any]:
        """The members of the result; none of an error."""
        return {} if self.answer is None or not self.succeeded else self.answer.fields

    @property
    def succeeded(self) -> bool:
        """Whether it was answered with a result."""
        return self.answer is not None and self.answer.error is ABSENT and self.error_code is None

    @property
    def complete(self) -> bool:
        """Whether that result is a final one."""
        return self.succeeded and self.result.get("resultType", "complete") == "complete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One place where a rule is broken."""

    leg: Leg
    frame: Frame | None
    words: str
    """What is wrong with it."""

    @property
    def place(self) -> str:
        """Where it is: the line of the message in a file of messages, else the exchange."""
        at = 0 if self.frame is None else self.frame.at
        return f"line {at}" if at else self.leg.id


class CannotTell(Exception):
    """What was recorded of a leg is not enough after all."""


Faults: TypeAlias = Iterator[Fault]
JudgeLeg: TypeAlias = Callable[[Leg], Faults]
JudgeConversation: TypeAlias = Callable[[Sequence[Leg]], Faults]
About: TypeAlias = Callable[[Leg], bool]
"""Whether a rule has something to say of a leg; answered from what every recording has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule."""

    id: str
    title: str
    """The rule, in a sentence."""
    source: str
    """Where it comes from."""
    advice: str
    """What to do about it."""
    severity: Severity
    needs: Depth
    about: About
    leg: JudgeLeg | None = None
    """Judges each leg by itself; else `conversation` judges all of a session together."""
    conversation: JudgeConversation | None = None


def always(leg: Leg) -> bool:
    """A rule for everything."""
    return True


def asking(*methods: str) -> About:
    """A rule for requests of these methods."""
    known = frozenset(methods)
    return lambda leg: leg.method in known


def answered(*methods: str) -> About:
    """A rule for requests of these methods that were answered with a result."""
    known = frozenset(methods)
    return lambda leg: leg.method in known and leg.succeeded


def both(*abouts: About) -> About:
    """A rule for what all of these are for."""
    return lambda leg: all(about(leg) for about in abouts)


def modern(leg: Leg) -> bool:
    """A rule for revisions without a handshake."""
    return leg.modern


def legacy(leg: Leg) -> bool:
    """A rule for revisions with a handshake."""
    return leg.legacy


def failed(leg: Leg) -> bool:
    """A rule for what was answered with an error."""
    return leg.error_code is not None or (leg.answer is not None and leg.answer.error is not ABSENT)


def hears(*methods: str) -> About:
    """A rule for legs in which one of these notifications or questions came."""
    known = frozenset(methods)
    return lambda leg: any(frame.method in known for frame in leg.between)


def list_of(value: object) -> list[Any]:
    """The value, if it is a list; else an empty one."""
    return value if isinstance(value, list) else []


def objects(values: object) -> Iterable[Mapping[str, Any]]:
    """The objects in a list."""
    return (value for value in list_of(values) if isinstance(value, dict))

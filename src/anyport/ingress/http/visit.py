"""What a request's head says, made out once: who comes, where to, and with which MCP headers.

Everything here depends on the head's bytes alone, so that it can be remembered with them. What
the body says is decided later, and may overrule it.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final
from urllib.parse import parse_qs, unquote

import msgspec

from anyport.ingress.http.door import (
    Acceptable,
    Denial,
    Door,
    acceptable,
    accepts,
    post_media,
)
from anyport.protocol.capability import NOTHING
from anyport.protocol.errors import Fault, Situation
from anyport.protocol.exchange import Caller
from anyport.protocol.headers import NAMED_BY, decode_value
from anyport.protocol.principal import LOCAL, Principal
from anyport.protocol.reading import Reading
from anyport.protocol.revision import UNNEGOTIATED, Era, Revision, find_revision
from anyport.wire import members
from anyport.wire.http import RequestHead, read_request_head

SESSION: Final = "mcp-session-id"
VERSION: Final = "mcp-protocol-version"
METHOD: Final = "mcp-method"
NAME: Final = "mcp-name"
LAST_EVENT: Final = "last-event-id"
PARAM: Final = "mcp-param-"
_ONCE: Final = (SESSION, VERSION, METHOD, NAME, LAST_EVENT)


class Goal(Enum):
    """What lies at a path."""

    MCP = "mcp"
    """A profile's endpoint."""
    SSE = "sse"
    """The stream of the transport of 2024-11-05, at an address of its own."""
    MESSAGES = "messages"
    """Where that transport's clients post."""
    ASIDE = "aside"
    """Anything that is not MCP."""
    NOWHERE = "nowhere"
    """A profile that does not exist."""


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """One head, understood."""

    head: RequestHead
    goal: Goal
    length: int
    """Of a body that is counted; -1 for a chunked one."""
    profile: str = ""
    principal: Principal = LOCAL
    denial: Denial | None = None
    """Why it goes no further, whatever the body says."""
    takes: Acceptable = Acceptable(json=True, stream=True)
    session_id: str | None = None
    version: str | None = None
    revision: Revision | None = None
    """What `version` names; None also for one that nobody knows."""
    method: str | None = None
    name: str | None = None
    """Decoded."""
    last_event_id: str | None = None
    query_session: str | None = None
    param_fields: tuple[tuple[str, str], ...] = ()
    repeated: str | None = None
    """A header that must stand once and stands twice, or is not written as it must be."""
    context: Mapping[str, str] = MappingProxyType({})
    """The trace that the head names; see `tracing`. Never a reason to decide anything."""
    straight: bool = False
    """A message to an endpoint, and nothing about it is unusual: see `_is_straight`."""

    def stranger(self, transport: str) -> Caller:
        """Whoever sends this, where nothing more is known of them."""
        return Caller(
            profile=self.profile,
            session=None,
            revision=self.revision or UNNEGOTIATED,
            capabilities=NOTHING,
            principal=self.principal,
            transport=transport,
        )

    @property
    def is_modern(self) -> bool:
        """Whether the version header is one of the era without handshake."""
        return self.revision is not None and self.revision.era is Era.MODERN

    @property
    def speaks_modern(self) -> bool:
        """Whether the version header is one of the era without handshake, or of no era known."""
        if self.version is None:
            return False
        return self.revision is None or self.revision.era is Era.MODERN

    def disagreement(self, reading: Reading, version: str) -> Fault | None:
        """Where the headers of a modern request differ from its body, which they must repeat."""
        if self.repeated is not None:
            return mismatch(f"The header {self.repeated} must stand once, and be well formed")
        frame = reading.frame
        if self.version != version:
            return _differs("MCP-Protocol-Version", self.version, version)
        if self.method != frame.method:
            return _differs("Mcp-Method", self.method, frame.method)
        member = NAMED_BY.get(frame.method)
        if member is None:
            return None
        named = members.string(reading.found.get(member))
        if named is not None and named != self.name:
            return _differs("Mcp-Name", self.name, named)
        return None


def mismatch(words: str) -> Fault:
    """Headers that do not fit the body."""
    return Fault(situation=Situation.HEADER_MISMATCH, message=f"Header mismatch: {words}")


def _differs(header: str, sent: str | None, body: str) -> Fault:
    if sent is None:
        return mismatch(f"{header} is missing")
    return mismatch(f"{header} is {sent[:128]!r}, the body says {body[:128]!r}")


class Reception:
    """Makes visits out of heads."""

    def __init__(self, door: Door, profiles: Mapping[str, object], default: str | None) -> None:
        self.door = door
        self._profiles = profiles
        self.default = default
        """The profile at `/mcp` itself."""

    def read(self, raw: bytes) -> Visit:
        """The visit in a head.

        Raises:
            BadMessage: it is no head at all.
        """
        head = read_request_head(raw)
        length = -1 if head.body_length is None else head.body_length
        goal, profile = self._find(head.target)
        admitted = self.door.admit(head)
        if isinstance(admitted, Denial):
            return Visit(head=head, goal=goal, length=length, denial=admitted)
        if goal in (Goal.ASIDE, Goal.NOWHERE):
            return Visit(head=head, goal=goal, length=length, principal=admitted, profile=profile)
        return self._mcp(head, goal, profile, admitted)

    def _mcp(self, head: RequestHead, goal: Goal, profile: str, principal: Principal) -> Visit:
        fields = {name: head.get(name) for name in _ONCE}
        repeated = next((name for name in _ONCE if len(head.all(name)) > 1), None)
        name = fields[NAME]
        decoded = None if name is None else decode_value(name)
        if name is not None and decoded is None:
            repeated = NAME
        version = fields[VERSION]
        visit = Visit(
            head=head,
            goal=goal,
            length=-1 if head.body_length is None else head.body_length,
            profile=profile,
            principal=principal,
            denial=_unusable(head, goal),
            takes=acceptable(head),
            session_id=fields[SESSION],
            version=version,
            revision=None if version is None else find_revision(version),
            method=fields[METHOD],
            name=decoded,
            last_event_id=fields[LAST_EVENT],
            query_session=_query(head.target).get("session_id"),
            param_fields=tuple(field for field in head.fields if field[0].startswith(PARAM)),
            repeated=repeated,
        )
        return msgspec.structs.replace(visit, straight=_is_straight(visit))

    def _find(self, target: str) -> tuple[Goal, str]:
        """The goal at a path, and the profile that is meant."""
        path = target.partition("?")[0]
        head, *rest = [unquote(part) for part in path.strip("/").split("/")]
        if head != "mcp" or rest[1:] == ["info"] or len(rest) > 2:
            return Goal.ASIDE, ""
        profile = rest[0] if rest else self.default
        if profile is None or profile not in self._profiles:
            return Goal.NOWHERE, profile or ""
        goals = {(): Goal.MCP, ("sse",): Goal.SSE, ("messages",): Goal.MESSAGES}
        return goals.get(tuple(rest[1:]), Goal.ASIDE), profile


def _is_straight(visit: Visit) -> bool:
    """Whether a message need not be looked at twice before it is read: it is posted to an
    endpoint by someone who takes any answer, and stays connected."""
    posted = visit.goal is Goal.MCP and visit.head.method == "POST" and visit.denial is None
    known = visit.version is None or visit.revision is not None
    once = visit.repeated is None and not visit.param_fields
    return posted and known and once and visit.head.keep_alive and all(visit.takes)


def _query(target: str) -> dict[str, str]:
    _, _, query = target.partition("?")
    return {name: values[0] for name, values in parse_qs(query).items()} if query else {}


def _unusable(head: RequestHead, goal: Goal) -> Denial | None:
    """What of an MCP request can be refused without reading its body."""
    allowed = {Goal.MCP: "GET, POST, DELETE", Goal.SSE: "GET", Goal.MESSAGES: "POST"}[goal]
    if head.method not in allowed.split(", "):
        fields = (("allow", allowed),)
        return Denial(status=405, message=f"Only {allowed} is known here", fields=fields)
    if head.method == "POST":
        # Posts of the older transport are answered on its stream.
        unwanted = accepts(head, json=True, stream=True) if goal is Goal.MCP else None
        return post_media(head) or unwanted
    if head.method == "GET":
        return accepts(head, json=False, stream=True)
    return None

"""Request heads as MCP reads them: route, principal, session and MCP headers.

All of it follows from the bytes of the head alone, so it is cached with them. The body is read
later, and may overrule the headers.
"""

import re
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final
from urllib.parse import parse_qs, unquote

import msgspec

from anyport.ingress.http.access import (
    AcceptedMedia,
    AccessControl,
    Denial,
    check_accept,
    check_content_type,
    read_accept,
)
from anyport.protocol.capabilities import NO_CAPABILITIES
from anyport.protocol.errors import Fault, Situation
from anyport.protocol.exchange import Caller
from anyport.protocol.headers import NAMED_BY, decode_value
from anyport.protocol.principal import LOCAL, Principal
from anyport.protocol.request import ParsedRequest
from anyport.protocol.revisions import UNNEGOTIATED, Era, Revision, find_revision
from anyport.wire import raw_json
from anyport.wire.http1 import HEAD_BYTES_MAX, HeadCache, RequestHead, read_request_head

SESSION: Final = "mcp-session-id"
VERSION: Final = "mcp-protocol-version"
METHOD: Final = "mcp-method"
NAME: Final = "mcp-name"
LAST_EVENT: Final = "last-event-id"
PARAM: Final = "mcp-param-"
UNAUTHENTICATED: Final = "unauthenticated"
# RFC 9110, 9.2.1: safe methods are read-only.
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_SINGLE_FIELDS: Final = (SESSION, VERSION, METHOD, NAME, LAST_EVENT)


class RouteKind(Enum):
    """The kinds of route."""

    MCP = "mcp"
    """The MCP endpoint of a profile."""
    SSE = "sse"
    """The event stream of the HTTP+SSE transport (2024-11-05), at a URL of its own."""
    MESSAGES = "messages"
    """Where clients of HTTP+SSE send messages."""
    OTHER = "other"
    """Anything that is not MCP."""
    UNKNOWN_PROFILE = "unknown-profile"


class McpRequestHead(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed and authorized request head."""

    head: RequestHead
    route: RouteKind
    length: int
    """Of a counted body; -1 for a chunked one."""
    profile: str = ""
    principal: Principal = LOCAL
    denial: Denial | None = None
    """Why the request is refused, whatever its body says."""
    accepted: AcceptedMedia = AcceptedMedia(json=True, stream=True)
    session_id: str | None = None
    version: str | None = None
    revision: Revision | None = None
    """The revision of the version header; None for an unknown one, too."""
    method: str | None = None
    name: str | None = None
    """Decoded."""
    last_event_id: str | None = None
    query_session: str | None = None
    param_fields: tuple[tuple[str, str], ...] = ()
    bad_field: str | None = None
    """A header that is repeated or malformed."""
    context: Mapping[str, str] = MappingProxyType({})
    """The trace context of the request. Never a reason to decide anything."""
    peer: object = LOCAL
    """Whose share of the event loop the request uses: its principal's; denied requests share
    one."""
    is_plain_post: bool = False
    """Whether the request needs no checks before its body is read: see `_is_plain_post`."""

    def anonymous_caller(self, transport: str) -> Caller:
        """The caller, if only the head is known."""
        return Caller(
            profile=self.profile,
            session=None,
            revision=self.revision or UNNEGOTIATED,
            capabilities=NO_CAPABILITIES,
            principal=self.principal,
            transport=transport,
        )

    @property
    def is_modern(self) -> bool:
        """Whether the version header names a modern revision."""
        return self.revision is not None and self.revision.era is Era.MODERN

    @property
    def may_be_modern(self) -> bool:
        """Whether the version header names a modern revision, or an unknown one."""
        if self.version is None:
            return False
        return self.revision is None or self.revision.era is Era.MODERN

    @property
    def outlives_connection(self) -> bool:
        """Whether the request is served although its client disconnected while it was queued.

        In a legacy session a disconnect does not cancel (MCP 2025-03-26, transports). Everything
        else is answered on its own connection only, and a stream begun now would never learn that
        the client is gone.
        """
        if self.denial is not None or self.head.method == "GET":
            return False
        in_session = self.session_id is not None and not self.is_modern
        return in_session or self.route is RouteKind.MESSAGES

    def find_header_mismatch(self, parsed: ParsedRequest, version: str) -> Fault | None:
        """Compare the headers of a modern request with its body, which they must repeat."""
        if self.bad_field is not None:
            return header_mismatch(
                f"The header {self.bad_field} must appear once, and be well formed"
            )
        frame = parsed.frame
        if self.version != version:
            return _header_differs("MCP-Protocol-Version", self.version, version)
        if self.method != frame.method:
            return _header_differs("Mcp-Method", self.method, frame.method)
        member = NAMED_BY.get(frame.method)
        if member is None:
            return None
        named = raw_json.decode_string(parsed.param_members.get(member))
        if named is not None and named != self.name:
            return _header_differs("Mcp-Name", self.name, named)
        return None


def header_mismatch(reason: str) -> Fault:
    return Fault(situation=Situation.HEADER_MISMATCH, message=f"Header mismatch: {reason}")


def _header_differs(header: str, sent: str | None, body: str) -> Fault:
    if sent is None:
        return header_mismatch(f"{header} is missing")
    return header_mismatch(f"{header} is {sent[:128]!r}, the body says {body[:128]!r}")


class RequestHeadParser:
    """Parses and authorizes request heads."""

    def __init__(
        self, access: AccessControl, profiles: Mapping[str, object], default: str | None
    ) -> None:
        self.access = access
        self._profiles = profiles
        self.default_profile = default
        """The profile at `/mcp`."""

    def parse(self, raw: bytes) -> McpRequestHead:
        """Parse a head.

        Raises:
            BadMessage: not a valid HTTP head.
        """
        return self._authorize(read_request_head(raw))

    def recheck(self, request: McpRequestHead) -> McpRequestHead:
        """Authorize a parsed head again, by the current configuration."""
        rechecked = self._authorize(request.head)
        if not request.context:
            return rechecked
        return msgspec.structs.replace(rechecked, context=request.context, is_plain_post=False)

    def _authorize(self, head: RequestHead) -> McpRequestHead:
        length = -1 if head.body_length is None else head.body_length
        route, profile = self._route(head.target)
        admitted = self.access.admit(head)
        if isinstance(admitted, Denial):
            return McpRequestHead(
                head=head, route=route, length=length, denial=admitted, peer=UNAUTHENTICATED
            )
        if route in (RouteKind.OTHER, RouteKind.UNKNOWN_PROFILE):
            is_change = route is RouteKind.OTHER and head.method not in SAFE_METHODS
            return McpRequestHead(
                head=head,
                route=route,
                length=length,
                principal=admitted,
                peer=admitted,
                profile=profile,
                denial=self.access.check_change(head) if is_change else None,
            )
        return self._parse_mcp(head, route, profile, admitted)

    def _parse_mcp(
        self, head: RequestHead, route: RouteKind, profile: str, principal: Principal
    ) -> McpRequestHead:
        fields = {name: head.get(name) for name in _SINGLE_FIELDS}
        bad_field = next((name for name in _SINGLE_FIELDS if len(head.all(name)) > 1), None)
        name = fields[NAME]
        decoded = None if name is None else decode_value(name)
        if name is not None and decoded is None:
            bad_field = NAME
        version = fields[VERSION]
        request = McpRequestHead(
            head=head,
            route=route,
            length=-1 if head.body_length is None else head.body_length,
            profile=profile,
            principal=principal,
            peer=principal,
            denial=_find_denial(head, route),
            accepted=read_accept(head),
            session_id=fields[SESSION],
            version=version,
            revision=None if version is None else find_revision(version),
            method=fields[METHOD],
            name=decoded,
            last_event_id=fields[LAST_EVENT],
            query_session=_query_params(head.target).get("session_id"),
            param_fields=tuple(field for field in head.fields if field[0].startswith(PARAM)),
            bad_field=bad_field,
        )
        return msgspec.structs.replace(request, is_plain_post=_is_plain_post(request))

    def _route(self, target: str) -> tuple[RouteKind, str]:
        """The route of a request target, and its profile."""
        path = target.partition("?")[0]
        head, *rest = [unquote(part) for part in path.strip("/").split("/")]
        if head != "mcp" or rest[1:] == ["info"] or len(rest) > 2:
            return RouteKind.OTHER, ""
        profile = rest[0] if rest else self.default_profile
        if profile is None or profile not in self._profiles:
            return RouteKind.UNKNOWN_PROFILE, profile or ""
        routes = {(): RouteKind.MCP, ("sse",): RouteKind.SSE, ("messages",): RouteKind.MESSAGES}
        return routes.get(tuple(rest[1:]), RouteKind.OTHER), profile


def _is_plain_post(request: McpRequestHead) -> bool:
    """Whether a POST to the endpoint can go straight to its body: valid headers, both media types
    accepted, keep-alive."""
    posted = (
        request.route is RouteKind.MCP and request.head.method == "POST" and request.denial is None
    )
    known = request.version is None or request.revision is not None
    no_repeats = request.bad_field is None and not request.param_fields
    return posted and known and no_repeats and request.head.keep_alive and all(request.accepted)


def _query_params(target: str) -> dict[str, str]:
    _, _, query = target.partition("?")
    return {name: values[0] for name, values in parse_qs(query).items()} if query else {}


def _find_denial(head: RequestHead, route: RouteKind) -> Denial | None:
    """Why an MCP request is refused without reading its body."""
    allowed = {
        RouteKind.MCP: "GET, POST, DELETE",
        RouteKind.SSE: "GET",
        RouteKind.MESSAGES: "POST",
    }[route]
    if head.method not in allowed.split(", "):
        fields = (("allow", allowed),)
        return Denial(status=405, message=f"Only {allowed} is allowed here", fields=fields)
    if head.method == "POST":
        # HTTP+SSE answers on the stream, whatever the POST accepts.
        unwanted = check_accept(head, json=True, stream=True) if route is RouteKind.MCP else None
        return check_content_type(head) or unwanted
    if head.method == "GET":
        return check_accept(head, json=False, stream=True)
    return None


# The trace context is removed from a head before the cache look-up. `traceparent` differs in every
# request: left in place, every head would be new and fill the cache. Its value is validated
# elsewhere.

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"

_TRACE_FIELD: Final = re.compile(
    # Only valid field values: any other line is left for the parser to reject.
    rb"\r\n(traceparent|tracestate|baggage):[ \t]*([\t\x20-\x7e]*)(?=\r\n|\Z)",
    re.IGNORECASE,
)


class TracedHeadCache(HeadCache[McpRequestHead]):
    """A cache of heads that ignores their trace context."""

    def parse(self, raw: bytes) -> McpRequestHead:
        """Parse a head, and add its trace context.

        Raises:
            BadMessage: not a valid HTTP head.
        """
        rest, context = split_trace_context(raw)
        request = super().parse(rest)
        if not context:
            return request
        return msgspec.structs.replace(request, context=context, is_plain_post=False)


def split_trace_context(raw: bytes) -> tuple[bytes, Mapping[str, str]]:
    """Split a head into the rest and its trace context. Baggage is dropped."""
    if len(raw) > HEAD_BYTES_MAX:
        return raw, {}  # Rejected later for its size.
    rest, count = _TRACE_FIELD.subn(b"", raw)
    if not count:
        return raw, {}
    found: dict[str, list[str]] = {}
    for name, value in _TRACE_FIELD.findall(raw):
        found.setdefault(name.decode().lower(), []).append(value.decode().strip(" \t"))
    # W3C Trace Context, 3.2.2: more than one `traceparent` is as good as none.
    if len(found.get(TRACEPARENT, ())) != 1:
        return rest, {}
    context = {TRACEPARENT: found[TRACEPARENT][0]}
    if TRACESTATE in found:
        context[TRACESTATE] = ",".join(found[TRACESTATE])
    return rest, context

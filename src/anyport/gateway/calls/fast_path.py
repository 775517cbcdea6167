"""The fast path of a `tools/call` that its caller has made before.

Nearly every call repeats an earlier one: the same name, over the same connection, written in the
same way. Nothing about it has to be decided again: what its params and its result need cut off and
put in front was worked out when the first one was answered. Anything unusual in the request or the
answer, and the call leaves the fast path and continues as an ordinary `Call`. Its answers are those
of an ordinary call, with one exception: a result that names a member twice passes here as it came,
and is refused there.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
from msgspec import Raw

from anyport.catalog.catalog import Catalog
from anyport.gateway.calls.deadline import SLOW_CALL_SECONDS
from anyport.gateway.identity import server_info_of
from anyport.gateway.profile import Profile
from anyport.gateway.recording.call_recorder import CallEventTemplate
from anyport.protocol import meta
from anyport.protocol.adapters.modern_client import complete_result
from anyport.protocol.adapters.server import RAW_COMPLETE
from anyport.protocol.errors import Timeout
from anyport.protocol.exchange import Caller, ClientAdapter, Exchange, ReplyWriter
from anyport.protocol.memory_budget import ClientLoad
from anyport.protocol.meta import PROGRESS
from anyport.protocol.methods import METHODS, Method
from anyport.protocol.principal import Principal
from anyport.protocol.request import TOOLS_CALL, PlainCall, split_token
from anyport.protocol.result import ABSENT, ResultShape, ShapedResult, may_hold_unknown_content
from anyport.protocol.revisions import Era, Revision
from anyport.protocol.transcript import Transcript
from anyport.upstream.circuit_breaker import CircuitBreaker
from anyport.upstream.connection import Connection
from anyport.upstream.lease_key import owners_of
from anyport.upstream.pending_call import Answer, CallTemplate, NoAnswer, PendingCall
from anyport.upstream.server import Server
from anyport.wire import jsonrpc, raw_json

if TYPE_CHECKING:
    from anyport.gateway.calls.call import Call
    from anyport.gateway.relay import Relay

COMPLETE_PREFIX: Final = b'{"resultType":%b,' % RAW_COMPLETE
_COMPLETE_PREFIX_BYTES: Final = len(COMPLETE_PREFIX)
_ANSWER: Final = b'{"jsonrpc":"2.0","id":%b,"result":%b}'
_ANSWER_BYTES: Final = len(_ANSWER % (b"", b""))
_ANSWER_REST: Final = b'{"jsonrpc":"2.0","id":%b,"result":{%b}'
"""With the rest of a result, after its opening brace."""
_ANSWER_WITH_END: Final = b'{"jsonrpc":"2.0","id":%b,"result":%b%b}'
"""With a result without its closing brace, and its new end."""


class FastPath(msgspec.Struct, frozen=True, kw_only=True):
    """What one caller's calls of one tool need. Valid while catalog and connection are."""

    caller: Caller
    catalog: Catalog
    profile: Profile
    server: Server
    native: str
    public: str
    meta: bytes
    """The `_meta` of these calls, without progress tokens."""
    connection: Connection
    lease_owner: str
    """Whose connection it is; empty for one that is shared."""
    breaker: CircuitBreaker
    """The server's circuit breaker."""
    client_load: ClientLoad | None
    """The calls that the client has in flight."""
    event_template: CallEventTemplate
    request_template: CallTemplate
    """The request to the server."""
    modern_server: bool
    result_end: bytes
    """What replaces the closing brace of a result."""
    result_end_with_type: bytes
    """The same for a result without `resultType`."""
    changes_result_end: bool
    """Whether it is replaced by anything but itself."""
    legacy_revision: Revision | None
    """The revision of a legacy client, which may not know all kinds of content."""
    passes_unchanged: bool
    """Whether results pass unchanged, as in a transparent profile."""
    params_bytes: int
    """Size of the client's params, without arguments and progress token."""
    sent_bytes: int
    """Size of the server's params, without arguments and progress token."""

    def answer(self, id: bytes, result: bytes, shape: ResultShape) -> bytes | None:
        """The answer for the client; None if the result needs more than the fast path can do."""
        hinted = shape.ttl is not ABSENT or shape.scope is not ABSENT
        failed = shape.is_error is not ABSENT and bytes(shape.is_error) != b"false"
        if shape.raw_meta is not ABSENT or hinted or failed:
            return None
        if self.passes_unchanged:
            return _ANSWER % (id, result)
        odd = shape.structured is not ABSENT and bytes(shape.structured)[:1] != b"{"
        if odd or (
            self.legacy_revision is not None
            and may_hold_unknown_content(result, self.legacy_revision)
        ):
            return None
        if shape.result_type is not ABSENT:
            # Some servers of sessions say it, too.
            if not result.startswith(COMPLETE_PREFIX) or bytes(shape.result_type) != RAW_COMPLETE:
                return None
            if not self.changes_result_end:
                return _ANSWER_REST % (id, result[_COMPLETE_PREFIX_BYTES:])
            return _ANSWER_WITH_END % (id, result[:-1], self.result_end)
        if self.modern_server:
            return None
        if not self.changes_result_end:
            return _ANSWER % (id, result)
        if result[-2:-1] in b"{ \t\r\n":  # It may be empty.
            return None
        return _ANSWER_WITH_END % (id, result[:-1], self.result_end_with_type)

    def server_params(self, plain: PlainCall, number: int) -> bytes:
        """The params of the request with this number, as the server gets them."""
        return self.request_template.fill(number, plain.arguments)[
            _REQUEST_PREFIX_BYTES + len(b"%d" % number) : -1
        ]


class FastCall(msgspec.Struct, eq=False):
    """One call on the fast path."""

    _relay: "Relay"
    path: FastPath
    plain: PlainCall
    client: ClientAdapter
    writer: ReplyWriter
    key: Hashable
    started: float = 0.0
    pending: PendingCall | None = None
    reported: bool = False
    """Whether the client was sent progress."""
    queued: float = 0.0
    """Seconds in the server's call queue."""
    number: int = 0
    """The id of the request to the server."""
    transcript: Transcript | None = None
    """Set once there was progress, if that is recorded."""
    _continuation: "Call | None" = None
    """Set once it has left the fast path."""

    method: ClassVar[Method] = METHODS[TOOLS_CALL]

    def start(self) -> None:
        """Send the request."""
        relay, path = self._relay, self.path
        self.started = relay.clock.monotonic()
        relay.calls.open[self] = self
        pending = path.connection.call_from_template(
            path.request_template,
            self.plain.arguments,
            self.on_answer,
            self.on_progress,
            path.client_load or self.writer,
        )
        if isinstance(pending, NoAnswer):
            self.on_answer(pending)
        else:
            self.pending, self.number = pending, pending.number

    def on_answer(self, answer: Answer) -> None:
        """Answer the client; or leave the fast path, if the answer is unusual."""
        if self._continuation is None and isinstance(answer, ShapedResult):
            id = self.plain.id
            frame = self.path.answer(id, answer.result, answer.shape)
            if frame is not None:
                relay, pending = self._relay, self.pending
                server_seconds = relay.clock.monotonic() - self.started
                if pending is not None and pending.admitted_at:
                    self.queued = pending.admitted_at - self.started
                    server_seconds -= self.queued
                # The pending call holds on to this one: cut, or both wait for the collector.
                self.pending = None
                if self.path.breaker.failures:
                    self.path.server.health.on_answer(answer, self.started)
                size = len(frame) - _ANSWER_BYTES - len(id)
                relay.on_fast_result(self, size, server_seconds, answer.result, frame)
                return
        self.leave_fast_path().on_answer(answer)

    def on_progress(self, reports: Sequence[bytes]) -> None:
        """Pass progress on, with the client's token."""
        pending, token = self.pending, self.plain.token
        if self._continuation is None and pending is not None and token is not None:
            ours = b'{"progressToken":%d,' % pending.number
            if all(params.startswith(ours) for params in reports):
                size, opening = len(ours), _PROGRESS_PREFIX % token
                self.reported = True
                own = [b"%b%b}" % (opening, params[size:]) for params in reports]
                self.writer.send_frames(*own)
                if self.path.event_template.level != "off":
                    self._record_progress(reports, own)
                return
        self.leave_fast_path().on_progress(reports)

    def _record_progress(self, reports: Sequence[bytes], frames: Sequence[bytes]) -> None:
        transcript = self.transcript
        if transcript is None:
            keeps = self.path.event_template.level == "full"
            transcript = self.transcript = Transcript(
                clock=self._relay.clock.monotonic, keeps_payloads=keeps
            )
        for report, frame in zip(reports, frames, strict=True):
            transcript.record("server-notification", "server", PROGRESS, report)
            transcript.record_forwarded(
                "server-notification", "client", PROGRESS, frame[_PROGRESS_HEAD_BYTES:-1]
            )

    # What the record needs.

    @property
    def principal(self) -> Principal:
        return self.path.caller.principal

    def request_sizes(self) -> tuple[bytes, int, int]:
        """Its arguments, and the sizes of the client's and the server's params."""
        path, plain = self.path, self.plain
        arguments = bytes(plain.arguments)
        size = len(arguments)
        if plain.token is None:
            return arguments, path.params_bytes + size, path.sent_bytes + size
        token, own = len(plain.token), len(b"%d" % self.number)
        return arguments, path.params_bytes + size + token, path.sent_bytes + size + own

    def raw_params(self) -> tuple[bytes, bytes]:
        """The params as the client sent them, and as the server got them."""
        plain = self.plain
        return plain.params, self.path.server_params(plain, self.number)

    def params_without_arguments(self) -> tuple[bytes, bytes]:
        """The same without its arguments."""
        plain = msgspec.structs.replace(self.plain, arguments=Raw(b"{}"))
        return plain.params, self.path.server_params(plain, self.number)

    @property
    def kind(self) -> tuple[bytes, bytes] | None:
        """What all calls like this one have in common; None if not only their arguments differ."""
        token = self.plain.token
        if token is not None and token[:1] == b'"':  # A text, which may say anything.
            return None
        return self.path.request_template.frame, self.plain.raw_meta

    def leave_fast_path(self) -> "Call":
        """Go on as an ordinary call."""
        if self._continuation is None:
            self._continuation = self._relay.continue_call(self)
        return self._continuation

    # What a client adapter needs of any open request.

    @property
    def id(self) -> bytes:
        return self.plain.id

    @property
    def params(self) -> bytes:
        return self.plain.params

    def cancel(self, reason: bytes | None = None) -> None:
        """Leave the fast path, and cancel the ordinary call."""
        if self.pending is not None or self._continuation is not None:
            self.leave_fast_path().exchange.cancel(reason)
        # Otherwise it has its answer, which waits until it is recorded.

    # What the table of calls needs.

    @property
    def server(self) -> Server:
        return self.path.server

    @property
    def lease_owner(self) -> str:
        """Whose connection it uses; empty for one that everybody shares."""
        return self.path.lease_owner

    def check_deadline(self, now: float) -> None:
        """A slow call leaves the fast path, to be recorded before it ends, and cancelled."""
        if now - self.started >= SLOW_CALL_SECONDS:
            self.leave_fast_path()

    def on_timeout(self, timeout: Timeout) -> None:
        """It leaves the fast path, and times out as an ordinary call."""
        self.leave_fast_path()


_PROGRESS_PREFIX: Final = (
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%b,'
)
_PROGRESS_HEAD_BYTES: Final = _PROGRESS_PREFIX.index(b'{"progressToken"')
EMPTY_CALL: Final = jsonrpc.encode_request(b"0", TOOLS_CALL, b"")
"""A call without params."""
_REQUEST_PREFIX_BYTES: Final = len(EMPTY_CALL) - 2
"""Of a request, before its params and without its id."""


FAST_PATHS_MAX: Final = 512
"""Entries of any kind in a caller's cache beyond which no fast path is added."""

_SAMPLE_TOKEN: Final = b'"progressToken":0'
_SAMPLE_ARGUMENTS: Final = b'"arguments":{}'
_SAMPLE_CONTENT: Final = b'"content":[]'


class CallRoute(msgspec.Struct, frozen=True):
    """The target of a call, and the connection it used."""

    profile: Profile
    server: Server
    native: str
    connection: Connection


def remember_fast_path(
    exchange: Exchange,
    route: CallRoute,
    event_template: Callable[[Exchange, str, str], CallEventTemplate],
) -> None:
    """Let the next call like this one take the fast path."""
    memory = exchange.caller.cache
    if exchange.trace_context or len(memory) >= FAST_PATHS_MAX:
        return
    key = (exchange.name, exchange.progress_token is None)
    known: FastPath | None = memory.get(key)
    catalog = route.profile.catalog_of(exchange.caller)
    if known is not None and known.connection is route.connection and known.catalog is catalog:
        meta_raw = exchange.param_members.get("_meta")
        if known.meta == (b"" if meta_raw is None else split_token(bytes(meta_raw))[0]):
            return
    path = build_fast_path(
        exchange, route, event_template(exchange, route.server.slug, route.native)
    )
    if path is not None:
        memory[key] = path


def build_fast_path(
    exchange: Exchange, route: CallRoute, event_template: CallEventTemplate
) -> FastPath | None:
    """The fast path of a caller's next call like this one, if there is one.

    What the server must be sent is not worked out again here, but read off a sample that goes
    through the ordinary code.
    """
    caller, peer, raw = exchange.caller, route.connection.peer, exchange.param_members.get("_meta")
    catalog, server = route.profile.catalog_of(caller), route.server
    modern_server = peer is not None and peer.revision.era is Era.MODERN
    # What a session's server logs may have to be set before each call.
    sets_level = caller.log_level is not None and not modern_server
    is_unusual = caller.revision.missing_content or (caller.session is None and raw is None)
    has_own_connection = exchange.lease_owner not in ("", *owners_of(caller.principal))
    if (
        peer is None
        or sets_level
        or is_unusual
        or has_own_connection
        or catalog.public_uris
        or server.annotations(route.native)
    ):
        return None
    about, token = (b"", None) if raw is None else split_token(bytes(raw))
    request_template = (
        _build_request_template(exchange, route, about)
        if token == exchange.progress_token
        else None
    )
    if request_template is None:
        return None
    plain = PlainCall(0, b"0", exchange.name, Raw(b""), about, None)
    ends = [b"}", b"}"]
    if caller.revision.era is Era.MODERN:
        samples = (COMPLETE_PREFIX + _SAMPLE_CONTENT, b"{" + _SAMPLE_CONTENT)
        identity = server_info_of(route.profile)
        ends = [complete_result(exchange, s + b"}", identity).removeprefix(s) for s in samples]
    return FastPath(
        caller=caller,
        catalog=catalog,
        profile=route.profile,
        server=server,
        native=route.native,
        public=exchange.name,
        meta=about,
        connection=route.connection,
        lease_owner=exchange.lease_owner,
        breaker=server.health.breaker,
        client_load=exchange.client_load,
        event_template=event_template,
        request_template=request_template,
        modern_server=modern_server,
        result_end=ends[0],
        result_end_with_type=ends[1],
        changes_result_end=ends[0] != b"}",
        legacy_revision=caller.revision if caller.revision.era is Era.LEGACY else None,
        passes_unchanged=route.profile.passes_results_unchanged(caller.revision, peer.revision),
        params_bytes=len(plain.params) - (token is not None),
        sent_bytes=len(request_template.fill(0, b""))
        - len(EMPTY_CALL)
        - request_template.wants_progress,
    )


def _build_request_template(
    exchange: Exchange, route: CallRoute, about: bytes
) -> CallTemplate | None:
    """The request to the server, with gaps for the id and the arguments."""
    peer, reports = route.connection.peer, exchange.progress_token is not None
    if peer is None:
        return None
    opening = b'{"name":%b,' % raw_json.encode_string(route.native)
    closing = b',"_meta":%b}' % about if about else b"}"
    raw = Raw(about) if about else None
    sent = peer.adapter.request_params(opening + _SAMPLE_ARGUMENTS + closing, raw, exchange.caller)
    if reports:
        sent = meta.edit_meta(sent, {meta.PROGRESS_TOKEN: b"0"})
    closing = sent.removeprefix(opening + _SAMPLE_ARGUMENTS).replace(b"%", b"%%")
    if (reports and closing.count(_SAMPLE_TOKEN) != 1) or not sent.startswith(
        opening + _SAMPLE_ARGUMENTS
    ):
        return None
    if reports:
        closing = closing.replace(_SAMPLE_TOKEN, b'"progressToken":%d')
    opening = opening.replace(b"%", b"%%")
    params = b'%b"arguments":%%b%b' % (opening, closing)
    return CallTemplate(route.native, jsonrpc.encode_request(b"%d", TOOLS_CALL, params), reports)

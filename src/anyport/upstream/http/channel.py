"""Calls over HTTP: each is one POST, and its failure ends that call alone.

Subclasses add the era: how a request is addressed, and what a session needs. That no connection
could be opened is reported for the whole server.
"""

import asyncio
import re
from collections.abc import Callable, Generator, Sequence
from http import HTTPStatus
from itertools import islice
from math import inf
from typing import ClassVar, Final, ParamSpec, cast

import msgspec
from msgspec import Raw

from anyport.protocol.errors import Situation, Timeout
from anyport.protocol.memory_budget import MemoryReservation
from anyport.protocol.methods import IDEMPOTENT_METHODS
from anyport.protocol.scheduler import HEAVY_BYTES, WorkSteps, cost_of
from anyport.upstream.connection import Connection
from anyport.upstream.http.client import CONNECTIONS_MAX, HttpClient
from anyport.upstream.http.connection import ClientConnection, HttpFailure, HttpFailureKind
from anyport.upstream.http.errors import (
    UNREACHABLE_KINDS,
    answer_of_failure,
    answer_without_message,
    busy_answer,
    retry_after_of,
    stream_cut_off,
)
from anyport.upstream.http.headers import REDIRECTS_MAX, RequestHeads, redirect_target, retarget
from anyport.upstream.pending_call import CallOutcome, NoAnswer, PendingCall, Retryable
from anyport.upstream.transport import TransportOwner
from anyport.wire import jsonrpc, raw_json
from anyport.wire.http1 import ResponseHead
from anyport.wire.jsonrpc import METHOD_NOT_FOUND
from anyport.wire.lines import Overlong
from anyport.wire.sse import EventSplitter, SseEvent

# What the body of a response says: the answer to a request, or that the session is unknown.
#
# An answer must be recognised in whatever form it is written, because a call without an answer may
# be sent again. And a text about a session counts only where it cannot mean anything else: tools
# have sessions of their own.

ERROR_TEXT_BYTES_MAX: Final = 1024
"""How much of an error is searched for a mention of the session; servers that mention it need a
line."""
ID_BYTES_MAX: Final = 64
"""Our ids are short numbers; anything longer is not one of them."""

_SESSION_UNKNOWN: Final = -32001
"""Not a code of MCP: the TypeScript SDK uses it, and others after it. It has a second meaning."""
_NO_REQUEST_IDS: Final = (b"", b"null", b'""', b'"server-error"')
"""The ids in answers of SDKs to a request that they have not read."""
_BOM: Final = b"\xef\xbb\xbf"
_SPACE: Final = b" \t\r\n"
_ARRAY: Final = msgspec.json.Decoder(list[Raw])
_NUMBER: Final = msgspec.json.Decoder(str | int | float)
_UNKNOWN_PATTERN: Final = r"""
    (?: not\ found | could\ not\ be\ found | does\ not\ exist | not\ valid | unknown | invalid
      | expired | terminated | missing | required )
"""
_SESSION_UNKNOWN_PATTERN: Final = re.compile(
    rf"""
    (?: ^ | :\ ? ) (?: the\  | this\  | there\ is\  )?
    (?:
        (?: unknown | invalid | expired | terminated | missing | no\ valid | no\ such )
        (?: \ or\ \w+ )? \ (?:mcp[- ])? session \b
      |
        (?:mcp[- ])? session (?:[- ]?id)? (?:\ header)?
        (?: \ ['"]?(?=[\w-]*\d)[\w-]+['"]? )?  # The id itself.
        \ (?: (?:is|was|has|been|either)\  ){{0,2}} {_UNKNOWN_PATTERN} \b
        (?! \ (?:before|while|during) )  # Of a session that ended under a call.
    )
    """,
    re.VERBOSE,
)


def plain_message(body: bytes, number: int) -> bytes:
    """The message in a body: without byte order mark, white space and the brackets of an array of
    one, and with the id as it was sent, if it is that id in another form."""
    own = b"%d" % number
    if body[:1] == b"{" and jsonrpc.id_at_edge(body) == own:
        return body
    bare = _unwrap(body)
    if bare[:1] != b"{" or jsonrpc.check_limits(bare, jsonrpc.OUTBOUND) is not None:
        return bare
    try:
        id = raw_json.unique_members(bare).get("id")
    except (msgspec.DecodeError, RecursionError, raw_json.AmbiguousObject):
        return bare
    if id is None or bytes(id) == own or not _is_number(bytes(id), number):
        return bare
    return raw_json.edit(bare, {"id": own})


def read_session_error(status: int, message: bytes, number: int) -> Retryable | None:
    """Whether a call may be sent again in a new session; None if the session is not at fault.

    404 means that the session is unknown, but some servers also send it for calls that they have
    carried out. So the text decides, and only one that names no request. Servers that follow a
    widespread example send 400 instead. The message comes from `plain_message`.
    """
    if status not in (HTTPStatus.NOT_FOUND, HTTPStatus.BAD_REQUEST):
        return None
    default = Retryable.IF_SAFE if status == HTTPStatus.NOT_FOUND else None
    if message[:1] not in (b"{", b"["):
        text = message[:ERROR_TEXT_BYTES_MAX].decode(errors="replace")
        return Retryable.ALWAYS if _says_session_unknown(text) else default
    found = _members(message)
    if found is None:
        return default
    id, error = _raw(found, "id"), _members(_raw(found, "error"))
    code, error_text = _error_of(found)
    unknown = _says_session_unknown(error_text) or (
        code == _SESSION_UNKNOWN and "session" in error_text.lower()
    )
    if id == b"%d" % number and ("result" in found or error is not None):
        # The server's answer to this call, whatever the status; a second attempt would get the
        # same.
        return Retryable.NEVER if unknown and "result" not in found else None
    if code == METHOD_NOT_FOUND:
        return None
    return (
        Retryable.ALWAYS if unknown and id in _NO_REQUEST_IDS and "result" not in found else default
    )


def _says_session_unknown(error_text: str) -> bool:
    return (
        _SESSION_UNKNOWN_PATTERN.search(error_text[:ERROR_TEXT_BYTES_MAX].strip().lower())
        is not None
    )


def _error_of(fields: dict[str, Raw]) -> tuple[int | None, str]:
    """Code and message of an error, also in the places where web frameworks put them."""
    # Java's SDK serializes the exception, with the error as a member.
    for name in ("error", "jsonRpcError"):
        error = _members(_raw(fields, name))
        if error is not None:
            code = _raw(error, "code")
            number = int(code) if re.fullmatch(rb"-?[0-9]{1,9}", code) else None
            return number, raw_json.decode_string(error.get("message")) or ""
    for name in ("error", "message", "detail"):
        text = raw_json.decode_string(fields.get(name))
        if text is not None:
            return None, text
    return None, ""


def _members(raw: bytes) -> dict[str, Raw] | None:
    """None for anything but an object that all parsers read in the same way."""
    try:
        found = raw_json.unique_members(raw)
    except (msgspec.DecodeError, RecursionError, raw_json.AmbiguousObject):
        return None
    return None if raw_json.find_lookalike(found, jsonrpc.ENVELOPE_MEMBERS) else found


def _raw(found: dict[str, Raw], name: str) -> bytes:
    return bytes(found.get(name, b""))


def _unwrap(body: bytes) -> bytes:
    bare = body.removeprefix(_BOM).strip(_SPACE)
    if bare[:1] != b"[" or jsonrpc.check_limits(bare, jsonrpc.OUTBOUND) is not None:
        return bare
    try:
        items = _ARRAY.decode(bare)
    except (msgspec.DecodeError, RecursionError):
        return bare
    return bytes(items[0]) if len(items) == 1 else bare


def _is_number(id: bytes, number: int) -> bool:
    """Whether an id is this number in another form: "7" or 7.0."""
    try:
        value = _NUMBER.decode(id) if len(id) <= ID_BYTES_MAX else ""
        return float(value) == number
    except (msgspec.DecodeError, ValueError):
        return False


# Messages without an answer: notifications, and answers to the server's requests.
#
# A server that has gone silent gets one for each call that times out. They must not take up all
# connections, which calls need, too.

ONE_WAY_SECONDS_MAX: Final = 10.0
"""For a server to accept one, including the time in the queue."""
ONE_WAY_POSTS_MAX: Final = CONNECTIONS_MAX // 2
"""Sent at once."""
ONE_WAY_POSTS_WAITING_MAX: Final = 1024
"""When the queue is full, the oldest is dropped."""


class OneWayPosts:
    """The one-way posts of one channel."""

    def __init__(self, client: HttpClient, on_failure: Callable[[HttpFailure], None]) -> None:
        self._client = client
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._under_way: set[OneWayPost] = set()
        self._waiting: dict[OneWayPost, tuple[bytes, bytes]] = {}

    def send(self, head: bytes, frame: bytes) -> None:
        """Send one, or queue it."""
        post = OneWayPost(self)
        self._loop.call_later(ONE_WAY_SECONDS_MAX, self._give_up, post)
        if len(self._under_way) < ONE_WAY_POSTS_MAX:
            self._begin(post, head, frame)
            return
        if len(self._waiting) >= ONE_WAY_POSTS_WAITING_MAX:
            del self._waiting[next(iter(self._waiting))]
        self._waiting[post] = head, frame

    def on_done(self, post: "OneWayPost", failure: HttpFailure | None = None) -> None:
        """A post has been accepted, or has failed."""
        self._under_way.discard(post)
        if self._waiting:
            next_post = next(iter(self._waiting))
            self._begin(next_post, *self._waiting.pop(next_post))
        if failure is not None:
            self._on_failure(failure)

    def _begin(self, post: "OneWayPost", head: bytes, frame: bytes) -> None:
        self._under_way.add(post)
        self._client.request(head, frame, post)

    def _give_up(self, post: "OneWayPost") -> None:
        self._waiting.pop(post, None)
        if post in self._under_way:
            self._client.cancel(post)
            self.on_done(post)


class OneWayPost:
    """Handles the response to one post."""

    wait_timeout = None
    repeatable = True

    def __init__(self, posts: OneWayPosts) -> None:
        self.http_connection: ClientConnection | None = None
        self._posts = posts

    def renew_body(self) -> None: ...

    def on_response(self, head: ResponseHead, body: bytes) -> None:
        """Accepted or rejected: there is no caller to report it to."""
        self._posts.on_done(self)

    def on_stream(self, head: ResponseHead) -> None: ...

    def on_stream_data(self, portion: bytes) -> WorkSteps:
        yield cost_of(len(portion))

    def on_stream_closed(self, failure: HttpFailure | None) -> None:
        self._posts.on_done(self)

    def on_failure(self, failure: HttpFailure) -> None:
        self._posts.on_done(self, failure)


ENDLESS_FACTOR: Final = 2
"""An event without an end is given up at this multiple of the limit."""

BATCH_MAX: Final = 32
"""Messages of a stream that are handled together."""

STREAM_END_SECONDS: Final = 1.0
"""How long a server that has answered on a stream may take to end it."""
HTTP_OK: Final = 200
"""A plain number: the enumeration is slow to compare, and this runs for every response."""


class HttpChannel:
    """Sends calls as POSTs. Subclasses address requests and read answers as their dialect
    requires."""

    full = False

    @property
    def listening_since(self) -> float:
        return -inf

    @property
    def streamless(self) -> bool:
        return False

    def __init__(
        self,
        client: HttpClient,
        request_heads: RequestHeads,
        owner: TransportOwner,
    ) -> None:
        self.client = client
        self.request_heads = request_heads
        self.bytes_max = client.bytes_max
        self.loop = asyncio.get_running_loop()
        self.connection: Connection
        """Set before anything is sent."""
        self.owner = owner
        self._one_way_posts = OneWayPosts(client, self.report_unreachable)
        self.may_repeat = True
        """Whether calls without side effects may be sent again: `retry` in the configuration."""
        self.ending_streams: set[HttpCall] = set()
        """Answered calls whose stream has not ended."""
        self._end_planned = False

    def drain(self, reason: str) -> None:
        """Send nothing new; open calls may still be answered."""
        if self.connection.draining_reason is None:
            self.owner.on_draining(self.connection, reason)

    def send(self, frame: bytes, call: PendingCall | None) -> None:
        raise NotImplementedError

    def cancel(self, call: PendingCall) -> bool:
        """Close the response of a call. That does not cancel it: the server has to be notified."""
        if isinstance(call, HttpCall):
            call.close()
        return False

    def send_one_way(self, head: bytes, frame: bytes) -> None:
        """Send a message that has no answer."""
        self._one_way_posts.send(head, frame)

    def close_stream_later(self, call: "HttpCall") -> None:
        """A call was answered on its stream: most servers end the stream then, others must."""
        self.ending_streams.add(call)
        if not self._end_planned:
            self._end_planned = True
            self.loop.call_later(STREAM_END_SECONDS, self._close_ending_streams)

    def _close_ending_streams(self) -> None:
        self._end_planned = False
        ending, self.ending_streams = self.ending_streams, set()
        for call in ending:
            call.close()

    async def close(self) -> None:
        """Say goodbye, if the server expects that."""

    # What becomes of a call.

    def on_response(self, call: "HttpCall", response: ResponseHead, body: bytes) -> None:
        """A whole response, which is not a stream."""
        message = plain_message(body, call.number)
        if response.status != HTTP_OK:
            if self.will_resend(call, response, message):
                return
            retry_after = retry_after_of(response)
            if retry_after is not None:
                self.connection.settle(call, busy_answer(response, message, retry_after))
                return
        if message[:1] == b"{":
            self.connection.receive(message, call)
        if not self.connection.waits_for(call):
            return  # It may have been answered on another stream before.
        # After a stream, the request was for the rest of that stream, not for the call.
        follows = call.splitter is None and call.redirects < REDIRECTS_MAX
        target = redirect_target(self.request_heads.url, response) if follows else None
        if target is not None:
            call.redirects += 1
            call.head = retarget(call.head, target)
            self.resend(call)
            return
        self.connection.settle(call, answer_without_message(response))

    def will_resend(self, call: "HttpCall", response: ResponseHead, message: bytes) -> bool:
        """Whether the call will be sent again, because the server has not looked at it."""
        return False

    def on_stream_closed(self, call: "HttpCall", failure: HttpFailure | None) -> None:
        if self.connection.waits_for(call):
            self._notify_cancelled(call, failure)
            self.connection.settle(call, stream_cut_off(failure))

    def on_failure(self, call: "HttpCall", failure: HttpFailure) -> None:
        """No response came."""
        self._notify_cancelled(call, failure)
        self.connection.settle(call, answer_of_failure(failure))
        self.report_unreachable(failure)

    def _notify_cancelled(self, call: "HttpCall", failure: HttpFailure | None) -> None:
        """Tell a server that may be working on the call that it has timed out."""
        # "the sender SHOULD issue a cancellation notification for that request" (timeouts).
        if failure is None or failure.kind is not HttpFailureKind.TIMEOUT or self.cancel(call):
            return
        params = [
            ("requestId", b"%d" % call.number),
            ("reason", raw_json.encode_string(failure.reason)),
        ]
        self.connection.notify("notifications/cancelled", raw_json.encode_object(params))

    def report_unreachable(self, failure: HttpFailure) -> None:
        """Whichever request failed: that the server cannot be reached concerns all of them."""
        if failure.kind in UNREACHABLE_KINDS:
            self.connection.on_unreachable(failure.reason)

    def resend(self, call: "HttpCall") -> None:
        """Send a request that the server has not accepted."""
        self.client.request(call.head, call.frame, call)


class HttpCall(PendingCall):
    """A call, and the state of its HTTP exchange."""

    channel: HttpChannel = cast(HttpChannel, None)
    """Set before it is sent."""
    head: bytes = b""
    http_connection: ClientConnection | None = None
    splitter: EventSplitter | None = None
    """Set once the answer has become a stream."""
    reservation: MemoryReservation | None = None
    """For the incomplete event."""
    redirects: int = 0
    resume_attempts: int = 0
    """Attempts in a row to resume its stream that brought no message."""
    retried: bool = False
    session: str | None = None
    """The session that it was sent in."""

    wait_timeout: ClassVar[Timeout | None] = Timeout.FIRST_BYTE

    @property
    def repeatable(self) -> bool:
        """Whether the request may be sent twice: a tool call never, a read or the rest of a stream
        always.

        Not a read with a progress token: progress would name the first request by its id.
        """
        if self.splitter is not None:
            return True
        if self.method not in IDEMPOTENT_METHODS or self.on_progress is not None:
            return False
        channel = self.channel
        return (channel.may_repeat or self.client is None) and channel.connection.waits_for(self)

    def renew_body(self) -> bytes | None:
        """The same request under another id: the server may have read the first, and no id is used
        twice."""
        if self.splitter is not None or self.frame is None:
            return None
        self.frame = self.channel.connection.renumber(self, self.frame)
        return self.frame

    def on_response(self, head: ResponseHead, body: bytes) -> None:
        """A whole response."""
        channel = self.channel
        if head.status != HTTP_OK or not channel.connection.receive_result(body, self):
            channel.on_response(self, head, body)

    def on_stream(self, head: ResponseHead) -> None:
        """The answer will come on a stream, perhaps the continuation of an earlier one."""
        self.splitter = continue_splitter(self.splitter, self.channel.bytes_max)
        self.reservation = self.reservation or MemoryReservation(
            self.channel.connection.memory_budget
        )

    def on_stream_data(self, portion: bytes) -> WorkSteps:
        splitter = self.splitter
        if splitter is None:
            return
        if (yield from deliver_events(self.channel.connection, splitter, portion, self)):
            self.resume_attempts = 0
            if not self.channel.connection.waits_for(self):
                self.channel.close_stream_later(self)
        if splitter.pending_bytes > ENDLESS_FACTOR * splitter.bytes_max:
            self.close()
            reason = f"sent an event of more than {splitter.pending_bytes} bytes without an end"
            self.channel.connection.settle(
                self, NoAnswer(reason, Situation.MISBEHAVED, CallOutcome.BAD)
            )

    def on_stream_closed(self, failure: HttpFailure | None) -> None:
        self._release_memory()
        self.channel.ending_streams.discard(self)
        self.channel.on_stream_closed(self, failure)

    def on_failure(self, failure: HttpFailure) -> None:
        """No response came."""
        self.channel.on_failure(self, failure)

    def close(self) -> None:
        """Abandon the response."""
        self._release_memory()
        self.channel.client.cancel(self)

    def _release_memory(self) -> None:
        if self.reservation is not None:
            self.reservation.release()


def continue_splitter(before: EventSplitter | None, bytes_max: int) -> EventSplitter:
    """A splitter for a new stream, which goes on where an earlier one ended."""
    splitter = EventSplitter(bytes_max)
    if before is not None:
        splitter.last_id, splitter.retry_ms = before.last_id, before.retry_ms
    return splitter


def deliver_events(
    connection: Connection, splitter: EventSplitter, portion: bytes, call: PendingCall | None
) -> Generator[int, None, bool]:
    """Pass the messages in a portion of a stream to the connection, in batches; returns whether
    there were any."""
    messages, delivered = iter(splitter.messages(portion)), False
    while some := list(islice(messages, BATCH_MAX)):
        size = sum(len(raw) for raw in some if isinstance(raw, bytes))
        delivered = delivered or any(some)
        if size <= HEAVY_BYTES:
            _deliver_batch(connection, some, call)
            yield len(some)
            continue
        for raw in some:
            yield cost_of(len(raw) if isinstance(raw, bytes) else 0)
            _deliver_batch(connection, (raw,), call)
    if isinstance(call, HttpCall) and call.reservation is not None:
        call.reservation.reserve_for_splitter(splitter)
    return delivered


def _deliver_batch(
    connection: Connection, messages: Sequence[bytes | Overlong], call: PendingCall | None
) -> None:
    reported_count = 0
    if call is not None and call.on_progress is not None:
        reports = connection.leading_progress(messages, call)
        reported_count = len(reports)
        if reports:
            _call_guarded(call.on_progress, reports)
    for raw in messages[reported_count:]:
        if raw:
            _call_guarded(connection.receive, raw, call)


def deliver_event(connection: Connection, event: SseEvent | Overlong) -> None:
    """Pass the message in an event to the connection."""
    raw = event if isinstance(event, Overlong) else event.data
    if raw:
        _call_guarded(connection.receive, raw, None)


P = ParamSpec("P")


def _call_guarded(take: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
    try:
        take(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - it must not cost the events after it
        context = {"message": "A server's event was not taken", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)

"""Modern requests over HTTP: validated one by one, each independent of all others.

A request describes itself in its body, and its headers must repeat it. There are no sessions;
closing the connection cancels the request.
"""

from collections.abc import Hashable
from functools import partial
from typing import Final

from anyport.ingress.http.connection import HttpConnection
from anyport.ingress.http.request_head import McpRequestHead
from anyport.ingress.http.responder import JSON_CONTENT_TYPE
from anyport.ingress.http.sessions import STREAM_AFTER_SECONDS
from anyport.ingress.http.streams import PLAIN_STREAM_OPENER, PlainStream
from anyport.protocol import meta
from anyport.protocol.adapters.client import ENDINGS, RequestHandler, deliver_ending, modern_caller
from anyport.protocol.adapters.modern_client import deliver_modern, unsupported_revision
from anyport.protocol.errors import Fault, method_not_found
from anyport.protocol.exchange import Answered, Caller, Exchange, ExchangeEvent, OpenRequest
from anyport.protocol.methods import find_method
from anyport.protocol.principal import Principal
from anyport.protocol.quota import QuotaLimits, QuotaTable
from anyport.protocol.request import TOOLS_CALL, ParsedRequest, PlainCall, split_token
from anyport.protocol.revisions import NEWEST_MODERN
from anyport.protocol.session import STREAMABLE_HTTP
from anyport.wire import jsonrpc
from anyport.wire.jsonrpc import Failure, Request

CALLERS_CACHED_MAX: Final = 512
CALLER_BYTES_CACHED_MAX: Final = 1024
"""A modern client sends the same `_meta` with every request."""

SUBSCRIPTIONS_MAX: Final = 8192
SUBSCRIPTIONS_PER_PRINCIPAL_MAX: Final = 1024
"""Open subscriptions of all clients, and of one token."""

LISTEN: Final = "subscriptions/listen"
MODERN_STATUSES: Final = {
    -32700: 400,
    -32600: 400,
    -32601: 404,
    -32602: 400,
    -32020: 400,
    -32021: 400,
    -32022: 400,
}


class ModernRequests:
    """The open modern requests."""

    def __init__(self, handler: RequestHandler, now: float) -> None:
        self.now = now
        """The time of the last sweep."""
        self.subscriptions: set[Exchange] = set()
        """Open `subscriptions/listen` exchanges: they end only when one side ends them."""
        self._quota: QuotaTable[Exchange] = QuotaTable(
            QuotaLimits(SUBSCRIPTIONS_MAX, SUBSCRIPTIONS_PER_PRINCIPAL_MAX)
        )
        """The same, by principal."""
        self._handler = handler
        self._callers: dict[tuple[str, Principal, bytes], Caller] = {}

    def begin(
        self, connection: HttpConnection, request: McpRequestHead, parsed: ParsedRequest
    ) -> None:
        """Validate a modern request, then begin its exchange."""
        frame = parsed.frame
        connection.error_statuses = MODERN_STATUSES
        caller = self._find_caller(request, parsed)
        if isinstance(caller, Fault):
            self._refuse(connection, request.anonymous_caller(STREAMABLE_HTTP), frame, caller)
            return
        method = find_method(frame.method, caller.revision)
        if method is None:
            method = self._handler.find_unknown_method(caller, frame.method)
        if method is None:
            self._refuse(connection, caller, frame, method_not_found(frame.method))
            return
        if method.name == LISTEN and not request.accepted.stream:
            message = "subscriptions/listen is answered by a stream: accept text/event-stream"
            error = jsonrpc.encode_error(-32600, message)
            self._handler.record_message(caller, frame, Failure(frame.id, error))
            connection.answer(406, jsonrpc.encode_failure(frame.id, error), (JSON_CONTENT_TYPE,))
            return
        exchange = Exchange(
            id=frame.id,
            method=method,
            params=parsed.params,
            param_members=parsed.param_members,
            caller=caller,
            writer=connection,
            deliver=self.deliver,
            progress_token=parsed.progress_token,
            param_fields=request.param_fields,
            trace_headers=parsed.trace_headers,
        )
        # MCP 2026-07-28, transports: closing the connection cancels the request.
        connection.exchange = exchange
        if request.accepted.stream:
            connection.stream_opener = PLAIN_STREAM_OPENER
            connection.deadline = self.now + STREAM_AFTER_SECONDS
        if method.name == LISTEN:
            self._add_subscription(exchange)
            connection.on_closed = lambda: self._remove_subscription(exchange)
        elif not request.accepted.json:
            PlainStream(connection)
        self._handler.begin(exchange)

    def _find_caller(self, request: McpRequestHead, parsed: ParsedRequest) -> Caller | Fault:
        raw, token = split_token(bytes(parsed.param_members["_meta"]))
        key = (request.profile, request.principal, raw)
        caller = self._callers.get(key)
        if caller is not None:
            return request.find_header_mismatch(parsed, caller.revision.name) or caller
        check_headers = partial(request.find_header_mismatch, parsed)
        found = modern_caller(
            parsed.meta_members, request.profile, request.principal, STREAMABLE_HTTP, check_headers
        )
        is_cacheable = (
            token == parsed.progress_token and meta.TRACEPARENT not in parsed.meta_members
        )
        if isinstance(found, Caller) and is_cacheable and len(raw) <= CALLER_BYTES_CACHED_MAX:
            if len(self._callers) >= CALLERS_CACHED_MAX:
                self._callers.clear()
            self._callers[key] = found
        return found

    def deliver(self, exchange: Exchange, event: ExchangeEvent) -> None:
        """Deliver an event of an exchange to its client."""
        if not isinstance(event, ENDINGS):
            self._send_event(exchange, event)
            return
        self._remove_subscription(exchange)
        deliver_ending(self._send_event, exchange, event)

    def _send_event(self, exchange: Exchange, event: ExchangeEvent) -> None:
        deliver_modern(exchange, event, self._handler.server_info(exchange.caller.profile))

    def refuse_without_envelope(
        self, connection: HttpConnection, request: McpRequestHead, parsed: ParsedRequest
    ) -> None:
        """Refuse a request that is modern by its header but has no modern `_meta`."""
        connection.error_statuses = MODERN_STATUSES
        if request.revision is None:
            fault = unsupported_revision(request.version or "")
        else:
            missing = modern_caller(
                parsed.meta_members, request.profile, request.principal, STREAMABLE_HTTP
            )
            fault = missing if isinstance(missing, Fault) else method_not_found("")
        self._refuse(connection, request.anonymous_caller(STREAMABLE_HTTP), parsed.frame, fault)

    def repeat_call(
        self, connection: HttpConnection, request: McpRequestHead, plain_call: PlainCall
    ) -> bool:
        """Take the fast path of a repeated `tools/call`; False if there is none."""
        caller = self._callers.get((request.profile, request.principal, plain_call.raw_meta))
        if (
            caller is None
            or request.name != plain_call.name
            or request.method != TOOLS_CALL
            or request.revision is not caller.revision
        ):
            return False
        fast_call = self._handler.prepare_fast_call(
            plain_call, caller, self, connection, connection
        )
        if fast_call is None:
            return False
        connection.error_statuses = MODERN_STATUSES
        connection.stream_opener = PLAIN_STREAM_OPENER
        connection.deadline = self.now + STREAM_AFTER_SECONDS
        connection.exchange = fast_call
        fast_call.start()
        return True

    def remove(self, key: Hashable) -> None:
        """Nothing to do: only the connection holds a modern call."""

    def replace(self, key: Hashable, exchange: Exchange) -> None:
        """The fast path of a call continues as an exchange."""
        if isinstance(key, HttpConnection) and key.transport is not None:
            key.exchange = exchange

    def _add_subscription(self, exchange: Exchange) -> None:
        """Add a subscription. At the limit, the principal with the most loses its oldest one."""
        principal = exchange.caller.principal
        for owner in self._quota.eviction_order(principal) or ():
            self.end_subscription(next(iter(self._quota.items_of(owner))))
            break
        self.subscriptions.add(exchange)
        self._quota.add(principal, exchange)

    def _remove_subscription(self, exchange: Exchange) -> None:
        self.subscriptions.discard(exchange)
        self._quota.remove(exchange.caller.principal, exchange)

    def end_all(self) -> None:
        for exchange in list(self.subscriptions):
            self.end_subscription(exchange)

    def end_if_subscription(self, pending: OpenRequest) -> bool:
        """End a request if it is a subscription; returns whether it was."""
        matching = [each for each in self.subscriptions if each is pending]
        for exchange in matching:
            self.end_subscription(exchange)
        return bool(matching)

    def end_subscription(self, exchange: Exchange) -> None:
        exchange.end(Answered(b"{}"))

    def _refuse(
        self, connection: HttpConnection, caller: Caller, frame: Request, fault: Fault
    ) -> None:
        error = fault.render(NEWEST_MODERN)
        self._handler.record_message(caller, frame, Failure(frame.id, error))
        connection.end(jsonrpc.encode_failure(frame.id, error), fault.code(NEWEST_MODERN))

"""Records messages outside clients' exchanges: handshakes, notifications, questions of servers,
noise, and the gateway's own requests.

The rate is limited per peer; the next recorded message says how many were skipped.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from anyport.observe.call_events import EXCHANGE_EVENT, OK, ExchangeOutcome, client_metadata
from anyport.observe.trace_context import IdGenerator
from anyport.protocol import meta
from anyport.protocol.errors import error_code
from anyport.protocol.exchange import Caller
from anyport.protocol.transcript import FrameKind, Side
from anyport.record.capture import TrafficCapture
from anyport.record.event import EventType, MetadataValue
from anyport.record.journal.journal import Journal
from anyport.record.rate_limit import RateLimiter
from anyport.record.redact.redactor import PemBlockRedactor
from anyport.record.trace_ids import TraceContext, parse_traceparent
from anyport.upstream.connection import Noise, OwnRequest
from anyport.upstream.peer import Peer
from anyport.upstream.pending_call import Answer, NoAnswer
from anyport.upstream.server import Server
from anyport.wire import raw_json
from anyport.wire.jsonrpc import BadFrame, Failure, Notification, Request, Result

MESSAGES_PER_SECOND_MAX: Final = 200
"""Per client or server; more is a flood."""
SKIPPED_PEERS_MAX: Final = 1024
"""Peers whose skipped messages are counted."""

PROBE: Final = "server/discover"

ResultOrFailure: TypeAlias = Result | Failure
EventFields: TypeAlias = dict[str, MetadataValue]


class MessageRecorder:
    """Records messages that belong to no exchange of a client."""

    def __init__(
        self,
        journal: Journal,
        capture: TrafficCapture,
        ids: IdGenerator,
        monotonic: Callable[[], float],
        trace_id: str,
    ) -> None:
        self._journal = journal
        self._capture = capture
        self._ids = ids.draw
        self._monotonic = monotonic
        self._trace_id = trace_id
        self._rate_limit = RateLimiter(MESSAGES_PER_SECOND_MAX)
        self._skipped: dict[str, int] = {}
        self._key_redactors: dict[str, PemBlockRedactor] = {}

    def record_client_message(
        self,
        caller: Caller,
        client_message: Request | Notification | BadFrame,
        answer: ResultOrFailure | None = None,
    ) -> None:
        """Record a client's message that began no exchange, and the answer to it."""
        if self._capture.level_of(caller.profile, "") == "off":
            return
        metadata = {"profile": caller.profile} | client_metadata(caller)
        if caller.session is not None:
            metadata["session"] = caller.session.id
        match client_message:
            case Request(method=method, params=params):
                parent = _parent_trace(params)
                if parent is not None:
                    metadata["parent_span_id"] = parent.span_id
                trace_id = self._ids()[0].decode() if parent is None else parent.trace_id
                self._record_exchange("client", metadata, (method, params), (answer, 0.0), trace_id)
            case Notification(method=method, params=params):
                self._record_frame("client-notification", "client", metadata, method, params)
            case BadFrame(message=message):
                metadata["reason"] = message
                self._record_frame("not-json-rpc", "client", metadata, "", None)

    def record_server_message(self, server: Server, message: Request | Notification) -> None:
        """Record a message that a server sent on its own."""
        is_request = isinstance(message, Request)
        kind: FrameKind = "server-request" if is_request else "server-notification"
        self._record_server_frame(server.slug, kind, message.method, message.params)

    def record_client_response(self, server: Server, method: str, answer: ResultOrFailure) -> None:
        """Record the answer to a server's question."""
        self._record_server_frame(server.slug, "client-response", method, _payload_of(answer))

    def record_noise(self, server: Server, noise: Noise, reason: str) -> None:
        """Record useless output of a server: not a frame, or one that nothing waits for."""
        match noise:
            case Result() | Failure():
                self._record_server_frame(server.slug, "response", "", _payload_of(noise), reason)
            case Notification(method=method, params=params):
                self._record_server_frame(
                    server.slug, "server-notification", method, params, reason
                )
            case _:
                line = noise.decode("utf-8", "replace")
                redacted = raw_json.encode_string(
                    self._key_redactors.setdefault(server.slug, PemBlockRedactor())(line)
                )
                self._record_server_frame(server.slug, "not-json-rpc", "", redacted, reason)

    def record_own_request(
        self,
        server: Server,
        peer: Peer | None,
        request: OwnRequest,
        answer: Answer,
        seconds: float,
    ) -> None:
        """Record a request of the gateway itself, and its answer, in the revision of its peer."""
        if self._capture.level_of("", server.slug) == "off":
            return
        metadata: EventFields = {"server": server.slug, "server_transport": server.transport}
        if peer is not None:
            metadata["server_revision"] = peer.revision.name
        self._record_exchange("server", metadata, request, (answer, seconds), self._trace_id)

    def _record_server_frame(
        self,
        slug: str,
        kind: FrameKind,
        method: str,
        payload: bytes | None,
        reason: str | None = None,
    ) -> None:
        if self._capture.level_of("", slug) != "off":
            metadata: EventFields = {"server": slug}
            if reason is not None:
                metadata["reason"] = reason
            self._record_frame(kind, "server", metadata, method, payload)

    def _record_exchange(
        self,
        side: Side,
        metadata: EventFields,
        request: OwnRequest,
        answer_and_seconds: tuple[Answer | None, float],
        trace_id: str,
    ) -> None:
        capture, (method, params), (answer, seconds) = self._capture, request, answer_and_seconds
        if not self._is_within_rate(metadata):
            return
        sent, outcome = params or b"{}", _outcome(side, method, answer)
        metadata |= {"method": capture.redact_method(method), "params_bytes": len(sent)}
        metadata |= {"params_shape": capture.shape(sent), "params_hash": capture.hash(sent)}
        payload = _payload_of(answer)
        if payload is not None:
            metadata |= {"result_bytes": len(payload)}
            metadata |= {
                "result_shape": capture.shape(payload),
                "result_hash": capture.hash(payload),
            }
        if outcome is not OK:
            metadata["outcome"] = outcome.outcome
        if side == "server":
            metadata["server_ms"] = round(seconds * 1000, 3)

        def frames() -> list[bytes]:
            request_frame = capture.encode_frame("request", side, method, sent)
            if payload is None:
                return [request_frame]
            failed = isinstance(answer, Failure)
            return [
                request_frame,
                capture.encode_frame(
                    "response", side, method, payload, seconds * 1000, failed=failed
                ),
            ]

        self._write_event(EXCHANGE_EVENT, metadata, frames, trace_id, (outcome, seconds))

    def _record_frame(
        self, kind: FrameKind, side: Side, metadata: EventFields, method: str, payload: bytes | None
    ) -> None:
        capture = self._capture
        if not self._is_within_rate(metadata):
            return
        metadata |= {"kind": kind, "side": side}
        if method:
            metadata["method"] = capture.redact_method(method)
        if payload is not None:
            metadata |= {"bytes": len(payload), "shape": capture.shape(payload)}
            metadata["hash"] = capture.hash(payload)
        self._write_event(
            "gateway.frame",
            metadata,
            lambda: [capture.encode_frame(kind, side, method, payload)],
            self._trace_id,
            (OK, None),
        )

    def _is_within_rate(self, metadata: EventFields) -> bool:
        """Whether a peer is within its rate; if not, its message is counted as skipped."""
        peer = str(metadata.get("session") or metadata.get("server") or metadata.get("profile"))
        if not self._rate_limit.acquire(peer, 1, self._monotonic()):
            if peer in self._skipped or len(self._skipped) < SKIPPED_PEERS_MAX:
                self._skipped[peer] = self._skipped.get(peer, 0) + 1
            return False
        skipped = self._skipped.pop(peer, 0)
        if skipped:
            metadata["skipped"] = skipped
        return True

    def _write_event(
        self,
        event: EventType,
        metadata: EventFields,
        frames: Callable[[], list[bytes]],
        trace_id: str,
        outcome_and_seconds: tuple[ExchangeOutcome, float | None],
    ) -> None:
        """Record an event; its frames are encoded only if payloads are kept."""
        outcome, seconds = outcome_and_seconds
        profile, slug = str(metadata.get("profile", "")), str(metadata.get("server", ""))
        _, span_id = self._ids()
        if self._capture.level_of(profile, slug) == "full":
            principal_name = metadata.get("principal")
            principal = principal_name if isinstance(principal_name, str) else None
            place = self._capture.store_frames(
                span_id, self._journal.timestamp(), principal, frames()
            )
            if place is not None:
                metadata["payload_file"] = place
                self._journal.defer(self._capture.payloads.flush)
        self._journal.record(
            event,
            outcome.status,
            trace_id=trace_id,
            metadata={"span_id": span_id.decode(), **metadata},
            duration_ms=None if seconds is None else seconds * 1000,
            error_code=outcome.code,
            error_message=outcome.message,
        )


def _payload_of(answer: Answer | None) -> bytes | None:
    if isinstance(answer, Failure):
        return answer.error
    return answer.result if isinstance(answer, Result) else None


def _outcome(side: Side, method: str, answer: Answer | None) -> ExchangeOutcome:
    """How an exchange of the gateway's own, or one that it refused, ended."""
    if isinstance(answer, NoAnswer):
        return ExchangeOutcome("failure", "gateway_error", None, answer.reason)
    # A server of an older revision is expected not to know the probe.
    if not isinstance(answer, Failure) or (side == "server" and method == PROBE):
        return OK
    message = raw_json.decode_string(raw_json.members(answer.error).get("message"))
    fault = "server_error" if side == "server" else "gateway_error"
    return ExchangeOutcome("failure", fault, error_code(answer.error), message)


def _parent_trace(params: bytes | None) -> TraceContext | None:
    """The trace that a client joins its request to, if any."""
    if params is None or b"traceparent" not in params:
        return None
    try:
        about = raw_json.members(params).get("_meta")
        sent = None if about is None else raw_json.members(about).get(meta.TRACEPARENT)
    except msgspec.DecodeError:
        return None
    return parse_traceparent(raw_json.decode_string(sent) or "")

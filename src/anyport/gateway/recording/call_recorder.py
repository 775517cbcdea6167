"""Records each exchange once when it ends, in the journal and the metrics, and also at its start if
it is slow. Payloads, shapes and hashes: `record/capture.py`.
"""

from typing import Final

import msgspec

from anyport.clock import Clock
from anyport.config.model import Capture
from anyport.gateway.calls.durability import DurabilityGate
from anyport.observe.call_events import (
    OK,
    ExchangeOutcome,
    client_text,
    event_type_of,
    exchange_metadata,
    exchange_outcome,
    metric_labels,
    network_transport,
    requested_target,
    side_metadata,
)
from anyport.observe.metrics import CallSeries, Metrics, error_type
from anyport.observe.trace_context import IdGenerator, join_trace
from anyport.protocol.errors import Timeout
from anyport.protocol.exchange import Answered, Ending, Exchange, Session
from anyport.protocol.extensions import TASKS
from anyport.protocol.methods import RoutingRule
from anyport.protocol.transcript import Transcript
from anyport.record.capture import (
    FastAnswer,
    FinishedFastCall,
    TrafficCapture,
    payload_file_member,
    subject_of,
)
from anyport.record.event import EventType, MetadataValue, Status
from anyport.record.journal.journal import Journal
from anyport.record.redact.outline import OutlineCache

ENDLESS_METHODS: Final = frozenset({"subscriptions/listen"})
"""Methods that end only when one side ends them: their frames are counted, not kept."""
EVENT_TEMPLATES_MAX: Final = 256
"""Entries of any kind in a caller's cache beyond which no event template is added, which leaves
room for fast paths; calls of further kinds are recorded more slowly."""


class CallEventTemplate(msgspec.Struct, frozen=True, gc=False):
    """All that events of one kind of call have in common, encoded once."""

    event: bytes
    series: CallSeries
    level: Capture
    """How much of the traffic is recorded."""
    arguments_shape: OutlineCache
    """The shapes of its arguments and results."""
    result_shape: OutlineCache


_SIZE_FIELD: Final = b'"result_bytes":%d}'
_CALL_FIELDS: Final = (
    b'"result_bytes":%d,"params_bytes":%d,"sent_bytes":%d,"answer_bytes":%d,"server_ms":%.3f'
    b',"params_shape":"%b","params_hash":"%b","result_shape":"%b","result_hash":"%b"%b}'
)
"""What `capture = "shape"` records in place of the size alone; the last gap is for rare members."""


_ANSWERED_LOCALLY: Final = (RoutingRule.LOCAL, RoutingRule.MERGE)
"""What the gateway answers itself: these answers do not wait for their records."""


class CallRecorder:
    """Records calls and sessions, as events and in the metrics."""

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        ids: IdGenerator,
        metrics: Metrics,
        capture: TrafficCapture,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._ids = ids.draw
        self._metrics = metrics
        self._capture = capture
        journal.file_writer.payloads = capture.payloads
        self.durability = DurabilityGate(journal, clock.monotonic)
        self.trace_share: float | None = None
        """The share of new traces that is exported; None without an exporter."""
        self._fast_calls: list[
            tuple[CallEventTemplate, FinishedFastCall, int, float, bytes, bytes]
        ] = []
        """Fast calls of this turn that are not recorded yet."""

    def start_exchange(self, exchange: Exchange) -> None:
        """Give an exchange its start time, a trace of its own and a transcript."""
        exchange.started_at = self._clock.monotonic()
        trace_id, span_id = self._ids()
        exchange.trace_id, exchange.span_id = trace_id.decode(), span_id.decode()
        method = exchange.method
        if method.event is not None:
            exchange.delay_answer = self.durability.hold
        elif method.routing not in _ANSWERED_LOCALLY or method.extension == TASKS:
            exchange.delay_answer = self.durability.hold_if_recordable
        if method.event is not None or self._capture.is_enabled:
            exchange.on_end = self.record_ending
        if self._capture.is_enabled:
            exchange.transcript = transcript = Transcript(
                clock=self._clock.monotonic, keeps_payloads=self._capture.keeps_payloads
            )
            if exchange.method.name in ENDLESS_METHODS:
                transcript.frames_max = 0

    def start_traced_exchange(self, exchange: Exchange) -> None:
        """The same, in the client's trace, if it sent one."""
        self.start_exchange(exchange)
        join_trace(exchange, self.trace_share)

    def on_timeout(self, timeout: Timeout) -> None:
        self._metrics.count_timeout(timeout)

    def record_pending(self, exchange: Exchange) -> None:
        """Record that a call has started and takes a while; a quick one is recorded at its end."""
        if exchange.method.event is None:
            return
        metadata = exchange_metadata(exchange, exchange.server, exchange.native)
        metadata["params_bytes"] = len(exchange.params)
        self._write_event(exchange, "pending", metadata)

    def record_ending(self, exchange: Exchange, ending: Ending | None) -> None:
        """Record how an exchange ended; None if the client gave up. Called once for each."""
        try:
            self._record_ending(exchange, ending)
        except Exception as error:  # noqa: BLE001 - the caller gets the answer even so
            self._clock.report_error(error)

    def _record_ending(self, exchange: Exchange, ending: Ending | None) -> None:
        slug, server_seconds = exchange.server, exchange.server_seconds
        native = exchange.native or exchange.name or requested_target(exchange)
        if (
            exchange.method.event is None
            and self._capture.level_of(exchange.caller.profile, slug) == "off"
        ):
            return
        seconds = self._clock.monotonic() - exchange.started_at
        outcome = exchange_outcome(exchange, ending)
        if outcome is OK and exchange.method.event is not None and not _is_unusual(exchange):
            template = self.event_template(exchange, slug, native)
            fields = self._plain_call_fields(template.level, exchange, ending)
            if fields is not None:
                ids = exchange.trace_id.encode(), exchange.span_id.encode()
                values = (self._journal.timestamp(), *ids, *fields, seconds * 1000)
                self._journal.append_encoded([template.event % values])
                template.series.add(seconds, server_seconds)
                return
        self._record_details(exchange, slug, native, (ending, outcome), seconds)
        if exchange.method.event is not None:
            error = error_type(outcome.status, outcome.code)
            self._metrics.count_call(
                metric_labels(exchange, slug, native, error), seconds, server_seconds
            )

    def _record_details(
        self,
        exchange: Exchange,
        slug: str,
        native: str,
        ending_and_outcome: tuple[Ending | None, ExchangeOutcome],
        seconds: float,
    ) -> None:
        """Record an exchange that failed, or is unusual, member by member."""
        ending, outcome = ending_and_outcome
        level = self._capture.level_of(exchange.caller.profile, slug)
        metadata = exchange_metadata(exchange, slug, native)
        if outcome.timeout:
            metadata["timeout"] = outcome.timeout
        if level != "off":
            metadata |= side_metadata(exchange) | self._capture.captured_metadata(exchange, level)
            if outcome is not OK:
                metadata["outcome"] = outcome.outcome
            if level == "full":
                file = self._capture.store_exchange(exchange, self._journal.timestamp())
                if file is not None:
                    metadata["payload_file"] = file
                    self._journal.defer(self._flush_fast_calls)
        elif isinstance(ending, Answered):
            metadata["result_bytes"] = _result_bytes(ending)
        else:
            metadata["params_bytes"] = len(exchange.params)
        milliseconds = seconds * 1000
        self._write_event(exchange, outcome.status, metadata, milliseconds, outcome)

    def _plain_call_fields(
        self, level: Capture, exchange: Exchange, ending: Ending | None
    ) -> tuple[object, ...] | None:
        """The values for the event template of a call; None if there was more than its answer."""
        transcript = exchange.transcript
        if level == "off":
            return (_result_bytes(ending),)
        if transcript is None or transcript.sent_params is None or transcript.frames:
            return None
        capture, subject, answer = (
            self._capture,
            subject_of(exchange),
            transcript.server_answer or b"",
        )
        extra = (
            b',"queue_ms":%.3f' % (transcript.queued_seconds * 1000)
            if transcript.queued_seconds
            else b""
        )
        if level == "full":
            extra += payload_file_member(
                capture.store_exchange(exchange, self._journal.timestamp())
            )
            self._journal.defer(self._flush_fast_calls)
        return (
            len(transcript.client_answer or b""),
            len(exchange.params),
            len(transcript.sent_params),
            len(answer),
            transcript.server_seconds * 1000,
            capture.outline(subject),
            capture.digest(subject),
            capture.outline(answer),
            capture.digest(answer),
            extra,
        )

    def record_fast_call(
        self,
        template: CallEventTemplate,
        call: FinishedFastCall,
        size: int,
        server_seconds: float,
        result: bytes,
        frame: bytes,
    ) -> None:
        """Record the result of a fast call, before its answer leaves."""
        fast_calls = self._fast_calls
        fast_calls.append((template, call, size, server_seconds, result, frame))
        if len(fast_calls) == 1:
            self._journal.defer(self._flush_fast_calls)

    def _flush_fast_calls(self) -> None:
        """Write the events of this turn's fast calls, all with one timestamp."""
        fast_calls, self._fast_calls = self._fast_calls, []
        now, moment, ids, lines = self._clock.monotonic(), self._journal.timestamp(), self._ids, []
        capture = self._capture
        digest = capture.digest
        for template, call, size, server_seconds, result, frame in fast_calls:
            seconds, (trace_id, span_id) = now - call.started, ids()
            if template.level == "off":
                line = template.event % (moment, trace_id, span_id, size, seconds * 1000)
            else:
                arguments, params_bytes, sent_bytes = call.request_sizes()
                extra = b""
                if template.level == "full" or call.transcript is not None or call.queued:
                    said = FastAnswer(arguments, result, frame, size, server_seconds)
                    extra = capture.extra_members(template.level, call, (span_id, moment), said)
                line = template.event % (
                    moment,
                    trace_id,
                    span_id,
                    size,
                    params_bytes,
                    sent_bytes,
                    len(result),
                    server_seconds * 1000,
                    template.arguments_shape.outline(arguments),
                    digest(arguments),
                    template.result_shape.outline(result),
                    digest(result),
                    extra,
                    seconds * 1000,
                )
            lines.append(line)
            template.series.add(seconds, server_seconds)
        capture.payloads.flush()
        self._journal.append_encoded(lines)

    def on_session_opened(self, session: Session, trace_id: str) -> None:
        metadata: dict[str, MetadataValue] = {
            "session": session.id,
            "profile": session.profile,
            "revision": session.revision.name,
            "transport": session.transport,
        }
        client = client_text(session.client)
        if client:
            metadata["client"] = client
        event: EventType = (
            "gateway.session_resumed" if session.resumed else "gateway.session_started"
        )
        self._journal.record(event, "success", trace_id=trace_id, metadata=metadata)
        self._metrics.start_lifetime(session.id)

    def on_session_closed(self, session: Session, trace_id: str, reason: str) -> None:
        metadata = {"session": session.id, "profile": session.profile, "reason": reason}
        self._journal.record(
            "gateway.session_ended", "success", trace_id=trace_id, metadata=metadata
        )
        revision, network = session.revision.name, network_transport(session.transport)
        self._metrics.end_session(session.id, session.profile, revision, network)

    def event_template(self, exchange: Exchange, slug: str, native: str) -> CallEventTemplate:
        """The event template of calls like this one."""
        memory, transcript = exchange.caller.cache, exchange.transcript
        peer = (
            None
            if transcript is None
            else (transcript.server_revision, transcript.server_transport)
        )
        key = (exchange.method.name, slug, native, exchange.name, peer)
        template: CallEventTemplate | None = memory.get(key)
        if template is None:
            template = self._build_template(exchange, slug, native)
            if len(memory) < EVENT_TEMPLATES_MAX:
                memory[key] = template
        return template

    def _build_template(self, exchange: Exchange, slug: str, native: str) -> CallEventTemplate:
        level = self._capture.level_of(exchange.caller.profile, slug)
        metadata = exchange_metadata(exchange, slug, native)
        series = self._metrics.series_for(metric_labels(exchange, slug, native, ""))
        arguments_shape, result_shape = (
            OutlineCache(self._capture.outline_decoders),
            OutlineCache(self._capture.outline_decoders),
        )
        if level == "off":
            return CallEventTemplate(
                self._prepare_event(exchange, metadata),
                series,
                level,
                arguments_shape,
                result_shape,
            )
        prepared = self._prepare_event(exchange, metadata | side_metadata(exchange))
        head, _, tail = prepared.rpartition(_SIZE_FIELD)
        return CallEventTemplate(
            head + _CALL_FIELDS + tail, series, level, arguments_shape, result_shape
        )

    def _prepare_event(self, exchange: Exchange, metadata: dict[str, MetadataValue]) -> bytes:
        return self._journal.encode_template(event_type_of(exchange), metadata, "result_bytes")

    def _write_event(
        self,
        exchange: Exchange,
        status: Status,
        metadata: dict[str, MetadataValue],
        milliseconds: float | None = None,
        outcome: ExchangeOutcome = OK,
    ) -> None:
        self._journal.record(
            event_type_of(exchange),
            status,
            trace_id=exchange.trace_id,
            metadata={"span_id": exchange.span_id, **metadata},
            duration_ms=milliseconds,
            error_code=outcome.code,
            error_message=outcome.message,
        )


def _result_bytes(ending: Ending | None) -> int:
    return len(ending.result) if isinstance(ending, Answered) else 0


def _is_unusual(exchange: Exchange) -> bool:
    """Whether its event has members that the template lacks."""
    return bool(exchange.parent_span_id) or exchange.from_cache or exchange.attempts > 1

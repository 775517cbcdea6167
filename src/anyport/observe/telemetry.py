"""OpenTelemetry: makes spans from events of the journal, and exports them with the metrics.

Off by default, and then free: nothing listens to the journal, and no package of OpenTelemetry is
imported. When it is on, the event loop only queues the lines of the journal; a thread does the
rest. A collector that is slow, down or wrong costs spans, never calls.

Names and attributes follow the OpenTelemetry conventions for MCP where there are any; our own begin
with `anyport.`.
"""

import asyncio
import math
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from anyport.clock import Clock
from anyport.config.model import TelemetryConfig
from anyport.observe.call_events import network_transport
from anyport.observe.metrics import (
    OVERHEAD,
    HistogramFamily,
    Histograms,
    Labels,
    Metrics,
    copy_histograms,
)
from anyport.observe.trace_context import is_sampled
from anyport.record.journal.journal import Journal
from anyport.record.traffic import EXCHANGE, Row, row_of

if TYPE_CHECKING:
    from anyport.observe.otlp import OtlpExporter

QUEUE_EVENTS_MAX: Final = 8192
"""Events that wait to be sent; further ones are counted, and get no span."""

QUEUE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of those together."""

BATCH_EVENTS_MAX: Final = 256
"""Events sent together; this many are sent at once."""

SEND_SECONDS_DEFAULT: Final = 5.0
"""Between two exports, unless `OTEL_BSP_SCHEDULE_DELAY` (in milliseconds) says otherwise."""

OPEN_SECONDS: Final = 1.0
"""Delay before the packages are imported, so as not to slow down the first answer."""

METRICS_SECONDS_DEFAULT: Final = 60.0
"""Between two exports of metrics, unless `OTEL_METRIC_EXPORT_INTERVAL` says otherwise."""

FLUSH_SECONDS_MAX: Final = 3.0
"""For the rest when the gateway stops; a collector that is down must not hold it up."""

MISSING_MESSAGE: Final = (
    "telemetry is switched on, but the packages that it needs are not installed: "
    "install the extra otel (in a checkout: pip install '.[otel]')"
)
PACKAGES: Final = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
_EVENT_TYPES: Final = (
    b'"event_type":"gateway.tool_call"',
    b'"event_type":"gateway.exchange"',
    b'"event_type":"gateway.resource_read"',
    b'"event_type":"gateway.prompt_get"',
)

_TYPE_WITHIN_BYTES: Final = 256
"""The event type is within the first bytes of a line, after times and ids of known length."""

_SAMPLERS: Final[Mapping[str, float | None]] = {
    "always_on": 1.0,
    "always_off": 0.0,
    "traceidratio": None,
}
"""The sampling ratio of a sampler; None where `OTEL_TRACES_SAMPLER_ARG` has it."""


def open_otlp(config: TelemetryConfig, environ: Mapping[str, str]) -> "OtlpExporter":
    """Open the exporter, and import the OpenTelemetry packages for it.

    Raises:
        ImportError: the packages are not installed.
    """
    from anyport.observe.otlp import open_exporter  # noqa: PLC0415 - an optional extra, and heavy

    return open_exporter(config, environ)


OpenExporter: TypeAlias = "Callable[[TelemetryConfig, Mapping[str, str]], OtlpExporter]"


class Telemetry:
    """Queues events on the event loop, and exports them in a thread."""

    def __init__(
        self,
        config: TelemetryConfig,
        environ: Mapping[str, str],
        clock: Clock,
        warn: Callable[[str], None],
        open_exporter: OpenExporter = open_otlp,
    ) -> None:
        self.enabled = is_enabled(config, environ)
        self.sample_ratio = sample_ratio_of(config, environ) if self.enabled else None
        """Ratio of the traces begun here that are sampled; None while telemetry is off."""
        self.dropped = 0
        """Exchanges dropped because the queue was full."""
        self.troubles: dict[str, str] = {}
        """Why the collector does not accept spans or metrics now."""
        self._config = config
        self._environ = environ
        self._clock = clock
        self._warn = warn
        self._open_exporter = open_exporter
        self._exporter: OtlpExporter | None = None
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._dequeued_bytes = 0
        """Each is changed by one thread only; the difference is what is queued."""
        self._snapshot: MetricsSnapshot | None = None
        self._wake = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._stop_listening: Callable[[], None] = lambda: None
        self._metrics: Metrics | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._send_seconds = _seconds_from(environ, "OTEL_BSP_SCHEDULE_DELAY", SEND_SECONDS_DEFAULT)
        self._metrics_seconds = _seconds_from(
            environ, "OTEL_METRIC_EXPORT_INTERVAL", METRICS_SECONDS_DEFAULT
        )

    def start(self, journal: Journal, metrics: Metrics) -> None:
        """Start listening and sending, if telemetry is on."""
        if not self.enabled:
            return
        self._stop_listening = journal.subscribe(self._on_line)
        self._metrics = metrics
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()
        self._schedule_snapshot()

    async def close(self) -> None:
        """Send the rest, within a time limit."""
        self._stop_listening()
        if self._timer is not None:
            self._timer.cancel()
        thread = self._thread
        if thread is None or not thread.is_alive():
            return
        self._take_snapshot()
        self._closing = True
        self._wake.set()
        await asyncio.to_thread(thread.join, FLUSH_SECONDS_MAX)
        if thread.is_alive() and self._exporter is not None:
            self._exporter.close()  # Abort what it still waits for.

    def report(self) -> dict[str, Any] | None:
        """State for `gateway_status`; None while telemetry is off."""
        if not self.enabled:
            return None
        return {"dropped": self.dropped, "troubles": self.troubles.copy()}

    # On the loop.

    def _on_line(self, line: bytes) -> None:
        """Queue a line of the journal if it is an exchange."""
        head = line[:_TYPE_WITHIN_BYTES]
        if not any(kind in head for kind in _EVENT_TYPES):
            return
        waiting_count, size = len(self._queue), len(line)
        held_bytes = self._queued_bytes - self._dequeued_bytes
        if waiting_count >= QUEUE_EVENTS_MAX or held_bytes + size > QUEUE_BYTES_MAX:
            self.dropped += 1
            return
        self._queued_bytes += size
        self._queue.append(line)
        if waiting_count + 1 == BATCH_EVENTS_MAX:
            self._wake.set()

    def _schedule_snapshot(self) -> None:
        self._timer = self._clock.later(self._metrics_seconds, self._snapshot_and_reschedule)

    def _snapshot_and_reschedule(self) -> None:
        self._take_snapshot()
        self._wake.set()
        self._schedule_snapshot()

    def _take_snapshot(self) -> None:
        if self._metrics is not None:
            self._snapshot = snapshot_metrics(self._metrics, self.dropped)

    # In the thread.

    def _run(self) -> None:
        self._wake.wait(OPEN_SECONDS)
        try:
            self._exporter = self._open_exporter(self._config, self._environ)
        except ImportError:
            self._give_up(MISSING_MESSAGE)
            return
        except Exception as error:  # noqa: BLE001 - whatever the packages object to, calls go on
            self._give_up(f"telemetry cannot be sent: {error}")
            return
        while not self._closing:
            self._wake.wait(self._send_seconds)
            self._wake.clear()
            self._send(self._exporter)
        self._send(self._exporter)
        self._exporter.close()

    def _give_up(self, reason: str) -> None:
        self.troubles["packages"] = reason
        self._warn(reason)
        self._stop_listening()
        self._queue.clear()

    def _send(self, exporter: "OtlpExporter") -> None:
        """Send what is queued now; later events are sent the next time."""
        try:
            for _ in range(math.ceil(len(self._queue) / BATCH_EVENTS_MAX)):
                spans = [
                    span
                    for line in self._take_batch()
                    for span in spans_of(line, self.sample_ratio or 0)
                ]
                if spans:
                    self._report_result("spans", exporter.send_spans(spans))
            snapshot, self._snapshot = self._snapshot, None
            if snapshot is not None:
                trouble = exporter.send_metrics(snapshot, round(self._clock.now() * 1e9))
                self._report_result("numbers", trouble)
            self._report_result("batch", None)
        except Exception as error:  # noqa: BLE001 - the next batch may fare better
            self._report_result("batch", f"{type(error).__name__}: {error}")

    def _take_batch(self) -> list[bytes]:
        lines = [self._queue.popleft() for _ in range(min(len(self._queue), BATCH_EVENTS_MAX))]
        self._dequeued_bytes += sum(map(len, lines))
        return lines

    def _report_result(self, what: str, trouble: str | None) -> None:
        """Report when something begins or ceases to fail, rather than with every batch."""
        before = self.troubles.pop(what, None)
        if trouble is not None:
            self.troubles[what] = trouble
        if trouble is not None and before is None:
            self._warn(f"the collector of telemetry does not take our {what}: {trouble}")
        elif trouble is None and before is not None:
            self._warn(f"the collector of telemetry takes our {what} again")


def is_enabled(config: TelemetryConfig, environ: Mapping[str, str]) -> bool:
    return config.enabled and environ.get("OTEL_SDK_DISABLED", "").lower() != "true"


def is_installed() -> bool:
    """Whether the OpenTelemetry packages are installed, without importing them."""
    try:
        return all(find_spec(package) is not None for package in PACKAGES)
    except ImportError:
        return False


def sample_ratio_of(config: TelemetryConfig, environ: Mapping[str, str]) -> float:
    """Sampling ratio of the traces begun here, from the configuration or the environment.

    A client's trace is sampled if the client says so, whatever the sampler.
    """
    if config.sample is not None:
        return config.sample
    name = environ.get("OTEL_TRACES_SAMPLER", "").strip().lower().removeprefix("parentbased_")
    ratio = _SAMPLERS.get(name, 1.0)
    if ratio is not None:
        return ratio
    sampler_ratio = _parse_number(environ.get("OTEL_TRACES_SAMPLER_ARG", ""))
    return sampler_ratio if sampler_ratio is not None and 0 <= sampler_ratio <= 1 else 1.0


def _seconds_from(environ: Mapping[str, str], name: str, default: float) -> float:
    milliseconds = _parse_number(environ.get(name, ""))
    return milliseconds / 1000 if milliseconds is not None and milliseconds > 0 else default


def _parse_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSnapshot:
    """A copy of all metrics, for the thread that sends them."""

    histograms: Histograms
    uptime_seconds: float
    dropped: int
    """Exchanges without spans, because the queue was full."""


def snapshot_metrics(metrics: Metrics, dropped: int) -> MetricsSnapshot:
    return MetricsSnapshot(
        histograms=copy_histograms(metrics), uptime_seconds=metrics.uptime_seconds, dropped=dropped
    )


def metric_attributes(family: HistogramFamily, labels: Labels) -> dict[str, str]:
    """The attributes of a series, without those that do not apply."""
    attributes = dict(zip(family.attributes, labels, strict=True))
    if attributes.get("mcp.method.name") == "tools/call" and family is not OVERHEAD:
        attributes["gen_ai.operation.name"] = "execute_tool"
    error = attributes.get("error.type", "")
    if error.removeprefix("-").isdigit():
        attributes["rpc.response.status_code"] = error
    return {name: text for name, text in attributes.items() if text}


Attributes: TypeAlias = dict[str, str | int | float | bool]
TOOLS_CALL: Final = "tools/call"

_TARGETS: Final[Mapping[str, str]] = {
    TOOLS_CALL: "gen_ai.tool.name",
    "prompts/get": "gen_ai.prompt.name",
}
"""Attribute for the target of a method, if targets are few enough to appear in span names."""

_URI: Final = "mcp.resource.uri"
_OUTER_ID_BIT: Final = 1 << 63


class SpanData(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A span, without the types of OpenTelemetry."""

    name: str
    is_server: bool
    """Whether the gateway answered the request, rather than sent it."""
    trace_id: int
    span_id: int
    parent_id: int | None
    parent_is_remote: bool
    start_ns: int
    end_ns: int
    attributes: Attributes
    error: str | None
    """An error message, perhaps empty; None without an error."""


def spans_of(line: bytes, ratio: float) -> tuple[SpanData, ...]:
    """The spans of an event: one for the client's request, and inside it one for the server's.

    None for other events, and for traces that are not sampled.
    """
    try:
        event = msgspec.json.decode(line, type=dict[str, Any])
        row = row_of(event)
        if row is None or row.kind != EXCHANGE or row.method is None or row.id is None:
            return ()
        metadata = event["metadata"]
        parent = metadata.get("parent_span_id")
        if metadata.get("sampled") is False or not (parent or is_sampled(row.trace_id, ratio)):
            return ()
        return tuple(_SpanBuilder(row, parent).spans())
    except (ValueError, TypeError, KeyError, RecursionError):  # Not written by this gateway.
        return ()


def outer_span_id(span_id: int) -> int:
    """The id of the client's span, derived from that of the server's.

    Servers see the id that the record has, so that their traces can be looked up there. Flipping a
    bit gives the second id without storing it.
    """
    return span_id ^ _OUTER_ID_BIT or 1


class _SpanBuilder:
    def __init__(self, row: Row, parent: str | None) -> None:
        self._row = row
        self._trace_id = int(row.trace_id, 16)
        self._span_id = int(row.id or "", 16)
        self._parent_id = int(parent, 16) if parent else None
        duration_ms = row.timings.total_ms or 0.0
        self._end_ns = _nanoseconds(row.timestamp)
        self._start_ns = self._end_ns - round(duration_ms * 1e6)
        code = None if row.error is None else row.error.code
        self._error_type = error_type_of(row)
        self._code = None if code is None else str(code)

    def spans(self) -> Iterator[SpanData]:
        row = self._row
        has_server_span = _reached_server(row)
        if row.profile is not None or not has_server_span:
            yield self._build_span(
                serves=True,
                span_id=outer_span_id(self._span_id) if has_server_span else self._span_id,
                parent_id=self._parent_id,
                times=(self._start_ns, self._end_ns),
            )
        if has_server_span:
            has_outer_span = row.profile is not None
            yield self._build_span(
                serves=False,
                span_id=self._span_id,
                parent_id=outer_span_id(self._span_id) if has_outer_span else self._parent_id,
                times=self._server_times(),
            )

    def _server_times(self) -> tuple[int, int]:
        """When the gateway waited for the server; the whole time if that was not measured."""
        timings = self._row.timings
        if timings.server_ms is None:
            return self._start_ns, self._end_ns
        start = min(self._start_ns + round((timings.queue_ms or 0.0) * 1e6), self._end_ns)
        return start, min(start + round(timings.server_ms * 1e6), self._end_ns)

    def _build_span(
        self, *, serves: bool, span_id: int, parent_id: int | None, times: tuple[int, int]
    ) -> SpanData:
        row, method = self._row, self._row.method or ""
        attributes: Attributes = {"mcp.method.name": method}
        name, target = method, row.target
        if serves and row.public_name is not None:
            target = row.public_name
        if target is not None:
            attributes[_TARGETS.get(method, _URI)] = target
            # A name that matched nothing may be made up by a stranger: it must not become a span
            # name.
            if method in _TARGETS and (row.server is not None or self._error_type is None):
                name = f"{method} {target}"
        if method == TOOLS_CALL:
            attributes["gen_ai.operation.name"] = "execute_tool"
        attributes |= self._client_attributes() if serves else self._server_attributes()
        attributes |= self._ending_attributes()
        return SpanData(
            name=name,
            is_server=serves,
            trace_id=self._trace_id,
            span_id=span_id,
            parent_id=parent_id,
            parent_is_remote=serves,
            start_ns=times[0],
            end_ns=times[1],
            attributes=attributes,
            error=None if self._error_type is None else self._error_text(),
        )

    def _client_attributes(self) -> Attributes:
        row, client = self._row, self._row.client
        texts = {
            "mcp.protocol.version": client.revision,
            "mcp.session.id": client.session,
            "anyport.profile": row.profile,
            "anyport.server": row.server,
            "anyport.client": client.name,
            "anyport.principal": client.principal,
        }
        found: Attributes = {key: text for key, text in texts.items() if text is not None}
        if row.cached:
            found["anyport.cached"] = True
        if row.timings.queue_ms:
            found["anyport.queue_ms"] = row.timings.queue_ms
        return found | _network_attributes(client.transport)

    def _server_attributes(self) -> Attributes:
        row, upstream = self._row, self._row.upstream
        texts = {"mcp.protocol.version": upstream.revision, "anyport.server": row.server}
        found: Attributes = {key: text for key, text in texts.items() if text is not None}
        return found | _network_attributes(upstream.transport)

    def _ending_attributes(self) -> Attributes:
        found: Attributes = {}
        if self._error_type is not None:
            found["error.type"] = self._error_type
        if self._code is not None:
            found["rpc.response.status_code"] = self._code
        return found

    def _error_text(self) -> str:
        return "" if self._row.error is None else self._row.error.message or ""


def error_type_of(row: Row) -> str | None:
    """The `error.type` of the conventions; None for a success."""
    if row.status == "success":
        return None
    if row.status in ("timeout", "cancelled"):
        return row.status
    code = None if row.error is None else row.error.code
    return "tool_error" if code is None else str(code)


def _reached_server(row: Row) -> bool:
    """Whether the request reached a server; without capture, whether it has a server."""
    if row.server is None or row.cached:
        return False
    captured = row.timings.gateway_ms is not None
    return row.timings.server_ms is not None if captured else True


def _network_attributes(transport: str | None) -> Attributes:
    if transport is None:
        return {}
    carried = network_transport(transport)
    if carried == "tcp":
        return {"network.transport": carried, "network.protocol.name": "http"}
    return {"network.transport": carried}


def _nanoseconds(timestamp: str) -> int:
    at = datetime.fromisoformat(timestamp)
    return int(at.timestamp()) * 10**9 + at.microsecond * 1000

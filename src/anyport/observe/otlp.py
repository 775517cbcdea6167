"""OTLP exporter: sends spans and metrics over HTTP. The only module that imports OpenTelemetry.

The telemetry thread imports it, if telemetry is on; nothing here runs on the event loop.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from anyport import __version__
from anyport.config.model import TelemetryConfig
from anyport.observe.metrics import Histogram as Counts
from anyport.observe.metrics import HistogramFamily, Labels
from anyport.observe.telemetry import MetricsSnapshot, SpanData, metric_attributes

SERVICE_NAME: Final = "anyport"
REASON_CHARS_MAX: Final = 200
"""Characters of an error from a collector."""

_SCOPE: Final = InstrumentationScope(SERVICE_NAME, __version__)
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_OK: Final = Status(StatusCode.UNSET)


class OtlpExporter:
    """Sends spans and metrics to a collector."""

    def __init__(
        self, resource: Resource, spans: SpanExporter | None, numbers: MetricExporter | None
    ) -> None:
        self._resource = resource
        self._span_exporter = spans
        self._metric_exporter = numbers
        self._log_capture = _LogCapture()

    def send_spans(self, spans: Sequence[SpanData]) -> str | None:
        """Send spans; returns why the collector did not accept them, or None."""
        if self._span_exporter is None:
            return None
        result = self._span_exporter.export([self._readable_span(span) for span in spans])
        return None if result is SpanExportResult.SUCCESS else self._log_capture.take_last()

    def send_metrics(self, snapshot: MetricsSnapshot, now_ns: int) -> str | None:
        """Send all metrics; returns why the collector did not accept them, or None."""
        if self._metric_exporter is None:
            return None
        since_ns = now_ns - round(snapshot.uptime_seconds * 1e9)
        metrics = [
            _histogram(family, found, (since_ns, now_ns))
            for family, found in snapshot.histograms
            if found
        ]
        metrics.append(_dropped_metric(snapshot.dropped, (since_ns, now_ns)))
        scope = ScopeMetrics(scope=_SCOPE, metrics=metrics, schema_url="")
        resource_metrics = ResourceMetrics(
            resource=self._resource, scope_metrics=[scope], schema_url=""
        )
        result = self._metric_exporter.export(MetricsData(resource_metrics=[resource_metrics]))
        return None if result is MetricExportResult.SUCCESS else self._log_capture.take_last()

    def close(self) -> None:
        """Abort what is under way."""
        if self._span_exporter is not None:
            self._span_exporter.shutdown()
        if self._metric_exporter is not None:
            self._metric_exporter.shutdown()

    def _readable_span(self, span: SpanData) -> ReadableSpan:
        parent = None
        if span.parent_id is not None:
            remote = span.parent_is_remote
            parent = SpanContext(span.trace_id, span.parent_id, remote, _SAMPLED)
        return ReadableSpan(
            name=span.name,
            context=SpanContext(span.trace_id, span.span_id, False, _SAMPLED),
            parent=parent,
            resource=self._resource,
            attributes=span.attributes,
            kind=SpanKind.SERVER if span.is_server else SpanKind.CLIENT,
            status=_OK if span.error is None else Status(StatusCode.ERROR, span.error or None),
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=_SCOPE,
        )


def open_exporter(config: TelemetryConfig, environ: Mapping[str, str]) -> OtlpExporter:
    """The exporter for the configured collector.

    What the configuration leaves open, the OpenTelemetry packages take from environment variables.
    """
    headers = dict(config.headers) or None
    base = None if config.endpoint is None else config.endpoint.rstrip("/")
    spans: SpanExporter | None = None
    numbers: MetricExporter | None = None
    if environ.get("OTEL_TRACES_EXPORTER") != "none":
        url = None if base is None else f"{base}/v1/traces"
        spans = OTLPSpanExporter(endpoint=url, headers=headers)
    if environ.get("OTEL_METRICS_EXPORTER") != "none":
        url = None if base is None else f"{base}/v1/metrics"
        numbers = OTLPMetricExporter(endpoint=url, headers=headers)
    return OtlpExporter(build_resource(config), spans, numbers)


def build_resource(config: TelemetryConfig) -> Resource:
    """Attributes of this service: our defaults, overridden by the environment, then by the
    configuration."""
    resource = Resource.create({"service.name": SERVICE_NAME, "service.version": __version__})
    resource = resource.merge(OTELResourceDetector().detect())
    if config.name is not None:
        resource = resource.merge(Resource({"service.name": config.name}))
    return resource


class _LogCapture(logging.Handler):
    """Catches log messages of the packages, which would otherwise appear on stderr."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._last = ""
        logger = logging.getLogger("opentelemetry")
        logger.handlers, logger.propagate = [self], False

    def emit(self, record: logging.LogRecord) -> None:
        self._last = record.getMessage()

    def take_last(self) -> str:
        words, self._last = self._last, ""
        return " ".join(words.split())[:REASON_CHARS_MAX] or "unknown reason"


def _histogram(
    family: HistogramFamily, found: Sequence[tuple[Labels, Counts]], times: tuple[int, int]
) -> Metric:
    return Metric(
        name=family.name,
        description=family.meaning,
        unit="s",
        data=Histogram(
            data_points=[_data_point(family, labels, counts, times) for labels, counts in found],
            aggregation_temporality=AggregationTemporality.CUMULATIVE,
        ),
    )


def _data_point(
    family: HistogramFamily, labels: Labels, counts: Counts, times: tuple[int, int]
) -> HistogramDataPoint:
    buckets = [int(count) for count in counts[:-1]]
    return HistogramDataPoint(
        attributes=metric_attributes(family, labels),
        start_time_unix_nano=times[0],
        time_unix_nano=times[1],
        count=sum(buckets),
        sum=counts[-1],
        bucket_counts=buckets,
        explicit_bounds=family.bounds,
        min=None,  # type: ignore[arg-type] # Nobody keeps them, and OTLP can leave them out.
        max=None,  # type: ignore[arg-type]
    )


def _dropped_metric(count: int, times: tuple[int, int]) -> Metric:
    point = NumberDataPoint(
        attributes={}, start_time_unix_nano=times[0], time_unix_nano=times[1], value=count
    )
    return Metric(
        name="anyport.telemetry.dropped",
        description="Exchanges without a span, because the queue was full.",
        unit="{exchange}",
        data=Sum(
            data_points=[point],
            aggregation_temporality=AggregationTemporality.CUMULATIVE,
            is_monotonic=True,
        ),
    )

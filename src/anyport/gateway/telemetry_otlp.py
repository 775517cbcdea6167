"""The one file that knows the packages of OpenTelemetry: spans and numbers, out by OTLP over HTTP.

Imported late, in the thread that sends, and only where telemetry is switched on. Everything here
may wait for the network; nothing here is called by the loop.
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
from anyport.config.schema import TelemetryConfig
from anyport.gateway.families import Family, Labels
from anyport.gateway.metrics import Histogram as Counts
from anyport.gateway.telemetry_metrics import Figures, attributes
from anyport.gateway.telemetry_spans import Span

NAME: Final = "anyport"
REASON_CHARS_MAX: Final = 200
"""Of what a collector says when it takes nothing."""

_SCOPE: Final = InstrumentationScope(NAME, __version__)
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_OK: Final = Status(StatusCode.UNSET)


class Outlet:
    """Where spans and numbers leave."""

    def __init__(
        self, resource: Resource, spans: SpanExporter | None, numbers: MetricExporter | None
    ) -> None:
        self._resource = resource
        self._spans = spans
        self._numbers = numbers
        self._complaints = _Complaints()

    def send_spans(self, spans: Sequence[Span]) -> str | None:
        """Send spans; returns why they were not taken, if they were not."""
        if self._spans is None:
            return None
        sent = self._spans.export([self._span(span) for span in spans])
        return None if sent is SpanExportResult.SUCCESS else self._complaints.last()

    def send_figures(self, figures: Figures, now_ns: int) -> str | None:
        """Send all numbers; returns why they were not taken, if they were not."""
        if self._numbers is None:
            return None
        since_ns = now_ns - round(figures.uptime_seconds * 1e9)
        metrics = [
            _histogram(family, found, (since_ns, now_ns))
            for family, found in figures.histograms
            if found
        ]
        metrics.append(_dropped(figures.dropped, (since_ns, now_ns)))
        scope = ScopeMetrics(scope=_SCOPE, metrics=metrics, schema_url="")
        told = ResourceMetrics(resource=self._resource, scope_metrics=[scope], schema_url="")
        sent = self._numbers.export(MetricsData(resource_metrics=[told]))
        return None if sent is MetricExportResult.SUCCESS else self._complaints.last()

    def close(self) -> None:
        """Give up what is under way."""
        if self._spans is not None:
            self._spans.shutdown()
        if self._numbers is not None:
            self._numbers.shutdown()

    def _span(self, span: Span) -> ReadableSpan:
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
            kind=SpanKind.SERVER if span.serves else SpanKind.CLIENT,
            status=_OK if span.error is None else Status(StatusCode.ERROR, span.error or None),
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=_SCOPE,
        )


def open_outlet(config: TelemetryConfig, environ: Mapping[str, str]) -> Outlet:
    """The way to the collector that the configuration names, or else the environment.

    What the configuration leaves open, the exporters read from the variables they all share.
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
    return Outlet(resource_of(config), spans, numbers)


def resource_of(config: TelemetryConfig) -> Resource:
    """Who is speaking: what we are, unless the environment says otherwise, or the configuration."""
    resource = Resource.create({"service.name": NAME, "service.version": __version__})
    resource = resource.merge(OTELResourceDetector().detect())
    if config.name is not None:
        resource = resource.merge(Resource({"service.name": config.name}))
    return resource


class _Complaints(logging.Handler):
    """Keeps what the packages complain of, which would else go to the stderr of a client."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._last = ""
        logger = logging.getLogger("opentelemetry")
        logger.handlers, logger.propagate = [self], False

    def emit(self, record: logging.LogRecord) -> None:
        self._last = record.getMessage()

    def last(self) -> str:
        words, self._last = self._last, ""
        return " ".join(words.split())[:REASON_CHARS_MAX] or "no reason is known"


def _histogram(
    family: Family, found: Sequence[tuple[Labels, Counts]], times: tuple[int, int]
) -> Metric:
    return Metric(
        name=family.name,
        description=family.meaning,
        unit="s",
        data=Histogram(
            data_points=[_point(family, labels, counts, times) for labels, counts in found],
            aggregation_temporality=AggregationTemporality.CUMULATIVE,
        ),
    )


def _point(
    family: Family, labels: Labels, counts: Counts, times: tuple[int, int]
) -> HistogramDataPoint:
    buckets = [int(count) for count in counts[:-1]]
    return HistogramDataPoint(
        attributes=attributes(family, labels),
        start_time_unix_nano=times[0],
        time_unix_nano=times[1],
        count=sum(buckets),
        sum=counts[-1],
        bucket_counts=buckets,
        explicit_bounds=family.bounds,
        min=None,  # type: ignore[arg-type] # Nobody keeps them, and OTLP can leave them out.
        max=None,  # type: ignore[arg-type]
    )


def _dropped(count: int, times: tuple[int, int]) -> Metric:
    point = NumberDataPoint(
        attributes={}, start_time_unix_nano=times[0], time_unix_nano=times[1], value=count
    )
    return Metric(
        name="anyport.telemetry.dropped",
        description="Exchanges of which no span was sent, because too many were waiting.",
        unit="{exchange}",
        data=Sum(
            data_points=[point],
            aggregation_temporality=AggregationTemporality.CUMULATIVE,
            is_monotonic=True,
        ),
    )

"""The gateway's numbers in the words of Prometheus.

Names and labels follow the OpenTelemetry conventions for MCP where those have one; what is ours
alone begins with `anyport_`. Imported late: a gateway that nobody scrapes does not pay for it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from anyport import __version__
from anyport.gateway.api.views import Gateway
from anyport.gateway.metrics import OPERATION_BOUNDS, OVERHEAD_BOUNDS, Histogram
from anyport.upstream.tender import State

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One histogram: its name, what it tells, its labels and its bounds."""

    name: str
    meaning: str
    labels: tuple[str, ...]
    bounds: tuple[float, ...] = OPERATION_BOUNDS


OPERATION: Final = Family(
    name="mcp_server_operation_duration_seconds",
    meaning="How long requests of clients took, from their arrival to their answer.",
    labels=(
        *("mcp_method_name", "profile", "mcp_protocol_version"),
        *("network_transport", "error_type"),
    ),
)
REQUEST: Final = Family(
    name="mcp_client_operation_duration_seconds",
    meaning="How long servers took to answer the gateway.",
    labels=("mcp_method_name", "server", "gen_ai_tool_name", "error_type"),
)
OVERHEAD: Final = Family(
    name="anyport_overhead_seconds",
    meaning="What of a request's time was the gateway's own, no server being waited for.",
    labels=("mcp_method_name",),
    bounds=OVERHEAD_BOUNDS,
)
SESSION: Final = Family(
    name="mcp_server_session_duration_seconds",
    meaning="How long sessions of clients lasted that have ended.",
    labels=("profile", "mcp_protocol_version", "network_transport"),
)
CONNECTION: Final = Family(
    name="mcp_client_session_duration_seconds",
    meaning="How long connections to servers lasted that have ended.",
    labels=("server",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """All numbers of one moment, copied, so that they can be rendered in another thread."""

    histograms: tuple[tuple[Family, tuple[tuple[tuple[str, ...], Histogram], ...]], ...]
    gauges: dict[str, tuple[str, float]]
    servers: dict[str, tuple[bool, int]]
    """Whether each is up, and how often it broke."""
    journal_lost: int


def read(gateway: Gateway) -> Readings:
    """The numbers of now."""
    metrics = gateway.metrics
    metrics.settle()
    families = (
        (OPERATION, metrics.operations),
        (REQUEST, metrics.requests),
        (OVERHEAD, metrics.overheads),
        (SESSION, metrics.sessions),
        (CONNECTION, metrics.connections),
    )
    return Readings(
        histograms=tuple(
            (family, tuple((labels, list(counts)) for labels, counts in found.items()))
            for family, found in families
        ),
        gauges={
            "anyport_open_exchanges": (
                "Requests that a server works on.",
                len(gateway.relay.deadlines),
            ),
            "anyport_sessions": ("Sessions of clients.", len(gateway.feed.sessions)),
            "anyport_streams": ("Streams to clients.", metrics.streams()),
            "anyport_uptime_seconds": ("Since the start.", metrics.uptime_seconds),
            "anyport_draining": ("1 while it only finishes what it began.", gateway.draining),
            "anyport_journal_up": (
                "1 while the journal of events can be written.",
                gateway.journal.last_error is None,
            ),
        },
        servers={
            slug: (server.state is State.READY, metrics.restarts.get(slug, 0))
            for slug, server in gateway.servers.items()
        },
        journal_lost=gateway.journal.lost_count,
    )


def render(readings: Readings) -> bytes:
    """The numbers as Prometheus reads them. May take some milliseconds: not for the loop."""
    registry = CollectorRegistry()
    registry.register(_Readings(readings))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _Readings(Collector):
    """Hands the numbers over as families."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    def collect(self) -> Iterator[Metric]:
        """Every family."""
        for family, found in self._readings.histograms:
            yield _histogram(family, found)
        for name, (meaning, value) in self._readings.gauges.items():
            yield GaugeMetricFamily(name, meaning, value=float(value))
        yield from self._of_servers()
        yield CounterMetricFamily(
            "anyport_journal_lost",
            "Events that could not be kept.",
            value=float(self._readings.journal_lost),
        )
        build = GaugeMetricFamily("anyport_build_info", "The version.", labels=("version",))
        build.add_metric((__version__,), 1.0)
        yield build

    def _of_servers(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("anyport_server_up", "1 while a server runs.", labels=("server",))
        restarts = CounterMetricFamily(
            "anyport_server_restarts", "How often a server broke.", labels=("server",)
        )
        for slug, (running, count) in self._readings.servers.items():
            up.add_metric((slug,), float(running))
            restarts.add_metric((slug,), float(count))
        yield up
        yield restarts


def _histogram(
    family: Family, found: tuple[tuple[tuple[str, ...], Histogram], ...]
) -> HistogramMetricFamily:
    histogram = HistogramMetricFamily(family.name, family.meaning, labels=family.labels)
    bounds = [*(repr(bound) for bound in family.bounds), "+Inf"]
    for labels, counts in found:
        buckets = list(zip(bounds, accumulate(counts[:-1]), strict=True))
        histogram.add_metric(labels, buckets, counts[-1])
    return histogram

"""Metrics in the Prometheus text format.

Names and labels follow the OpenTelemetry semantic conventions for MCP; metrics that those do not
have begin with `anyport_`. Imported with the first scrape.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, TypeAlias

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
from anyport.gateway.gateway import Gateway
from anyport.observe.metrics import HistogramFamily, Histograms, HistogramSeries, copy_histograms
from anyport.record.redact.escape import escape_invisible
from anyport.upstream.supervisor import ServerState

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerValues:
    """The values of one server."""

    up: bool
    ejected: bool
    restarts: int
    ejections: int
    repeated: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusSnapshot:
    """A copy of all values, which can be rendered in another thread."""

    histograms: Histograms
    gauges: dict[str, tuple[str, float]]
    servers: dict[str, ServerValues]
    journal_lost: int
    refused: dict[str, int]
    """Refused requests by reason."""
    timeouts: dict[str, int]
    """Expired timeouts by name."""


def read(gateway: Gateway) -> PrometheusSnapshot:
    """Copy the current values."""
    metrics = gateway.metrics
    return PrometheusSnapshot(
        histograms=copy_histograms(metrics),
        gauges={
            "anyport_open_exchanges": (
                "Requests in flight at servers.",
                len(gateway.relay.calls),
            ),
            "anyport_sessions": ("Open client sessions.", len(gateway.notifications.sessions)),
            "anyport_streams": ("Open streams to clients.", metrics.count_streams()),
            "anyport_held_bytes": (
                "Memory held by large messages in flight.",
                gateway.relay.admission.memory_budget.used_bytes,
            ),
            "anyport_uptime_seconds": ("Seconds since the start.", metrics.uptime_seconds),
            "anyport_draining": ("1 while the gateway drains.", gateway.draining),
            "anyport_journal_up": (
                "1 while the journal can be written.",
                gateway.journal.last_error is None,
            ),
            "anyport_journal_slow": (
                "1 while answers wait for the disk.",
                gateway.journal.file_writer.is_slow,
            ),
            "anyport_blocking": (
                "1 while calls are refused because they cannot be recorded.",
                gateway.journal.is_blocking,
            ),
        },
        servers={
            slug: ServerValues(
                up=server.state in (ServerState.READY, ServerState.IDLE),
                ejected=server.health.breaker.is_open,
                restarts=metrics.restarts.get(slug, 0),
                ejections=server.health.ejections,
                repeated=gateway.relay.retry_budgets.retried_counts.get(slug, 0),
                waiting=server.waiting_calls,
            )
            for slug, server in gateway.servers.items()
        },
        journal_lost=gateway.journal.lost_count,
        refused=dict(gateway.relay.admission.memory_budget.refusals),
        timeouts={timeout.value: count for timeout, count in metrics.timeouts.items()},
    )


def render(snapshot: PrometheusSnapshot) -> bytes:
    """Render a snapshot. May take some milliseconds: run it in a thread."""
    registry = CollectorRegistry()
    registry.register(_SnapshotCollector(snapshot))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _SnapshotCollector(Collector):
    """Converts a snapshot to metric families."""

    def __init__(self, snapshot: PrometheusSnapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        for family, series in self._snapshot.histograms:
            yield _histogram(family, series)
        for name, (help, value) in self._snapshot.gauges.items():
            yield GaugeMetricFamily(name, help, value=float(value))
        yield from self._server_families()
        yield CounterMetricFamily(
            "anyport_journal_lost",
            "Events that could not be recorded.",
            value=float(self._snapshot.journal_lost),
        )
        refused = CounterMetricFamily("anyport_refused", "Refused requests.", labels=("why",))
        for why, count in self._snapshot.refused.items():
            refused.add_metric((why,), float(count))
        yield refused
        timeouts = CounterMetricFamily("anyport_timeouts", "Expired timeouts.", labels=("timeout",))
        for name, count in self._snapshot.timeouts.items():
            timeouts.add_metric((name,), float(count))
        yield timeouts
        build = GaugeMetricFamily("anyport_build_info", "The version.", labels=("version",))
        build.add_metric((__version__,), 1.0)
        yield build

    def _server_families(self) -> Iterator[Metric]:
        for name, help, family_type, value_of in _SERVER_FAMILIES:
            family = family_type(f"anyport_server_{name}", help, labels=("server",))
            for slug, values in self._snapshot.servers.items():
                family.add_metric((slug,), float(value_of(values)))
            yield family


_FamilyType: TypeAlias = type[GaugeMetricFamily] | type[CounterMetricFamily]
_SERVER_FAMILIES: Final[
    tuple[tuple[str, str, _FamilyType, Callable[[ServerValues], float]], ...]
] = (
    ("up", "1 while a server is running or idle.", GaugeMetricFamily, lambda values: values.up),
    (
        "ejected",
        "1 while the circuit breaker of a server is open.",
        GaugeMetricFamily,
        lambda values: values.ejected,
    ),
    (
        "restarts",
        "Failures after which a server was restarted.",
        CounterMetricFamily,
        lambda values: values.restarts,
    ),
    (
        "ejections",
        "Times that the circuit breaker of a server has opened.",
        CounterMetricFamily,
        lambda values: values.ejections,
    ),
    (
        "waiting_calls",
        "Calls that wait for a free slot at a server.",
        GaugeMetricFamily,
        lambda values: values.waiting,
    ),
    (
        "retries",
        "Retried calls.",
        CounterMetricFamily,
        lambda values: values.repeated,
    ),
)


def _histogram(family: HistogramFamily, series: HistogramSeries) -> HistogramMetricFamily:
    histogram = HistogramMetricFamily(family.prometheus_name, family.meaning, labels=family.labels)
    bounds = [*(repr(bound) for bound in family.bounds), "+Inf"]
    for labels, counts in series:
        buckets = list(zip(bounds, accumulate(counts[:-1]), strict=True))
        # Servers choose the names of tools, and the format only escapes quotes and line breaks.
        histogram.add_metric([escape_invisible(label) for label in labels], buckets, counts[-1])
    return histogram

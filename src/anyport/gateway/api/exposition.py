"""The gateway's numbers in the words of Prometheus.

Names and labels follow the OpenTelemetry conventions for MCP where those have one; what is ours
alone begins with `anyport_`. Imported late: a gateway that nobody scrapes does not pay for it.
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
from anyport.gateway.api.views import Gateway
from anyport.gateway.families import Family, Histograms, Series, histograms
from anyport.upstream.tender import State

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4


@dataclass(frozen=True, slots=True, kw_only=True)
class OfServer:
    """The numbers of one server."""

    up: bool
    ejected: bool
    restarts: int
    ejections: int
    repeated: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """All numbers of one moment, copied, so that they can be rendered in another thread."""

    histograms: Histograms
    gauges: dict[str, tuple[str, float]]
    servers: dict[str, OfServer]
    journal_lost: int
    refused: dict[str, int]
    """Whoever was turned away, by why."""
    timeouts: dict[str, int]
    """What took too long, by which time was over."""


def read(gateway: Gateway) -> Readings:
    """The numbers of now."""
    metrics = gateway.metrics
    return Readings(
        histograms=histograms(metrics),
        gauges={
            "anyport_open_exchanges": (
                "Requests that a server works on.",
                len(gateway.relay.deadlines),
            ),
            "anyport_sessions": ("Sessions of clients.", len(gateway.feed.sessions)),
            "anyport_streams": ("Streams to clients.", metrics.streams()),
            "anyport_held_bytes": (
                "What large messages under way take up.",
                gateway.relay.admission.room.taken_bytes,
            ),
            "anyport_uptime_seconds": ("Since the start.", metrics.uptime_seconds),
            "anyport_draining": ("1 while it only finishes what it began.", gateway.draining),
            "anyport_journal_up": (
                "1 while the journal of events can be written.",
                gateway.journal.last_error is None,
            ),
            "anyport_journal_slow": (
                "1 while answers wait for the disk.",
                gateway.journal.outflow.slow,
            ),
            "anyport_blocking": (
                "1 while calls are refused because they cannot be recorded.",
                gateway.journal.blocking,
            ),
        },
        servers={
            slug: OfServer(
                up=server.state in (State.READY, State.IDLE),
                ejected=server.guard.breaker.is_open,
                restarts=metrics.restarts.get(slug, 0),
                ejections=server.guard.ejections,
                repeated=gateway.relay.retries.repeated.get(slug, 0),
                waiting=server.waiting_calls,
            )
            for slug, server in gateway.servers.items()
        },
        journal_lost=gateway.journal.lost_count,
        refused=dict(gateway.relay.admission.room.refused),
        timeouts={timeout.value: count for timeout, count in metrics.timeouts.items()},
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
        refused = CounterMetricFamily(
            "anyport_refused", "Requests that were turned away.", labels=("why",)
        )
        for why, count in self._readings.refused.items():
            refused.add_metric((why,), float(count))
        yield refused
        timeouts = CounterMetricFamily(
            "anyport_timeouts", "What ended because its time was over.", labels=("timeout",)
        )
        for name, count in self._readings.timeouts.items():
            timeouts.add_metric((name,), float(count))
        yield timeouts
        build = GaugeMetricFamily("anyport_build_info", "The version.", labels=("version",))
        build.add_metric((__version__,), 1.0)
        yield build

    def _of_servers(self) -> Iterator[Metric]:
        for name, meaning, kind, value in _OF_SERVERS:
            family = kind(f"anyport_server_{name}", meaning, labels=("server",))
            for slug, readings in self._readings.servers.items():
                family.add_metric((slug,), float(value(readings)))
            yield family


_Kind: TypeAlias = type[GaugeMetricFamily] | type[CounterMetricFamily]
_OF_SERVERS: Final[tuple[tuple[str, str, _Kind, Callable[[OfServer], float]], ...]] = (
    ("up", "1 while a server runs, or is idle.", GaugeMetricFamily, lambda of: of.up),
    (
        "ejected",
        "1 while a server gets no calls because too many failed in a row.",
        GaugeMetricFamily,
        lambda of: of.ejected,
    ),
    ("restarts", "How often a server broke.", CounterMetricFamily, lambda of: of.restarts),
    (
        "ejections",
        "How often a server was left without calls.",
        CounterMetricFamily,
        lambda of: of.ejections,
    ),
    (
        "waiting_calls",
        "Calls that wait for a place with a server.",
        GaugeMetricFamily,
        lambda of: of.waiting,
    ),
    (
        "retries",
        "Calls that were made once more.",
        CounterMetricFamily,
        lambda of: of.repeated,
    ),
)


def _histogram(family: Family, found: Series) -> HistogramMetricFamily:
    histogram = HistogramMetricFamily(family.exposed, family.meaning, labels=family.labels)
    bounds = [*(repr(bound) for bound in family.bounds), "+Inf"]
    for labels, counts in found:
        buckets = list(zip(bounds, accumulate(counts[:-1]), strict=True))
        histogram.add_metric(labels, buckets, counts[-1])
    return histogram

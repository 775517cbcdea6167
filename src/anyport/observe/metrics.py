"""Metrics: durations of calls, sessions and connections, restarts and timeouts.

A finished call only appends its times to a list; now and then they are sorted into the histogram
together, which is cheaper than one by one. Every label is bounded: what a stranger can choose, such
as a tool name or an error code, is accepted only within limits.
"""

import sys
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from operator import sub
from typing import Final, TypeAlias, cast

from anyport.protocol.errors import Timeout
from anyport.record.event import Status

OPERATION_BOUNDS: Final = (
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1.0,
    2.0,
    5.0,
    10.0,
    30.0,
    60.0,
    120.0,
    300.0,
)
"""In seconds: the boundaries that the OpenTelemetry conventions for MCP recommend."""

OVERHEAD_BOUNDS: Final = (
    0.00005,
    0.0001,
    0.0002,
    0.0005,
    0.001,
    0.002,
    0.005,
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1.0,
)
"""In seconds: the gateway's own time is far below the shortest of the others."""

TOOL_NAMES_MAX: Final = 200
"""Tools with labels of their own; each costs a scrape some twenty lines."""
TOOL_NAME_CHARS_MAX: Final = 128
SERIES_MAX: Final = 1024
"""Combinations of labels; further ones are counted as `_OTHER`."""
UNSORTED_TIMES_MAX: Final = 256
"""Two per call: at most eight kilobytes per series wait to be sorted."""

OTHER_LABEL: Final = "_OTHER"
"""Label for everything beyond the limits, as in the OpenTelemetry conventions."""

Histogram: TypeAlias = list[float]
"""Counts per bound, the count above all bounds, and at the end the sum of the values."""

CallLabels: TypeAlias = tuple[str, str, str, str, str, str, str]
"""Method, profile, revision, transport (`pipe` or `tcp`), server, native tool name, error. The
server is empty for answers of the gateway, the tool for other methods, the error (see `error_type`)
for a success."""

_CODE_LABELS: Final = {
    code: sys.intern(str(code))
    for code in (
        -32700,
        -32600,
        -32601,
        -32602,
        -32603,
        -32000,
        -32001,
        -32002,
        -32020,
        -32021,
        -32022,
        -32042,
    )
}


def error_type(status: Status, code: int | None) -> str:
    """The label for how a call ended. Servers may invent codes, but not labels."""
    if status == "success":
        return ""
    if status in ("timeout", "cancelled"):
        return status
    return "tool_error" if code is None else _CODE_LABELS.get(code, OTHER_LABEL)


class Metrics:
    """The metrics of one gateway."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.operations: dict[tuple[str, ...], Histogram] = {}
        """Durations of clients' requests, by method, profile, revision, transport and error."""
        self.requests: dict[tuple[str, ...], Histogram] = {}
        """Durations of requests to servers, by method, server, tool and error."""
        self.overheads: dict[tuple[str, ...], Histogram] = {}
        """The gateway's own time, by method."""
        self.sessions: dict[tuple[str, ...], Histogram] = {}
        """Durations of ended sessions, by profile, revision and transport."""
        self.connections: dict[tuple[str, ...], Histogram] = {}
        """Durations of ended connections, by server."""
        self.restarts: dict[str, int] = {}
        """How often each server failed and was started again."""
        self.timeouts = dict.fromkeys(Timeout, 0)
        """How often each timeout expired."""
        self.count_streams: Callable[[], int] = lambda: 0
        """Number of open streams to clients; the ingress sets this."""
        self._monotonic = monotonic
        self._started_at = monotonic()
        self._opened_at: dict[Hashable, float] = {}
        self._tools: set[tuple[str, str]] = set()
        self._series: dict[CallLabels, CallSeries] = {}

    @property
    def uptime_seconds(self) -> float:
        """Since the metrics were zero, at the start of the gateway."""
        return self._monotonic() - self._started_at

    def count_call(self, call: CallLabels, seconds: float, waited: float | None) -> None:
        """Count a finished call. `waited` is the server's time, or None if no server was asked."""
        self.series_for(call).add(seconds, waited)

    def series_for(self, call: CallLabels) -> "CallSeries":
        """The series for these labels; callers keep it for the next call."""
        return self._series.get(call) or self._create_series(call)

    def update_histograms(self) -> None:
        """Sort all pending times into the histograms, before they are read."""
        for series in self._series.values():
            series.sort()

    def count_restart(self, server: str) -> None:
        self.restarts[server] = self.restarts.get(server, 0) + 1

    def count_timeout(self, timeout: Timeout) -> None:
        self.timeouts[timeout] += 1

    def start_lifetime(self, key: Hashable) -> None:
        """A session or a connection begins; one that has begun already keeps its start."""
        # A connection is ready again whenever its MCP session was renewed.
        self._opened_at.setdefault(key, self._monotonic())

    def end_session(self, key: Hashable, profile: str, revision: str, transport: str) -> None:
        self._end_lifetime(self.sessions, key, (profile, revision, transport))

    def end_connection(self, key: Hashable, server: str) -> None:
        self._end_lifetime(self.connections, key, (server,))

    def _end_lifetime(
        self, histograms: dict[tuple[str, ...], Histogram], key: Hashable, labels: tuple[str, ...]
    ) -> None:
        since = self._opened_at.pop(key, None)
        if since is None:  # It was never ready, or has ended already.
            return
        _add_times(
            _histogram_for(histograms, labels), OPERATION_BOUNDS, [self._monotonic() - since]
        )

    def _create_series(self, call: CallLabels) -> "CallSeries":
        method, profile, revision, transport, server, tool, error = call
        if tool and not self._has_own_label(server, tool, error):
            tool = OTHER_LABEL
        if len(self._series) >= SERIES_MAX:
            profile, server, tool = OTHER_LABEL, server and OTHER_LABEL, tool and OTHER_LABEL
        limited = (method, profile, revision, transport, server, tool, error)
        series = self._series.get(limited)
        if series is None:
            series = self._series[limited] = CallSeries(
                _histogram_for(self.operations, (method, profile, revision, transport, error)),
                _histogram_for(self.requests, (method, server, tool, error))
                if server
                else _empty_histogram(),
                _histogram_for(self.overheads, (method,)),
            )
        return series

    def _has_own_label(self, server: str, tool: str, error: str) -> bool:
        if (server, tool) in self._tools:
            return True
        # Where unknown names are forwarded, a client may invent some: only a tool that succeeds is
        # real.
        if error or len(tool) > TOOL_NAME_CHARS_MAX or len(self._tools) >= TOOL_NAMES_MAX:
            return False
        self._tools.add((server, tool))
        return True


class CallSeries:
    """The calls that share all their labels."""

    __slots__ = ("operation", "overhead", "request", "times")

    def __init__(self, operation: Histogram, request: Histogram, overhead: Histogram) -> None:
        self.operation = operation
        self.request = request
        self.overhead = overhead
        self.times: list[float | None] = []
        """For each call, its duration and the server's time."""

    def add(self, seconds: float, waited: float | None) -> None:
        """The same as `Metrics.count_call`."""
        times = self.times
        times += (seconds, waited)
        if len(times) >= UNSORTED_TIMES_MAX:
            self.sort()

    def sort(self) -> None:
        """Move the pending times into the histograms."""
        times, self.times = self.times, []
        durations = cast(list[float], times[::2])
        waits = times[1::2]
        waited = [wait for wait in waits if wait is not None]
        overheads = map(
            sub, durations, waited if len(waited) == len(durations) else (w or 0.0 for w in waits)
        )
        _add_times(self.operation, OPERATION_BOUNDS, durations)
        _add_times(self.request, OPERATION_BOUNDS, waited)
        _add_times(self.overhead, OVERHEAD_BOUNDS, overheads)


def _add_times(histogram: Histogram, bounds: tuple[float, ...], seconds: Iterable[float]) -> None:
    ascending = sorted(seconds)
    below = 0
    for at, bound in enumerate(bounds):
        # A value equal to a bound is within it: `le` is inclusive.
        under = bisect_right(ascending, bound, below)
        histogram[at] += under - below
        below = under
        if below == len(ascending):
            break
    histogram[len(bounds)] += len(ascending) - below
    histogram[-1] += sum(ascending)


def _histogram_for(
    histograms: dict[tuple[str, ...], Histogram], labels: tuple[str, ...]
) -> Histogram:
    found = histograms.get(labels)
    if found is None:
        found = histograms[labels] = _empty_histogram()
    return found


def _empty_histogram() -> Histogram:
    """Both sets of bounds have the same length."""
    return [0.0] * (len(OPERATION_BOUNDS) + 2)


# Histogram families, with their names in OpenTelemetry and Prometheus.

Labels: TypeAlias = tuple[str, ...]
"""In the order of the attributes of their family."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramFamily:
    """A family of histograms, in seconds."""

    name: str
    """In OpenTelemetry."""
    prometheus_name: str
    """In Prometheus."""
    meaning: str
    attributes: Labels
    bounds: tuple[float, ...] = OPERATION_BOUNDS

    @property
    def labels(self) -> Labels:
        """The attributes as Prometheus label names."""
        return tuple(name.removeprefix("anyport.").replace(".", "_") for name in self.attributes)


OPERATION: Final = HistogramFamily(
    name="mcp.server.operation.duration",
    prometheus_name="mcp_server_operation_duration_seconds",
    meaning="Duration of clients' requests, from their arrival to their answer.",
    attributes=(
        "mcp.method.name",
        "anyport.profile",
        "mcp.protocol.version",
        "network.transport",
        "error.type",
    ),
)
REQUEST: Final = HistogramFamily(
    name="mcp.client.operation.duration",
    prometheus_name="mcp_client_operation_duration_seconds",
    meaning="Duration of requests to servers.",
    attributes=("mcp.method.name", "anyport.server", "gen_ai.tool.name", "error.type"),
)
OVERHEAD: Final = HistogramFamily(
    name="anyport.overhead.duration",
    prometheus_name="anyport_overhead_seconds",
    meaning="Time that the gateway itself took for a request, without waiting for servers.",
    attributes=("mcp.method.name",),
    bounds=OVERHEAD_BOUNDS,
)
SESSION: Final = HistogramFamily(
    name="mcp.server.session.duration",
    prometheus_name="mcp_server_session_duration_seconds",
    meaning="Duration of clients' sessions that have ended.",
    attributes=("anyport.profile", "mcp.protocol.version", "network.transport"),
)
CONNECTION: Final = HistogramFamily(
    name="mcp.client.session.duration",
    prometheus_name="mcp_client_session_duration_seconds",
    meaning="Duration of connections to servers that have ended.",
    attributes=("anyport.server",),
)

HistogramSeries: TypeAlias = tuple[tuple[Labels, Histogram], ...]
Histograms: TypeAlias = tuple[tuple[HistogramFamily, HistogramSeries], ...]


def copy_histograms(metrics: Metrics) -> Histograms:
    """A copy of all histograms, for another thread."""
    metrics.update_histograms()
    families: tuple[tuple[HistogramFamily, Mapping[Labels, Histogram]], ...] = (
        (OPERATION, metrics.operations),
        (REQUEST, metrics.requests),
        (OVERHEAD, metrics.overheads),
        (SESSION, metrics.sessions),
        (CONNECTION, metrics.connections),
    )
    return tuple(
        (family, tuple((labels, list(counts)) for labels, counts in found.items()))
        for family, found in families
    )

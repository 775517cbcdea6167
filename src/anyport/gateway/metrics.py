"""What the gateway counts: calls and how long they took, sessions, connections, restarts.

A finished call only leaves its times in a list; every so many of them are sorted into the
histograms together, which costs less than doing it one by one. Who reads them, and in which
format, is not known here. Every label is bounded: what a stranger can choose, such as the name
of a tool or an error code, is taken up only within limits.
"""

import sys
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable
from operator import sub
from typing import Final, TypeAlias, cast

from anyport.protocol.timeouts import Timeout
from anyport.record.event import Status

OPERATION_BOUNDS: Final = (
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    *(1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0),
)
"""Seconds; the boundaries that the OpenTelemetry conventions for MCP advise."""

OVERHEAD_BOUNDS: Final = (
    *(0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005),
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0),
)
"""Seconds; what the gateway itself takes is far below the shortest of the others."""

TOOL_NAMES_MAX: Final = 200
"""Tools that are told apart; each costs a reader some twenty lines."""
TOOL_NAME_CHARS_MAX: Final = 128
SERIES_MAX: Final = 1024
"""Combinations of labels that are told apart; further ones are counted together."""
UNSORTED_TIMES_MAX: Final = 256
"""Two for each call; what waits to be sorted takes at most eight kilobytes a series."""

OTHER: Final = "_OTHER"
"""The label of what is not told apart; the conventions call it so."""

Histogram: TypeAlias = list[float]
"""How many fell under each bound, how many above all, and at the end the sum of them all."""

Call: TypeAlias = tuple[str, str, str, str, str, str, str]
"""Method, profile, revision, transport (`pipe` or `tcp`), server, native name of the tool, error.
The server is empty for what the gateway answers itself, the tool for what is no tool, the error
(see `error_type`) for a success."""

_CODES: Final = {
    code: sys.intern(str(code))
    for code in (
        *(-32700, -32600, -32601, -32602, -32603),
        *(-32000, -32001, -32002, -32020, -32021, -32022, -32042),
    )
}


def error_type(status: Status, code: int | None) -> str:
    """The label for how a call ended; a server may invent codes, but no labels."""
    if status == "success":
        return ""
    if status in ("timeout", "cancelled"):
        return status
    return "tool_error" if code is None else _CODES.get(code, OTHER)


class Metrics:
    """All the numbers of one gateway."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.operations: dict[tuple[str, ...], Histogram] = {}
        """What clients waited for, by method, profile, revision, transport and error."""
        self.requests: dict[tuple[str, ...], Histogram] = {}
        """What the gateway waited for, by method, server, tool and error."""
        self.overheads: dict[tuple[str, ...], Histogram] = {}
        """What is left: the gateway's own time, by method."""
        self.sessions: dict[tuple[str, ...], Histogram] = {}
        """Sessions that have ended, by profile, revision and transport."""
        self.connections: dict[tuple[str, ...], Histogram] = {}
        """Connections to servers that have ended, by server."""
        self.restarts: dict[str, int] = {}
        """How often each server broke and was to be started again."""
        self.timeouts = dict.fromkeys(Timeout, 0)
        """How often each time was over, and something ended because of that."""
        self.streams: Callable[[], int] = lambda: 0
        """How many streams to clients are open; set by who opens them."""
        self._clock = clock
        self._began = clock()
        self._since: dict[Hashable, float] = {}
        self._tools: set[tuple[str, str]] = set()
        self._series: dict[Call, Series] = {}

    @property
    def uptime_seconds(self) -> float:
        """Since these numbers were zero, which is since the gateway was started."""
        return self._clock() - self._began

    def called(self, call: Call, seconds: float, waited: float | None) -> None:
        """Count a call that has ended, and how much of its time a server took.

        `waited` is None if no server was asked.
        """
        self.series(call).add(seconds, waited)

    def series(self, call: Call) -> "Series":
        """Where calls with these labels are counted; worth keeping for the next one."""
        return self._series.get(call) or self._series_of(call)

    def settle(self) -> None:
        """Bring the histograms of calls up to date; to be called before they are read."""
        for series in self._series.values():
            series.sort()

    def restarted(self, server: str) -> None:
        """Count a server that broke."""
        self.restarts[server] = self.restarts.get(server, 0) + 1

    def timed_out(self, timeout: Timeout) -> None:
        """Count something that took too long."""
        self.timeouts[timeout] += 1

    def opened(self, what: Hashable) -> None:
        """A session or a connection begins."""
        self._since[what] = self._clock()

    def session_closed(self, what: Hashable, profile: str, revision: str, transport: str) -> None:
        """A session has ended."""
        self._closed(self.sessions, what, (profile, revision, transport))

    def connection_closed(self, what: Hashable, server: str) -> None:
        """A connection to a server has ended."""
        self._closed(self.connections, what, (server,))

    def _closed(
        self, ended: dict[tuple[str, ...], Histogram], what: Hashable, labels: tuple[str, ...]
    ) -> None:
        since = self._since.pop(what, None)
        if since is None:  # It never was ready, or is over already.
            return
        _add(_of(ended, labels), OPERATION_BOUNDS, [self._clock() - since])

    def _series_of(self, call: Call) -> "Series":
        method, profile, revision, transport, server, tool, error = call
        if tool and not self._is_told_apart(server, tool, error):
            tool = OTHER
        if len(self._series) >= SERIES_MAX:
            profile, server, tool = OTHER, server and OTHER, tool and OTHER
        kept = (method, profile, revision, transport, server, tool, error)
        series = self._series.get(kept)
        if series is None:
            series = self._series[kept] = Series(
                _of(self.operations, (method, profile, revision, transport, error)),
                _of(self.requests, (method, server, tool, error)) if server else _empty(),
                _of(self.overheads, (method,)),
            )
        return series

    def _is_told_apart(self, server: str, tool: str, error: str) -> bool:
        if (server, tool) in self._tools:
            return True
        # Where names pass as they are, a client may invent some; only a real tool succeeds.
        if error or len(tool) > TOOL_NAME_CHARS_MAX or len(self._tools) >= TOOL_NAMES_MAX:
            return False
        self._tools.add((server, tool))
        return True


class Series:
    """The calls that share all their labels."""

    __slots__ = ("operation", "overhead", "request", "times")

    def __init__(self, operation: Histogram, request: Histogram, overhead: Histogram) -> None:
        self.operation = operation
        self.request = request
        self.overhead = overhead
        self.times: list[float | None] = []
        """Of each call how long it took, and how much of that a server."""

    def add(self, seconds: float, waited: float | None) -> None:
        """Count one call, as `Metrics.called` does."""
        times = self.times
        times += (seconds, waited)
        if len(times) >= UNSORTED_TIMES_MAX:
            self.sort()

    def sort(self) -> None:
        """Move the times to where they belong."""
        times, self.times = self.times, []
        took = cast(list[float], times[::2])
        waits = times[1::2]
        waited = [wait for wait in waits if wait is not None]
        own = map(sub, took, waited if len(waited) == len(took) else (w or 0.0 for w in waits))
        _add(self.operation, OPERATION_BOUNDS, took)
        _add(self.request, OPERATION_BOUNDS, waited)
        _add(self.overhead, OVERHEAD_BOUNDS, own)


def _add(histogram: Histogram, bounds: tuple[float, ...], seconds: Iterable[float]) -> None:
    ascending = sorted(seconds)
    below = 0
    for at, bound in enumerate(bounds):
        # What is exactly a bound still lies under it, as readers understand `le`.
        under = bisect_right(ascending, bound, below)
        histogram[at] += under - below
        below = under
        if below == len(ascending):
            break
    histogram[len(bounds)] += len(ascending) - below
    histogram[-1] += sum(ascending)


def _of(histograms: dict[tuple[str, ...], Histogram], labels: tuple[str, ...]) -> Histogram:
    found = histograms.get(labels)
    if found is None:
        found = histograms[labels] = _empty()
    return found


def _empty() -> Histogram:
    """Both sets of bounds have the same length."""
    return [0.0] * (len(OPERATION_BOUNDS) + 2)

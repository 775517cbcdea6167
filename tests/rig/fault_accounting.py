"""Who was asked what, who was hit meanwhile, and who had to suffer for it.

Takes down how calls end and what a process takes up, and judges: a server that is hit may fail the
calls that it has while it is; nobody else may fail any. It knows nothing of how faults are made.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from math import nan, sqrt
from typing import Final

GOOD: Final = "good"
VIOLATIONS_KEPT_MAX: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call that has come to its end."""

    server: str
    client: str
    """Its kind."""
    began: float
    ended: float
    outcome: str
    """`good`, or what its caller was told."""
    crossed: bool = False
    """The answer was that of another call."""


@dataclass(slots=True)
class FaultPeriod:
    """A time in which a server cannot be blamed for what it does to its own callers."""

    began: float
    ended: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """How fast something grows, and how sure that is."""

    per_hour: float
    error: float
    """Of the slope, one standard deviation."""

    def __str__(self) -> str:
        return f"{self.per_hour:+.2f} ± {self.error:.2f}"


class FaultAccount:
    """The account of one run."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        """All calls, by kind of client."""
        self.good = 0
        self.excused: Counter[str] = Counter()
        """What callers of servers that were hit were told."""
        self.violations: list[str] = []
        self.violation_count = 0
        self.seconds: list[tuple[float, float]] = []
        """When calls to servers that were not hit ended, and how long they took."""
        self.longest = 0.0
        self._hits: dict[str, list[FaultPeriod]] = defaultdict(list)

    def hit(self, server: str, now: float) -> FaultPeriod:
        """A server is hit from now on."""
        found = FaultPeriod(now)
        self._hits[server].append(found)
        return found

    def is_hit(self, server: str) -> bool:
        return any(hit.ended is None for hit in self._hits[server])

    def settle(self, client: str, calls: int) -> None:
        """Take calls down that were all good, and that somebody else has made."""
        self.calls[client] += calls
        self.good += calls

    def note(self, call: Call) -> None:
        """Take a call down."""
        self.calls[call.client] += 1
        self.longest = max(self.longest, call.ended - call.began)
        excused = self.was_hit(call.server, call.began, call.ended)
        if call.outcome == GOOD and not call.crossed:
            self.good += 1
            if not excused:
                self.seconds.append((call.ended, call.ended - call.began))
        elif excused and not call.crossed:
            self.excused[call.outcome] += 1
        else:
            self.add_violation(
                f"{call.client} to {call.server} after {call.ended - call.began:.3f} s: "
                f"{call.outcome}"
            )

    def add_violation(self, words: str) -> None:
        """Something happened that must not."""
        self.violation_count += 1
        if len(self.violations) < VIOLATIONS_KEPT_MAX:
            self.violations.append(words)

    def was_hit(self, server: str, began: float, ended: float) -> bool:
        """Whether a server was hit at any moment of a time."""
        return any(
            hit.began <= ended and (hit.ended is None or hit.ended >= began)
            for hit in self._hits[server]
        )

    def percentile(self, share: float, since: float = 0.0, until: float = float("inf")) -> float:
        """Of the times of calls to servers that were not hit."""
        found = sorted(taken for at, taken in self.seconds if since <= at < until)
        return found[min(len(found) - 1, int(share * len(found)))] if found else nan

    def drift(self) -> float:
        """The 99th percentile of the last quarter, by that of the first."""
        if not self.seconds:
            return nan
        first, last = self.seconds[0][0], self.seconds[-1][0]
        quarter = (last - first) / 4
        early = self.percentile(0.99, until=first + quarter)
        return self.percentile(0.99, since=last - quarter) / early


@dataclass(slots=True)
class Samples:
    """What a process takes up, looked at again and again."""

    at: list[float] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, now: float, **values: float) -> None:
        self.at.append(now)
        for name, value in values.items():
            self.values[name].append(value)

    def slope(self, name: str, share: float = 1.0) -> Slope:
        """The straight line that fits best, in units an hour; through the last share of them."""
        first = int(len(self.at) * (1 - share))
        return slope(self.at[first:], self.values[name][first:])


def slope(times: list[float], values: list[float]) -> Slope:
    """The straight line through points in time.

    Neighbours in time are alike, so the error counts only as many points as are independent.
    """
    count = len(times)
    if count < 3:
        return Slope(per_hour=nan, error=nan)
    middle, level = sum(times) / count, sum(values) / count
    spread = sum((at - middle) ** 2 for at in times)
    steep = sum((at - middle) * (v - level) for at, v in zip(times, values, strict=True)) / spread
    rest = [v - level - steep * (at - middle) for at, v in zip(times, values, strict=True)]
    power = sum(each**2 for each in rest)
    alike = sum(one * two for one, two in pairwise(rest)) / power if power else 0.0
    independent = max(3.0, count * (1 - alike) / (1 + alike)) if alike > 0 else float(count)
    error = sqrt(power / max(1.0, independent - 2) / spread)
    return Slope(per_hour=steep * 3600, error=error * 3600)

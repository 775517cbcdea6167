"""Carries out a comparison: every target verified first, then measured in turn, round by round."""

import http.client
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from bench.client import Endpoint, WrongAnswer, call_params
from bench.comparisons import Comparison, Row
from bench.fleet import LISTED_SERVERS, LISTED_TOOLS, Fleet, Served
from bench.load import MARK, Pressure, Sample, Script, drive, middle, script
from bench.prepare import HOME, ROOT, Unprepared
from bench.processes import StartFailed

WARM_UP_SECONDS: Final = 1
"""Fills pools and caches; a whole number, because wrk takes no other."""

ERROR_CHARS_MAX: Final = 400

FAULTS: Final = (
    WrongAnswer, StartFailed, Unprepared, OSError, http.client.HTTPException, ValueError,
    RuntimeError,
)  # fmt: skip
"""What can be wrong with a target; the others are measured all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    rounds: int
    seconds: int
    streams: int
    starts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One row at one number of connections."""

    row: str
    connections: int
    base: str | None
    rival: str | None
    children: bool
    samples: tuple[Sample, ...]
    figures: Sample
    rss_mb: float
    """Of the target's largest process, after the load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one comparison."""

    name: str
    measured: tuple[Measured, ...]
    faults: tuple[str, ...]
    """Targets that could not be measured, and why."""

    def find(self, row: str | None, connections: int) -> Measured | None:
        for candidate in self.measured:
            if candidate.row == row and candidate.connections == connections:
                return candidate
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A target that has shown that it works."""

    row: Row
    served: Served
    sent: Script


def compare(comparison: Comparison, effort: Effort) -> Outcome:
    with Fleet(HOME / "run" / comparison.name) as fleet:
        ready, faults = _ready(comparison, fleet)
        measured = []
        for connections in comparison.connections:
            core = fleet.target_core if comparison.load_beside_target else fleet.load_core
            seconds = effort.seconds * comparison.stretch
            pressure = Pressure(connections=connections, seconds=seconds, core=core)
            samples = _rounds(ready, pressure, effort.rounds, faults)
            measured += [_measured(target, connections, samples) for target in ready]
    return Outcome(name=comparison.name, measured=tuple(measured), faults=tuple(faults))


def _ready(comparison: Comparison, fleet: Fleet) -> tuple[list[Ready], list[str]]:
    ready, faults = [], []
    for row in comparison.rows:
        try:
            served = row.serve(fleet)
            sent = _verify(comparison, Endpoint(served.url, row.era))
        except FAULTS as error:
            faults.append(f"{row.name}: {one_line(error)}")
            say(f"  {faults[-1]}")
        else:
            ready.append(Ready(row=row, served=served, sent=sent))
    return ready, faults


def _verify(comparison: Comparison, endpoint: Endpoint) -> Script:
    """Hold the target to its work; what is to be sent to it."""
    endpoint.open()
    params: Mapping[str, Any]
    if comparison.call is None:
        names, pages = endpoint.list_tools()
        if len(names) < LISTED_SERVERS * LISTED_TOOLS or pages != 1:
            raise WrongAnswer(f"{len(names)} tools on {pages} pages")
        return script(endpoint, "tools/list", {})
    name = endpoint.find_tool(comparison.call.tool)
    endpoint.verify(comparison.call, name)
    params = call_params(comparison.call, name, MARK)
    return script(endpoint, "tools/call", params)


def _rounds(
    ready: list[Ready], pressure: Pressure, rounds: int, faults: list[str]
) -> Mapping[str, Sequence[Sample]]:
    """The samples of each row. A target that breaks leaves the list of those that are ready."""
    samples: dict[str, list[Sample]] = {target.row.name: [] for target in ready}
    for number in range(rounds + 1):
        # Every other round in the opposite order, so that nobody always follows the same one.
        for target in ready[:] if number % 2 else ready[::-1]:
            name, served = target.row.name, target.served
            lasting = pressure if number else replace(pressure, seconds=WARM_UP_SECONDS)
            try:
                sample = drive(served.url, target.sent, lasting, served.process, number)
            except FAULTS as error:
                faults.append(f"{name}: broke: {one_line(error)}")
                say(f"  {faults[-1]}")
                ready.remove(target)
                continue
            if number:
                samples[name].append(sample)
                say(f"  {name:32} {pressure.connections:3} connections  {told(sample)}")
    return samples


def _measured(target: Ready, connections: int, samples: Mapping[str, Sequence[Sample]]) -> Measured:
    row = target.row
    return Measured(
        row=row.name,
        connections=connections,
        base=row.base,
        rival=row.rival,
        children=row.children,
        samples=tuple(samples[row.name]),
        figures=middle(samples[row.name]),
        rss_mb=target.served.process.rss_megabytes(),
    )


def told(sample: Sample) -> str:
    return (
        f"{sample.cpu_us:9.1f} µs CPU  {sample.rps:8.0f}/s  p50 {sample.p50_ms:7.2f} ms  "
        f"p99 {sample.p99_ms:7.2f} ms  share {sample.share:4.2f}  "
        f"{sample.bytes_each:6.0f} B  {sample.errors} errors"
    )


def one_line(error: BaseException) -> str:
    """Fit for the page, where paths of this machine have no place."""
    text = " ".join(str(error).replace(f"{ROOT}/", "").split())
    return text[:ERROR_CHARS_MAX] or type(error).__name__


def say(text: str) -> None:
    """Progress goes to stderr; stdout has the tables."""
    print(text, file=sys.stderr, flush=True)

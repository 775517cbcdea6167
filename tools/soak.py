"""Everything about reliability at full scale: `make soak`. Writes docs/evidence/soak.md.

Three parts: the tests of tests/reliability at the figures that a commit has no time for, ten
thousand schedules of the simulator and the fuzzers for longer, and the long run. Each can be had
alone, the tests by file as well; what was not run keeps what the page said of it before. It takes
hours, and nothing else should be done on the machine meanwhile. Whether something is good is for
the tests to say.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from anyport import __version__  # noqa: E402 - the path comes first.
from tests.rig.long_run import Outcome, Plan, run  # noqa: E402
from tests.rig.probe import MIB, Footprint  # noqa: E402
from tests.rig.scale import FIGURES_VARIABLE, VARIABLE  # noqa: E402

PAGE: Final = ROOT / "docs" / "evidence" / "soak.md"
PARTS: Final[dict[str, Sequence[str]]] = {
    "tests": (
        "tests/reliability",
        "tests/journeys/test_http_strings.py",
        "--deselect=tests/reliability/test_long_run.py",
    ),
    "fuzz": ("tests/fuzz",),
}
SECTIONS: Final = {"run": "The long run", "tests": "Tests at full scale", "fuzz": "Fuzzers"}
COLUMNS: Final = ("test", "outcome", "seconds", "measured", "when, load")
HEAD: Final = """\
# Soak

The results of the last `make soak` on a dedicated machine. `tools/soak.py` generates this page; do
not edit it. [Reliability](reliability.md) says what each test promises.
"""


def main(argv: Sequence[str]) -> int:
    """Run what is asked for, and write the page."""
    given = _parser().parse_args(argv)
    wanted = list(SECTIONS) if given.part == "all" else [given.part]
    sections = read_page(PAGE.read_text()) if PAGE.exists() else {}
    good = True
    for part in wanted:
        if part == "run":
            text, passed = long_run(given)
        else:
            before = sections.get(SECTIONS[part], "")
            text, passed = at_full_scale(part, given.files, before)
        good = good and passed
        sections[SECTIONS[part]] = text
        print(f"\n## {SECTIONS[part]}\n\n{text}")
    if not given.dry:
        PAGE.write_text(write_page(sections))
    return 0 if good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="soak.py", description=__doc__.partition("\n")[0])
    parser.add_argument("part", nargs="?", default="all", choices=["all", *SECTIONS])
    parser.add_argument("files", nargs="*", help="of tests, if not all of the part")
    parser.add_argument("--minutes", type=float, default=20.0, help="of the long run")
    parser.add_argument("--rate", type=float, default=200.0, help="calls a second in it")
    parser.add_argument("--every", type=float, default=5.0, help="seconds from fault to fault")
    parser.add_argument("--seed", type=int, default=1, help="which calls and which faults")
    parser.add_argument("--dry", action="store_true", help="print, and leave the page as it is")
    return parser


# The page.


def read_page(text: str) -> dict[str, str]:
    """Its sections."""
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)[1:]
    return {title: body.strip() for title, body in zip(parts[::2], parts[1::2], strict=True)}


def write_page(sections: dict[str, str]) -> str:
    """The page, with its sections in their order."""
    found = [title for title in SECTIONS.values() if title in sections]
    return "\n".join((HEAD, *(f"## {title}\n\n{sections[title]}\n" for title in found)))


def basis() -> str:
    """When, with what and on what something was measured."""
    now = datetime.now(UTC)
    return (
        f"{now:%Y-%m-%d %H:%M} UTC, Anyport {__version__}, {platform.python_implementation()} "
        f"{platform.python_version()}, {os.cpu_count()} processors, load before "
        f"{os.getloadavg()[0]:.1f}."
    )


def table(*rows: Sequence[object]) -> str:
    """A table; the first row is its head."""
    lines = ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines)


# The long run.


def long_run(given: argparse.Namespace) -> tuple[str, bool]:
    """Do it; what the page says of it, and whether all that must hold did."""
    told = basis()
    plan = Plan(
        seconds=given.minutes * 60,
        calls_per_second=given.rate,
        fault_seconds=given.every,
        seed=given.seed,
    )
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(plan, Path(folder))
    for words in (*outcome.account.violations, *outcome.own_faults):
        print(words, file=sys.stderr)
    return told_of(outcome, told), all(outcome.verdicts().values())


def told_of(outcome: Outcome, told: str) -> str:
    """What the page says of a long run."""
    plan, account, samples = outcome.plan, outcome.account, outcome.samples
    then, now = outcome.before, outcome.after
    real = " two of them made by others," if outcome.real_servers else ""
    return "\n\n".join(
        (
            told,
            f"{outcome.seconds / 60:.1f} minutes, {plan.calls_per_second:g} calls a second to "
            f"twelve servers of every kind and era,{real} a fault every {plan.fault_seconds:g} "
            f"seconds (seed {plan.seed}).",
            table(
                ("what must hold", "holds"),
                *(
                    (what, "yes" if holds else "**no**")
                    for what, holds in outcome.verdicts().items()
                ),
            ),
            table(
                ("what", "figure"),
                ("calls", f"{outcome.calls:,}"),
                ("answered correctly", f"{account.good:,}"),
                (
                    "failed with the reason, because of a fault of their own server",
                    f"{account.excused.total():,}",
                ),
                (
                    "lost, mixed up, answered twice, or failed without cause",
                    account.violation_count,
                ),
                ("faults", f"{outcome.faults.total()} of {len(outcome.faults)} kinds"),
                ("median of calls to servers without a fault", _ms(account.percentile(0.5))),
                ("99th percentile of them", _ms(account.percentile(0.99))),
                (
                    "99th percentile of the last quarter, divided by that of the first",
                    f"{account.drift():.2f}",
                ),
                ("longest wait for any answer", f"{account.longest:.1f} s"),
                ("longest time until a repaired server was healthy", _longest(outcome)),
                ("memory before and after", f"{_mib(then)}, {_mib(now)} MiB"),
                ("memory, slope", f"{samples.slope('rss')} MiB an hour"),
                ("of the second half", f"{samples.slope('rss', 0.5)} MiB an hour"),
                ("descriptors before and after", f"{then.descriptors}, {now.descriptors}"),
                ("descriptors, slope", f"{samples.slope('descriptors')} an hour"),
                ("processes before and after", f"{then.processes}, {now.processes}"),
                ("threads, slope", f"{samples.slope('threads')} an hour"),
                ("events lost while the disk was full", outcome.lost_events),
            ),
            "Slopes are linear fits over one sample a second, including the filling of caches, "
            "with one standard deviation; descriptors rise and fall with the clients.",
            table(
                ("client", "calls"), *((who, f"{n:,}") for who, n in sorted(account.calls.items()))
            ),
            table(("fault", "times"), *sorted(outcome.faults.items())),
        )
    )


def _longest(outcome: Outcome) -> str:
    return f"{max(outcome.recoveries, default=0.0):.1f} s"


def _mib(taken: Footprint) -> str:
    return f"{taken.rss_bytes / MIB:.1f}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


# Tests.


def at_full_scale(part: str, files: Sequence[str], before: str) -> tuple[str, bool]:
    """Run tests of a part at their full figures, those of some files or all; what the page says of
    them, and whether all passed.

    `before` is what it said: tests of files that are not run keep their rows.
    """
    told, chosen = basis(), files or PARTS[part]
    when = f"{datetime.now(UTC):%Y-%m-%d %H:%M}, {os.getloadavg()[0]:.1f}"
    with tempfile.TemporaryDirectory() as folder:
        results, figures = Path(folder) / "results.xml", Path(folder) / "figures.jsonl"
        figures.touch()
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", f"--junitxml={results}", *chosen],
            cwd=ROOT,
            env={**os.environ, VARIABLE: "full", FIGURES_VARIABLE: str(figures)},
        )
        found = _measured(figures)
        cases = list(ElementTree.parse(results).iter("testcase"))
    rows: list[tuple[str, ...]] = [
        (_name(case), _outcome(case), _seconds(case), found[_name(case)], when) for case in cases
    ]
    again = {_module(row) for row in rows}
    rows = sorted(rows + [row for row in read_rows(before) if _module(row) not in again])
    return told_of_tests(part, told, rows), ran.returncode == 0


def told_of_tests(part: str, told: str, rows: Sequence[Sequence[str]]) -> str:
    """What the page says of tests at full scale, on a machine that is told of."""
    failed = sum(outcome != "passed" for _, outcome, *_ in rows)
    summary = (
        f"{len(rows)} tests, {sum(int(row[2]) for row in rows) / 60:.0f} minutes; "
        f"{failed or 'none'} failed. The last column has the time of each run (UTC) and "
        "the load of the machine before it."
    )
    missing = _files(part) - {_module(row) for row in rows}
    if missing:
        summary += f" Not run at full scale yet: {', '.join(sorted(missing))}."
    return "\n\n".join((told, summary, table(COLUMNS, *rows)))


def _files(part: str) -> set[str]:
    """The files of tests in a part, by name."""
    named = {Path(each) for each in PARTS[part] if not each.startswith("--")}
    left_out = {Path(each.partition("=")[2]).stem for each in PARTS[part] if each.startswith("--")}
    inside = {path.stem for each in named for path in (ROOT / each).glob("test_*.py")}
    return (inside | {path.stem for path in named if path.suffix}) - left_out


def read_rows(text: str) -> list[tuple[str, ...]]:
    """The rows of the table in a section."""
    lines = [line for line in text.splitlines() if line.startswith("| ")][1:]
    return [tuple(line.strip("| ").split(" | ")) for line in lines]


def _module(row: Sequence[str]) -> str:
    return row[0].partition(".")[0]


def _measured(file: Path) -> dict[str, str]:
    found: dict[str, list[str]] = defaultdict(list)
    for line in file.read_text().splitlines():
        figures = json.loads(line)
        name = figures.pop("test").rpartition("/")[2].replace(".py::", ".")
        for what, value in figures.items():
            found[name].append(f"{what.replace('_', ' ')} {_plain(value)}")
    return defaultdict(str, {name: ", ".join(told) for name, told in found.items()})


def _plain(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3g}"


def _name(case: ElementTree.Element) -> str:
    return f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}"


def _seconds(case: ElementTree.Element) -> str:
    return f"{float(case.get('time', 0)):.0f}"


def _outcome(case: ElementTree.Element) -> str:
    return next((child.tag for child in case if child.tag in ("failure", "error")), "passed")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Findings for people and for programs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from anyport import __version__
from anyport.cli.doctoring.finding import Finding, Level, Section, worst
from anyport.cli.paper import Paper
from anyport.record.text import printable

SCHEMA_VERSION: Final = 1
"""Raised when a member of the document changes its meaning, or goes."""

STYLES: Final = {
    Level.OK: "green",
    Level.HINT: "cyan",
    Level.WARNING: "yellow",
    Level.PROBLEM: "bold red",
}
WIDTH: Final = max(len(level.value) for level in Level) + 2
INDENT: Final = "  "


def show(sections: Sequence[Section], *, verbose: bool) -> None:
    """Print a line for each section, and what is to be said below it."""
    paper = Paper()
    names = max(len(section.name) for section in sections) + 2
    for section in sections:
        name = section.name.ljust(names)
        paper.line(_label(section.level), (name, "bold"), printable(section.summary))
        for finding in section.findings:
            if verbose or finding.level is not Level.OK:
                _show_finding(paper, finding)
    paper.line("")
    paper.line(_total(sections))


def document(sections: Sequence[Section], servers: Mapping[str, Any]) -> dict[str, Any]:
    """All of it, for programs."""
    counts = _counts(sections)
    return {
        "schema_version": SCHEMA_VERSION,
        "version": __version__,
        "ok": not counts[Level.PROBLEM],
        "counts": {level.value: counts[level] for level in Level},
        "sections": [
            {
                "name": section.name,
                "level": section.level.value,
                "summary": section.summary,
                "findings": [_member(finding) for finding in section.findings],
            }
            for section in sections
        ],
        "servers": servers,
    }


def has_problems(sections: Sequence[Section]) -> bool:
    """Whether something does not work."""
    return worst(section.level for section in sections) is Level.PROBLEM


def _show_finding(paper: Paper, finding: Finding) -> None:
    about = f"{finding.about}: " if finding.about else ""
    paper.line(INDENT, _label(finding.level), printable(f"{about}{finding.what}"))
    below = INDENT + " " * WIDTH
    if finding.level is Level.OK:
        return
    for line in finding.lines:
        paper.line(below, (f"| {printable(line)}", "dim"))
    if finding.why:
        paper.line(below, (printable(finding.why), "dim"))
    if finding.mend:
        paper.line(below, ("mend: ", "bold"), printable(finding.mend))


def _label(level: Level) -> tuple[str, str]:
    return level.value.ljust(WIDTH), STYLES[level]


def _total(sections: Sequence[Section]) -> str:
    counts = _counts(sections)
    told = [
        f"{counts[level]} {level.value}{'' if counts[level] == 1 else 's'}"
        for level in (Level.PROBLEM, Level.WARNING, Level.HINT)
        if counts[level]
    ]
    return ", ".join(told) or "all is well"


def _counts(sections: Sequence[Section]) -> Counter[Level]:
    return Counter(finding.level for section in sections for finding in section.findings)


def _member(finding: Finding) -> dict[str, Any]:
    return asdict(finding) | {"level": finding.level.value, "lines": list(finding.lines)}

"""Findings of `anyport doctor`, and how they are printed."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from functools import partial
from typing import Any, Final

from anyport import __version__
from anyport.cli.output import StyledOutput
from anyport.record.redact.escape import cut, make_printable

NAME_CHARS_MAX: Final = 100
"""Of a name in a list; tool names can be of any length."""


class Level(Enum):
    """The severity of a finding, in ascending order."""

    OK = "ok"
    HINT = "hint"
    """It works, and could be better."""
    WARNING = "warning"
    """It works, and will cause trouble."""
    PROBLEM = "problem"
    """Something does not work."""


SCHEMA_VERSION: Final = 1
"""Incremented when a member of the document changes its meaning or is removed."""

STYLES: Final = {
    Level.OK: "green",
    Level.HINT: "cyan",
    Level.WARNING: "yellow",
    Level.PROBLEM: "bold red",
}
WIDTH: Final = max(len(level.value) for level in Level) + 2
INDENT: Final = "  "
_SEVERITY: Final = {level: place for place, level in enumerate(Level)}


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFinding:
    """The result of one check."""

    level: Level
    code: str
    """Identifies the kind of finding in `--json`; never changes."""
    what: str
    why: str = ""
    """The consequence."""
    fix: str = ""
    """The command or the edit that fixes it."""
    about: str = ""
    """The server, the profile or the client that it concerns."""
    lines: tuple[str, ...] = ()
    """Quoted output, such as the stderr of a server."""

    def redacted(self, redact: Callable[[str], str]) -> "DoctorFinding":
        """The finding without secrets."""
        return replace(
            self,
            what=redact(self.what),
            fix=redact(self.fix),
            lines=tuple(map(redact, self.lines)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The findings of one area."""

    name: str
    summary: str
    findings: tuple[DoctorFinding, ...] = ()

    @property
    def level(self) -> Level:
        return worst_level(finding.level for finding in self.findings)

    def redacted(self, redact: Callable[[str], str]) -> "Section":
        """The finding without secrets."""
        return Section(
            name=self.name,
            summary=redact(self.summary),
            findings=tuple(finding.redacted(redact) for finding in self.findings),
        )


def skipped_section(name: str) -> Section:
    """An area that cannot be checked because the configuration is not valid."""
    finding = hint(
        code="passed-over",
        what="not checked",
        why="this check needs a valid configuration",
        fix="fix the configuration first, then run 'anyport doctor' again",
    )
    return Section(name=name, summary="not checked", findings=(finding,))


def worst_level(levels: Iterable[Level]) -> Level:
    return max(levels, key=_SEVERITY.__getitem__, default=Level.OK)


good: Final = partial(DoctorFinding, level=Level.OK)
hint: Final = partial(DoctorFinding, level=Level.HINT)
warning: Final = partial(DoctorFinding, level=Level.WARNING)
problem: Final = partial(DoctorFinding, level=Level.PROBLEM)


def format_binary_bytes(count: float) -> str:
    """A size in bytes, KiB, MiB or GiB."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return (
                f"{count:.0f} {unit}" if unit == "bytes" or count >= 10 else f"{count:.1f} {unit}"
            )
        count /= 1024
    return f"{count:.1f} GiB"


def join_some(names: Iterable[str], shown_max: int = 3) -> str:
    """Some of the names, and the number of the others."""
    every = [cut(name, NAME_CHARS_MAX) for name in names]
    more = len(every) - shown_max
    few = ", ".join(every[:shown_max])
    return few if more <= 0 else f"{few} and {more} more"


def show(sections: Sequence[Section], *, verbose: bool) -> None:
    """Print a line for each section, with its findings below it."""
    output = StyledOutput()
    names = max(len(section.name) for section in sections) + 2
    for section in sections:
        name = section.name.ljust(names)
        output.print_line(_label(section.level), (name, "bold"), make_printable(section.summary))
        for finding in section.findings:
            if verbose or finding.level is not Level.OK:
                _show_finding(output, finding)
    output.print_line("")
    output.print_line(_total(sections))


def document(sections: Sequence[Section], servers: Mapping[str, Any]) -> dict[str, Any]:
    """The document for `--json`."""
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
                "findings": [_finding_document(finding) for finding in section.findings],
            }
            for section in sections
        ],
        "servers": servers,
    }


def has_problems(sections: Sequence[Section]) -> bool:
    return worst_level(section.level for section in sections) is Level.PROBLEM


def _show_finding(output: StyledOutput, finding: DoctorFinding) -> None:
    about = f"{finding.about}: " if finding.about else ""
    output.print_line(INDENT, _label(finding.level), make_printable(f"{about}{finding.what}"))
    below = INDENT + " " * WIDTH
    if finding.level is Level.OK:
        return
    for line in finding.lines:
        output.print_line(below, (f"| {make_printable(line)}", "dim"))
    if finding.why:
        output.print_line(below, (make_printable(finding.why), "dim"))
    if finding.fix:
        output.print_line(below, ("fix: ", "bold"), make_printable(finding.fix))


def _label(level: Level) -> tuple[str, str]:
    return level.value.ljust(WIDTH), STYLES[level]


def _total(sections: Sequence[Section]) -> str:
    counts = _counts(sections)
    texts = [
        f"{counts[level]} {level.value}{'' if counts[level] == 1 else 's'}"
        for level in (Level.PROBLEM, Level.WARNING, Level.HINT)
        if counts[level]
    ]
    return ", ".join(texts) or "no problems found"


def _counts(sections: Sequence[Section]) -> Counter[Level]:
    return Counter(finding.level for section in sections for finding in section.findings)


def _finding_document(finding: DoctorFinding) -> dict[str, Any]:
    return asdict(finding) | {"level": finding.level.value, "lines": list(finding.lines)}

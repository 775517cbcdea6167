"""What was found: how bad it is, what it is, why it matters, and what mends it.

Knows levels and texts; where findings come from and how they are shown is known elsewhere.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Final

from anyport.record.text import cut

NAME_CHARS_MAX: Final = 100
"""Of a name in a list of some; servers may call their tools what they like."""


class Level(Enum):
    """How bad it is, the best first."""

    OK = "ok"
    HINT = "hint"
    """Good as it is; it could be better."""
    WARNING = "warning"
    """It works, and somebody will stumble over it."""
    PROBLEM = "problem"
    """Something does not work."""


_BADNESS: Final = {level: place for place, level in enumerate(Level)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    code: str
    """Names the kind of finding, for programs; it never changes."""
    what: str
    why: str = ""
    """Why it matters, in half a sentence."""
    mend: str = ""
    """The command, or the edit, that mends it."""
    about: str = ""
    """The server, the profile or the client that it concerns, if it is one."""
    lines: tuple[str, ...] = ()
    """What somebody else said about it."""

    def shown(self, redact: Callable[[str], str]) -> "Finding":
        """The same, fit to be shown to anybody."""
        return replace(
            self,
            what=redact(self.what),
            mend=redact(self.mend),
            lines=tuple(map(redact, self.lines)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What was found in one area."""

    name: str
    summary: str
    """All of it in one line."""
    findings: tuple[Finding, ...] = ()

    @property
    def level(self) -> Level:
        """That of the worst finding."""
        return worst(finding.level for finding in self.findings)

    def shown(self, redact: Callable[[str], str]) -> "Section":
        """The same, fit to be shown to anybody."""
        return Section(
            name=self.name,
            summary=redact(self.summary),
            findings=tuple(finding.shown(redact) for finding in self.findings),
        )


def passed_over(name: str) -> Section:
    """An area that nothing is known of while the configuration cannot be used."""
    finding = hint(
        code="passed-over",
        what="this was not looked at",
        why="it depends on the configuration",
        mend="mend that first, then run 'anyport doctor' again",
    )
    return Section(name=name, summary="not looked at", findings=(finding,))


def worst(levels: Iterable[Level]) -> Level:
    """The worst of some levels."""
    return max(levels, key=_BADNESS.__getitem__, default=Level.OK)


good: Final = partial(Finding, level=Level.OK)
hint: Final = partial(Finding, level=Level.HINT)
warning: Final = partial(Finding, level=Level.WARNING)
problem: Final = partial(Finding, level=Level.PROBLEM)


def size(count: float) -> str:
    """A number of bytes, for people."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return (
                f"{count:.0f} {unit}" if unit == "bytes" or count >= 10 else f"{count:.1f} {unit}"
            )
        count /= 1024
    return f"{count:.1f} GiB"


def some(names: Iterable[str], shown_max: int = 3) -> str:
    """A few of the names, and how many more there are."""
    every = [cut(name, NAME_CHARS_MAX) for name in names]
    more = len(every) - shown_max
    few = ", ".join(every[:shown_max])
    return few if more <= 0 else f"{few} and {more} more"

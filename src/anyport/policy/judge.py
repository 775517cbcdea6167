"""Which tools of which server a profile lets through.

Globs on native names, or on `server/tool`. Deny beats allow; an empty allow list allows nobody.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A decision and why."""

    allowed: bool
    reason: str
    """For the operator's eyes. The caller learns only that there is no such tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRules:
    """The allow and deny lists of one profile."""

    allow: Sequence[str] = ("*",)
    deny: Sequence[str] = ()

    def judge(self, slug: str, native: str) -> Verdict:
        """Whether a tool may be listed and called."""
        for glob in self.deny:
            if _fits(glob, slug, native):
                return Verdict(allowed=False, reason=f"denied by {glob!r}")
        for glob in self.allow:
            if _fits(glob, slug, native):
                return Verdict(allowed=True, reason=f"allowed by {glob!r}")
        return Verdict(allowed=False, reason="not in the allow list")


def _fits(glob: str, slug: str, native: str) -> bool:
    return fnmatchcase(native, glob) or fnmatchcase(f"{slug}/{native}", glob)

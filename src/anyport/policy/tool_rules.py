"""Allow and deny lists for the tools of a profile.

Globs match native names, or `server/tool`. Deny wins over allow; an empty allow list allows
nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDecision:
    """Whether a tool is allowed, and why."""

    allowed: bool
    reason: str
    """For the operator. The caller learns only that there is no such tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRules:
    """The allow and deny lists of one profile."""

    allow: Sequence[str] = ("*",)
    deny: Sequence[str] = ()

    def decide(self, slug: str, native: str) -> ToolDecision:
        """Whether a tool may be listed and called."""
        for glob in self.deny:
            if _matches(glob, slug, native):
                return ToolDecision(allowed=False, reason=f"denied by {glob!r}")
        for glob in self.allow:
            if _matches(glob, slug, native):
                return ToolDecision(allowed=True, reason=f"allowed by {glob!r}")
        return ToolDecision(allowed=False, reason="not in the allow list")


def _matches(glob: str, slug: str, native: str) -> bool:
    return fnmatchcase(native, glob) or fnmatchcase(f"{slug}/{native}", glob)

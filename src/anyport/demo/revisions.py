"""Protocol revisions, and what each introduced."""

from typing import Any, Final, TypeAlias

Json: TypeAlias = dict[str, Any]

LEGACY: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions that begin with `initialize`."""
MODERN: Final = "2026-07-28"
"""The revision in which every request carries version and capabilities in its `_meta`."""
WITH_BATCHES: Final = "2025-03-26"

INTRODUCED: Final = {
    "annotations": "2025-03-26",
    "progress message": "2025-03-26",
    "title": "2025-06-18",
    "outputSchema": "2025-06-18",
    "structuredContent": "2025-06-18",
    "elicitation": "2025-06-18",
    "argument errors as results": "2025-11-25",
    "errors without id": "2025-11-25",
}
"""Members of results, and behaviours, by the revision that introduced them; all others are in every
revision."""


def has(revision: str, feature: str) -> bool:
    """Whether a revision has a feature. Revisions are dates and sort as text."""
    return INTRODUCED.get(feature, "") <= revision


def trim(entry: Json, revision: str) -> Json:
    """The members of an entry that the revision has."""
    return {name: value for name, value in entry.items() if has(revision, name)}

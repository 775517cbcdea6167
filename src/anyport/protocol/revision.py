"""The dated revisions of MCP, one row each.

Behaviour that differs by revision is a column here and is looked up, never compared as text:
a new revision, or the removal of something from one, is an edit of this table.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Final

from anyport.wire.frame import INVALID_PARAMS, METHOD_NOT_FOUND


class Era(Enum):
    """How a conversation is opened."""

    __hash__ = object.__hash__  # By identity, which is what it is; looked up in every call.

    LEGACY = "legacy"
    """A handshake: `initialize`, then a session that remembers."""
    MODERN = "modern"
    """No handshake: every request says its revision and capabilities in `_meta`."""


FIRST_CONTENT: Final = frozenset({"text", "image", "resource"})
"""Kinds of content that every revision has."""
LATER_CONTENT: Final = frozenset({"audio", "resource_link"})
"""Kinds of content that the first revision did not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """What one revision has that another has not."""

    name: str
    era: Era
    batches: bool = False
    """A message may be a JSON array."""
    completions_capability: bool = True
    """Completion is declared; 2024-11-05 has the method without a flag for it."""
    null_ids: bool = True
    """An error whose request is not known has `"id": null`; newer revisions leave it out."""
    names_version: bool = True
    """Over HTTP every request after the handshake says in a header which revision it speaks."""
    priming: bool = False
    """A resumable stream opens with an empty event; clients of other revisions choke on one."""
    tasks: bool = False
    """A session's client may ask for a call to be run as a task."""
    url_errors: bool = False
    """A call may end with an error that names addresses to be opened first."""
    unknown_tool: tuple[int, str] = (INVALID_PARAMS, "Unknown tool: {}")
    content: frozenset[str] = LATER_CONTENT
    """Kinds of content besides text, images and embedded resources."""
    structured: bool = True
    """A tool's result may have structured content beside its text."""
    elicitation: bool = True
    """A server may ask the person something."""
    rich_forms: bool = True
    """Forms may have defaults, titled choices and choices of several; a question may be a URL."""
    rich_sampling: bool = True
    """A model may be given tools, and several blocks in one message."""
    strange: re.Pattern[bytes] = field(init=False, repr=False, compare=False)
    """Finds something in every payload that holds a kind of content which the revision has not;
    and in some others, so that it decides only where a second look is needed."""

    def __post_init__(self) -> None:
        known = "|".join(sorted(FIRST_CONTENT | self.content))
        pattern = rf'"type"(?!: ?"(?:{known})")'.encode()
        object.__setattr__(self, "strange", re.compile(pattern))

    @property
    def lacks(self) -> frozenset[str]:
        """Kinds of content that came later."""
        return LATER_CONTENT - self.content


_ROWS: Final = (
    Revision(
        name="2024-11-05",
        era=Era.LEGACY,
        completions_capability=False,
        names_version=False,
        unknown_tool=(METHOD_NOT_FOUND, "Tool not found: {}"),
        content=frozenset(),
        structured=False,
        elicitation=False,
        rich_forms=False,
        rich_sampling=False,
    ),
    Revision(
        name="2025-03-26",
        era=Era.LEGACY,
        batches=True,
        names_version=False,
        content=frozenset({"audio"}),
        structured=False,
        elicitation=False,
        rich_forms=False,
        rich_sampling=False,
    ),
    Revision(name="2025-06-18", era=Era.LEGACY, rich_forms=False, rich_sampling=False),
    Revision(
        name="2025-11-25",
        era=Era.LEGACY,
        null_ids=False,
        tasks=True,
        url_errors=True,
        priming=True,
    ),
    Revision(name="2026-07-28", era=Era.MODERN, null_ids=False),
)

REVISIONS: Final[Mapping[str, Revision]] = MappingProxyType({row.name: row for row in _ROWS})
"""Every revision, oldest first."""

ALIASES: Final[Mapping[str, str]] = MappingProxyType({"2024-10-07": "2024-11-05"})
"""An older name of the first revision, still written by some SDKs."""

LEGACY: Final = tuple(row for row in _ROWS if row.era is Era.LEGACY)
MODERN: Final = tuple(row for row in _ROWS if row.era is Era.MODERN)
NEWEST_LEGACY: Final = LEGACY[-1]
NEWEST_MODERN: Final = MODERN[-1]

UNNEGOTIATED: Final = replace(REVISIONS["2025-03-26"], content=LATER_CONTENT, structured=True)
"""What is assumed of a client that skipped the handshake; the specification says so for HTTP.

Such clients are of any age, though, and nobody has said that this one knows less than others.
"""


def find_revision(name: str) -> Revision | None:
    """The row of a revision string, by either of its names."""
    return REVISIONS.get(ALIASES.get(name, name))


def negotiate(asked: str) -> Revision:
    """The revision for a handshake: the one asked for if it is a legacy one, else our newest.

    The specification lets the server counter-offer; the client then decides whether to go on.
    """
    found = find_revision(asked)
    return found if found is not None and found.era is Era.LEGACY else NEWEST_LEGACY

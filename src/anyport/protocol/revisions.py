"""The dated revisions of MCP, one row each.

Behaviour that differs by revision is a column of this table: a new revision, or a removal, is an
edit here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Final

from anyport.wire.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND


class Era(Enum):
    """How a conversation begins."""

    __hash__ = object.__hash__  # By identity: looked up in every call.

    LEGACY = "legacy"
    """With a handshake: `initialize`, then a session."""
    MODERN = "modern"
    """Without a handshake: every request states revision and capabilities in `_meta`."""


FIRST_CONTENT: Final = frozenset({"text", "image", "resource"})
"""Kinds of content that every revision has."""
LATER_CONTENT: Final = frozenset({"audio", "resource_link"})
"""Kinds of content that the first revision does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """What one revision has and another does not."""

    name: str
    era: Era
    batches: bool = False
    """A message may be a JSON array."""
    completions_capability: bool = True
    """Completion is a capability; 2024-11-05 has the method without one."""
    null_ids: bool = True
    """An error for an unknown request has `"id": null`; newer revisions leave it out."""
    requires_version_header: bool = True
    """Over HTTP every request after the handshake has the `MCP-Protocol-Version` header."""
    priming: bool = False
    """A resumable stream begins with an empty event; clients of other revisions fail on one."""
    tasks: bool = False
    """A session's client may have a call run as a task."""
    url_errors: bool = False
    """A call may fail with URLs to open first."""
    unknown_tool: tuple[int, str] = (INVALID_PARAMS, "Unknown tool: {}")
    content: frozenset[str] = LATER_CONTENT
    """Kinds of content besides text, images and embedded resources."""
    structured: bool = True
    """Tool results may have structured content."""
    elicitation: bool = True
    """A server may ask the user something."""
    rich_forms: bool = True
    """Forms may have defaults, titled choices and multiple choices; questions may be URLs."""
    rich_sampling: bool = True
    """Sampling may have tools, and several blocks in a message."""
    other_content: re.Pattern[bytes] = field(init=False, repr=False, compare=False)
    """Matches every payload with a kind of content that the revision does not have, and some
    others: it only decides whether a closer look is needed."""

    def __post_init__(self) -> None:
        known = "|".join(sorted(FIRST_CONTENT | self.content))
        pattern = rf'"type"(?!: ?"(?:{known})")'.encode()
        object.__setattr__(self, "other_content", re.compile(pattern))

    @property
    def missing_content(self) -> frozenset[str]:
        return LATER_CONTENT - self.content


_ROWS: Final = (
    Revision(
        name="2024-11-05",
        era=Era.LEGACY,
        completions_capability=False,
        requires_version_header=False,
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
        requires_version_header=False,
        content=frozenset({"audio"}),
        structured=False,
        elicitation=False,
        rich_forms=False,
        rich_sampling=False,
    ),
    Revision(name="2025-06-18", era=Era.LEGACY, rich_forms=False, rich_sampling=False),
    Revision(
        name="2025-11-25", era=Era.LEGACY, null_ids=False, tasks=True, url_errors=True, priming=True
    ),
    Revision(name="2026-07-28", era=Era.MODERN, null_ids=False),
)

REVISIONS: Final[Mapping[str, Revision]] = MappingProxyType({row.name: row for row in _ROWS})
"""Oldest first."""

ALIASES: Final[Mapping[str, str]] = MappingProxyType({"2024-10-07": "2024-11-05"})
"""An older name of the first revision that some SDKs still send."""

LEGACY: Final = tuple(row for row in _ROWS if row.era is Era.LEGACY)
MODERN: Final = tuple(row for row in _ROWS if row.era is Era.MODERN)
NEWEST_LEGACY: Final = LEGACY[-1]
NEWEST_MODERN: Final = MODERN[-1]

UNNEGOTIATED: Final = replace(REVISIONS["2025-03-26"], content=LATER_CONTENT, structured=True)
"""Assumed of a client that skipped the handshake, as MCP 2025-06-18, transports, says for HTTP.

Such clients may be of any age, so their results keep content and members of later revisions.
"""


def find_revision(name: str) -> Revision | None:
    """The row of a revision, by its name or alias."""
    return REVISIONS.get(ALIASES.get(name, name))


def negotiate(requested: str) -> Revision:
    """The revision for a handshake: the requested one if it is legacy, else our newest.

    MCP 2025-11-25, lifecycle: "If the server supports the requested protocol version, it MUST
    respond with the same version. Otherwise, the server MUST respond with another protocol version
    it supports." The client then decides whether to go on.
    """
    found = find_revision(requested)
    return found if found is not None and found.era is Era.LEGACY else NEWEST_LEGACY

"""The protocol revisions, as one table.

Every difference between revisions that this server shows is a column here; the code never compares
dates.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

Json: TypeAlias = dict[str, Any]
Fields: TypeAlias = Mapping[str, frozenset[str]]
"""The members that each shape may carry, by the name of the shape."""


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """One dated protocol version: what it may say, and with which words."""

    name: str
    fields: Fields
    content: frozenset[str]
    """The content types that a result or a prompt may hold."""
    enveloped: bool = False
    """True where each request carries version and capabilities in its `_meta`."""
    structured: bool = True
    progress_message: bool = True
    completions_capability: bool = True
    batches: bool = False
    elicitation_modes: tuple[str, ...] = ()
    elicitation_mode_named: bool = True
    """False where `elicitation/create` has no member `mode`, since there is but one."""
    elicitation_ids: bool = False
    """True where a URL elicitation has an id, and its completion is notified."""
    bad_arguments_are_results: bool = True
    """True where a tool reports wrong arguments as a result that the model can read."""
    error_id_optional: bool = True
    """True where an answer to nobody omits `id`; elsewhere JSON-RPC's null stands for it."""
    resource_not_found: int = -32002
    tasks: bool = False
    """True where the handshake declares tasks; later they are an extension."""
    primes_streams: bool = False
    """True where an event stream begins with an empty event, to resume from."""

    def trim(self, shape: str, full: Json) -> Json:
        """The newest form of an offer, less the members this revision does not know."""
        known = self.fields[shape]
        return {key: value for key, value in full.items() if key in known}


def _with(base: Fields, **more: str) -> Fields:
    return {shape: known | set(more.get(shape, "").split()) for shape, known in base.items()}


_FIELDS_2024_11_05: Final[Fields] = {
    "implementation": frozenset({"name", "version"}),
    "tool": frozenset({"name", "description", "inputSchema"}),
    "resource": frozenset({"uri", "name", "description", "mimeType", "size", "annotations"}),
    "template": frozenset({"uriTemplate", "name", "description", "mimeType", "annotations"}),
    "contents": frozenset({"uri", "mimeType", "text", "blob"}),
    "prompt": frozenset({"name", "description", "arguments"}),
    "argument": frozenset({"name", "description", "required"}),
}
_FIELDS_2025_03_26: Final = _with(_FIELDS_2024_11_05, tool="annotations")
_FIELDS_2025_06_18: Final = _with(
    _FIELDS_2025_03_26,
    implementation="title",
    tool="title outputSchema _meta",
    resource="title _meta",
    template="title _meta",
    contents="_meta",
    prompt="title _meta",
    argument="title",
)
_FIELDS_2025_11_25: Final = _with(
    _FIELDS_2025_06_18,
    implementation="description icons websiteUrl",
    tool="icons execution",
    resource="icons",
    template="icons",
    prompt="icons",
)
_FIELDS_2026_07_28: Final = {
    shape: known - {"execution"} for shape, known in _FIELDS_2025_11_25.items()
}

_CONTENT_2024_11_05: Final = frozenset({"text", "image", "resource"})
_CONTENT_2025_03_26: Final = _CONTENT_2024_11_05 | {"audio"}
_CONTENT_2025_06_18: Final = _CONTENT_2025_03_26 | {"resource_link"}

_ROWS: Final = (
    Revision(
        name="2024-11-05",
        fields=_FIELDS_2024_11_05,
        content=_CONTENT_2024_11_05,
        structured=False,
        progress_message=False,
        completions_capability=False,
        bad_arguments_are_results=False,
        error_id_optional=False,
    ),
    Revision(
        name="2025-03-26",
        fields=_FIELDS_2025_03_26,
        content=_CONTENT_2025_03_26,
        structured=False,
        batches=True,
        bad_arguments_are_results=False,
        error_id_optional=False,
    ),
    Revision(
        name="2025-06-18",
        fields=_FIELDS_2025_06_18,
        content=_CONTENT_2025_06_18,
        elicitation_modes=("form",),
        elicitation_mode_named=False,
        bad_arguments_are_results=False,
        error_id_optional=False,
    ),
    Revision(
        name="2025-11-25",
        fields=_FIELDS_2025_11_25,
        content=_CONTENT_2025_06_18,
        elicitation_modes=("form", "url"),
        elicitation_ids=True,
        tasks=True,
        primes_streams=True,
    ),
    Revision(
        name="2026-07-28",
        fields=_FIELDS_2026_07_28,
        content=_CONTENT_2025_06_18,
        enveloped=True,
        elicitation_modes=("form", "url"),
        resource_not_found=-32602,
    ),
)

REVISIONS: Final[Mapping[str, Revision]] = {row.name: row for row in _ROWS}
"""Every revision, oldest first."""

"""References to an event's fields inside the texts of a hook: `{{ metadata.server }}`.

A reference is a path of names and nothing else: no code, no filters, no conditions. Where an
event lacks the field, nothing stands in its place, and that is told. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from anyport.config.faults import suggestion

FIELDS: Final = (
    "timestamp",
    "trace_id",
    "status",
    "schema_version",
    "event_type",
    "source",
    "metadata",
    "duration_ms",
    "error_code",
    "error_message",
)
"""The fields of an event; what `metadata` holds depends on its type."""

_REFERENCE: Final = re.compile(r"\{\{([^{}]*)\}\}")
_PATH: Final = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*", re.ASCII)

Path: TypeAlias = tuple[str, ...]


class BadTemplate(ValueError):
    """A text whose references cannot be understood; says why, and what to write."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Template:
    """A text with references: pieces of text and paths in turn."""

    pieces: tuple[str | Path, ...]

    def filled(self, event: Mapping[str, Any], missing: list[str]) -> Any:
        """The text for one event; a text that is one reference alone is the value itself."""
        if len(self.pieces) == 1 and isinstance(self.pieces[0], tuple):
            return _found(self.pieces[0], event, missing)
        return "".join(
            piece if isinstance(piece, str) else _as_text(_found(piece, event, missing))
            for piece in self.pieces
        )


def read_template(text: str) -> str | Template:
    """The text as it is, if it has no reference.

    Raises:
        BadTemplate: it has one that cannot be understood.
    """
    pieces: list[str | Path] = []
    end = 0
    for found in _REFERENCE.finditer(text):
        pieces += [text[end : found.start()], _read_path(found[1].strip())]
        end = found.end()
    pieces.append(text[end:])
    if any(isinstance(piece, str) and "{{" in piece for piece in pieces):
        raise BadTemplate("has '{{' without a closing '}}'", "write {{ metadata.server }}")
    if len(pieces) == 1:
        return text
    return Template(tuple(piece for piece in pieces if piece != ""))


def prepare(value: Any) -> Any:
    """The same value with every text in it read, however deep.

    Raises:
        BadTemplate: one of them cannot be understood.
    """
    if isinstance(value, str):
        return read_template(value)
    if isinstance(value, Mapping):
        return {key: prepare(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [prepare(element) for element in value]
    return value


def fill(prepared: Any, event: Mapping[str, Any], missing: list[str]) -> Any:
    """What was prepared, for one event; adds the paths that the event does not have."""
    if isinstance(prepared, Template):
        return prepared.filled(event, missing)
    if isinstance(prepared, dict):
        return {key: fill(member, event, missing) for key, member in prepared.items()}
    if isinstance(prepared, list):
        return [fill(element, event, missing) for element in prepared]
    return prepared


def _read_path(written: str) -> Path:
    if not _PATH.fullmatch(written):
        hint = "a reference is a path such as {{ metadata.server }}"
        raise BadTemplate("has a reference that is no path of names", hint)
    path = tuple(written.split("."))
    if path[0] not in FIELDS:
        raise BadTemplate(f"refers to {path[0]!r}, which no event has", suggestion(path[0], FIELDS))
    return path


def _found(path: Path, event: Mapping[str, Any], missing: list[str]) -> Any:
    value: Any = event
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
        if value is None:
            missing.append(".".join(path))
            return ""
    return value


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

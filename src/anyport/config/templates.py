"""Templates in hooks, which refer to fields of an event: `{{ metadata.server }}`.

A reference is a path of names, without code, filters or conditions. If an event lacks the field,
the reference becomes empty and the field is reported as missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from anyport.config.faults import suggest

EVENT_FIELDS: Final = (
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
"""The fields of an event; the members of `metadata` depend on its type."""

_REFERENCE: Final = re.compile(r"\{\{([^{}]*)\}\}")
_PATH: Final = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*", re.ASCII)

FieldPath: TypeAlias = tuple[str, ...]


class BadTemplate(ValueError):
    """A template has an invalid reference."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Template:
    """A text with references, as alternating pieces of text and paths."""

    parts: tuple[str | FieldPath, ...]

    def fill(self, event: Mapping[str, Any], missing: list[str]) -> Any:
        """Fill in one event; a template that is a single reference returns the value itself."""
        if len(self.parts) == 1 and isinstance(self.parts[0], tuple):
            return _look_up(self.parts[0], event, missing)
        return "".join(
            piece if isinstance(piece, str) else _as_text(_look_up(piece, event, missing))
            for piece in self.parts
        )


def read_template(text: str) -> str | Template:
    """Parse a text; returns it unchanged if it has no references.

    Raises:
        BadTemplate: A reference is invalid.
    """
    parts: list[str | FieldPath] = []
    end = 0
    for found in _REFERENCE.finditer(text):
        parts += [text[end : found.start()], _read_path(found[1].strip())]
        end = found.end()
    parts.append(text[end:])
    if any(isinstance(piece, str) and "{{" in piece for piece in parts):
        raise BadTemplate("has '{{' without a closing '}}'", "write {{ metadata.server }}")
    if len(parts) == 1:
        return text
    return Template(tuple(piece for piece in parts if piece != ""))


def parse_templates(value: Any) -> Any:
    """Parse all strings in a value, at any depth.

    Raises:
        BadTemplate: A reference is invalid.
    """
    if isinstance(value, str):
        return read_template(value)
    if isinstance(value, Mapping):
        return {key: parse_templates(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [parse_templates(element) for element in value]
    return value


def fill_templates(prepared: Any, event: Mapping[str, Any], missing: list[str]) -> Any:
    """Fill the result of `parse_templates` with one event; adds missing paths to `missing`."""
    if isinstance(prepared, Template):
        return prepared.fill(event, missing)
    if isinstance(prepared, dict):
        return {key: fill_templates(member, event, missing) for key, member in prepared.items()}
    if isinstance(prepared, list):
        return [fill_templates(element, event, missing) for element in prepared]
    return prepared


def _read_path(written: str) -> FieldPath:
    if not _PATH.fullmatch(written):
        hint = "a reference is a path such as {{ metadata.server }}"
        raise BadTemplate("has a reference that is no path of names", hint)
    path = tuple(written.split("."))
    if path[0] not in EVENT_FIELDS:
        raise BadTemplate(
            f"refers to {path[0]!r}, which no event has", suggest(path[0], EVENT_FIELDS)
        )
    return path


def _look_up(path: FieldPath, event: Mapping[str, Any], missing: list[str]) -> Any:
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

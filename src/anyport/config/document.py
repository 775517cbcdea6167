"""One configuration file: its values, and the position of each in the text.

The file name decides the syntax. Every error is a fault with a position.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from anyport.config import json_source, toml_source
from anyport.config.faults import ConfigFault, quote_name
from anyport.config.positions import KeyPath, ParsedText, Position, UnreadableText

FILE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Client files that also hold histories reach a megabyte or two, but not this."""

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One parsed configuration file."""

    file: Path
    parsed: ParsedText

    @property
    def root(self) -> ConfigNode:
        return ConfigNode(document=self, path=(), value=self.parsed.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigNode:
    """One value of a document and its path."""

    document: Document
    path: KeyPath
    value: Any

    def items(self) -> Iterator[tuple[str, ConfigNode]]:
        """The members of a table, without null ones: clients write null for "not set"."""
        for key, value in self.value.items():
            if value is not None:
                yield key, ConfigNode(document=self.document, path=(*self.path, key), value=value)

    def elements(self) -> Iterator[ConfigNode]:
        for index, value in enumerate(self.value):
            yield ConfigNode(document=self.document, path=(*self.path, index), value=value)

    @property
    def file(self) -> Path:
        return self.document.file

    @property
    def name(self) -> str:
        return _format_path(self.path)

    @property
    def location(self) -> str:
        """File and line of the key."""
        line, _ = self._position(self.document.parsed.keys)
        return f"{self.file}:{line}"

    def fault(self, message: str, hint: str = "", excerpt: str = "") -> ConfigFault:
        """A fault at the position of the value."""
        return self._fault(self.document.parsed.values, message, hint, excerpt)

    def key_fault(self, message: str, hint: str = "") -> ConfigFault:
        """A fault at the position of the key, also for something missing under it."""
        return self._fault(self.document.parsed.keys, message, hint)

    def _fault(
        self, positions: Mapping[KeyPath, Position], message: str, hint: str, excerpt: str = ""
    ) -> ConfigFault:
        line, column = self._position(positions)
        return ConfigFault(
            file=str(self.file),
            line=line,
            column=column,
            path=self.name,
            message=message,
            hint=hint,
            excerpt=excerpt,
        )

    def _position(self, positions: Mapping[KeyPath, Position]) -> Position:
        parsed = self.document.parsed
        path = self.path
        while path:
            for known in (positions, parsed.keys, parsed.values):
                if path in known:
                    return known[path]
            # A TOML table that only a longer header implies has no position; use its parent's.
            path = path[:-1]
        return 1, 1


def read_document(file: Path) -> Document | ConfigFault:
    """Read and parse a file; returns a fault if that fails."""
    try:
        text = _read_text(file)
        parse = toml_source.parse if file.suffix.lower() == ".toml" else json_source.parse
        parsed = parse(text)
    except UnreadableText as error:
        return _file_fault(file, (error.line, error.column), error.message, error.hint)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return _file_fault(file, (1, 1), f"the file cannot be read: {reason}", "")
    if not isinstance(parsed.value, dict):
        return _file_fault(
            file, (1, 1), "the file must hold an object", 'such as {"mcpServers": {}}'
        )
    return Document(file=file, parsed=parsed)


def _read_text(file: Path) -> str:
    if file.is_dir():
        raise UnreadableText(1, 1, "this is a directory", "name the file in it")
    with file.open("rb") as stream:
        raw = stream.read(FILE_BYTES_MAX + 1)
    if len(raw) > FILE_BYTES_MAX:
        limit = FILE_BYTES_MAX // (1024 * 1024)
        raise UnreadableText(1, 1, f"the file is larger than {limit} MiB", "is it the right file?")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line = before.count(b"\n") + 1
        column = len(before) - (before.rfind(b"\n") + 1) + 1
        raise UnreadableText(
            line, column, "the file is not UTF-8 text", "save it as UTF-8"
        ) from None
    return text.replace("\r\n", "\n")


def _file_fault(file: Path, position: Position, message: str, hint: str) -> ConfigFault:
    line, column = position
    return ConfigFault(
        file=str(file), line=line, column=column, path="", message=message, hint=hint
    )


def _format_path(path: KeyPath) -> str:
    formatted = ""
    for part in path:
        if isinstance(part, int):
            formatted += f"[{part}]"
        else:
            part = part if _BARE_KEY.fullmatch(part) else quote_name(part)
            formatted += f".{part}" if formatted else part
    return formatted

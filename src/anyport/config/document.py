"""One configuration file: its plain values, and where in the text each of them stands.

Reads bytes, chooses the syntax by the file's name, and turns every way in which that can fail
into a fault. What the values mean is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from anyport.config import jsonc, toml
from anyport.config.faults import Fault, shown
from anyport.config.place import KeyPath, Parsed, Place, Unreadable

FILE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Client files that hold histories besides servers reach a megabyte or two; none reach this."""

_BARE: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One file that could be read."""

    file: Path
    parsed: Parsed

    @property
    def root(self) -> Spot:
        return Spot(document=self, path=(), value=self.parsed.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """One value of a document, and the way to it."""

    document: Document
    path: KeyPath
    value: Any

    def items(self) -> Iterator[tuple[str, Spot]]:
        """The members of a table, without those that are null: clients mean "not set" by it."""
        for key, value in self.value.items():
            if value is not None:
                yield key, Spot(document=self.document, path=(*self.path, key), value=value)

    def elements(self) -> Iterator[Spot]:
        for index, value in enumerate(self.value):
            yield Spot(document=self.document, path=(*self.path, index), value=value)

    @property
    def file(self) -> Path:
        return self.document.file

    @property
    def name(self) -> str:
        return _written(self.path)

    @property
    def place(self) -> str:
        """File and line of the key."""
        line, _ = self._place(self.document.parsed.keys)
        return f"{self.file}:{line}"

    def fault(self, message: str, hint: str = "", excerpt: str = "") -> Fault:
        """Something is wrong with the value."""
        return self._fault(self.document.parsed.values, message, hint, excerpt)

    def key_fault(self, message: str, hint: str = "") -> Fault:
        """Something is wrong with the key, or with what is missing under it."""
        return self._fault(self.document.parsed.keys, message, hint)

    def _fault(
        self, places: Mapping[KeyPath, Place], message: str, hint: str, excerpt: str = ""
    ) -> Fault:
        line, column = self._place(places)
        return Fault(
            file=str(self.file),
            line=line,
            column=column,
            path=self.name,
            message=message,
            hint=hint,
            excerpt=excerpt,
        )

    def _place(self, places: Mapping[KeyPath, Place]) -> Place:
        parsed = self.document.parsed
        path = self.path
        while path:
            for known in (places, parsed.keys, parsed.values):
                if path in known:
                    return known[path]
            # A table of TOML that is only implied by a longer header has no place of its own.
            path = path[:-1]
        return 1, 1


def read(file: Path) -> Document | Fault:
    """The file's document, or the reason why there is none."""
    try:
        text = _text(file)
        parse = toml.parse if file.suffix.lower() == ".toml" else jsonc.parse
        parsed = parse(text)
    except Unreadable as error:
        return _file_fault(file, (error.line, error.column), error.message, error.hint)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return _file_fault(file, (1, 1), f"the file cannot be read: {reason}", "")
    if not isinstance(parsed.value, dict):
        return _file_fault(
            file, (1, 1), "the file must hold an object", 'such as {"mcpServers": {}}'
        )
    return Document(file=file, parsed=parsed)


def _text(file: Path) -> str:
    if file.is_dir():
        raise Unreadable(1, 1, "this is a directory", "name the file in it")
    with file.open("rb") as stream:
        raw = stream.read(FILE_BYTES_MAX + 1)
    if len(raw) > FILE_BYTES_MAX:
        limit = FILE_BYTES_MAX // (1024 * 1024)
        raise Unreadable(1, 1, f"the file is larger than {limit} MiB", "is it the right file?")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line = before.count(b"\n") + 1
        column = len(before) - (before.rfind(b"\n") + 1) + 1
        raise Unreadable(line, column, "the file is not UTF-8 text", "save it as UTF-8") from None
    return text.replace("\r\n", "\n")


def _file_fault(file: Path, place: Place, message: str, hint: str) -> Fault:
    line, column = place
    return Fault(file=str(file), line=line, column=column, path="", message=message, hint=hint)


def _written(path: KeyPath) -> str:
    written = ""
    for part in path:
        if isinstance(part, int):
            written += f"[{part}]"
        else:
            part = part if _BARE.fullmatch(part) else shown(part)
            written += f".{part}" if written else part
    return written

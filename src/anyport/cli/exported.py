"""Files that `anyport export` has written, read again."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from anyport.cli.ending import CommandFailed
from anyport.record.detail import Detail

SUFFIXES: Final = (".json", ".jsonl", ".ndjson", ".har")


class _Log(msgspec.Struct, frozen=True):
    entries: list[msgspec.Raw]


class _Archive(msgspec.Struct, frozen=True):
    log: _Log


def names_missing_file(word: str) -> bool:
    """Whether a word is meant as a file, and there is none: it would pass for text to look for."""
    looks = word.endswith(SUFFIXES) or (os.sep in word and ":" not in word)
    return looks and not Path(word).exists()


def is_export(path: Path) -> bool:
    """Whether a file is one of those."""
    with path.open("rb") as file:
        first = next((line for line in file if line.strip()), b"")
    try:
        return isinstance(msgspec.json.decode(first, type=Detail), Detail)
    except (ValueError, RecursionError):
        return False


def is_har(path: Path) -> bool:
    """Whether a file is an HTTP archive, the other format of an export."""
    try:
        return isinstance(msgspec.json.decode(path.read_bytes(), type=_Archive), _Archive)
    except (ValueError, RecursionError):
        return False


def read_export(path: Path) -> Iterator[Detail]:
    """The rows of an export.

    Raises:
        CommandFailed: a line is none.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                try:
                    yield msgspec.json.decode(line, type=Detail)
                except (ValueError, RecursionError):
                    raise CommandFailed(f"{path}:{number} is no line of an export") from None

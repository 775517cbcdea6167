"""`anyport export`: what was recorded, in files for other programs."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from anyport import __version__
from anyport.cli.ending import GOOD, say
from anyport.cli.options import Given
from anyport.cli.recorded import Asked, recorded
from anyport.cli.render import counted
from anyport.record.detail import Detail
from anyport.record.har import Har
from anyport.record.text import escape_line

FORMATS: Final = ("jsonl", "har")


def export(given: Given, words: tuple[str, ...], *, form: str, output: Path | None) -> int:
    """Write every row that matches, oldest first; the exit code."""
    asked = Asked(words)
    count = 0
    with recorded(given) as source, _opened(output) as file:
        har = Har(__version__) if form == "har" else None
        if har is not None:
            file.write(har.opening)
        for detail in source.everything(asked):
            count += 1
            file.write(_line(detail) if har is None else escape_line(har.piece(detail)))
        if har is not None:
            file.write(har.closing)
    told = counted(count, "row")
    if har is not None and count:
        told = counted(har.entries, "entry", "entries")
    if output is not None or not count:
        say(f"{told} {'match' if output is None else f'written to {output}'}")
    if har is not None and har.rows_without:
        rows = counted(har.rows_without, "row")
        say(f"{rows} left out, which did not travel over HTTP; --format jsonl has every row")
    return GOOD


def _line(detail: Detail) -> bytes:
    return escape_line(msgspec.json.encode(detail)) + b"\n"


@contextmanager
def _opened(output: Path | None) -> Iterator[BinaryIO]:
    """The file, for the user alone: it may hold what was said; or stdout."""
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        yield file

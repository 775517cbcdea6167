"""`anyport export`: recorded traffic as JSON Lines or HAR."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from anyport import __version__
from anyport.cli.connect.traffic import FilterQuery, open_traffic
from anyport.cli.exit_codes import SUCCESS, notify_user
from anyport.cli.options import SharedOptions
from anyport.cli.output import pluralize
from anyport.record.har import HarWriter
from anyport.record.redact.escape import escape_line
from anyport.record.traffic import Detail


def export(
    options: SharedOptions, words: tuple[str, ...], *, format: str, output: Path | None
) -> int:
    """Export every row that matches, oldest first; the exit code."""
    query = FilterQuery(words)
    count = 0
    with open_traffic(options) as source, _open_output(output) as file:
        har = HarWriter(__version__) if format == "har" else None
        if har is not None:
            file.write(har.opening)
        for detail in source.all_details(query):
            count += 1
            file.write(_line(detail) if har is None else escape_line(har.encode_entries(detail)))
        if har is not None:
            file.write(har.closing)
    count_text = pluralize(count, "row")
    if har is not None and count:
        count_text = pluralize(har.entry_count, "entry", "entries")
    if output is not None or not count:
        notify_user(f"{count_text} {'match' if output is None else f'written to {output}'}")
    if har is not None and har.skipped_row_count:
        rows = pluralize(har.skipped_row_count, "row")
        notify_user(f"{rows} left out, which did not travel over HTTP; use --format jsonl for all")
    return SUCCESS


def _line(detail: Detail) -> bytes:
    return escape_line(msgspec.json.encode(detail)) + b"\n"


@contextmanager
def _open_output(output: Path | None) -> Iterator[BinaryIO]:
    """The output file, or stdout; the file is private, since it may hold payloads."""
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        yield file

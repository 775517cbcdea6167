"""Payloads as readers find them."""

from pathlib import Path

from anyport.record.shelf import Shelf


def find_payload(state_dir: Path, file: str, span_id: str) -> bytes | None:
    """The line of one exchange; None if there is none."""
    with Shelf(state_dir) as shelf:
        return shelf.line(file, span_id) or None

"""Pages of lists. A cursor names the list and the position in it, in an opaque form."""

import base64
import binascii
import contextlib
from typing import Final

from tests.peers.demo.faults import INVALID_PARAMS, Fault
from tests.peers.demo.options import Options
from tests.peers.demo.revisions import Json

EMPTY: Final = ""
"""A cursor like any other: a client that takes it for "no more" loses the rest of the list."""


def page(options: Options, kind: str, entries: list[Json], params: Json) -> Json:
    """One page of `entries`, under the key `kind`, with the cursor of the next page if any."""
    size = options.page_size or max(len(entries), 1)
    start = _start(options, kind, params["cursor"]) if "cursor" in params else 0
    end = start + size
    result: Json = {kind: entries[start:end]}
    if end < len(entries):
        second = start == 0 and options.empty_cursor
        result["nextCursor"] = EMPTY if second else _cursor(kind, end)
    return result


def _cursor(kind: str, start: int) -> str:
    return base64.urlsafe_b64encode(f"{kind}:{start}".encode()).decode()


def _start(options: Options, kind: str, cursor: object) -> int:
    if cursor == EMPTY and options.empty_cursor and options.page_size:
        return options.page_size
    if isinstance(cursor, str):
        with contextlib.suppress(binascii.Error, ValueError):
            name, _, start = base64.urlsafe_b64decode(cursor).decode().partition(":")
            if name == kind and start.isdecimal():
                return int(start)
    # "Invalid cursors SHOULD result in an error with code -32602" (utilities/pagination).
    raise Fault(INVALID_PARAMS, "Invalid cursor")

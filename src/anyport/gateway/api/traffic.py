"""The traffic, as the API answers questions about it. Knows nothing of HTTP."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from anyport.gateway.api.answers import DetailsAnswer
from anyport.gateway.desk import BadQuery
from anyport.gateway.events import Events
from anyport.record.detail import Detail, detailed
from anyport.record.filter import BadFilter, parse_filter
from anyport.record.filter_tree import Filter
from anyport.record.row import decode_row
from anyport.record.shelf import Shelf
from anyport.record.text import escape_line
from anyport.record.traffic import find

if TYPE_CHECKING:
    from anyport.record.index import Index

DETAILS_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of what was said, in one answer. A trace may hold a year: of what comes after that, only the row
is told."""


def rows(lines: list[bytes]) -> list[bytes]:
    """The rows that events of the journal make. May take some milliseconds: not for the loop."""
    made = (decode_row(line) for line in lines)
    return [escape_line(msgspec.json.encode(row)) for row in made if row is not None]


async def details(events: Events, asked: str) -> bytes:
    """What an id means, with all that is kept of it, as JSON.

    Raises:
        NoSuchId: it means nothing, or several things.
        EventsBusy: another process keeps the index to itself.
    """

    def answer(index: "Index") -> bytes:
        found = find(index.query, asked)
        left, told = DETAILS_BYTES_MAX, []
        with Shelf(events.state_dir) as shelf:
            for row, line in found:
                detail = Detail(row=row) if left <= 0 else detailed(row, line, shelf)
                told.append(detail)
                left -= sum(len(bytes(frame.payload or b"")) for frame in detail.frames)
        return escape_line(msgspec.json.encode(DetailsAnswer(details=tuple(told))))

    return await events.ask(answer)


def followed(parameters: Mapping[str, str]) -> Filter:
    """What somebody wants to follow.

    Raises:
        BadQuery: a parameter cannot be used.
    """
    unknown = next((name for name in parameters if name != "filter"), None)
    if unknown is not None:
        raise BadQuery("There is nothing to follow by but filter")
    try:
        return parse_filter(parameters.get("filter", ""), time.time())
    except BadFilter as error:
        raise BadQuery(f"filter: {error}") from None

"""Questions to the journal, as `get_events` and the API ask them; answered in a thread."""

import asyncio
import base64
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias, get_args

import msgspec

from anyport.gateway.desk import BadQuery
from anyport.gateway.tools import EVENTS_LIMIT_DEFAULT, EVENTS_LIMIT_MAX
from anyport.record.event import EventType, Status
from anyport.record.journal import Journal
from anyport.record.since import parse_since

if TYPE_CHECKING:
    from anyport.record.index import Index, Position


CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "event_type": get_args(EventType),
    "status": get_args(Status),
}
SHOWN_CHARS_MAX: Final = 64
"""Of a name that somebody made up."""


class Query(msgspec.Struct, forbid_unknown_fields=True):
    """The arguments of `get_events`."""

    trace_id: str | None = None
    event_type: EventType | None = None
    status: Status | None = None
    since: str | None = None
    limit: int = EVENTS_LIMIT_DEFAULT


class PageQuery(Query, forbid_unknown_fields=True):
    """The same, and where to go on."""

    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """Some events, and how to ask for older ones."""

    lines: list[bytes]
    """Raw events, oldest first."""
    cursor: str | None
    """None where there are no older ones."""


class EventsBusy(BadQuery):
    """Nothing is wrong with the question but its moment."""


class Events:
    """Reads the journal through its index."""

    def __init__(self, state_dir: Path, journal: Journal) -> None:
        self._state_dir = state_dir
        self._journal = journal
        self._index: Index | None = None

    async def query(self, arguments: bytes) -> bytes:
        """The matching events as a raw array.

        Raises:
            BadQuery: an argument cannot be used.
        """
        given: dict[str, object] = {}
        try:
            given = msgspec.json.decode(arguments, type=dict[str, object])
            asked = msgspec.convert(given, Query)
        except msgspec.DecodeError as error:
            raise BadQuery(_complaint(given, Query) or str(error)) from None
        found = await self._ask(asked, None, _limit(asked))
        return b"[%b]" % b",".join(line.strip() for _, line in found)

    async def page(self, parameters: Mapping[str, str]) -> EventPage:
        """The newest matching events, or those before a cursor.

        Raises:
            BadQuery: a parameter cannot be used.
        """
        try:
            asked = msgspec.convert(parameters, PageQuery, strict=False)
        except msgspec.ValidationError as error:
            raise BadQuery(_complaint(parameters, PageQuery) or str(error)) from None
        before = None if asked.cursor is None else _read_cursor(asked.cursor)
        limit = _limit(asked)
        found = await self._ask(asked, before, limit)
        return EventPage(
            lines=[line.strip() for _, line in found],
            cursor=_cursor(found[0][0]) if len(found) == limit else None,
        )

    def close(self) -> None:
        """Let go of the index."""
        if self._index is not None:
            self._index.close()

    async def _ask(
        self, asked: Query, before: "Position | None", limit: int
    ) -> "list[tuple[Position, bytes]]":
        try:
            since = None if asked.since is None else parse_since(asked.since, time.time())
        except ValueError as error:
            raise BadQuery(str(error)) from None
        self._journal.flush()
        return await asyncio.to_thread(self._read, asked, before, since, limit)

    def _read(
        self, asked: Query, before: "Position | None", since: float | None, limit: int
    ) -> "list[tuple[Position, bytes]]":
        # Late: a gateway that is never asked needs no database.
        from anyport.record.index import Index, IndexBusy  # noqa: PLC0415

        if self._index is None:
            self._index = Index(self._state_dir)
        try:
            self._index.catch_up()
            return self._index.page(
                before,
                trace_id=asked.trace_id,
                event_type=asked.event_type,
                status=asked.status,
                since=since,
                limit=limit,
            )
        except IndexBusy:
            raise EventsBusy(
                "Another process uses the index of the journal; ask again in a moment"
            ) from None


_Place: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""What the index can compare with."""


def _complaint(given: Mapping[str, object], query: type[Query]) -> str | None:
    """What is wrong with a question, for people; None if that is something else."""
    names = query.__struct_fields__
    for name, value in given.items():
        if name not in names:
            return f"There is no {name[:SHOWN_CHARS_MAX]!r} to ask by; there are {', '.join(names)}"
        choices = CHOICES.get(name)
        if choices is not None and value not in choices:
            return f"{name} must be one of {', '.join(choices)}"
    return None


def _limit(asked: Query) -> int:
    return max(1, min(asked.limit, EVENTS_LIMIT_MAX))


def _cursor(position: "Position") -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


def _read_cursor(cursor: str) -> "Position":
    """A cursor names a place and grants nothing: whoever makes one up only reads from there."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(raw, type=tuple[float, str, _Place])
    except ValueError:
        raise BadQuery("The cursor is not one that was given here") from None

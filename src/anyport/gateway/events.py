"""Questions to the journal, as `get_events` asks them; answered in a thread of their own."""

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from anyport.gateway.desk import BadQuery
from anyport.gateway.tools import EVENTS_LIMIT_DEFAULT, EVENTS_LIMIT_MAX
from anyport.record.event import EventType, Status
from anyport.record.journal import Journal
from anyport.record.since import parse_since

if TYPE_CHECKING:
    from anyport.record.index import Index


class Query(msgspec.Struct, forbid_unknown_fields=True):
    """The arguments of `get_events`."""

    trace_id: str | None = None
    event_type: EventType | None = None
    status: Status | None = None
    since: str | None = None
    limit: int = EVENTS_LIMIT_DEFAULT


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
        try:
            asked = msgspec.json.decode(arguments, type=Query)
            since = None if asked.since is None else parse_since(asked.since, time.time())
        except (msgspec.ValidationError, msgspec.DecodeError, ValueError) as error:
            raise BadQuery(str(error)) from None
        self._journal.flush()
        lines = await asyncio.to_thread(self._read, asked, since)
        return b"[%b]" % b",".join(line.strip() for line in lines)

    def close(self) -> None:
        """Let go of the index."""
        if self._index is not None:
            self._index.close()

    def _read(self, asked: Query, since: float | None) -> list[bytes]:
        if self._index is None:
            # Late: a gateway that is never asked needs no database.
            from anyport.record.index import Index  # noqa: PLC0415

            self._index = Index(self._state_dir)
        self._index.catch_up()
        return self._index.query(
            trace_id=asked.trace_id,
            event_type=asked.event_type,
            status=asked.status,
            since=since,
            limit=max(1, min(asked.limit, EVENTS_LIMIT_MAX)),
        )

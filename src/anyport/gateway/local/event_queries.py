"""Queries of the journal for `get_events` and the API, run in a thread.

The first query opens the index. For a while after each query the index is kept up to date in small
steps, so that the next one does not have to catch up first.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from anyport.gateway.local.gateway_tools import text_result
from anyport.record.journal.journal import Journal

if TYPE_CHECKING:
    from anyport.gateway.local.query_params import IndexQuery
    from anyport.record.index.index import Index, IndexPage

KEEP_UP_SECONDS: Final = 600.0
"""How long after a query the index is kept up to date: another one may follow."""
SWITCH_SECONDS: Final = 0.0005
"""Switch interval of Python's threads: how long a query may hold up calls at a time. Python's
default is ten times that, and a call may wait several times."""
STEP_BYTES: Final = 256 * 1024
"""Journal bytes indexed in one step, which holds others up for a millisecond or two."""

PAGE_BYTES_MAX: Final = 1024 * 1024
"""Size of events after which a page ends; a thousand usual events fit."""

INCOMPLETE_MESSAGE: Final = (
    "Only the newest part of the journal was searched for this text. Ask again with an until: "
    "before the oldest event you know, or narrow the search with other terms"
)

TOO_LARGE: Final = (
    "Only the newest of the matching events are here: all together are too large for one answer. "
    "Ask again with an until: before the oldest of these, or for fewer"
)

LAGGING_MESSAGE: Final = (
    "Another process keeps the index of the journal locked: the newest events may be missing. "
    "Ask again in a moment"
)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """Some events, and a cursor for older ones."""

    lines: list[bytes]
    """Raw events, oldest first."""
    cursor: str | None
    """None if there are no older ones."""


class BadQuery(ValueError):
    """Arguments of a query that cannot be used; the text says which and why."""


class EventsBusy(BadQuery):
    """The query is fine, but the index cannot be used right now."""


class EventQueries:
    """Queries the journal through its index, which is opened by the first query."""

    def __init__(self, state_dir: Path, journal: Journal) -> None:
        self.state_dir = state_dir
        self._journal = journal
        self._index: Index | None = None
        self._open_lock = threading.Lock()
        self.is_lagging = False
        """Whether the index could not be brought up to date for the last answer."""
        self._queried_at = float("-inf")

    async def query(self, arguments: bytes, trace_id: str) -> bytes:
        """The result of `get_events`: an array of events, then an object about the result.

        Raises:
            BadQuery: an argument cannot be used.
        """
        from anyport.gateway.local.query_params import IndexQuery  # noqa: PLC0415 - loaded by the first query

        query = IndexQuery.from_tool_arguments(arguments)

        def result(index: "Index") -> bytes:
            page = _page(index, query)
            summary = {"trace_id": trace_id}
            if not page.complete:
                summary["incomplete"] = INCOMPLETE_MESSAGE
            elif page.older is not None and len(page.rows) < query.limit:
                summary["incomplete"] = TOO_LARGE
            elif self.is_lagging:
                summary["incomplete"] = LAGGING_MESSAGE
            return text_result(b"[%b]" % b",".join(page.lines), msgspec.json.encode(summary))

        return await self.run_query(result)

    async def page(self, parameters: Mapping[str, str]) -> EventPage:
        """The newest matching events, or those before a cursor.

        Raises:
            BadQuery: a parameter cannot be used.
        """
        from anyport.gateway.local.query_params import IndexQuery, encode_cursor  # noqa: PLC0415 - loaded by the first query

        page = await self._page(IndexQuery.from_event_parameters(parameters))
        return EventPage(lines=page.lines, cursor=encode_cursor(page.older))

    async def traffic(self, parameters: Mapping[str, str]) -> EventPage:
        """A page of events about exchanges and frames.

        Raises:
            BadQuery: a parameter cannot be used.
        """
        from anyport.gateway.local.query_params import IndexQuery, encode_cursor  # noqa: PLC0415 - loaded by the first query

        page = await self._page(IndexQuery.from_traffic_parameters(parameters))
        return EventPage(lines=page.lines, cursor=encode_cursor(page.older))

    async def run_query(self, work: "Callable[[Index], _T]") -> _T:
        """Bring the index up to date, and run `work` on it in a thread.

        Raises:
            EventsBusy: another process has locked the index.
        """
        self._queried_at = time.monotonic()
        self._journal.flush()
        return await asyncio.to_thread(self._run_in_thread, work)

    async def keep_up(self, is_idle: Callable[[], bool]) -> None:
        """Bring the index up to date while the gateway is idle, if a query was made recently."""
        index = self._index
        while (
            index is not None
            and time.monotonic() - self._queried_at < KEEP_UP_SECONDS
            and is_idle()
            and await asyncio.to_thread(index.catch_up_step, STEP_BYTES)
        ):
            pass

    def close(self) -> None:
        if self._index is not None:
            self._index.close()

    async def _page(self, query: "IndexQuery") -> "IndexPage":
        return await self.run_query(lambda index: _page(index, query))

    def _run_in_thread(self, work: "Callable[[Index], _T]") -> _T:
        # Imported here: a gateway without queries needs no database.
        from anyport.record.index.index import Index, IndexBusy, IndexLost  # noqa: PLC0415

        index = None
        try:
            with self._open_lock:
                if self._index is None:
                    sys.setswitchinterval(SWITCH_SECONDS)
                    self._index = Index(self.state_dir)
                index = self._index
            self.is_lagging = not index.catch_up()
            return work(index)
        except IndexBusy:
            raise EventsBusy(
                "Another process uses the index of the journal; ask again in a moment"
            ) from None
        except IndexLost as error:
            raise EventsBusy(f"{error}. The journal itself is complete") from None
        finally:
            self._journal.set_trouble("index", None if index is None else index.trouble)


def _page(index: "Index", query: "IndexQuery") -> "IndexPage":
    return index.page(query.before, query.filter, query.limit, PAGE_BYTES_MAX)

"""Questions to the journal, as `get_events` and the API ask them; answered in a thread.

The index is opened for the first who asks. From then on, while somebody goes on asking, it may be
kept up with the journal in small steps, so that the next answer need not wait for that.
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

from anyport.gateway.desk import BadQuery
from anyport.record.journal import Journal

if TYPE_CHECKING:
    from anyport.gateway.inquiry import Inquiry
    from anyport.record.index import Index, Page

INTEREST_SECONDS: Final = 600.0
"""How long after a question the index is kept up with the journal: another may follow."""
TURN_SECONDS: Final = 0.0005
"""For which a thread that reads the journal may keep calls waiting at a time; Python's own figure
is ten times that, and a call waits several times."""
STEP_BYTES: Final = 256 * 1024
"""Of the journal, taken in at once meanwhile: a millisecond or two in which others may wait."""

GIVEN_UP: Final = (
    "Only the newest part of the journal was searched for this text. Ask again with an until: "
    "before the oldest event you know, or narrow the search with other terms"
)

LAGGING: Final = (
    "Another process keeps the index of the journal locked: the newest events may be missing. "
    "Ask again in a moment"
)

_T = TypeVar("_T")


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
        self.state_dir = state_dir
        self._journal = journal
        self._index: Index | None = None
        self._opening = threading.Lock()
        self.lags = False
        """Whether the index could not be brought up to date for the last answer."""
        self._asked_at = float("-inf")

    async def query(self, arguments: bytes, trace_id: str) -> tuple[bytes, bytes]:
        """The matching events as a raw array, and about the answer: the trace of the call.

        Raises:
            BadQuery: an argument cannot be used.
        """
        from anyport.gateway.inquiry import Inquiry  # noqa: PLC0415 - only those who ask pay

        found = await self._page(Inquiry.of_tool(arguments))
        about = {"trace_id": trace_id}
        if not found.complete:
            about["incomplete"] = GIVEN_UP
        elif self.lags:
            about["incomplete"] = LAGGING
        return b"[%b]" % b",".join(found.lines), msgspec.json.encode(about)

    async def page(self, parameters: Mapping[str, str]) -> EventPage:
        """The newest matching events, or those before a cursor.

        Raises:
            BadQuery: a parameter cannot be used.
        """
        from anyport.gateway.inquiry import Inquiry, cursor  # noqa: PLC0415 - only those who ask pay

        found = await self._page(Inquiry.of_events(parameters))
        return EventPage(lines=found.lines, cursor=cursor(found.older))

    async def traffic(self, parameters: Mapping[str, str]) -> EventPage:
        """The same of the events that tell of exchanges and frames.

        Raises:
            BadQuery: a parameter cannot be used.
        """
        from anyport.gateway.inquiry import Inquiry, cursor  # noqa: PLC0415 - only those who ask pay

        found = await self._page(Inquiry.of_traffic(parameters))
        return EventPage(lines=found.lines, cursor=cursor(found.older))

    async def ask(self, work: "Callable[[Index], _T]") -> _T:
        """What the index, brought up to date, answers in a thread.

        Raises:
            EventsBusy: another process keeps the index to itself.
        """
        self._asked_at = time.monotonic()
        self._journal.flush()
        return await asyncio.to_thread(self._answer, work)

    async def keep_up(self, is_idle: Callable[[], bool]) -> None:
        """Bring the index up to date while nothing else is to be done, if somebody may ask."""
        index = self._index
        while (
            index is not None
            and time.monotonic() - self._asked_at < INTEREST_SECONDS
            and is_idle()
            and await asyncio.to_thread(index.step, STEP_BYTES)
        ):
            pass

    def close(self) -> None:
        """Let go of the index."""
        if self._index is not None:
            self._index.close()

    async def _page(self, asked: "Inquiry") -> "Page":
        return await self.ask(lambda index: index.page(asked.before, asked.filter, asked.limit))

    def _answer(self, work: "Callable[[Index], _T]") -> _T:
        # Late: a gateway that is never asked needs no database.
        from anyport.record.index import Index, IndexBusy, IndexLost  # noqa: PLC0415

        index = None
        try:
            with self._opening:
                if self._index is None:
                    sys.setswitchinterval(TURN_SECONDS)
                    self._index = Index(self.state_dir)
                index = self._index
            self.lags = not index.catch_up()
            return work(index)
        except IndexBusy:
            raise EventsBusy(
                "Another process uses the index of the journal; ask again in a moment"
            ) from None
        except IndexLost as error:
            raise EventsBusy(f"{error}. The journal itself is complete") from None
        finally:
            self._journal.complain("index", None if index is None else index.trouble)

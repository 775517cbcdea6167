"""The traffic that a command asks for: recorded here, or by a gateway that runs elsewhere."""

import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol, TypeAlias, TypeVar
from urllib.parse import urlencode

import msgspec

from anyport.cli import places
from anyport.cli.copied import COPIED_EVENTS_MAX
from anyport.cli.ending import CommandFailed, WrongUsage, say
from anyport.cli.follow import Tail
from anyport.cli.journal import open_index
from anyport.cli.loop import run
from anyport.cli.options import Given
from anyport.cli.reach import API, NotThere, Reach, no_gateway
from anyport.cli.target import Target, read_target
from anyport.cli.watching import Watching
from anyport.gateway.tools import EVENTS_LIMIT_MAX
from anyport.record.detail import Detail, detailed
from anyport.record.filter import BadFilter, parse_filter
from anyport.record.filter_tree import Filter
from anyport.record.matching import Matcher, matcher
from anyport.record.row import Row, row_of
from anyport.record.scan import scan_events
from anyport.record.shelf import Shelf
from anyport.record.traffic import NoSuchId, find, read_id, rows_of

LOOK_SECONDS: Final = 0.25
"""Between two looks at files: soon enough for eyes, seldom enough for the disk."""

_T = TypeVar("_T")

Take: TypeAlias = Callable[[list[Row]], None]
"""Gets rows as they come, oldest first."""


class Recorded(Protocol):
    """Traffic that was recorded, and goes on."""

    def newest(self, asked: "Asked", limit: int) -> list[Row]:
        """The newest rows, oldest first."""

    def follow(self, asked: "Asked", limit: int, take: Take) -> NoReturn:
        """The same, and then every new one, until the user has enough."""

    def details(self, asked: str) -> list[Detail]:
        """What an id means."""

    def everything(self, asked: "Asked") -> Iterator[Detail]:
        """Every row with all that is kept of it."""


class Asked:
    """A filter, as words of a command line and as what they mean."""

    def __init__(self, words: tuple[str, ...]) -> None:
        """Read it.

        Raises:
            WrongUsage: it is none; the fault is marked.
        """
        self.text = " ".join(words)
        try:
            self.filter: Filter = parse_filter(self.text, time.time())
        except BadFilter as error:
            raise WrongUsage(str(error)) from None


@contextmanager
def recorded(given: Given) -> Iterator[Recorded]:
    """The traffic that the command line asks for.

    Raises:
        WrongUsage: the options contradict each other.
    """
    if given.url is None:
        yield Own(places.state_dir(given.state_dir, os.environ))
    else:
        yield Elsewhere(read_target(given, os.environ))


class Own:
    """What this machine's user has recorded; whoever writes it, it grows by itself."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir

    def newest(self, asked: Asked, limit: int) -> list[Row]:
        lines = self._ask(rows_of(asked.filter), limit)
        events = (msgspec.json.decode(line) for line in lines)
        return [row for event in events if (row := row_of(event)) is not None]

    def follow(self, asked: Asked, limit: int, take: Take) -> NoReturn:
        # The end of the files is noted before they are read: nothing falls between the two.
        tail = Tail(self._state_dir)
        past: list[Row] = []
        if (self._state_dir / "events").is_dir():
            past = self.newest(asked, limit)
        take(past)
        known = set(past)
        matches = matcher(asked.filter)
        while True:
            fresh = [row for line in tail.new_lines() if (row := _matching(line, matches))]
            take([row for row in fresh if row not in known])
            known.clear()
            time.sleep(LOOK_SECONDS)

    def details(self, asked: str) -> list[Detail]:
        try:
            found = find(self._ask, asked)
        except NoSuchId as error:
            raise CommandFailed(str(error)) from None
        with Shelf(self._state_dir) as shelf:
            return [detailed(row, line, shelf) for row, line in found]

    def everything(self, asked: Asked) -> Iterator[Detail]:
        with Shelf(self._state_dir) as shelf:
            for line, event in scan_events(self._state_dir, rows_of(asked.filter)):
                row = row_of(event)
                if row is not None:
                    yield detailed(row, line, shelf)

    def _ask(self, filter: Filter, limit: int) -> list[bytes]:
        lines: list[bytes] = []
        before = None
        with open_index(self._state_dir) as index:
            while True:
                # One question reads only so much of the journal; here somebody waits for more.
                page = index.page(before, filter, limit - len(lines))
                lines = page.lines + lines
                before = page.older
                if before is None or len(lines) >= limit:
                    return lines


class Elsewhere:
    """What a gateway that runs elsewhere has recorded."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def newest(self, asked: Asked, limit: int) -> list[Row]:
        return run(self._with_reach(lambda reach: self._newest(reach, asked, limit)))

    def follow(self, asked: Asked, limit: int, take: Take) -> NoReturn:
        run(self._with_reach(lambda reach: self._follow(reach, asked, limit, take)))
        raise AssertionError("whoever follows does not come back")

    def details(self, asked: str) -> list[Detail]:
        return run(self._with_reach(lambda reach: self._details(reach, asked)))

    def everything(self, asked: Asked) -> Iterator[Detail]:
        yield from run(self._with_reach(lambda reach: self._everything(reach, asked)))

    async def _with_reach(self, ask: Callable[[Reach], Awaitable[_T]]) -> _T:
        reach = Reach(self._target)
        try:
            return await ask(reach)
        finally:
            reach.close()

    async def _newest(self, reach: Reach, asked: Asked, limit: int) -> list[Row]:
        rows: list[Row] = []
        question = {"filter": asked.text}
        while True:
            # A page may be short, where a lot had to be read for it.
            question["limit"] = str(limit - len(rows))
            page = await self._page(reach, question)
            rows = page.rows + rows
            if page.next_cursor is None or len(rows) >= limit:
                return rows
            question["cursor"] = page.next_cursor

    async def _page(self, reach: Reach, question: dict[str, str]) -> "_Page":
        return self._read(await reach.get(f"{API}/traffic?{urlencode(question)}"), _Page)

    async def _details(self, reach: Reach, asked: str) -> list[Detail]:
        try:
            page = await reach.get(f"{API}/traffic/{read_id(asked)}")
        except NoSuchId as error:
            raise CommandFailed(str(error)) from None
        return self._read(page, _Details).details

    async def _follow(self, reach: Reach, asked: Asked, limit: int, take: Take) -> None:
        watching = Watching(self._target)
        path = f"{API}/traffic/stream?{urlencode({'filter': asked.text})}"
        reach.send(self._target.head("GET", path, Accept="text/event-stream"), None, watching)
        # Asked before the past is: nothing falls between the two.
        await watching.wait_open()
        past = await self._newest(reach, asked, limit)
        take(past)
        known = set(past)
        while True:
            rows = []
            for event in await watching.next():
                if event.name == "lost":
                    lost = self._read(event.data, _Lost).lost
                    say(f"{lost} rows came faster than they could be sent, and are missing here")
                else:
                    rows.append(self._read(event.data, Row))
            take([row for row in rows if row not in known])

    async def _everything(self, reach: Reach, asked: Asked) -> list[Detail]:
        pages: list[list[Row]] = []
        question = {"filter": asked.text, "limit": str(EVENTS_LIMIT_MAX)}
        while True:
            page = await self._page(reach, question)
            pages.append(page.rows)
            if page.next_cursor is None:
                break
            if sum(map(len, pages)) >= COPIED_EVENTS_MAX:
                say(f"only the newest {COPIED_EVENTS_MAX} rows are fetched; narrow the filter")
                break
            question["cursor"] = page.next_cursor
        return [
            detail
            for page_rows in reversed(pages)
            for row in page_rows
            for detail in await self._detailed(reach, row)
        ]

    async def _detailed(self, reach: Reach, row: Row) -> list[Detail]:
        if row.payload_file is None or row.id is None:
            return [Detail(row=row)]
        try:
            return await self._details(reach, row.id)
        except NotThere:  # Pruned meanwhile.
            return [Detail(row=row)]

    def _read(self, raw: bytes, what: type[_T]) -> _T:
        try:
            return msgspec.json.decode(raw, type=what)
        except msgspec.DecodeError:
            raise no_gateway(self._target) from None


class _Page(msgspec.Struct, frozen=True):
    """Some rows, oldest first."""

    rows: list[Row]
    next_cursor: str | None = None
    """For older ones."""


class _Details(msgspec.Struct, frozen=True):
    """What an id means."""

    details: list[Detail]


class _Lost(msgspec.Struct, frozen=True):
    """Rows that did not come."""

    lost: int


def _matching(line: bytes, matches: Matcher) -> Row | None:
    try:
        event = msgspec.json.decode(line, type=dict[str, Any])
    except (ValueError, RecursionError):
        return None
    return row_of(event) if matches(event) else None

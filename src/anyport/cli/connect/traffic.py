"""Recorded traffic: of this machine, of a running gateway, and in files of `anyport export`."""

import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol, TypeAlias, TypeVar
from urllib.parse import urlencode

import msgspec

from anyport.cli import dirs
from anyport.cli.connect.http import (
    API,
    ApiClient,
    EventStreamReader,
    PathNotFound,
    Target,
    not_a_gateway_error,
    read_target,
)
from anyport.cli.connect.journal import COPIED_EVENTS_MAX, JournalTail, LocalJournal, open_index
from anyport.cli.exit_codes import CommandFailed, WrongUsage, notify_user, run_async
from anyport.cli.options import SharedOptions
from anyport.gateway.local.gateway_tools import EVENTS_LIMIT_MAX
from anyport.record.filter.ast import Filter
from anyport.record.filter.match import Matcher, compile_filter
from anyport.record.filter.parser import BadFilter, parse_filter
from anyport.record.index.traffic import NoSuchId, find_by_id, limit_to_traffic, parse_id
from anyport.record.journal.payloads import PayloadReader
from anyport.record.journal.reader import read_matching_events
from anyport.record.traffic import Detail, Row, build_detail, row_of

EXPORT_SUFFIXES: Final = (".json", ".jsonl", ".ndjson", ".har")

_T = TypeVar("_T")

RowsHandler: TypeAlias = Callable[[list[Row]], None]
"""Takes new rows, oldest first."""


class FilterQuery:
    """A filter: its text, and what it means."""

    def __init__(self, words: tuple[str, ...]) -> None:
        """Parse the words of a command line.

        Raises:
            WrongUsage: they are no filter; the text marks the error.
        """
        self.text = " ".join(words)
        try:
            self.filter: Filter = parse_filter(self.text, time.time())
        except BadFilter as error:
            raise WrongUsage(str(error)) from None


class TrafficSource(Protocol):
    """Where commands read traffic."""

    def newest(self, query: FilterQuery, limit: int) -> list[Row]:
        """The newest rows, oldest first."""

    def follow(self, query: FilterQuery, limit: int, on_rows: RowsHandler) -> NoReturn:
        """The newest rows, then every new one, until Ctrl-C."""

    def details(self, id: str) -> list[Detail]:
        """The exchange, the frame or the trace with this id."""

    def all_details(self, query: FilterQuery) -> Iterator[Detail]:
        """All matching rows, with their payloads, oldest first."""


@contextmanager
def open_traffic(options: SharedOptions) -> Iterator[TrafficSource]:
    """The traffic of this machine, or with `--url` that of a running gateway.

    Raises:
        WrongUsage: the options contradict each other.
    """
    if options.url is None:
        yield LocalTraffic(dirs.state_dir(options.state_dir, os.environ))
    else:
        yield RemoteTraffic(read_target(options, os.environ))


class LocalTraffic:
    """The traffic in the state directory of this machine's user."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir

    def newest(self, query: FilterQuery, limit: int) -> list[Row]:
        lines = self._query_lines(limit_to_traffic(query.filter), limit)
        events = (msgspec.json.decode(line) for line in lines)
        return [row for event in events if (row := row_of(event)) is not None]

    def follow(self, query: FilterQuery, limit: int, on_rows: RowsHandler) -> NoReturn:
        # The tail begins before the index is read, so that no row falls between the two.
        tail = JournalTail(self._state_dir)
        recent: list[Row] = []
        if (self._state_dir / "events").is_dir():
            recent = self.newest(query, limit)
        on_rows(recent)
        already_shown = set(recent)
        matches = compile_filter(query.filter)
        while True:
            fresh = [row for line in tail.new_lines() if (row := _matching_row(line, matches))]
            on_rows([row for row in fresh if row not in already_shown])
            already_shown.clear()
            time.sleep(LocalJournal.poll_seconds)

    def details(self, id: str) -> list[Detail]:
        try:
            rows = find_by_id(self._query_lines, id)
        except NoSuchId as error:
            raise CommandFailed(str(error)) from None
        with PayloadReader(self._state_dir) as reader:
            return [build_detail(row, line, reader) for row, line in rows]

    def all_details(self, query: FilterQuery) -> Iterator[Detail]:
        with PayloadReader(self._state_dir) as reader:
            for line, event in read_matching_events(
                self._state_dir, limit_to_traffic(query.filter)
            ):
                row = row_of(event)
                if row is not None:
                    yield build_detail(row, line, reader)

    def _query_lines(self, filter: Filter, limit: int) -> list[bytes]:
        lines: list[bytes] = []
        before = None
        with open_index(self._state_dir) as index:
            while True:
                # A page ends early where much of the journal had to be read for it.
                page = index.page(before, filter, limit - len(lines))
                lines = page.lines + lines
                before = page.older
                if before is None or len(lines) >= limit:
                    return lines


class RemoteTraffic:
    """The traffic that a running gateway has recorded."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def newest(self, query: FilterQuery, limit: int) -> list[Row]:
        return self._run(lambda api: self._newest(api, query, limit))

    def follow(self, query: FilterQuery, limit: int, on_rows: RowsHandler) -> NoReturn:
        self._run(lambda api: self._follow(api, query, limit, on_rows))
        raise AssertionError("following ends with an exception")

    def details(self, id: str) -> list[Detail]:
        return self._run(lambda api: self._details(api, id))

    def all_details(self, query: FilterQuery) -> Iterator[Detail]:
        yield from self._run(lambda api: self._all_details(api, query))

    def _run(self, request: Callable[[ApiClient], Awaitable[_T]]) -> _T:
        async def run() -> _T:
            api = ApiClient(self._target)
            try:
                return await request(api)
            finally:
                api.close()

        return run_async(run())

    async def _newest(self, api: ApiClient, query: FilterQuery, limit: int) -> list[Row]:
        rows: list[Row] = []
        parameters = {"filter": query.text}
        while True:
            # A page ends early where much of the journal had to be read for it.
            parameters["limit"] = str(limit - len(rows))
            page = await self._page(api, parameters)
            rows = page.rows + rows
            if page.next_cursor is None or len(rows) >= limit:
                return rows
            parameters["cursor"] = page.next_cursor

    async def _page(self, api: ApiClient, parameters: dict[str, str]) -> "_TrafficPage":
        return self._decode(await api.get(f"{API}/traffic?{urlencode(parameters)}"), _TrafficPage)

    async def _details(self, api: ApiClient, id: str) -> list[Detail]:
        try:
            page = await api.get(f"{API}/traffic/{parse_id(id)}")
        except NoSuchId as error:
            raise CommandFailed(str(error)) from None
        return self._decode(page, _Details).details

    async def _follow(
        self, api: ApiClient, query: FilterQuery, limit: int, on_rows: RowsHandler
    ) -> None:
        stream = EventStreamReader(self._target)
        path = f"{API}/traffic/stream?{urlencode({'filter': query.text})}"
        api.send(self._target.head("GET", path, Accept="text/event-stream"), None, stream)
        # The stream opens before the past is fetched, so that no row falls between the two.
        await stream.wait_open()
        recent = await self._newest(api, query, limit)
        on_rows(recent)
        already_shown = set(recent)
        while True:
            rows = []
            for event in await stream.next_events():
                if event.name == "lost":
                    lost = self._decode(event.data, _LostRows).lost
                    notify_user(f"{lost} rows are missing: the gateway could not send them in time")
                else:
                    rows.append(self._decode(event.data, Row))
            on_rows([row for row in rows if row not in already_shown])

    async def _all_details(self, api: ApiClient, query: FilterQuery) -> list[Detail]:
        pages: list[list[Row]] = []
        parameters = {"filter": query.text, "limit": str(EVENTS_LIMIT_MAX)}
        while True:
            page = await self._page(api, parameters)
            pages.append(page.rows)
            if page.next_cursor is None:
                break
            if sum(map(len, pages)) >= COPIED_EVENTS_MAX:
                notify_user(
                    f"only the newest {COPIED_EVENTS_MAX} rows are fetched; narrow the filter"
                )
                break
            parameters["cursor"] = page.next_cursor
        return [
            detail
            for page_rows in reversed(pages)
            for row in page_rows
            for detail in await self._fetch_detail(api, row)
        ]

    async def _fetch_detail(self, api: ApiClient, row: Row) -> list[Detail]:
        if row.payload_file is None or row.id is None:
            return [Detail(row=row)]
        try:
            return await self._details(api, row.id)
        except PathNotFound:  # Retention removed it in the meantime.
            return [Detail(row=row)]

    def _decode(self, raw: bytes, type: type[_T]) -> _T:
        try:
            return msgspec.json.decode(raw, type=type)
        except msgspec.DecodeError:
            raise not_a_gateway_error(self._target) from None


class _TrafficPage(msgspec.Struct, frozen=True):
    """`GET /api/v1/traffic`, oldest row first."""

    rows: list[Row]
    next_cursor: str | None = None
    """Of the page with older rows."""


class _Details(msgspec.Struct, frozen=True):
    """`GET /api/v1/traffic/{id}`."""

    details: list[Detail]


class _LostRows(msgspec.Struct, frozen=True):
    """The event `lost` of the traffic stream."""

    lost: int


def _matching_row(line: bytes, matches: Matcher) -> Row | None:
    try:
        event = msgspec.json.decode(line, type=dict[str, Any])
    except (ValueError, RecursionError):
        return None
    return row_of(event) if matches(event) else None


# Files of `anyport export`


class _HarLog(msgspec.Struct, frozen=True):
    entries: list[msgspec.Raw]


class _HarArchive(msgspec.Struct, frozen=True):
    log: _HarLog


def names_missing_file(word: str) -> bool:
    """Whether a word looks like a file that does not exist: as a filter it would be plain text."""
    is_like_file = word.endswith(EXPORT_SUFFIXES) or (os.sep in word and ":" not in word)
    return is_like_file and not Path(word).exists()


def is_export(path: Path) -> bool:
    """Whether a file is JSON Lines of `anyport export`."""
    with path.open("rb") as file:
        first = next((line for line in file if line.strip()), b"")
    try:
        return isinstance(msgspec.json.decode(first, type=Detail), Detail)
    except (ValueError, RecursionError):
        return False


def is_har(path: Path) -> bool:
    """Whether a file is an HTTP archive, the other format of `anyport export`."""
    try:
        return isinstance(msgspec.json.decode(path.read_bytes(), type=_HarArchive), _HarArchive)
    except (ValueError, RecursionError):
        return False


def read_export(path: Path) -> Iterator[Detail]:
    """The rows of an export.

    Raises:
        CommandFailed: a line is not a row.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                try:
                    yield msgspec.json.decode(line, type=Detail)
                except (ValueError, RecursionError):
                    raise CommandFailed(f"{path}:{number} is not a line of an export") from None

"""The journal as commands read it: files and index, here or copied from a running gateway.

Events of other versions and of other writers are shown as far as they can be understood.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol
from urllib.parse import urlencode

import msgspec

from anyport.cli import dirs
from anyport.cli.connect.http import API, ApiClient, Target, not_a_gateway_error, read_target
from anyport.cli.exit_codes import CommandFailed, run_async
from anyport.cli.options import SharedOptions
from anyport.cli.output import cell, format_ms
from anyport.gateway.local.gateway_tools import EVENTS_LIMIT_MAX
from anyport.record.filter.ast import Filter, FilterTerm, Text
from anyport.record.index.index import QUERY_EVENTS_MAX, Index, IndexBusy, IndexLost
from anyport.record.index.statistics import METHOD_EVENT_TYPES
from anyport.record.journal.segments import FILE_NAME, segments
from anyport.record.tamper.chain import strip_link
from anyport.record.trace_ids import normalise_trace_id

TITLES: Final = ("TIME", "TYPE", "STATUS", "SERVER", "SUBJECT", "TOOK", "TRACE", "MESSAGE")
NO_WRAP: Final = ("TIME", "STATUS", "TOOK", "TRACE")

SHORT_ID_CHARS: Final = 8
"""Of a trace id in a table; `anyport trace` takes as little."""

YEAR_CHARS: Final = len("2026-")
"""Left out of times in tables: lines are narrow, and people ask about yesterday."""

CHUNK_BYTES_MAX: Final = 4 * 1024 * 1024
"""Read at once from a file; the rest follows with the next poll."""

COPIED_EVENTS_MAX: Final = 20_000
"""Copied from a running gateway in one second or two; more than a person reads."""

SEARCH_LIMITED: Final = (
    "only the newest part of the journal was searched for this text; narrow it with since: and"
    " until:, or with other terms"
)

_SUBJECT_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(METHOD_EVENT_TYPES, ("method",)),
    "gateway.session_started": ("client",),
    "gateway.session_resumed": ("client",),
    "gateway.hook_failed": ("hook",),
    "gateway.hook_dropped": ("hook",),
}
_DEFAULT_SUBJECT_KEYS: Final = ("tool", "prompt", "uri")
_MESSAGE_KEYS: Final = ("line", "reason", "version")


# Where the journal is


class JournalSource(Protocol):
    """The files of a journal: of this machine, or a copy."""

    @property
    def state_dir(self) -> Path:
        """The directory that holds `events/`."""

    @property
    def complete(self) -> bool:
        """Whether it has all events that match the query."""

    @property
    def poll_seconds(self) -> float:
        """Between two polls with `--follow`."""

    def refresh(self) -> None:
        """Fetch new events."""

    def remaining_filter(self, filter: Filter) -> Filter:
        """The part of a filter that these files still need."""


class LocalJournal:
    """The journal in the state directory of this machine's user."""

    complete = True
    poll_seconds = 0.25

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir

    def refresh(self) -> None:
        """The files grow by themselves."""

    def remaining_filter(self, filter: Filter) -> Filter:
        return filter


class JournalPage(msgspec.Struct, frozen=True):
    """`GET /api/v1/events`, oldest event first."""

    events: list[msgspec.Raw]
    next_cursor: str | None = None
    """Of the page with older events."""


class EventTimestamp(msgspec.Struct, frozen=True):
    timestamp: str


class RemoteJournalCopy:
    """A temporary copy of the events that match a query, read like any journal."""

    poll_seconds = 1.0

    def __init__(
        self, target: Target, query: Mapping[str, str], events_max: int, state_dir: Path
    ) -> None:
        self.state_dir = state_dir
        self.complete = True
        self._target = target
        self._query = dict(query)
        self._events_max = events_max
        self._newest: set[bytes] = set()
        """The copied events of the newest timestamp, with which the next poll begins."""
        (state_dir / "events").mkdir()

    def refresh(self) -> None:
        """Copy new events.

        Raises:
            CommandFailed: the gateway does not answer.
        """
        fresh = [line for line in run_async(self._fetch()) if line not in self._newest]
        self._events_max = COPIED_EVENTS_MAX  # `--limit` is for the events of the past.
        if not fresh:
            return
        for month, lines in groupby(fresh, key=lambda line: _timestamp_of(line)[: len("2026-07")]):
            folder = self.state_dir / "events" / month
            folder.mkdir(exist_ok=True)
            with (folder / FILE_NAME).open("ab") as file:
                file.writelines(line + b"\n" for line in lines)
        last = _timestamp_of(fresh[-1])
        if self._query.get("since") != last:
            self._newest.clear()
        self._query["since"] = last
        self._newest |= {line for line in fresh if _timestamp_of(line) == last}

    def remaining_filter(self, filter: Filter) -> Filter:
        """Nothing: the gateway has applied the filter, and sees more of an event than the copy."""
        return Filter()

    async def _fetch(self) -> list[bytes]:
        pages: list[list[msgspec.Raw]] = []
        limit = min(self._events_max, EVENTS_LIMIT_MAX)
        query = self._query | {"limit": str(limit)}
        api = ApiClient(self._target)
        try:
            while True:
                raw = await api.get(f"{API}/events?{urlencode(query)}")
                try:
                    page = msgspec.json.decode(raw, type=JournalPage)
                except msgspec.DecodeError:
                    raise not_a_gateway_error(self._target) from None
                pages.append(page.events)
                if page.next_cursor is None:
                    break
                if len(pages) * limit >= self._events_max:
                    self.complete = False
                    break
                query["cursor"] = page.next_cursor
        finally:
            api.close()
        return [bytes(event) for page in reversed(pages) for event in page]


@contextmanager
def open_journal(
    options: SharedOptions, query: Mapping[str, str | None], events_max: int = COPIED_EVENTS_MAX
) -> Iterator[JournalSource]:
    """The journal of this machine, or with `--url` a copy of the events that match the query.

    Raises:
        CommandFailed: the gateway does not answer.
        WrongUsage: the options contradict each other.
    """
    if options.url is None:
        yield LocalJournal(dirs.state_dir(options.state_dir, os.environ))
        return
    target = read_target(options, os.environ)
    parameters = {name: value for name, value in query.items() if value is not None}
    with TemporaryDirectory(prefix="anyport-") as folder:
        journal = RemoteJournalCopy(target, parameters, events_max, Path(folder))
        journal.refresh()
        yield journal


def _timestamp_of(line: bytes) -> str:
    return msgspec.json.decode(line, type=EventTimestamp).timestamp


# Files and index


def require_journal(state_dir: Path) -> None:
    """Check that there is a journal.

    Raises:
        CommandFailed: there is none.
    """
    if not (state_dir / "events").is_dir():
        raise CommandFailed(f"nothing has been recorded yet in {state_dir}")


@contextmanager
def open_index(state_dir: Path) -> Iterator[Index]:
    """The index of the journal, up to date.

    Raises:
        CommandFailed: there is no journal, or another process has locked the index.
    """
    require_journal(state_dir)
    try:
        index = Index(state_dir)
    except IndexLost as error:
        raise CommandFailed(str(error)) from None
    try:
        index.catch_up()
        yield index
    except IndexBusy:
        raise CommandFailed("another process is using the journal's index; try again") from None
    except IndexLost as error:
        raise CommandFailed(str(error)) from None
    finally:
        index.close()


class JournalTail:
    """New lines at the end of the journal, whichever process writes them.

    It begins at the end of the files that exist, and at the beginning of later ones.
    """

    def __init__(self, state_dir: Path) -> None:
        self._events_dir = state_dir / "events"
        self._read_bytes = {inode: size for _, inode, size in self._files()}
        """By inode: a file that is rotated gets another name."""

    def new_lines(self) -> Iterator[bytes]:
        """The complete lines since the last call, without their link of the chain."""
        files = list(self._files())
        self._read_bytes = {inode: self._read_bytes.get(inode, 0) for _, inode, _ in files}
        for path, inode, size in files:
            start = self._read_bytes[inode]
            if start > size:  # The file was truncated.
                start = 0
            if start == size:
                continue
            with suppress(FileNotFoundError), path.open("rb") as file:
                file.seek(start)
                chunk = file.read(CHUNK_BYTES_MAX)
                complete_bytes = chunk.rfind(b"\n") + 1
                self._read_bytes[inode] = start + complete_bytes
                yield from map(strip_link, chunk[:complete_bytes].splitlines())

    def _files(self) -> Iterator[tuple[Path, int, int]]:
        for path in segments(self._events_dir):
            with suppress(FileNotFoundError):
                stat_result = path.stat()
                yield path, stat_result.st_ino, stat_result.st_size


# Events


class JournalEvent(msgspec.Struct, frozen=True):
    """An event, as far as tables show it."""

    timestamp: datetime
    trace_id: str
    status: str
    event_type: str
    metadata: dict[str, Any] = {}
    duration_ms: float | None = None
    error_code: int | str | None = None
    error_message: str | None = None

    @property
    def ended_at(self) -> datetime:
        """Other writers may leave the time zone out, and mean UTC."""
        return self.timestamp if self.timestamp.tzinfo else self.timestamp.replace(tzinfo=UTC)

    @property
    def began_at(self) -> datetime:
        try:
            return self.ended_at - timedelta(milliseconds=max(self.duration_ms or 0.0, 0.0))
        except OverflowError:  # An impossible duration, of another writer.
            return self.ended_at

    @property
    def server(self) -> str:
        return str(self.metadata.get("server") or "")

    @property
    def subject(self) -> str:
        """A tool, a prompt, a resource, a method, a hook or a client."""
        keys = _SUBJECT_KEYS.get(self.event_type, _DEFAULT_SUBJECT_KEYS)
        return _first_value(self.metadata, keys)

    @property
    def message(self) -> str:
        if self.error_message is None:
            return _first_value(self.metadata, _MESSAGE_KEYS)
        code = "" if self.error_code is None else f" (error {self.error_code})"
        return f"{self.error_message}{code}"


def decode_event(line: bytes) -> JournalEvent | None:
    """The event in a line of the journal; None for a line without one."""
    try:
        return msgspec.json.decode(line, type=JournalEvent)
    except (ValueError, RecursionError):
        return None


def event_cells(event: JournalEvent, zone: tzinfo | None = None) -> tuple[str, ...]:
    """An event as a row of a table, in this time zone or that of the machine."""
    local_time = event.ended_at.astimezone(zone).replace(tzinfo=None)
    return tuple(
        cell(text)
        for text in (
            local_time.isoformat(" ", "milliseconds")[YEAR_CHARS:],
            event.event_type.removeprefix("gateway."),
            event.status,
            event.server,
            event.subject,
            format_ms(event.duration_ms),
            event.trace_id[:SHORT_ID_CHARS],
            event.message,
        )
    )


def trace_term(id: str) -> FilterTerm:
    """The filter for a trace, by its id in any notation or by the first digits."""
    normalised = normalise_trace_id(id) or id.strip().lower().replace("-", "")
    return FilterTerm(key="trace", values=(Text(normalised),))


def full_trace_id(index: Index, prefix: str) -> str:
    """The trace id with these first digits.

    Raises:
        CommandFailed: several trace ids begin with them.
    """
    if normalise_trace_id(prefix) is not None:
        return prefix
    lines = index.query(Filter(terms=(trace_term(prefix),)), QUERY_EVENTS_MAX)
    ids = {event.trace_id for line in lines if (event := decode_event(line)) is not None}
    if len(ids) > 1:
        raise CommandFailed(f"several traces begin with {prefix}: {', '.join(sorted(ids))}")
    return ids.pop() if ids else prefix


def _first_value(metadata: dict[str, Any], keys: tuple[str, ...]) -> str:
    return next((str(metadata[key]) for key in keys if metadata.get(key)), "")

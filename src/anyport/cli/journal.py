"""The journal, read by people: its index opened, an event decoded, an event as a line.

No gateway is started for this. Old events and those of other writers are shown as far as they
are understood.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Final

import msgspec

from anyport.cli.ending import CommandFailed
from anyport.cli.render import cell, milliseconds
from anyport.record.counting import NAMED_BY_METHOD
from anyport.record.filter_tree import Filter, Term, Text
from anyport.record.index import QUERY_EVENTS_MAX, Index, IndexBusy, IndexLost
from anyport.record.trace import normalise_trace_id

TITLES: Final = ("TIME", "TYPE", "STATUS", "SERVER", "SUBJECT", "TOOK", "TRACE", "MESSAGE")
WHOLE: Final = ("TIME", "STATUS", "TOOK", "TRACE")

SHORT_ID_CHARS: Final = 8
"""Of a trace id: enough to tell it from its neighbours, and `anyport trace` takes it."""

YEAR_CHARS: Final = len("2026-")
"""Left out: lines are narrow, and people ask about yesterday."""

GIVEN_UP: Final = (
    "only the newest part of the journal was searched for this text; narrow it with since: and"
    " until:, or with other terms"
)

_SUBJECTS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(NAMED_BY_METHOD, ("method",)),
    "gateway.session_started": ("client",),
    "gateway.session_resumed": ("client",),
    "gateway.hook_failed": ("hook",),
    "gateway.hook_dropped": ("hook",),
}
_SUBJECT: Final = ("tool", "prompt", "uri")
_MESSAGES: Final = ("line", "reason", "version")


class Event(msgspec.Struct, frozen=True):
    """An event, as far as people are shown it."""

    timestamp: datetime
    trace_id: str
    status: str
    event_type: str
    metadata: dict[str, Any] = {}
    duration_ms: float | None = None
    error_code: int | str | None = None
    error_message: str | None = None

    @property
    def moment(self) -> datetime:
        """When; other writers may leave the zone out and mean UTC."""
        return self.timestamp if self.timestamp.tzinfo else self.timestamp.replace(tzinfo=UTC)

    @property
    def began(self) -> datetime:
        """When what it tells of began; a duration that nobody can have is left out."""
        try:
            return self.moment - timedelta(milliseconds=max(self.duration_ms or 0.0, 0.0))
        except OverflowError:
            return self.moment

    @property
    def server(self) -> str:
        return str(self.metadata.get("server") or "")

    @property
    def subject(self) -> str:
        """What it is about: a tool, a prompt, a resource, a method, a hook or a client."""
        return _first(self.metadata, _SUBJECTS.get(self.event_type, _SUBJECT))

    @property
    def message(self) -> str:
        if self.error_message is None:
            return _first(self.metadata, _MESSAGES)
        code = "" if self.error_code is None else f" (error {self.error_code})"
        return f"{self.error_message}{code}"


def require_journal(state_dir: Path) -> None:
    """See that something was recorded.

    Raises:
        CommandFailed: nothing was.
    """
    if not (state_dir / "events").is_dir():
        raise CommandFailed(f"nothing has been recorded yet in {state_dir}")


@contextmanager
def open_index(state_dir: Path) -> Iterator[Index]:
    """The index of the journal below a state directory, up to date.

    Raises:
        CommandFailed: there is no journal, or another process keeps the index to itself.
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
        raise CommandFailed("another process is busy with the journal's index; try again") from None
    except IndexLost as error:
        raise CommandFailed(str(error)) from None
    finally:
        index.close()


def decode(line: bytes) -> Event | None:
    """The event in a line of the journal; None for a line that is none."""
    try:
        return msgspec.json.decode(line, type=Event)
    except (ValueError, RecursionError):
        return None


def cells(event: Event, zone: tzinfo | None = None) -> tuple[str, ...]:
    """An event as a row of a table. Times are those of the zone, else the machine's."""
    moment = event.moment.astimezone(zone).replace(tzinfo=None)
    return tuple(
        cell(text)
        for text in (
            moment.isoformat(" ", "milliseconds")[YEAR_CHARS:],
            event.event_type.removeprefix("gateway."),
            event.status,
            event.server,
            event.subject,
            milliseconds(event.duration_ms),
            event.trace_id[:SHORT_ID_CHARS],
            event.message,
        )
    )


def term_of_trace(given: str) -> Term:
    """What belongs to a trace, however its id is spelt; its first digits will do."""
    spelt = normalise_trace_id(given) or given.strip().lower().replace("-", "")
    return Term(key="trace", values=(Text(spelt),))


def whole_trace_id(index: Index, given: str) -> str:
    """The trace id that begins like this, as tables show it.

    Raises:
        CommandFailed: several begin like this.
    """
    if normalise_trace_id(given) is not None:
        return given
    lines = index.query(Filter(terms=(term_of_trace(given),)), QUERY_EVENTS_MAX)
    found = {event.trace_id for line in lines if (event := decode(line)) is not None}
    if len(found) > 1:
        raise CommandFailed(f"several traces begin with {given}: {', '.join(sorted(found))}")
    return found.pop() if found else given


def _first(metadata: dict[str, Any], keys: tuple[str, ...]) -> str:
    return next((str(metadata[key]) for key in keys if metadata.get(key)), "")

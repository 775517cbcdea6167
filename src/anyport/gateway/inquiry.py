"""What somebody asks of the journal, from raw arguments to a filter, a limit and a place.

Imported with the first question: a gateway that is never asked need not know how to read one.
"""

import base64
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Self, TypeAlias, TypeVar, get_args

import msgspec

from anyport.gateway.desk import BadQuery
from anyport.gateway.tools import EVENTS_LIMIT_DEFAULT, EVENTS_LIMIT_MAX
from anyport.record.event import EventType, Status
from anyport.record.filter import BadFilter, parse_filter
from anyport.record.filter_tree import Filter, Moment, Term, Text
from anyport.record.selecting import happenings
from anyport.record.since import parse_since
from anyport.record.trace import normalise_trace_id
from anyport.record.traffic import rows_of

CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "event_type": get_args(EventType),
    "status": get_args(Status),
}
SHOWN_CHARS_MAX: Final = 64
"""Of a name that somebody made up."""

_T = TypeVar("_T")
_Place: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""What the index can compare with."""


class Query(msgspec.Struct, forbid_unknown_fields=True):
    """The arguments of `get_events`."""

    trace_id: str | None = None
    event_type: EventType | None = None
    status: Status | None = None
    since: str | None = None
    limit: int = EVENTS_LIMIT_DEFAULT
    filter: str = ""


class PageQuery(Query, forbid_unknown_fields=True):
    """The same, and where to go on."""

    cursor: str | None = None


class TrafficQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The same of exchanges and frames."""

    filter: str = ""
    limit: int = EVENTS_LIMIT_DEFAULT
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """A question that makes sense."""

    filter: Filter
    limit: int
    before: tuple[float, int] | None = None
    """A position in the index."""

    @classmethod
    def of_tool(cls, arguments: bytes) -> Self:
        """What the arguments of `get_events` ask for.

        Raises:
            BadQuery: one cannot be used.
        """
        given: dict[str, object] = {}
        try:
            given = msgspec.json.decode(arguments, type=dict[str, object])
            asked = msgspec.convert(given, Query)
        except msgspec.DecodeError as error:
            raise BadQuery(_complaint(given, Query) or str(error)) from None
        return cls(filter=_events_of(asked), limit=_limit(asked.limit))

    @classmethod
    def of_events(cls, parameters: Mapping[str, str]) -> Self:
        """What the parameters of a request for events ask for.

        Raises:
            BadQuery: one cannot be used.
        """
        asked = _converted(parameters, PageQuery)
        return cls(
            filter=_events_of(asked), limit=_limit(asked.limit), before=_position(asked.cursor)
        )

    @classmethod
    def of_traffic(cls, parameters: Mapping[str, str]) -> Self:
        """What the parameters of a request for exchanges and frames ask for.

        Raises:
            BadQuery: one cannot be used.
        """
        asked = _converted(parameters, TrafficQuery)
        filter = rows_of(_parsed(asked.filter))
        return cls(filter=filter, limit=_limit(asked.limit), before=_position(asked.cursor))


def cursor(position: tuple[float, int] | None) -> str | None:
    """A position, as those who ask carry it."""
    if position is None:
        return None
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


def _position(cursor: str | None) -> tuple[float, int] | None:
    """A cursor names a place and grants nothing: whoever makes one up only reads from there."""
    if cursor is None:
        return None
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(raw, type=tuple[float, _Place])
    except ValueError:
        raise BadQuery("The cursor is not one that was given here") from None


def _limit(asked: int) -> int:
    return max(1, min(asked, EVENTS_LIMIT_MAX))


def _converted(parameters: Mapping[str, str], query: type[_T]) -> _T:
    try:
        return msgspec.convert(parameters, query, strict=False)
    except msgspec.ValidationError as error:
        raise BadQuery(_complaint(parameters, query) or str(error)) from None


def _complaint(given: Mapping[str, object], query: type) -> str | None:
    """What is wrong with a question, for people; None if that is something else."""
    names = [field.name for field in msgspec.structs.fields(query)]
    for name, value in given.items():
        if name not in names:
            return f"There is no {name[:SHOWN_CHARS_MAX]!r} to ask by; there are {', '.join(names)}"
        choices = CHOICES.get(name)
        if choices is not None and value not in choices:
            return f"{name} must be one of {', '.join(choices)}"
    if "limit" in given and not _is_whole(given["limit"]):
        return f"limit must be a whole number, 1 to {EVENTS_LIMIT_MAX}"
    return None


def _is_whole(value: object) -> bool:
    try:
        msgspec.convert(value, int, strict=not isinstance(value, str))
    except msgspec.ValidationError:
        return False
    return True


def _events_of(asked: Query) -> Filter:
    """What a question means, as one filter."""
    return happenings(Filter(terms=(*_terms(asked), *_parsed(asked.filter).terms)))


def _terms(asked: Query) -> Iterator[Term]:
    if asked.trace_id:
        spelt = normalise_trace_id(asked.trace_id) or asked.trace_id.strip()
        yield Term(key="trace", values=(Text(spelt),))
    if asked.event_type is not None:
        yield Term(key="type", values=(Text(asked.event_type),))
    if asked.status is not None:
        yield Term(key="status", values=(Text(asked.status),))
    if asked.since is not None:
        try:
            yield Term(key="since", values=(Moment(parse_since(asked.since, time.time())),))
        except ValueError as error:
            raise BadQuery(str(error)) from None


def _parsed(filter: str) -> Filter:
    try:
        return parse_filter(filter, time.time())
    except BadFilter as error:
        raise BadQuery(f"filter: {error}") from None

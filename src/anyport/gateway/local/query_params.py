"""Arguments of journal queries: parsed into a filter, a limit and a position.

Imported by the first query.
"""

import base64
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Self, TypeAlias, TypeVar, get_args

import msgspec

from anyport.gateway.local.event_queries import BadQuery
from anyport.gateway.local.gateway_tools import EVENTS_LIMIT_DEFAULT, EVENTS_LIMIT_MAX
from anyport.record.event import EventType, Status
from anyport.record.filter.ast import Filter, FilterTerm, Moment, Text
from anyport.record.filter.parser import BadFilter, parse_filter
from anyport.record.filter.since import parse_since
from anyport.record.index.query import without_traffic
from anyport.record.index.traffic import limit_to_traffic
from anyport.record.trace_ids import normalise_trace_id

CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "event_type": get_args(EventType),
    "status": get_args(Status),
}
SHOWN_CHARS_MAX: Final = 64
"""Length of an unknown name in an error."""

_T = TypeVar("_T")
_StoredPlace: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""Range of positions in the index."""


class Query(msgspec.Struct, forbid_unknown_fields=True):
    """The arguments of `get_events`."""

    trace_id: str | None = None
    event_type: EventType | None = None
    status: Status | None = None
    since: str | None = None
    limit: int = EVENTS_LIMIT_DEFAULT
    filter: str = ""


class PageQuery(Query, forbid_unknown_fields=True):
    """The parameters of a request for events."""

    cursor: str | None = None


class TrafficQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The parameters of a request for exchanges and frames."""

    filter: str = ""
    limit: int = EVENTS_LIMIT_DEFAULT
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexQuery:
    """A valid query of the index."""

    filter: Filter
    limit: int
    before: tuple[float, int] | None = None
    """A position in the index."""

    @classmethod
    def from_tool_arguments(cls, arguments: bytes) -> Self:
        """Parse the arguments of `get_events`.

        Raises:
            BadQuery: an argument cannot be used.
        """
        decoded: dict[str, object] = {}
        try:
            decoded = msgspec.json.decode(arguments, type=dict[str, object])
            query = msgspec.convert(decoded, Query)
        except msgspec.DecodeError as error:
            raise BadQuery(_explain_error(decoded, Query) or str(error)) from None
        return cls(filter=_events_filter(query), limit=_clamp_limit(query.limit))

    @classmethod
    def from_event_parameters(cls, parameters: Mapping[str, str]) -> Self:
        """Parse the parameters of a request for events.

        Raises:
            BadQuery: a parameter cannot be used.
        """
        query = _convert_parameters(parameters, PageQuery)
        return cls(
            filter=_events_filter(query),
            limit=_clamp_limit(query.limit),
            before=_decode_cursor(query.cursor),
        )

    @classmethod
    def from_traffic_parameters(cls, parameters: Mapping[str, str]) -> Self:
        """Parse the parameters of a request for exchanges and frames.

        Raises:
            BadQuery: a parameter cannot be used.
        """
        query = _convert_parameters(parameters, TrafficQuery)
        filter = limit_to_traffic(_parse_filter_text(query.filter))
        return cls(
            filter=filter, limit=_clamp_limit(query.limit), before=_decode_cursor(query.cursor)
        )


def encode_cursor(position: tuple[float, int] | None) -> str | None:
    """A position in the index, as an opaque cursor."""
    if position is None:
        return None
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


def _decode_cursor(cursor: str | None) -> tuple[float, int] | None:
    """The position of a cursor; a forged one only changes where reading starts."""
    if cursor is None:
        return None
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(raw, type=tuple[float, _StoredPlace])
    except ValueError:
        raise BadQuery("The cursor is not one of this gateway") from None


def _clamp_limit(requested: int) -> int:
    return max(1, min(requested, EVENTS_LIMIT_MAX))


def _convert_parameters(parameters: Mapping[str, str], query: type[_T]) -> _T:
    try:
        return msgspec.convert(parameters, query, strict=False)
    except msgspec.ValidationError as error:
        raise BadQuery(_explain_error(parameters, query) or str(error)) from None


def _explain_error(arguments: Mapping[str, object], query: type) -> str | None:
    """What is wrong with the arguments, in words for people; None for msgspec's own message."""
    names = [field.name for field in msgspec.structs.fields(query)]
    for name, value in arguments.items():
        if name not in names:
            return f"There is no {name[:SHOWN_CHARS_MAX]!r} to ask by; there are {', '.join(names)}"
        choices = CHOICES.get(name)
        if choices is not None and value not in choices:
            return f"{name} must be one of {', '.join(choices)}"
    if "limit" in arguments and not _is_integer(arguments["limit"]):
        return f"limit must be a whole number, 1 to {EVENTS_LIMIT_MAX}"
    return None


def _is_integer(value: object) -> bool:
    try:
        msgspec.convert(value, int, strict=not isinstance(value, str))
    except msgspec.ValidationError:
        return False
    return True


def _events_filter(query: Query) -> Filter:
    """All arguments of a query as one filter."""
    return without_traffic(
        Filter(terms=(*_query_terms(query), *_parse_filter_text(query.filter).terms))
    )


def _query_terms(query: Query) -> Iterator[FilterTerm]:
    if query.trace_id:
        normalised = normalise_trace_id(query.trace_id) or query.trace_id.strip()
        yield FilterTerm(key="trace", values=(Text(normalised),))
    if query.event_type is not None:
        yield FilterTerm(key="type", values=(Text(query.event_type),))
    if query.status is not None:
        yield FilterTerm(key="status", values=(Text(query.status),))
    if query.since is not None:
        try:
            yield FilterTerm(key="since", values=(Moment(parse_since(query.since, time.time())),))
        except ValueError as error:
            raise BadQuery(str(error)) from None


def _parse_filter_text(filter: str) -> Filter:
    try:
        return parse_filter(filter, time.time())
    except BadFilter as error:
        raise BadQuery(f"filter: {error}") from None

"""What a filter means, said as plainly as possible: slow, and with nothing prepared."""

from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

from anyport.protocol.revisions import find_revision
from anyport.record.filter.keys import IMPLIED_VALUES
from anyport.record.filter.match import event_outcome
from anyport.record.filter.parser import (
    KEYS,
    Filter,
    FilterTerm,
    Glob,
    Moment,
    NumberComparison,
    Range,
    Text,
    Value,
)
from anyport.record.trace_ids import normalise_trace_id


def matches_plainly(filter: Filter, event: dict[str, Any]) -> bool:
    return all(_holds(term, event) for term in filter.terms)


def fits_plainly(pattern: str, text: str) -> bool:
    return fnmatchcase(text, pattern.replace("[", "[[]"))  # Our globs have no brackets.


def _told(event: dict[str, Any], where: str) -> Any:
    inside = event.get("metadata")
    if where.startswith("metadata."):
        return inside.get(where[9:]) if isinstance(inside, dict) else None
    return event.get(where)


def _asked_for(event: dict[str, Any], key: str) -> list[Any]:
    """Everything in the event that a key may find, in the form in which it is compared."""
    found = [_told(event, where) for where in KEYS[key].where]
    if key in ("tool", "prompt", "uri") and not isinstance(found[0], str):
        return []
    if key in IMPLIED_VALUES and not isinstance(found[0], str):
        kind = _told(event, "event_type")
        return [IMPLIED_VALUES[key].get(kind)] if isinstance(kind, str) else []
    if key == "outcome":
        return [event_outcome(event)]
    if key == "era":
        *revisions, era = found
        rows = [find_revision(name) for name in revisions if isinstance(name, str)]
        return [era, *(row.era.value for row in rows if row)]
    if key == "trace":
        return [normalise_trace_id(name) or name for name in found if isinstance(name, str)]
    if key == "size":
        sizes = [size for size in found if type(size) in (int, float)]
        return [max(sizes)] if sizes else []
    if key == "text":
        message, members = event.get("error_message"), event.get("metadata")
        texts = list(members.values()) if isinstance(members, dict) else []
        lists = [item for value in texts if isinstance(value, list) for item in value]
        return [text for text in (message, *texts, *lists) if isinstance(text, str)]
    return found


def _equals(key: str, value: Value, member: Any) -> bool:
    match value:
        case Text(text) if key == "text":
            return text.casefold() in member.casefold()
        case Text(text) if KEYS[key].kind == "start":
            return isinstance(member, str) and member.startswith(text)
        case Text(text):
            return bool(member == text)
        case Glob(pattern):
            return isinstance(member, str) and fits_plainly(pattern, member)
        case NumberComparison(op, number):
            signs = {">": (1,), ">=": (1, 0), "<": (-1,), "<=": (-1, 0), "=": (0,)}
            if type(member) not in (int, float):
                return False
            return (member > number) - (member < number) in signs[op]
        case Range(low, high):
            return type(member) in (int, float) and member >= low and member <= high
        case Moment(at):
            try:
                moment = datetime.fromisoformat(member)
            except (TypeError, ValueError):
                return False
            seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
            return seconds >= at if key == "since" else seconds < at


def _holds(term: FilterTerm, event: dict[str, Any]) -> bool:
    found = _asked_for(event, term.key)
    return term.negated != any(
        _equals(term.key, value, member) for value in term.values for member in found
    )

"""Compiles filters into functions that match decoded events.

Each term becomes one small function, because a filter is applied to many events. Other programs may
write events: a member of the wrong type counts as absent. Whatever the filter, matching takes time
in proportion to the event.
"""

import operator
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeGuard, assert_never

from anyport.protocol.revisions import ALIASES, REVISIONS
from anyport.record.event import format_timestamp, parse_timestamp
from anyport.record.filter.ast import (
    Filter,
    FilterTerm,
    Glob,
    Moment,
    NumberComparison,
    Range,
    Text,
    Value,
)
from anyport.record.filter.keys import EXCHANGE_TYPES, IMPLIED_VALUES, KEYS, OUTCOME_BY_STATUS
from anyport.record.trace_ids import normalise_trace_id

EventMembers: TypeAlias = Mapping[str, Any]
Matcher: TypeAlias = Callable[[EventMembers], bool]
"""Whether a decoded event matches. Never raises."""

_TermTest: TypeAlias = Callable[[EventMembers, EventMembers], bool]
"""The same for one term, given an event and its metadata."""

_ValueTest: TypeAlias = Callable[[Any], bool]
"""Whether a member of an event, of any type, matches a value."""

_NO_METADATA: Final[EventMembers] = MappingProxyType({})


def compile_filter(filter: Filter) -> Matcher:
    # Texts last: they take as long as all others together.
    terms = sorted(filter.terms, key=lambda term: KEYS[term.key].kind == "text")
    tests = tuple(_compile_term(term) for term in terms)
    if not tests:
        return lambda event: True

    def matches(event: EventMembers) -> bool:
        metadata = event.get("metadata")
        if not isinstance(metadata, dict):
            metadata = _NO_METADATA
        for test in tests:  # noqa: SIM110  # `all` of a generator takes three times as long.
            if not test(event, metadata):
                return False
        return True

    return matches


def event_outcome(event: EventMembers) -> str | None:
    """How an exchange ended; None for other events, and where it is not known."""
    metadata = event.get("metadata")
    return _find_outcome(event, metadata if isinstance(metadata, dict) else _NO_METADATA)


def compile_glob(pattern: str) -> Callable[[str], bool]:
    """Compile a glob of `*` (any characters) and `?` (any one) that matches whole texts."""
    if "?" in pattern:
        return partial(_match_bitmasks, *_glob_bitmasks(pattern))
    first, *pieces = pattern.split("*")
    if not pieces:
        return lambda text: text == first
    *inner, last = pieces
    return partial(_match_pieces, first, tuple(filter(None, inner)), last)


def _match_pieces(first: str, inner: tuple[str, ...], last: str, text: str) -> bool:
    """Match each piece at its first place after the one before. If any place works, the first one
    does."""
    end = len(text) - len(last)
    if not text.startswith(first) or not text.endswith(last):
        return False
    at = len(first)
    for piece in inner:
        at = text.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return at <= end


def _glob_bitmasks(pattern: str) -> tuple[dict[str, int], int, int, int]:
    """Compile a glob to bit masks: a bit for each position in it, the lowest for its beginning.

    Returns the positions that each letter leads to, those for any other letter, those where letters
    may repeat (`*`), and the last position.
    """
    letters: dict[str, int] = {}
    any_letter = repeatable = 0
    place = 1
    for letter in pattern:
        if letter == "*":
            repeatable |= place
            continue
        place <<= 1
        if letter == "?":
            any_letter |= place
        else:
            letters[letter] = letters.get(letter, 0) | place
    return (
        {letter: at | any_letter for letter, at in letters.items()},
        any_letter,
        repeatable,
        place,
    )


def _match_bitmasks(
    letters: dict[str, int], any_letter: int, repeatable: int, last: int, text: str
) -> bool:
    """Simulate the glob as a nondeterministic automaton, all positions at once: no backtracking."""
    places = 1
    for letter in text:
        places = (places << 1) & letters.get(letter, any_letter) | places & repeatable
    return places & last != 0


def _compile_term(term: FilterTerm) -> _TermTest:
    test = _KEY_COMPILERS.get(term.key, _compile_members)(term)
    if not term.negated:
        return test
    return lambda event, metadata: not test(event, metadata)


def _compile_members(term: FilterTerm) -> _TermTest:
    """Any of the key's members matches."""
    value_test = _compile_values(term)
    implied = IMPLIED_VALUES.get(term.key)
    metadata_paths = tuple(path for path in KEYS[term.key].where if path.startswith(_METADATA))
    names = tuple(path.removeprefix(_METADATA) for path in metadata_paths)
    if not names:
        (name,) = KEYS[term.key].where
        return lambda event, metadata: value_test(event.get(name))
    if implied is not None:
        (name,) = names
        return partial(_test_implied, value_test, name, implied)
    if len(names) == 1:
        (name,) = names
        return lambda event, metadata: value_test(metadata.get(name))
    return lambda event, metadata: any(value_test(metadata.get(name)) for name in names)


_METADATA: Final = "metadata."


def _test_implied(
    fits: _ValueTest,
    name: str,
    implied: Mapping[str, str],
    event: EventMembers,
    metadata: EventMembers,
) -> bool:
    value = metadata.get(name)
    return fits(value if isinstance(value, str) else implied.get(str(event.get("event_type"))))


def _compile_name(term: FilterTerm) -> _TermTest:
    """A tool, prompt or resource, whichever the event is about, by its native or its public
    name."""
    fits, name = _compile_values(term), term.key

    def test(event: EventMembers, metadata: EventMembers) -> bool:
        native = metadata.get(name)
        named = isinstance(native, str)
        return named and (fits(native) or fits(metadata.get("public_name")))

    return test


def _compile_outcome(term: FilterTerm) -> _TermTest:
    fits = _compile_values(term)
    return lambda event, metadata: fits(_find_outcome(event, metadata))


def _find_outcome(event: EventMembers, metadata: EventMembers) -> str | None:
    outcome = metadata.get("outcome")
    if isinstance(outcome, str):
        return outcome
    if event.get("event_type") not in _EXCHANGES:
        return None
    status = event.get("status")
    if status == "failure" and event.get("error_code") is None:
        return "tool_error"
    return OUTCOME_BY_STATUS.get(status) if isinstance(status, str) else None


_EXCHANGES: Final = tuple(EXCHANGE_TYPES)


def _compile_era(term: FilterTerm) -> _TermTest:
    """Either side speaks a revision of the era, or the event names the era itself."""
    fits = _compile_values(term)
    names = [name for name, revision in REVISIONS.items() if fits(revision.era.value)]
    names += [alias for alias, name in ALIASES.items() if name in names]
    *sides, era = (path.removeprefix(_METADATA) for path in KEYS["era"].where)

    def test(event: EventMembers, metadata: EventMembers) -> bool:
        return fits(metadata.get(era)) or any(metadata.get(side) in names for side in sides)

    return test


_TRACE_ID: Final = "0" * 32
"""The form that the gateway writes. Other programs may write UUIDs."""


def _compile_trace(term: FilterTerm) -> _TermTest:
    fits = _compile_values(term)

    def test(event: EventMembers, metadata: EventMembers) -> bool:
        trace_id = event.get("trace_id")
        if not isinstance(trace_id, str):
            return False
        if len(trace_id) != len(_TRACE_ID) or trace_id != trace_id.lower():
            trace_id = normalise_trace_id(trace_id) or trace_id
        return fits(trace_id)

    return test


def _compile_size(term: FilterTerm) -> _TermTest:
    fits = _compile_values(term)
    names = tuple(path.removeprefix(_METADATA) for path in KEYS["size"].where)

    def test(event: EventMembers, metadata: EventMembers) -> bool:
        sizes = [size for name in names if _is_number(size := metadata.get(name))]
        return bool(sizes) and fits(max(sizes))

    return test


def _compile_text(term: FilterTerm) -> _TermTest:
    parts = tuple(value.text.casefold() for value in term.values if isinstance(value, Text))

    def test(event: EventMembers, metadata: EventMembers) -> bool:
        # A filter cannot contain the separator, so no match spans two texts.
        text = "\0".join(_texts(event, metadata)).casefold()
        return any(part in text for part in parts)

    return test


def _texts(event: EventMembers, metadata: EventMembers) -> Iterator[str]:
    message = event.get("error_message")
    if isinstance(message, str):
        yield message
    for value in metadata.values():
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield from (item for item in value if isinstance(item, str))


def _compile_time(term: FilterTerm) -> _TermTest:
    (moment,) = term.values
    assert isinstance(moment, Moment)
    at, text, since = moment.at, format_timestamp(moment.at), term.key == "since"

    def test(event: EventMembers, metadata: EventMembers) -> bool:
        recorded = event.get("timestamp")
        if not isinstance(recorded, str):
            return False
        # In the journal's own form, the order of texts is the order of time.
        if len(recorded) == len(text) and recorded[10] == "T" and recorded.endswith("+00:00"):
            return (recorded >= text) is since
        seconds = parse_timestamp(recorded)
        return seconds is not None and (seconds >= at) is since

    return test


_KEY_COMPILERS: Final[Mapping[str, Callable[[FilterTerm], _TermTest]]] = MappingProxyType(
    {
        **dict.fromkeys(("tool", "prompt", "uri"), _compile_name),
        **dict.fromkeys(("since", "until"), _compile_time),
        "outcome": _compile_outcome,
        "era": _compile_era,
        "trace": _compile_trace,
        "size": _compile_size,
        "text": _compile_text,
    }
)
"""Keys that need more than a look at their members."""


def _compile_values(term: FilterTerm) -> _ValueTest:
    values = term.values
    is_prefix = KEYS[term.key].kind == "start"
    if not is_prefix and all(isinstance(value, Text) for value in values):
        # Compared one by one: a member may be a list, which is not hashable.
        return tuple(value.text for value in values if isinstance(value, Text)).__contains__
    tests = tuple(_compile_value(value, is_prefix) for value in values)
    return tests[0] if len(tests) == 1 else lambda member: any(test(member) for test in tests)


def _compile_value(value: Value, is_prefix: bool) -> _ValueTest:
    match value:
        case Text(text):
            if is_prefix:
                return lambda member: isinstance(member, str) and member.startswith(text)
            return lambda member: bool(member == text)
        case Glob(pattern):
            fits = compile_glob(pattern)
            return lambda member: isinstance(member, str) and fits(member)
        case NumberComparison(op, number):
            compare = _COMPARE[op]
            return lambda member: _is_number(member) and compare(member, number)
        case Range(low, high):
            return lambda member: _is_number(member) and low <= member <= high
        case Moment():
            raise ValueError("A moment is compared with a timestamp")
    assert_never(value)


_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = MappingProxyType(
    {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq}
)


def _is_number(member: object) -> TypeGuard[float]:
    return isinstance(member, int | float) and not isinstance(member, bool)

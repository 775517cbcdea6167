"""Whether an event is one that a filter asks for.

A filter is prepared once and then asked of every event, so the work is done beforehand: each term
becomes one small function. Events may be of any writer: what has the wrong type counts as absent.
Every answer takes time in proportion to the event, whatever the filter.
"""

import operator
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeGuard, assert_never

from anyport.protocol.revision import ALIASES, REVISIONS
from anyport.record.event import timestamp
from anyport.record.filter_keys import ENDED, EXCHANGE_TYPES, IMPLIED, KEYS
from anyport.record.filter_tree import Comparison, Filter, Glob, Moment, Range, Term, Text, Value
from anyport.record.trace import normalise_trace_id

Members: TypeAlias = Mapping[str, Any]
Matcher: TypeAlias = Callable[[Members], bool]
"""Says whether a decoded event matches. Never raises."""

_Test: TypeAlias = Callable[[Members, Members], bool]
"""The same for one term, of an event and its metadata."""

_Fits: TypeAlias = Callable[[Any], bool]
"""Whether one member of an event, of any type, fits one of a term's values."""

_NOTHING: Final[Members] = MappingProxyType({})


def matcher(filter: Filter) -> Matcher:
    """A function that knows the filter's events."""
    # Texts last: they take as long as all the others together.
    terms = sorted(filter.terms, key=lambda term: KEYS[term.key].kind == "text")
    tests = tuple(_test(term) for term in terms)
    if not tests:
        return lambda event: True

    def matches(event: Members) -> bool:
        metadata = event.get("metadata")
        if not isinstance(metadata, dict):
            metadata = _NOTHING
        for test in tests:  # noqa: SIM110  # `all` of a generator takes three times as long.
            if not test(event, metadata):
                return False
        return True

    return matches


def outcome_of(event: Members) -> str | None:
    """How an exchange ended; None for what is no exchange, and where nobody knows."""
    metadata = event.get("metadata")
    return _outcome(event, metadata if isinstance(metadata, dict) else _NOTHING)


def glob_matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a whole text fits a pattern of `*` (any characters) and `?` (any one of them)."""
    if "?" in pattern:
        return partial(_fits_letters, *_steps(pattern))
    first, *pieces = pattern.split("*")
    if not pieces:
        return lambda text: text == first
    *inner, last = pieces
    return partial(_fits_pieces, first, tuple(filter(None, inner)), last)


def _fits_pieces(first: str, inner: tuple[str, ...], last: str, text: str) -> bool:
    """Each piece where it first occurs after the one before: if any place will do, that will."""
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


def _steps(pattern: str) -> tuple[dict[str, int], int, int, int]:
    """The pattern as bits: one for each place in it, the lowest for its beginning.

    For each letter the places that it leads to; the same for letters not in the pattern; the
    places at which any letter may be passed over; and the last place.
    """
    letters: dict[str, int] = {}
    anything = staying = 0
    place = 1
    for letter in pattern:
        if letter == "*":
            staying |= place
            continue
        place <<= 1
        if letter == "?":
            anything |= place
        else:
            letters[letter] = letters.get(letter, 0) | place
    return {letter: at | anything for letter, at in letters.items()}, anything, staying, place


def _fits_letters(
    letters: dict[str, int], anything: int, staying: int, last: int, text: str
) -> bool:
    """All places in the pattern that the text so far may have led to, at once: no way back."""
    places = 1
    for letter in text:
        places = (places << 1) & letters.get(letter, anything) | places & staying
    return places & last != 0


def _test(term: Term) -> _Test:
    test = _PREPARED.get(term.key, _members)(term)
    if not term.negated:
        return test
    return lambda event, metadata: not test(event, metadata)


def _members(term: Term) -> _Test:
    """Any of the members that the key names fits."""
    fits = _fits(term)
    implied = IMPLIED.get(term.key)
    inside = tuple(path for path in KEYS[term.key].where if path.startswith(_METADATA))
    names = tuple(path.removeprefix(_METADATA) for path in inside)
    if not names:
        (name,) = KEYS[term.key].where
        return lambda event, metadata: fits(event.get(name))
    if implied is not None:
        (name,) = names
        return partial(_implied, fits, name, implied)
    if len(names) == 1:
        (name,) = names
        return lambda event, metadata: fits(metadata.get(name))
    return lambda event, metadata: any(fits(metadata.get(name)) for name in names)


_METADATA: Final = "metadata."


def _implied(
    fits: _Fits, name: str, implied: Mapping[str, str], event: Members, metadata: Members
) -> bool:
    value = metadata.get(name)
    return fits(value if isinstance(value, str) else implied.get(str(event.get("event_type"))))


def _named(term: Term) -> _Test:
    """A tool, a prompt or a resource; a public name is that of whichever the event is about."""
    fits, name = _fits(term), term.key

    def test(event: Members, metadata: Members) -> bool:
        native = metadata.get(name)
        named = isinstance(native, str)
        return named and (fits(native) or fits(metadata.get("public_name")))

    return test


def _ended(term: Term) -> _Test:
    fits = _fits(term)
    return lambda event, metadata: fits(_outcome(event, metadata))


def _outcome(event: Members, metadata: Members) -> str | None:
    told = metadata.get("outcome")
    if isinstance(told, str):
        return told
    if event.get("event_type") not in _EXCHANGES:
        return None
    status = event.get("status")
    if status == "failure" and event.get("error_code") is None:
        return "tool_error"
    return ENDED.get(status) if isinstance(status, str) else None


_EXCHANGES: Final = tuple(EXCHANGE_TYPES)


def _of_era(term: Term) -> _Test:
    """Either side speaks a revision of the era, or the event says the era itself."""
    fits = _fits(term)
    names = [name for name, revision in REVISIONS.items() if fits(revision.era.value)]
    names += [alias for alias, name in ALIASES.items() if name in names]
    *sides, era = (path.removeprefix(_METADATA) for path in KEYS["era"].where)

    def test(event: Members, metadata: Members) -> bool:
        return fits(metadata.get(era)) or any(metadata.get(side) in names for side in sides)

    return test


_TRACE_ID: Final = "0" * 32
"""As the gateway writes them. Other writers may have UUIDs."""


def _traced(term: Term) -> _Test:
    fits = _fits(term)

    def test(event: Members, metadata: Members) -> bool:
        trace_id = event.get("trace_id")
        if not isinstance(trace_id, str):
            return False
        if len(trace_id) != len(_TRACE_ID) or trace_id != trace_id.lower():
            trace_id = normalise_trace_id(trace_id) or trace_id
        return fits(trace_id)

    return test


def _sized(term: Term) -> _Test:
    fits = _fits(term)
    names = tuple(path.removeprefix(_METADATA) for path in KEYS["size"].where)

    def test(event: Members, metadata: Members) -> bool:
        sizes = [size for name in names if _is_number(size := metadata.get(name))]
        return bool(sizes) and fits(max(sizes))

    return test


def _worded(term: Term) -> _Test:
    parts = tuple(value.text.casefold() for value in term.values if isinstance(value, Text))

    def test(event: Members, metadata: Members) -> bool:
        # No filter has the character between the texts, so that none is found across two.
        text = "\0".join(_texts(event, metadata)).casefold()
        return any(part in text for part in parts)

    return test


def _texts(event: Members, metadata: Members) -> Iterator[str]:
    message = event.get("error_message")
    if isinstance(message, str):
        yield message
    for value in metadata.values():
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield from (item for item in value if isinstance(item, str))


def _timed(term: Term) -> _Test:
    (moment,) = term.values
    assert isinstance(moment, Moment)
    at, text, since = moment.at, timestamp(moment.at), term.key == "since"

    def test(event: Members, metadata: Members) -> bool:
        told = event.get("timestamp")
        if not isinstance(told, str):
            return False
        # As the journal writes it, so that texts are in the order of time.
        if len(told) == len(text) and told[10] == "T" and told.endswith("+00:00"):
            return (told >= text) is since
        seconds = _seconds(told)
        return seconds is not None and (seconds >= at) is since

    return test


def _seconds(told: str) -> float | None:
    try:
        moment = datetime.fromisoformat(told)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


_PREPARED: Final[Mapping[str, Callable[[Term], _Test]]] = MappingProxyType(
    {
        **dict.fromkeys(("tool", "prompt", "uri"), _named),
        **dict.fromkeys(("since", "until"), _timed),
        "outcome": _ended,
        "era": _of_era,
        "trace": _traced,
        "size": _sized,
        "text": _worded,
    }
)
"""Keys that are more than a look at their members."""


def _fits(term: Term) -> _Fits:
    values = term.values
    beginnings = KEYS[term.key].kind == "start"
    if not beginnings and all(isinstance(value, Text) for value in values):
        # Compared one by one: a member may be a list, which no set can be asked for.
        return tuple(value.text for value in values if isinstance(value, Text)).__contains__
    tests = tuple(_fits_one(value, beginnings) for value in values)
    return tests[0] if len(tests) == 1 else lambda member: any(test(member) for test in tests)


def _fits_one(value: Value, beginning: bool) -> _Fits:
    match value:
        case Text(text):
            if beginning:
                return lambda member: isinstance(member, str) and member.startswith(text)
            return lambda member: bool(member == text)
        case Glob(pattern):
            fits = glob_matcher(pattern)
            return lambda member: isinstance(member, str) and fits(member)
        case Comparison(op, number):
            compare = _COMPARE[op]
            return lambda member: _is_number(member) and compare(member, number)
        case Range(low, high):
            return lambda member: _is_number(member) and low <= member <= high
        case Moment():
            raise ValueError("A moment is compared with a timestamp")
    assert_never(value)


_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = MappingProxyType(
    {
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
        "=": operator.eq,
    }
)


def _is_number(member: object) -> TypeGuard[float]:
    return isinstance(member, int | float) and not isinstance(member, bool)

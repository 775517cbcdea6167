"""Who decides what of a filter."""

import pytest

from anyport.record.filter import parse_filter
from anyport.record.filter_keys import KEYS
from anyport.record.filter_tree import Filter
from anyport.record.selecting import TRAFFIC_TYPES, Selection, happenings, select
from tests.record.story import NOON


def selected(text: str) -> Selection:
    return select(parse_filter(text, NOON))


def test_every_term_has_one_who_decides_it() -> None:
    selection = selected(
        "server:a -type:started dur:>1s size:1..2 -queue:<5 trace:4bf92f35 -session:s id:0* word"
    )
    assert str(selection.sorted) == "server:a -type:gateway.started"
    assert selection.where == (
        " AND (took > ?) AND (size BETWEEN ? AND ?) AND NOT coalesce(queue < ?, 0)"
    )
    assert selection.values == (1000, 1, 2, 5)
    assert [marked.term.key for marked in selection.marked] == ["trace", "session"]
    assert str(selection.rest) == "id:0* text:word"


@pytest.mark.parametrize("key", KEYS)
def test_no_text_of_a_filter_becomes_sql(key: str) -> None:
    values = {"moment": "2026-07-28", "duration": "5", "bytes": "5", "word": "*';--*"}
    text = values.get(KEYS[key].kind, '"\';-- DROP TABLE"')
    selection = selected(f"{key}:{text} -{key}:{text}")
    assert not set("';-") & set(selection.where)
    assert "DROP" not in selection.where


@pytest.mark.parametrize(
    ("filter", "beginnings"),
    [
        ("trace:4bf92f35", ("4bf92f35",)),
        ("trace:4bf9", ("4bf9",)),
        ("trace:4bf", None),
        ("trace:4bf92f35,4bf", None),
        ("trace:4bf92f35*", None),
        ("id:x-y-z", ("x-y-z",)),
        ("session:a,b", 2),
        ("session:a*", None),
    ],
)
def test_ids_are_looked_for_by_their_digits_if_those_can_tell(
    filter: str, beginnings: tuple[str, ...] | int | None
) -> None:
    selection = selected(filter)
    if beginnings is None:
        assert selection.marked == ()
        assert str(selection.rest) == filter
    else:
        (marked,) = selection.marked
        assert selection.rest == Filter()
        found = marked.beginnings
        assert (len(found) if isinstance(beginnings, int) else found) == beginnings


@pytest.mark.parametrize(
    ("filter", "longest"),
    [
        *(("", 0), ("dur:>1s", 1000), ("dur:>=5,>2s", 5), ("dur:>5 dur:10..20", 10)),
        *(("dur:<5", -1), ("-dur:>5", -1), ("dur:=7", 7), ("dur:<5,>9", -1), ("size:>9", 0)),
    ],
)
def test_how_long_something_took_at_least_is_known_beforehand(filter: str, longest: float) -> None:
    assert selected(filter).longest == longest


def test_of_several_moments_the_narrowest_count() -> None:
    selection = selected(
        "since:2026-07-01 since:2026-07-03 -since:2026-07-09 until:2026-07-08 -until:2026-07-02"
    )
    assert selection == selected("since:2026-07-03 until:2026-07-08")


@pytest.mark.parametrize(
    ("filter", "all"),
    [
        *(("", False), ("server:a", False), ("status:error", False), ("-type:frame", False)),
        *(("-kind:response", False), ("word", False), ("type:tool_call", True)),
        *(("type:*", True), ("kind:response", True), ("side:client", True)),
        *(("method:ping", True), ("id:0123", True), ("trace:0123", True)),
    ],
)
def test_lesser_traffic_is_left_out_unless_it_is_asked_for(filter: str, all: bool) -> None:
    asked = parse_filter(filter, NOON)
    left_out = happenings(asked).terms[len(asked.terms) :]
    assert [str(term) for term in left_out] == ([] if all else [f"-type:{','.join(TRAFFIC_TYPES)}"])

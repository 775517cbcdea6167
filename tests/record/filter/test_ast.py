import pytest
from hypothesis import given

from anyport.record.filter.parser import (
    Filter,
    FilterTerm,
    Glob,
    Moment,
    NumberComparison,
    Range,
    Text,
    Value,
    parse_filter,
)
from tests.record.filters import NOON, filters


@pytest.mark.parametrize(
    ("key", "value", "written"),
    [
        ("server", Text("github"), "server:github"),
        ("server", Glob("git*"), "server:git*"),
        ("server", Text("git*"), 'server:"git*"'),
        ("tool", Text('say "a\\b", c'), r'tool:"say \"a\\b\", c"'),
        ("dur", NumberComparison(">=", 0.000001), "dur:>=0.000001"),
        ("dur", NumberComparison("=", 1500), "dur:1500"),
        ("code", Range(-32099, -32000), "code:-32099..-32000"),
        ("since", Moment(NOON), "since:2026-07-28T12:00:00.250000+00:00"),
    ],
)
def test_a_term_is_written_as_it_would_be_read(key: str, value: Value, written: str) -> None:
    term = FilterTerm(key=key, values=(value,))
    assert str(term) == written
    assert parse_filter(written, NOON).terms == (term,)


def test_a_negated_term_has_a_minus_and_its_values_have_commas() -> None:
    term = FilterTerm(key="server", negated=True, values=(Text("a"), Text("b")))
    assert str(term) == "-server:a,b"


def test_terms_stand_side_by_side() -> None:
    text = "server:a -tool:b* dur:>1000"
    assert str(parse_filter(text, NOON)) == text
    assert str(Filter()) == ""


def test_a_filter_can_be_a_key_in_a_cache() -> None:
    assert {parse_filter("server:a", 0): 1}[parse_filter("  server:a ", 9)] == 1


@given(filters)
def test_what_is_written_is_read_as_the_same_filter(filter: Filter) -> None:
    assert parse_filter(str(filter), 0) == filter

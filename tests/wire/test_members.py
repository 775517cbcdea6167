"""An object's members are found where they are, and only what must change is changed."""

import json
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyport.wire.members import (
    Ambiguous,
    append,
    distinct,
    edit,
    join,
    lookalike,
    members,
    put,
    spans,
    string,
    text,
)
from tests.wire.source import NAMES, SAMPLES, STYLES, TEXT, VALUES, Source, sources, written


@given(sources())
def test_every_member_lies_where_the_span_says(source: Source) -> None:
    raw = source.raw

    assert {name: raw[start:end] for name, (start, end) in spans(raw).items()} == source.values
    assert {name: bytes(value) for name, value in distinct(raw).items()} == source.values
    assert {name: bytes(value) for name, value in members(raw).items()} == source.values


@given(sources(VALUES))
@settings(max_examples=50)
def test_members_have_the_values_and_the_order_of_the_standard_parser(source: Source) -> None:
    expected = json.loads(source.raw)

    found = {name: json.loads(bytes(value)) for name, value in distinct(source.raw).items()}

    assert found == expected
    assert list(found) == list(spans(source.raw)) == list(expected)


@given(
    st.lists(st.tuples(NAMES, SAMPLES), min_size=1, max_size=5),
    SAMPLES,
    st.sampled_from(STYLES),
    st.randoms(use_true_random=False),
)
def test_a_name_that_stands_twice_is_refused_wherever_and_however_it_stands(
    named: list[tuple[str, object]], value: object, style: str, random: Random
) -> None:
    named.insert(random.randrange(len(named) + 1), (random.choice(named)[0], value))
    raw = written(named, style, random).raw

    for read in (spans, distinct):
        with pytest.raises(Ambiguous, match="stands twice"):
            read(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a":1,"a":2}',
        b'{"a":1,"a":1}',
        b'{"a":1,"\\u0061":2}',
        b'{"a":12,"a":1}',
        # Made so that the length of the second value leads to a brace of the first.
        b'{"a":{"k":1},"a":123456}',
        # Made so that the second value, laid over the first, ends before a look-alike of "b".
        b'{"a":1,"b":123,"a":{"x":1,      "b":{}}}',
        b'{"a": 1, "a": 1, "b": 3}',
    ],
)
def test_duplicates_cannot_be_hidden_by_their_lengths(raw: bytes) -> None:
    with pytest.raises(Ambiguous):
        spans(raw)
    with pytest.raises(Ambiguous):
        distinct(raw)


def test_of_equal_names_the_plain_reading_has_the_last() -> None:
    assert members(b'{"a":1,"b":2,"a":3}') == {"a": msgspec.Raw(b"3"), "b": msgspec.Raw(b"2")}


def test_a_name_spelt_with_escapes_is_the_name_it_spells() -> None:
    raw = rb'{"io.example\/key":1,"\u00e9":2}'

    assert edit(raw, {"io.example/key": b"7"}) == rb'{"io.example\/key":7,"\u00e9":2}'
    assert edit(raw, {"é": None}) == b'{"io.example/key":1}'


@pytest.mark.parametrize(
    "raw", [b"[]", b"1", b"null", b'"a"', b"", b"{", b'{"a":}', b'{"a":1}x', b"{'a':1}"]
)
def test_what_is_not_an_object_is_refused(raw: bytes) -> None:
    for read in (members, spans, distinct):
        with pytest.raises(msgspec.DecodeError):
            read(raw)


@given(sources(), st.dictionaries(NAMES, SAMPLES.map(lambda value: json.dumps(value).encode())))
def test_an_edit_changes_the_named_members_and_no_other_byte(
    source: Source, changes: dict[str, bytes]
) -> None:
    edited = edit(source.raw, changes)

    kept = b",".join(
        lead + changes.get(name, value) + after for name, lead, value, after in source.members
    )
    new = [(name, value) for name, value in changes.items() if name not in source.values]
    comma = b"," if new and source.members else b""
    assert edited == source.head + kept + comma + join(new)[1:-1] + source.tail


@given(sources(), NAMES, st.sets(NAMES))
def test_members_that_are_left_out_leave_the_others_and_their_order(
    source: Source, fresh: str, gone: set[str]
) -> None:
    edited = edit(source.raw, {**dict.fromkeys(gone), fresh: b"true"})

    expected = {name: value for name, value in source.values.items() if name not in gone - {fresh}}
    expected[fresh] = b"true"
    found = [(name, bytes(value)) for name, value in distinct(edited).items()]
    assert found == list(expected.items())


@pytest.mark.parametrize(
    ("raw", "changes", "edited"),
    [
        (b'{"a":1,"b":2}', {"a": None, "c": b"3"}, b'{"b":2,"c":3}'),
        (b'{"a":1}', {"a": None, "b": b"2"}, b'{"b":2}'),
        (b'{"a":1}', {"a": None}, b"{}"),
        (b"{ }", {"a": b"1"}, b'{ "a":1}'),
        (b"{}", {"a": None}, b"{}"),
        (b'{ "a" : 1 }', {"b": None}, b'{ "a" : 1 }'),
        (b'{ "a" : 1 }\n', {}, b'{ "a" : 1 }\n'),
        (b'{"a":1,"b":2,"c":3}', {"c": b"6", "a": b"4"}, b'{"a":4,"b":2,"c":6}'),
        (b'{"a":1}', {"a": b"2", "b": b"3"}, b'{"a":2,"b":3}'),
    ],
)
def test_setting_adding_and_leaving_out_go_together(
    raw: bytes, changes: dict[str, bytes | None], edited: bytes
) -> None:
    assert edit(raw, changes) == edited


def test_an_ambiguous_object_is_not_edited() -> None:
    with pytest.raises(Ambiguous):
        edit(b'{"a":1,"a":2}', {"b": b"3"})


@given(sources(), st.randoms(use_true_random=False), SAMPLES)
def test_one_member_is_put_where_it_stands_like_any_edit(
    source: Source, random: Random, value: object
) -> None:
    plain = [name for name in source.values if name not in ('"', "\n")]
    if not plain:
        return
    name = random.choice(plain)
    raw, current, new = source.raw, source.values[name], json.dumps(value).encode()

    assert put(raw, name, current, new) == edit(raw, {name: new})
    without = put(raw, name, current, None)
    assert json.loads(without) == json.loads(edit(raw, {name: None}))
    assert list(distinct(without)) == [other for other in source.values if other != name]


@pytest.mark.parametrize(
    "raw",
    [
        b'{"name":"a","x":{"name":"a"}}',
        b'{"x":{"y":1,"name":"a"},"name":"a"}',
        b'{"x":{"name":"a"} ,"name":"a"}',
        b'{"x":[{"y":1,"name":"a"}],"name":"a","z":{"w":1,"name":"a"}}',
        b'{"x":"{\\"name\\":\\"a\\"","name":"a","y":",\\"name\\":\\"a\\"}"}',
        b'{"name" :"a","x":{"y":1,"name":"a"}}',
        b'{"nam\\u0065":"a","x":{"y":1,"name":"a"}}',
        b' {"name":"a","x":{"y":1,"name":"a"}} ',
    ],
)
def test_a_member_of_something_inside_is_never_taken_for_it(raw: bytes) -> None:
    whole = json.loads(raw)

    for value in (b'"b"', None):
        changed = json.loads(put(raw, "name", b'"a"', value))

        assert changed.pop("name", None) == ("b" if value else None)
        assert changed == {name: inner for name, inner in whole.items() if name != "name"}


@given(st.lists(st.tuples(TEXT, SAMPLES.map(json.dumps)), max_size=5))
@settings(max_examples=50)
def test_joined_members_are_the_object_they_make(named: list[tuple[str, str]]) -> None:
    joined = join([(name, value.encode()) for name, value in named])

    assert json.loads(joined) == {name: json.loads(value) for name, value in named}


def test_a_text_is_written_as_json_has_it() -> None:
    assert text('a"\\\n\u2028é') == '"a\\"\\\\\\n\u2028é"'.encode()


@pytest.mark.parametrize(
    "name",
    ["Method", "METHOD", "method\0", "method\0x", "METHOD\0", "param\u017f", "re\u017fult"],
)
def test_a_name_that_some_parser_takes_for_a_known_one_is_found(name: str) -> None:
    assert lookalike(["other", name], frozenset({"method", "params", "result"})) == name


def test_known_names_and_strangers_look_like_nothing() -> None:
    assert lookalike(["method", "methods", "", "\0"], frozenset({"method"})) is None


@pytest.mark.parametrize(
    ("raw", "said"), [(b'"a\\u00e9"', "aé"), (b'""', ""), (b"1", None), (b"null", None)]
)
def test_only_a_string_has_a_text(raw: bytes, said: str | None) -> None:
    assert string(msgspec.Raw(raw)) == said
    assert string(None) is None


@pytest.mark.parametrize("raw", [b"{}", b"{ }", b'{"a":1}', b'{ "a" : [1] }', b'{"a":{"b":"}"}}'])
def test_members_put_at_the_end_stand_where_editing_puts_them(raw: bytes) -> None:
    assert append(raw, {"x": b"1", "y": b'"z"'}) == edit(raw, {"x": b"1", "y": b'"z"'})

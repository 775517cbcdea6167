"""Members of raw objects are found in place, and only what must change changes."""

import json
import time
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyport.wire import raw_json as module
from anyport.wire.raw_json import (
    MEMBERS_MAX,
    MEMBERS_WALKED_MAX,
    AmbiguousObject,
    append,
    decode_string,
    edit,
    encode_object,
    encode_string,
    find_lookalike,
    members,
    replace_member,
    spans,
    unique_members,
)
from tests.wire.source import NAMES, SAMPLES, STYLES, TEXT, VALUES, Source, sources, written


@given(sources())
def test_every_member_is_where_its_span_says(source: Source) -> None:
    raw = source.raw

    assert {name: raw[start:end] for name, (start, end) in spans(raw).items()} == source.values
    assert {name: bytes(value) for name, value in unique_members(raw).items()} == source.values
    assert {name: bytes(value) for name, value in members(raw).items()} == source.values


@given(sources(VALUES))
@settings(max_examples=50)
def test_members_have_the_values_and_the_order_of_the_standard_parser(source: Source) -> None:
    expected = json.loads(source.raw)

    found = {name: json.loads(bytes(value)) for name, value in unique_members(source.raw).items()}

    assert found == expected
    assert list(found) == list(spans(source.raw)) == list(expected)


@given(
    st.lists(st.tuples(NAMES, SAMPLES), min_size=1, max_size=5),
    SAMPLES,
    st.sampled_from(STYLES),
    st.randoms(use_true_random=False),
)
def test_a_duplicate_member_is_refused_wherever_and_however_it_is_written(
    named: list[tuple[str, object]], value: object, style: str, random: Random
) -> None:
    named.insert(random.randrange(len(named) + 1), (random.choice(named)[0], value))
    raw = written(named, style, random).raw

    for read in (spans, unique_members):
        with pytest.raises(AmbiguousObject, match="is repeated"):
            read(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a":1,"a":2}',
        b'{"a":1,"a":1}',
        b'{"a":1,"\\u0061":2}',
        b'{"a":12,"a":1}',
        # The length of the second value leads to a brace of the first.
        b'{"a":{"k":1},"a":123456}',
        # The second value, laid over the first, ends before a look-alike of "b".
        b'{"a":1,"b":123,"a":{"x":1,      "b":{}}}',
        b'{"a": 1, "a": 1, "b": 3}',
    ],
)
def test_duplicates_cannot_be_hidden_by_their_lengths(raw: bytes) -> None:
    with pytest.raises(AmbiguousObject):
        spans(raw)
    with pytest.raises(AmbiguousObject):
        unique_members(raw)


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
    for read in (members, spans, unique_members):
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
    assert edited == source.head + kept + comma + encode_object(new)[1:-1] + source.tail


@given(sources(), NAMES, st.sets(NAMES))
def test_members_that_are_left_out_leave_the_others_and_their_order(
    source: Source, fresh: str, gone: set[str]
) -> None:
    edited = edit(source.raw, {**dict.fromkeys(gone), fresh: b"true"})

    expected = {name: value for name, value in source.values.items() if name not in gone - {fresh}}
    expected[fresh] = b"true"
    found = [(name, bytes(value)) for name, value in unique_members(edited).items()]
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
    with pytest.raises(AmbiguousObject):
        edit(b'{"a":1,"a":2}', {"b": b"3"})


@given(sources(), st.randoms(use_true_random=False), SAMPLES)
def test_replacing_one_member_equals_an_edit(source: Source, random: Random, value: object) -> None:
    plain = [name for name in source.values if name not in ('"', "\n")]
    if not plain:
        return
    name = random.choice(plain)
    raw, current, new = source.raw, source.values[name], json.dumps(value).encode()

    assert replace_member(raw, name, current, new) == edit(raw, {name: new})
    without = replace_member(raw, name, current, None)
    assert json.loads(without) == json.loads(edit(raw, {name: None}))
    assert list(unique_members(without)) == [other for other in source.values if other != name]


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
        changed = json.loads(replace_member(raw, "name", b'"a"', value))

        assert changed.pop("name", None) == ("b" if value else None)
        assert changed == {name: inner for name, inner in whole.items() if name != "name"}


@given(st.lists(st.tuples(TEXT, SAMPLES.map(json.dumps)), max_size=5))
@settings(max_examples=50)
def test_joined_members_are_the_object_they_make(named: list[tuple[str, str]]) -> None:
    joined = encode_object([(name, value.encode()) for name, value in named])

    assert json.loads(joined) == {name: json.loads(value) for name, value in named}


def test_a_text_is_written_as_json_has_it() -> None:
    assert encode_string('a"\\\n\u2028é') == '"a\\"\\\\\\n\u2028é"'.encode()


@pytest.mark.parametrize(
    "name",
    ["Method", "METHOD", "method\0", "method\0x", "METHOD\0", "param\u017f", "re\u017fult"],
)
def test_a_name_that_some_parser_takes_for_a_known_one_is_found(name: str) -> None:
    assert find_lookalike(["other", name], frozenset({"method", "params", "result"})) == name


@pytest.mark.parametrize("name", ["progresstoken", "ProgressToken", "progressToken\0"])
def test_a_known_name_may_have_capitals_itself(name: str) -> None:
    assert find_lookalike(["progressToken", name], frozenset({"progressToken"})) == name


def test_known_and_unrelated_names_are_no_lookalikes() -> None:
    assert find_lookalike(["method", "methods", "", "\0"], frozenset({"method"})) is None


@pytest.mark.parametrize(
    ("raw", "said"), [(b'"a\\u00e9"', "aé"), (b'""', ""), (b"1", None), (b"null", None)]
)
def test_only_a_string_has_a_text(raw: bytes, said: str | None) -> None:
    assert decode_string(msgspec.Raw(raw)) == said
    assert decode_string(None) is None


@pytest.mark.parametrize("raw", [b"{}", b"{ }", b'{"a":1}', b'{ "a" : [1] }', b'{"a":{"b":"}"}}'])
def test_appended_members_are_where_editing_puts_them(raw: bytes) -> None:
    assert append(raw, {"x": b"1", "y": b'"z"'}) == edit(raw, {"x": b"1", "y": b'"z"'})


@given(
    sources(),
    st.dictionaries(
        NAMES, st.none() | SAMPLES.map(lambda value: json.dumps(value).encode()), max_size=4
    ),
)
def test_an_object_of_many_members_is_edited_like_any_other(
    source: Source, changes: dict[str, bytes | None]
) -> None:
    raw = source.raw
    few = edit(raw, changes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MEMBERS_WALKED_MAX", 0)
        many = edit(raw, changes)

    assert list(unique_members(many).items()) == list(unique_members(few).items())


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("count", [MEMBERS_WALKED_MAX + 1, 5 * MEMBERS_MAX])
def test_of_many_members_only_those_that_change_are_touched(
    count: int, separators: tuple[str, str]
) -> None:
    named = {f"k{number}": [number] for number in range(count)}
    raw = json.dumps(named, separators=separators).encode()
    changed = edit(raw, {"k3": b"0", "k0": None, f"k{count - 1}": None, "new": b"1"})

    expected = {**named, "k3": 0, "new": 1}
    del expected["k0"], expected[f"k{count - 1}"]
    assert json.loads(changed) == expected
    assert list(json.loads(changed)) == list(expected)
    assert edit(raw, dict.fromkeys(named)) == b"{}"


def test_many_changes_of_many_members_take_no_longer_than_the_members() -> None:
    named = {f"k{number}": number for number in range(50_000)}
    raw = json.dumps(named, separators=(",", ":")).encode()
    began = time.process_time()

    changed = edit(raw, dict.fromkeys(reversed(named), b"true"))

    assert json.loads(changed) == dict.fromkeys(named, True)
    assert list(json.loads(changed)) == list(named)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("end", [b"}", b" }"])
def test_a_duplicate_among_many_members_is_refused(end: bytes) -> None:
    pieces = [b'"k%d":%d' % (number, number) for number in range(MEMBERS_WALKED_MAX)]
    raw = b"{" + b",".join([*pieces, b'"k1":1', b'"last":{"k1":1}']) + end
    for read in (unique_members, lambda raw: edit(raw, {"new": b"1"})):
        with pytest.raises(AmbiguousObject, match="is repeated"):
            read(raw)


def test_more_members_than_anybody_needs_are_too_many() -> None:
    raw = b"{" + b",".join(b'"k%d":1' % number for number in range(MEMBERS_MAX)) + b"}"
    assert len(unique_members(raw)) == MEMBERS_MAX

    with pytest.raises(AmbiguousObject, match="more than 1024 members"):
        unique_members(raw[:-1] + b',"one":1}')

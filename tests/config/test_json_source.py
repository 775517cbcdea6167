"""The parser equals the standard one on JSON, and forgives what people add to it."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.config.json_source import parse
from anyport.config.positions import DEPTH_MAX, UnreadableText

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS.filter(lambda value: value not in (float("inf"), float("-inf"))),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
BLANKS = st.sampled_from(
    ["", " ", "\n", "\t", "// note\n", "/* note */", "/**/", "/* a\n * b */", '// "quote\n']
)
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[-+.\w]+|[\[\]{}:,]')


@given(VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_plain_json_has_the_values_of_the_standard_parser(
    value: Any, ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert same(parse(text).value, json.loads(text))


@given(VALUES, st.data())
def test_comments_and_trailing_commas_change_nothing(value: Any, draw: st.DataObject) -> None:
    tokens = TOKEN.findall(json.dumps(value))
    text = draw.draw(BLANKS)
    for before, token in zip(["", *tokens], tokens, strict=False):
        if token in ("]", "}") and before not in ("[", "{") and draw.draw(st.booleans()):
            text += "," + draw.draw(BLANKS)
        text += token + draw.draw(BLANKS)
    assert same(parse(text).value, value)


@given(st.text(alphabet='{}[]":,/*\\ntrue1.\n '))
def test_any_text_is_a_value_or_unreadable(text: str) -> None:
    try:
        ours = parse(text).value
    except UnreadableText as error:
        assert error.line >= 1
        assert error.column >= 1
    else:
        try:
            theirs = json.loads(text)
        except ValueError:
            return
        assert same(ours, theirs)


def test_every_key_and_value_has_its_place() -> None:
    parsed = parse('{\n  "a": [1,\n    {"b": true}],\n  "c": "x"\n}')
    assert parsed.keys == {("a",): (2, 3), ("a", 1, "b"): (3, 6), ("c",): (4, 3)}
    assert parsed.values == {
        (): (1, 1),
        ("a",): (2, 8),
        ("a", 0): (2, 9),
        ("a", 1): (3, 5),
        ("a", 1, "b"): (3, 11),
        ("c",): (4, 8),
    }


def test_a_byte_order_mark_is_not_part_of_the_text() -> None:
    parsed = parse('\ufeff{"a": 1}')
    assert parsed.value == {"a": 1}
    assert parsed.keys[("a",)] == (1, 2)


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "the file is empty"),
        ("// only this", 1, 13, "the file is empty"),
        ('{"a" 1}', 1, 6, "there must be a ':' after a key"),
        ('{"a": 1\n "b": 2}', 2, 2, "there must be a ',' or a '}' after a value"),
        ("{a: 1}", 1, 2, "a key must be in double quotes"),
        ("{'a': 1}", 1, 2, "a key must be in double quotes"),
        ("{\"a\": 'x'}", 1, 7, "there must be a value here"),
        ('{"a": }', 1, 7, "there must be a value here"),
        ("[,]", 1, 2, "there must be a value here"),
        ("[1,,]", 1, 4, "there must be a value here"),
        ('{"a": yes}', 1, 7, "this is not a JSON value"),
        ('{"a": NaN}', 1, 7, "this is not a JSON value"),
        ('{"a": 01}', 1, 8, "there must be a ',' or a '}' after a value"),
        ('{"a": "x\n"}', 1, 7, "this string does not end on its line"),
        ('{"a": "\\x"}', 1, 7, "this string has an escape that JSON does not know"),
        ('{"a": "\\ud800"}', 1, 7, "this string has one half of a surrogate pair"),
        ('{"a": 1,\n "a": 2}', 2, 2, "this key is given twice in one object"),
        ('{"a": 1', 1, 8, "the text ends too early"),
        ('{"a": [', 1, 8, "the text ends too early"),
        ("{} {}", 1, 4, "there is something after the end of the JSON value"),
        ("{} /* open", 1, 4, "this comment does not end"),
        ("\0", 1, 1, "there must be a value here"),
    ],
)
def test_what_is_not_json_is_told_with_its_place(
    text: str, line: int, column: int, message: str
) -> None:
    with pytest.raises(UnreadableText) as caught:
        parse(text)
    error = caught.value
    assert (error.line, error.column, error.message) == (line, column, message)


@pytest.mark.parametrize("bracket", ["[", '{"a":'])
def test_nesting_has_a_limit(bracket: str) -> None:
    with pytest.raises(UnreadableText, match=f"deeper than {DEPTH_MAX} levels"):
        parse(bracket * 100_000)


def test_a_number_of_a_million_digits_is_refused() -> None:
    with pytest.raises(UnreadableText, match="more than 1000 digits"):
        parse("1" * 1_000_000)


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same types: 1, 1.0 and True are not the same here."""
    return repr(one) == repr(other)

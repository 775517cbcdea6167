"""TOML values come from the standard parser; the places must agree with them."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.config.positions import DEPTH_MAX, KeyPath, UnreadableText
from anyport.config.toml_source import parse

EVERYTHING = '''\
top = 1                       # line 1
"quoted key" = 'x'
a.b."c d" = [1, [2, 3], { e = 4 }]

[table]
text = "a # no comment, no ] end"
lines = """
[not.a.table]
key = "no"
"""
raw = \'\'\'
x = 1\'\'\'
array = [
  "one",   # why
  "two",
]
inline = { x = 1, y.z = "}" , w = { v = [] } }
date = 1979-05-27 07:32:00
  [ table . "sub.dotted" ]
  n = +1_000

[[many]]
name = "first"
[many.child]
k = 1
[[many]]
name = "second"
[many.child]
k = 2
[[many.deep]]
z = 0
'''


def test_every_value_of_a_rich_text_has_a_place() -> None:
    parsed = parse(EVERYTHING)
    placed = parsed.keys.keys() | parsed.values.keys()
    assert set(paths(parsed.value)) <= placed


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (("top",), (1, 1)),
        (("quoted key",), (2, 1)),
        (("a", "b", "c d"), (3, 5)),
        (("a", "b", "c d", 2, "e"), (3, 27)),
        (("table",), (5, 2)),
        (("table", "lines"), (7, 1)),
        (("table", "raw"), (11, 1)),
        (("table", "inline", "y", "z"), (17, 21)),
        (("table", "inline", "w", "v"), (17, 37)),
        (("table", "sub.dotted", "n"), (20, 3)),
        (("many", 0, "name"), (23, 1)),
        (("many", 1, "name"), (27, 1)),
        (("many", 1, "child", "k"), (29, 1)),
        (("many", 1, "deep", 0, "z"), (31, 1)),
    ],
)
def test_keys_stand_where_they_are_written(path: KeyPath, place: tuple[int, int]) -> None:
    assert parse(EVERYTHING).keys[path] == place


def test_values_stand_where_they_are_written() -> None:
    values = parse(EVERYTHING).values
    assert values[("top",)] == (1, 7)
    assert values[("table", "array", 1)] == (15, 3)
    assert values[("a", "b", "c d", 1, 1)] == (3, 21)


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("a = ", 1, 5, "this is not TOML: invalid value"),
        ("a = 1\nb 2", 2, 3, "this is not TOML: expected '=' after a key in a key/value pair"),
        ("a = 1\na = 2", 2, 6, "this is not TOML: a is given twice"),
        ("[a\n", 1, 3, "this is not TOML: expected ']' at the end of a table declaration"),
        ('a = "x', 1, 7, "this is not TOML: the string of a is not closed"),
        ("\0", 1, 1, "this is not TOML: invalid statement"),
    ],
)
def test_what_is_not_toml_is_told_with_its_place(
    text: str, line: int, column: int, message: str
) -> None:
    with pytest.raises(UnreadableText) as caught:
        parse(text)
    error = caught.value
    assert (error.line, error.column, error.message) == (line, column, message)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ('[s.a]\ncommand = "npx\nargs = []', "the string of s.a.command is not closed", "quote"),
        ("a = 'x\n", "the string of a is not closed", "add the quote at its end"),
        ('a = """x\nb = 1', "a string is not closed", "add the quote at its end"),
        ("a = 1\na = 2", "a is given twice", "first in line 1; keep one of them"),
        ("[a.b]\nx = 1\n[a.b]", "a.b is given twice", "first in line 1; keep one of them"),
        ("x = {a = 1, a = 2}", "x.a is given twice", "keep one of them"),
        ("a = 1\n[a.b]", "a.b overwrites another value", "keep one of them"),
        ("a = npx", "invalid value", "text needs quotes"),
    ],
)
def test_what_the_parser_says_obscurely_is_said_plainly(text: str, message: str, hint: str) -> None:
    with pytest.raises(UnreadableText) as caught:
        parse(text)
    assert caught.value.message == f"this is not TOML: {message}"
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * 200_000 + " = 1",
        "[" + "a." * 200_000 + "a]",
        "a = " + "[" * 200_000,
        "a = " + "{ b = " * 100_000,
    ],
    ids=["dotted key", "table header", "arrays", "inline tables"],
)
def test_nesting_has_a_limit(text: str) -> None:
    with pytest.raises(UnreadableText, match=f"deeper than {DEPTH_MAX} levels"):
        parse(text)


def test_a_number_of_a_hundred_thousand_digits_is_refused() -> None:
    with pytest.raises(UnreadableText, match="this is not TOML"):
        parse("a = " + "1" * 100_000)


@given(st.text(alphabet="ab.[]{}=\"'#,\n 1\\"))
def test_any_text_is_read_with_places_or_unreadable(text: str) -> None:
    try:
        parsed = parse(text)
    except UnreadableText:
        return
    assert set(paths(parsed.value)) <= parsed.keys.keys() | parsed.values.keys()


def paths(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    """The paths of all scalars."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from paths(member, (*path, key))
    elif isinstance(value, list):
        for index, element in enumerate(value):
            yield from paths(element, (*path, index))
    else:
        yield path

"""Words on a command line become arguments."""

from typing import Any

import pytest

from anyport.cli.arguments import (
    BadArgument,
    coerce,
    example_words,
    list_parameters,
    read_arguments,
)

SCHEMA = {
    "properties": {
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "on": {"type": "boolean"},
        "tags": {"type": "array"},
        "deep": {"type": "object"},
        "name": {"type": "string"},
        "maybe": {"type": ["string", "null"]},
        "amount": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "either": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
        "referred": {"$ref": "#/$defs/Count"},
        "itself": {"$ref": "#/$defs/Loop"},
        "odd": {"type": "colour"},
    },
    "$defs": {"Count": {"type": "integer"}, "Loop": {"anyOf": [{"$ref": "#/$defs/Loop"}]}},
}


def read(*words: str, document: str | None = None, files: dict[str, str] | None = None) -> Any:
    def read_file(name: str) -> str:
        try:
            return (files or {})[name]
        except KeyError:
            raise FileNotFoundError(2, "No such file", name) from None

    return read_arguments(words, document, SCHEMA, read_file)


def test_the_schema_decides_the_type() -> None:
    rows = [
        ("count", "12", 12),
        ("count", "-9007199254740993", -9007199254740993),
        ("ratio", "2", 2),
        ("ratio", "2.5e3", 2500.0),
        ("on", "True", True),
        ("tags", '["a", 1]', ["a", 1]),
        ("deep", '{"a": null}', {"a": None}),
        ("name", "12", "12"),
        ("name", "", ""),
        ("maybe", "null", "null"),
        ("amount", "null", None),
        ("amount", "3", 3),
        ("either", "3", 3),
        ("either", "three", "three"),
        ("referred", "4", 4),
        ("itself", "x", "x"),
        ("odd", "red", "red"),
        ("unknown", "5", "5"),
    ]
    converted = [(key, text, coerce(key, text, SCHEMA)) for key, text, _ in rows]
    assert repr(converted) == repr(rows), "of the same type, too"


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("count=1.5", "count must be an integer, not '1.5'"),
        ("count=true", "an integer"),
        ("ratio=NaN", "a number"),
        ("on=yes", "true or false"),
        ("tags=a,b", "a JSON array"),
        ("deep=[]", "a JSON object"),
        ("amount=x", "an integer or null"),
    ],
)
def test_a_text_that_does_not_fit_is_refused_with_what_would(word: str, wanted: str) -> None:
    with pytest.raises(BadArgument, match=wanted):
        read(word)


def test_a_tool_without_a_schema_is_given_texts() -> None:
    assert coerce("a", "1", {}) == "1"
    assert coerce("a", "1", {"properties": None}) == "1"


def test_a_colon_makes_it_json_whatever_the_schema_says() -> None:
    assert read("name:=12", "tags:=null", "x:=y=1".replace("y=1", '"y=1"')) == {
        "name": 12,
        "tags": None,
        "x": "y=1",
    }


def test_an_at_sign_reads_a_file() -> None:
    files = {"poem.txt": "roses=red\n", "list.json": "[1]"}
    assert read("name=@poem.txt", "tags=@list.json", "deep:=@list.json", files=files) == {
        "name": "roses=red\n",
        "tags": [1],
        "deep": [1],
    }


def test_words_are_laid_over_the_document_and_later_ones_win() -> None:
    assert read("count=2", "count=3", document='{"count": 1, "name": "n"}') == {
        "count": 3,
        "name": "n",
    }


@pytest.mark.parametrize(
    ("words", "document", "told"),
    [
        (["count"], None, "'count' is not key=value; for example: count=1"),
        (["=x"], None, "is not key=value"),
        ([":=1"], None, "is not key=value"),
        (["name:={"], None, "name is not valid JSON"),
        (["name=@absent"], None, "name: cannot read absent: No such file"),
        ([], "[1]", "--args must be a JSON object"),
        ([], "{", "--args is not valid JSON"),
    ],
)
def test_what_cannot_be_read_is_explained(
    words: list[str], document: str | None, told: str
) -> None:
    with pytest.raises(BadArgument, match=told):
        read(*words, document=document)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({}, []),
        ({"properties": {"b": {"type": "boolean"}, "c": {"type": "string"}}}, ["b=true"]),
        (
            {
                "properties": {
                    "a": {"type": "number"},
                    "no": {},
                    "t": {"type": "string"},
                    "e": {"type": "string", "enum": ["two words", "x"]},
                    "d": {"type": "integer", "default": 7},
                    "l": {"type": "array"},
                },
                "required": ["a", "t", "e", "d", "l"],
            },
            ["a=1", "t=text", "'e=two words'", "d=7", "'l=[]'"],
        ),
    ],
)
def test_an_example_has_what_the_tool_requires(schema: dict[str, Any], words: list[str]) -> None:
    assert example_words(schema) == words


def test_a_tool_without_arguments_says_so() -> None:
    with pytest.raises(BadArgument, match="'2' is not key=value; the tool takes no arguments"):
        read_arguments(["2"], None, {}, str)


def test_parameters_are_read_from_any_schema() -> None:
    assert list_parameters({"properties": 3, "required": "x"}) == []
    amount = list_parameters(SCHEMA)[7]
    assert (amount.name, amount.types, amount.required) == ("amount", ("integer", "null"), False)
    assert list_parameters({"properties": {"x": True}})[0].example == "x=text"

"""Arguments against schemas."""

import pytest

from anyport.demo.arguments import BadArguments, fill
from anyport.demo.revisions import Json

SCHEMA: Json = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer", "default": 3, "minimum": 1, "maximum": 5},
        "ratio": {"type": "number"},
        "kind": {"type": "string", "enum": ["a", "b"]},
        "flag": {"type": "boolean"},
        "anything": {},
    },
    "required": ["text"],
}


def test_defaults_are_filled_in_and_strangers_ignored() -> None:
    assert fill(SCHEMA, {"text": "x", "stranger": 1}) == {"text": "x", "count": 3}


def test_a_whole_number_counts_as_an_integer_however_it_is_written() -> None:
    assert fill(SCHEMA, {"text": "", "count": 2.0}) == {"text": "", "count": 2}


@pytest.mark.parametrize("value", [None, [], {"a": 1}, True])
def test_an_argument_without_a_type_takes_anything(value: object) -> None:
    assert fill(SCHEMA, {"text": "", "anything": value})["anything"] == value


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "'text' is missing"),
        ({"text": None}, "'text' must be of type string"),
        ({"text": "", "count": 1.5}, "'count' must be of type integer"),
        ({"text": "", "count": True}, "'count' must be of type integer"),
        ({"text": "", "ratio": "1"}, "'ratio' must be of type number"),
        ({"text": "", "flag": 1}, "'flag' must be of type boolean"),
        ({"text": "", "count": 0}, "'count' must be at least 1"),
        ({"text": "", "count": 6}, "'count' must be at most 5"),
        ({"text": "", "kind": "c"}, "'kind' must be one of a, b"),
    ],
)
def test_the_first_fault_is_named(arguments: Json, complaint: str) -> None:
    with pytest.raises(BadArguments, match=complaint):
        fill(SCHEMA, arguments)

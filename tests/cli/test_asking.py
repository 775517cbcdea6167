"""A server's form, put to a person."""

import asyncio
from typing import Any

import pytest

from anyport.cli.asking import Field, Unfit, fill_in


def answered(schema: dict[str, Any], *lines: str | None) -> tuple[dict[str, Any], list[str]]:
    """The result, and everything the person saw."""
    typed = iter(lines)
    seen: list[str] = []

    async def read(prompt: str) -> str | None:
        seen.append(prompt)
        return next(typed)

    question = {"message": "Please", "requestedSchema": schema}
    result = asyncio.run(fill_in(question, read, seen.append))
    assert next(typed, "all were used") == "all were used"
    return result, seen


def form(required: tuple[str, ...] = (), **fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(required)}


def test_each_field_is_asked_for_and_given_back_with_its_type() -> None:
    schema = form(
        ("name",),
        name={"type": "string", "title": "Your name"},
        age={"type": "integer"},
        weight={"type": "number"},
        member={"type": "boolean"},
    )

    result, seen = answered(schema, "", "Ada", "36", "61.5", "y")

    content = {"name": "Ada", "age": 36, "weight": 61.5, "member": True}
    assert result == {"action": "accept", "content": content}
    assert seen[0] == "The server asks: Please"
    assert seen[2:] == [
        "  Your name (string): ",
        "  age (integer, optional): ",
        "  weight (number, optional): ",
        "  member (yes or no, optional): ",
    ]


@pytest.mark.parametrize(
    ("lines", "action"),
    [
        (["d"], "decline"),
        (["n"], "decline"),
        (["c"], "cancel"),
        ([None], "cancel"),
        (["y", None], "cancel"),
    ],
)
def test_a_person_may_refuse(lines: list[str | None], action: str) -> None:
    result, _ = answered(form(name={"type": "string"}), *lines)
    assert result == {"action": action}


@pytest.mark.parametrize("word", ["Ada", "yesterday", "dunno", "1"])
def test_whether_to_answer_is_asked_again_until_that_is_clear(word: str) -> None:
    result, seen = answered(form(name={"type": "string"}), word, "YES", "Ada")

    assert result == {"action": "accept", "content": {"name": "Ada"}}
    assert seen[2] == "    answer with y, d or c; the form comes after that"
    assert seen[1] == seen[3] == "  Answer? [Y]es, [d]ecline, [c]ancel: "


def test_an_answer_that_does_not_fit_is_asked_for_again() -> None:
    schema = form(
        ("pin",),
        pin={"type": "string", "minLength": 4, "maxLength": 4},
        age={"type": "integer", "minimum": 18, "maximum": 99},
    )

    result, seen = answered(schema, "y", "", "123", "12345", "1234", "1.5", "17", "100", "18")

    assert result["content"] == {"pin": "1234", "age": 18}
    assert [line.strip() for line in seen if line.startswith("    ")] == [
        "an answer is needed; Ctrl-D cancels",
        "at least 4 characters",
        "at most 4 characters",
        "answer with an integer",
        "at least 18",
        "at most 99",
    ]


def test_nothing_leaves_an_optional_field_out_and_takes_a_default() -> None:
    schema = form(
        ("size",),
        note={"type": "string", "description": "Anything else?"},
        size={"type": "integer", "default": 3},
    )

    result, seen = answered(schema, "y", "", "")

    assert result["content"] == {"size": 3}
    assert "  Anything else?" in seen
    assert "  size (integer, Enter for 3): " in seen


CHOICES = [
    {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
    {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]},
]


@pytest.mark.parametrize("schema", CHOICES)
@pytest.mark.parametrize("line", ["g", "Green", "2"])
def test_a_choice_is_made_by_value_name_or_number(schema: dict[str, Any], line: str) -> None:
    result, seen = answered(form(colour=schema), "y", "blue", line)

    assert result["content"] == {"colour": "g"}
    assert seen[2:4] == ["    1. Red (r)", "    2. Green (g)"]


def test_several_can_be_chosen() -> None:
    schema = form(("tags",), tags={"type": "array", "items": {"enum": ["a", "b", "c"]}})

    assert answered(schema, "y", "a, 3")[0]["content"] == {"tags": ["a", "c"]}
    assert answered(schema, "y", "")[0]["content"] == {"tags": []}


def test_a_switch_takes_yes_and_no_only() -> None:
    field = Field(name="x", schema={"type": "boolean"}, required=True)
    assert field.read("No") is False
    with pytest.raises(Unfit):
        field.read("maybe")

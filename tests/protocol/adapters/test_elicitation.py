"""Validation of a client's answers."""

import json
from typing import Any

import pytest

from anyport.protocol.adapters.elicitation import is_valid_answer

ASK = "elicitation/create"


def form(**properties: Any) -> bytes:
    required = [name for name, wanted in properties.items() if wanted.pop("required", True)]
    schema = {"type": "object", "properties": properties, "required": required}
    return json.dumps({"message": "?", "requestedSchema": schema}).encode()


def accepted(**content: Any) -> bytes:
    return json.dumps({"action": "accept", "content": content}).encode()


@pytest.mark.parametrize(
    ("wanted", "good", "bad"),
    [
        ({"type": "string"}, ["", "a"], [1, None, True, [], {}]),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "abc"], ["a", "abcd"]),
        ({"type": "string", "enum": ["a", "b"]}, ["a"], ["c", "", 1]),
        ({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}, ["a"], ["A", "b"]),
        ({"type": "number", "minimum": 1, "maximum": 2.5}, [1, 2.5], [0.9, 3, "1", True]),
        ({"type": "integer"}, [1, -1, 2.0], [1.5, "1", False]),
        ({"type": "boolean"}, [True, False], [0, "true", None]),
        (
            {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "maxItems": 1},
            [[], ["a"]],
            [["c"], ["a", "b"], "a"],
        ),
        ({"type": "array", "items": {"anyOf": [{"const": "a"}]}}, [["a"]], [["b"]]),
        ({"type": "something new"}, [1, "a", None], []),
        ({"oneOf": "nonsense", "minLength": "x"}, ["a", 1], []),
    ],
)
def test_a_form_is_filled_in_as_it_asks(wanted: Any, good: list[Any], bad: list[Any]) -> None:
    asked = form(x=wanted)

    assert [value for value in good if not is_valid_answer(ASK, asked, accepted(x=value))] == []
    assert [value for value in bad if is_valid_answer(ASK, asked, accepted(x=value))] == []


def test_what_is_required_must_be_there_and_the_rest_need_not() -> None:
    asked = form(x={"type": "string"}, y={"type": "string", "required": False})

    assert is_valid_answer(ASK, asked, accepted(x="a"))
    assert is_valid_answer(ASK, asked, accepted(x="a", z="what nobody asked for"))
    assert not is_valid_answer(ASK, asked, accepted(y="a"))
    assert not is_valid_answer(ASK, asked, b'{"action":"accept"}')
    assert not is_valid_answer(ASK, asked, b'{"action":"accept","content":[]}')


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_declined_form_needs_no_content(action: str) -> None:
    assert is_valid_answer(ASK, form(x={"type": "string"}), b'{"action":"%b"}' % action.encode())


@pytest.mark.parametrize("answer", [b"1", b"[]", b"nonsense", b"{}", b'{"action":"maybe"}'])
def test_what_is_no_answer_fits_nothing(answer: bytes) -> None:
    assert not is_valid_answer(ASK, form(), answer)


@pytest.mark.parametrize("params", [None, b"{}", b'{"mode":"url","url":"https://x"}', b"nonsense"])
def test_without_a_form_consent_is_enough(params: bytes | None) -> None:
    assert is_valid_answer(ASK, params, b'{"action":"accept"}')


def test_roots_are_a_list_and_a_sample_is_an_object() -> None:
    assert is_valid_answer("roots/list", None, b'{"roots":[]}')
    assert not is_valid_answer("roots/list", None, b'{"roots":{}}')
    assert is_valid_answer("sampling/createMessage", b"{}", b'{"role":"assistant"}')
    assert not is_valid_answer("sampling/createMessage", b"{}", b'"hello"')

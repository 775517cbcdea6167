"""Validation against JSON Schema, held against a library that knows all of it."""

import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from anyport.lint.json_schema import Outlined, Validator
from anyport.lint.schemas import schema_of
from anyport.protocol.revisions import REVISIONS
from anyport.record.redact.redactor import MARK
from tests.lint.examples import EXAMPLES

KEYWORDS = frozenset(
    {"$ref", "additionalProperties", "allOf", "anyOf", "const", "enum", "items", "maxItems"}
    | {"maximum", "minimum", "properties", "required", "type"}
)
"""What the validator understands."""
ANNOTATIONS = {"$comment", "default", "description", "examples", "format", "title"}
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    "",
    "x",
    "audio",
    [],
    ["x"],
    {},
    {"type": "text"},
)
ROUNDS = 20

SCHEMA = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "count": {"type": "integer", "minimum": 0, "maximum": 9},
        "level": {"enum": ["low", "high"]},
        "list": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/Id"}},
        "block": {"anyOf": [{"$ref": "#/$defs/Text"}, {"$ref": "#/$defs/Image"}]},
        "either": {"anyOf": [{"type": "object", "required": [key]} for key in ("text", "blob")]},
    },
    "additionalProperties": {"type": "boolean"},
}
DEFINITIONS: dict[str, dict[str, Any]] = {
    "Id": {"type": ["string", "integer"]},
    "Text": {"type": "object", "properties": {"type": {"const": "text"}}, "required": ["type"]},
    "Image": {"type": "object", "properties": {"type": {"const": "image"}}, "required": ["data"]},
}


@pytest.mark.parametrize(
    ("value", "path", "expected"),
    [
        ([], (), "must be an object, not []"),
        ({}, ("name",), "is missing"),
        ({"count": 1.5}, ("count",), "must be an integer, not 1.5"),
        ({"count": True}, ("count",), "must be an integer, not true"),
        ({"count": -1}, ("count",), "must be at least 0, not -1"),
        ({"count": 10}, ("count",), "must be at most 9, not 10"),
        ({"level": "mid"}, ("level",), 'must be one of "low", "high", not "mid"'),
        ({"list": ["a", 1, 2]}, ("list",), "must have at most 2 items, not 3"),
        ({"list": [None]}, ("list", 0), "must be a string or an integer, not null"),
        (
            {"block": {"type": "html"}},
            ("block", "type"),
            'must be one of "text", "image", not "html"',
        ),
        ({"block": {"type": "image"}}, ("block", "data"), "is missing"),
        ({"block": 1}, ("block",), "must be an object, not 1"),
        ({"either": {}}, ("either",), "must have text or blob"),
        ({"other": 1}, ("other",), "must be a boolean, not 1"),
        ({"count": Outlined("string")}, ("count",), "must be an integer, not a string"),
    ],
)
def test_an_error_says_where_it_is_and_what_was_expected(
    value: Any, path: tuple[str | int, ...], expected: str
) -> None:
    if isinstance(value, dict) and value:
        value = {"name": "a"} | value
    [error] = Validator(DEFINITIONS).errors(SCHEMA, value)

    assert (error.path, error.expected) == (path, expected)


@pytest.mark.parametrize(
    "value",
    [
        {"name": MARK, "count": f"the {MARK}"},
        {"name": Outlined("string"), "count": Outlined("number"), "level": Outlined("string")},
        {"name": "a", "count": 3.0, "list": ["a", 1], "block": {"type": "text"}, "other": False},
    ],
)
def test_what_fits_or_cannot_be_known_is_no_error(value: Any) -> None:
    assert not list(Validator(DEFINITIONS).errors(SCHEMA, value))


def changed(values: Any, rng: random.Random) -> Any:
    """A copy with one value somewhere inside removed or replaced."""
    values = deepcopy(values)
    place, key = rng.choice(list(places(values)))
    if rng.random() < 0.4:
        del place[key]
    else:
        place[key] = deepcopy(rng.choice(VALUES))
    return values


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, member in pairs:
        yield value, key
        if isinstance(member, dict | list):
            yield from places(member)


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_message_fits_exactly_if_it_fits_for_a_whole_validator(revision: str) -> None:
    validator = schema_of(revision).validator
    definitions = validator.definitions
    key = "$defs" if "#/$defs/" in msgspec.json.encode(definitions).decode() else "definitions"
    rng = random.Random(revision)
    messages = [
        line
        for pair in EXAMPLES.values()
        for part in pair
        for line in part
        if isinstance(line, dict)
    ]
    fitting = 0
    for name in sorted(definitions):
        if not name.endswith(("Result", "Request", "Notification", "Response", "Error")):
            continue
        whole = jsonschema_rs.validator_for({"$ref": f"#/{key}/{name}", key: definitions})
        for message in rng.sample(messages, ROUNDS):
            for value in (message, message.get("result"), changed(message, rng)):
                fits = whole.is_valid(value)
                assert fits is not any(validator.errors(definitions[name], value)), (name, value)
                fitting += fits
    assert fitting


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_schemas_use_no_keyword_that_is_not_understood(revision: str) -> None:
    used: set[str] = set()

    def walk(schema: Any) -> None:
        if isinstance(schema, dict):
            used.update(schema)
            named = schema.get("properties", {}).values()
            nested = (schema.get(word) for word in ("items", "additionalProperties"))
            for part in (*named, *nested, *schema.get("anyOf", ()), *schema.get("allOf", ())):
                walk(part)

    for definition in schema_of(revision).validator.definitions.values():
        walk(definition)
    assert used <= KEYWORDS | ANNOTATIONS

"""Header fields carry any value, and are compared with the body that they repeat."""

import base64
import random
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anyport.protocol.headers import (
    NAMED_BY,
    NO_ANNOTATIONS,
    decode_value,
    encode_param_fields,
    encode_value,
    find_disagreement,
    read_annotations,
)

FUZZED_VALUES = 10_000


def wrapped(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def annotated(**properties: Any) -> Any:
    return read_annotations(msgspec.json.encode({"type": "object", "properties": properties}))


REGION = {"region": {"type": "string", "x-mcp-header": "Region"}}
COUNT = {"count": {"type": "integer", "x-mcp-header": "Count"}}
FLAG = {"flag": {"type": "boolean", "x-mcp-header": "Flag"}}


# Values.


@pytest.mark.parametrize("text", ["", "echo", "a b", "file:///a?b=c", "=?base64?", "?=", "=?x?="])
def test_what_http_leaves_alone_is_sent_as_it_is(text: str) -> None:
    assert encode_value(text) == text


@pytest.mark.parametrize(
    "text", [" a", "a ", "a\tb", "ä", "a\r\nHost: evil", "\0", "\x7f", "=?base64?YQ==?=", "\u2028"]
)
def test_what_http_would_change_is_wrapped(text: str) -> None:
    assert encode_value(text) == wrapped(text)


def test_no_fuzzed_value_breaks_out_of_its_field_or_is_changed() -> None:
    chance = random.Random(16)
    alphabet = "\r\n\0\t \x7f=?base64YQ+/:,;\"'\\äß€😀\u2028\u0085"
    for _ in range(FUZZED_VALUES):
        text = "".join(chance.choices(alphabet, k=chance.randrange(24)))

        value = encode_value(text)

        assert value.isascii()
        assert value.isprintable()
        assert value == value.strip()
        assert decode_value(value) == text


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("=?base64?YQ==?=")
@example("=?base64?=")
def test_every_text_comes_back(text: str) -> None:
    assert decode_value(encode_value(text)) == text


@pytest.mark.parametrize(
    "raw",
    [
        "=?base64?YQ?=",  # no padding
        "=?base64?YR==?=",  # spare bits
        "=?base64?Y Q==?=",
        "=?base64?_-==?=",
        "=?base64?/w==?=",  # not UTF-8
        "=?base64?YQ==YQ==?=",
    ],
)
def test_what_is_wrapped_in_another_way_is_refused(raw: str) -> None:
    assert decode_value(raw) is None


# Annotations.


def test_a_schema_without_annotations_has_no_fields() -> None:
    assert read_annotations(b'{"type":"object"}') is NO_ANNOTATIONS
    assert read_annotations(b"[") is NO_ANNOTATIONS
    assert annotated(a={"type": "string", "description": "\u2028"}) == {}


def test_annotations_are_found_where_properties_lead() -> None:
    nested = {"type": "object", "properties": REGION}

    assert annotated(**COUNT, where=nested) == {"Count": ("count",), "Region": ("where", "region")}


def test_a_property_may_be_called_like_the_annotation() -> None:
    assert annotated(**{"x-mcp-header": {"type": "string"}}) == {}


def test_an_annotation_in_an_example_is_no_annotation() -> None:
    assert annotated(a={"type": "object", "default": REGION["region"], "const": REGION}) == {}


def test_an_escaped_spelling_is_the_same_annotation() -> None:
    schema = rb'{"properties":{"a":{"type":"string","x\u002dmcp-header":"A"}}}'

    assert read_annotations(schema) == {"A": ("a",)}


@pytest.mark.parametrize(
    "part",
    [
        {"type": "string", "x-mcp-header": ""},
        {"type": "string", "x-mcp-header": "a b"},
        {"type": "string", "x-mcp-header": "a\r\nHost: evil"},
        {"type": "string", "x-mcp-header": "ä"},
        {"type": "string", "x-mcp-header": 5},
        {"type": "number", "x-mcp-header": "A"},
        {"type": "object", "x-mcp-header": "A"},
        {"type": ["string", "null"], "x-mcp-header": "A"},
        {"x-mcp-header": "A"},
        {"type": "array", "items": REGION["region"]},
        {"type": "array", "prefixItems": [REGION["region"]]},
        {"anyOf": [REGION["region"]]},
        {"not": {"properties": REGION}},
        {"type": "object", "patternProperties": {"a": REGION["region"]}},
    ],
)
def test_an_invalid_annotation_is_reported(part: Any) -> None:
    found = annotated(part=part)

    assert isinstance(found, str)
    assert found.startswith("x-mcp-header: ")
    assert "\n" not in found


def test_two_annotations_that_differ_in_case_alone_are_invalid() -> None:
    twice = annotated(**REGION, b={"type": "string", "x-mcp-header": "REGION"})

    assert isinstance(twice, str)
    assert "twice" in twice


def test_the_root_of_a_schema_cannot_be_annotated() -> None:
    assert isinstance(read_annotations(b'{"type":"string","x-mcp-header":"A"}'), str)


# Fields from arguments.


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        (b"", []),
        (b"{}", []),
        (b'{"region":null,"count":null}', []),
        (b'{"region":["eu"]}', []),
        (b'{"region":"eu","count":7,"flag":true}', ["eu", "7", "true"]),
        (b'{"region":"","count":-3,"flag":false}', ["", "-3", "false"]),
        (b'{"region":"a\\nb"}', [wrapped("a\nb")]),
        (b'{"count":42.0}', ["42"]),
        (b'{"count":4.2e1}', ["42"]),
        (b'{"count":1.5}', ["1.5"]),
        (b'{"count":9007199254740993}', ["9007199254740993"]),
    ],
)
def test_fields_are_made_from_the_arguments(arguments: bytes, fields: list[str]) -> None:
    known = annotated(**REGION, **COUNT, **FLAG)

    made = encode_param_fields(known, arguments)

    assert sorted(value for _, value in made) == sorted(fields)
    assert {name for name, _ in made} <= {"Mcp-Param-Region", "Mcp-Param-Count", "Mcp-Param-Flag"}


def test_nested_arguments_are_found() -> None:
    known = {"Region": ("where", "region")}

    assert encode_param_fields(known, b'{"where":{"region":"eu"}}') == [("Mcp-Param-Region", "eu")]
    assert encode_param_fields(known, b'{"where":"eu"}') == []


# Fields against arguments.


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        (b"{}", {}),
        (b'{"count":42}', {"mcp-param-count": "42"}),
        (b'{"count":42}', {"mcp-param-count": "42.0"}),
        (b'{"count":42.0}', {"mcp-param-count": "42"}),
        (b'{"count":42}', {"mcp-param-count": "042"}),
        (b'{"region":"eu"}', {"mcp-param-region": "eu"}),
        (b'{"region":"eu"}', {"mcp-param-region": wrapped("eu")}),
        (b'{"region":"e\\u00fc"}', {"mcp-param-region": wrapped("eü")}),
        (b'{"flag":true}', {"mcp-param-flag": "true"}),
        (b"{}", {"mcp-param-other": "x"}),
    ],
)
def test_fields_that_repeat_the_arguments_pass(arguments: bytes, sent: dict[str, str]) -> None:
    assert find_disagreement(annotated(**REGION, **COUNT, **FLAG), arguments, sent) is None


@pytest.mark.parametrize(
    ("arguments", "sent", "words"),
    [
        (b'{"count":42}', {}, "missing"),
        (b"{}", {"mcp-param-count": "42"}, "is not"),
        (b'{"count":null}', {"mcp-param-count": "null"}, "is not"),
        (b'{"count":42}', {"mcp-param-count": "43"}, "not what"),
        (b'{"count":42}', {"mcp-param-count": "forty-two"}, "not what"),
        (b'{"region":"42"}', {"mcp-param-region": "42.0"}, "not what"),
        (b'{"region":"EU"}', {"mcp-param-region": "eu"}, "not what"),
        (b'{"flag":true}', {"mcp-param-flag": "True"}, "not what"),
        (b'{"region":"a"}', {"mcp-param-region": "=?base64?YR==?="}, "encoded"),
    ],
)
def test_fields_that_contradict_the_arguments_are_reported(
    arguments: bytes, sent: dict[str, str], words: str
) -> None:
    events = find_disagreement(annotated(**REGION, **COUNT, **FLAG), arguments, sent)

    assert events is not None
    assert words in events


def test_the_methods_of_an_extension_have_their_mcp_name() -> None:
    assert NAMED_BY["tasks/get"] == "taskId"
    assert NAMED_BY["resources/read"] == "uri"
    assert not {"skills/get", "resources/directory/read", "tools/list"} & NAMED_BY.keys()

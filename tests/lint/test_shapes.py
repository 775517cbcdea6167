"""The members of a payload, from the payload or from its outline."""

import pytest

from anyport.lint.model import Frame, NotRecorded
from anyport.lint.shapes import member_types, payload_type
from anyport.record.redact.outline import OutlineBuilder

PAYLOAD = {"name": "a}]", "list": [{"x": 1}], "n": 1.5, "b": True, "z": None, "o": {"p": {"q": 1}}}
KINDS = {
    "name": "string",
    "list": "array",
    "n": "number",
    "b": "boolean",
    "z": "null",
    "o": "object",
}


def test_a_payload_and_its_outline_tell_the_same() -> None:
    raw = b'{"name":"a}]","list":[{"x":1}],"n":1.5,"b":true,"z":null,"o":{"p":{"q":1}}}'
    outline = OutlineBuilder(lambda text: text).outline(raw).decode().replace('\\"', '"')

    assert member_types(Frame(kind="response", payload=PAYLOAD)) == KINDS
    assert member_types(Frame(kind="response", shape=outline)) == KINDS


@pytest.mark.parametrize(
    ("payload", "kind"),
    [({}, "object"), ([], "array"), ("x", "string"), (1, "number"), (None, "null")],
)
def test_a_payload_has_a_type(payload: object, kind: str) -> None:
    assert payload_type(Frame(kind="response", payload=payload)) == kind


def test_an_outline_has_a_type() -> None:
    assert payload_type(Frame(kind="response", shape='[{"a":s} x3]')) == "array"


@pytest.mark.parametrize(
    "shape", [None, "", "?", "s", '{"a":s,... x3}', '{"a":{"b"', '{"a":s', "{..."]
)
def test_what_was_left_out_cannot_be_told(shape: str | None) -> None:
    with pytest.raises(NotRecorded):
        member_types(Frame(kind="response", shape=shape))


def test_keys_with_quotes_and_brackets_confuse_nothing() -> None:
    assert member_types(Frame(kind="response", shape='{"a\\"{":{"}":s},"b":n}')) == {
        'a\\"{': "object",
        "b": "number",
    }

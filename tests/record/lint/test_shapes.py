"""The members of a payload, from the payload or from its outline."""

import pytest

from anyport.record.lint.model import CannotTell, Frame
from anyport.record.lint.shapes import kind_of_payload, members_of
from anyport.record.outline import Outlines

PAYLOAD = {"name": "a}]", "list": [{"x": 1}], "n": 1.5, "b": True, "z": None, "o": {"p": {"q": 1}}}
KINDS = {"name": "s", "list": "[", "n": "n", "b": "b", "z": "z", "o": "{"}


def test_a_payload_and_its_outline_tell_the_same() -> None:
    raw = b'{"name":"a}]","list":[{"x":1}],"n":1.5,"b":true,"z":null,"o":{"p":{"q":1}}}'
    outline = Outlines(lambda text: text).of(raw).decode().replace('\\"', '"')

    assert members_of(Frame(kind="response", payload=PAYLOAD)) == KINDS
    assert members_of(Frame(kind="response", shape=outline)) == KINDS


@pytest.mark.parametrize(
    ("payload", "kind"), [({}, "{"), ([], "["), ("x", "s"), (1, "n"), (None, "z")]
)
def test_a_payload_has_a_type(payload: object, kind: str) -> None:
    assert kind_of_payload(Frame(kind="response", payload=payload)) == kind


def test_an_outline_has_a_type() -> None:
    assert kind_of_payload(Frame(kind="response", shape='[{"a":s} x3]')) == "["


@pytest.mark.parametrize(
    "shape", [None, "", "?", "s", '{"a":s,... x3}', '{"a":{"b"', '{"a":s', "{..."]
)
def test_what_was_left_out_cannot_be_told(shape: str | None) -> None:
    with pytest.raises(CannotTell):
        members_of(Frame(kind="response", shape=shape))


def test_keys_with_quotes_and_brackets_confuse_nothing() -> None:
    assert members_of(Frame(kind="response", shape='{"a\\"{":{"}":s},"b":n}')) == {
        'a\\"{': "{",
        "b": "n",
    }

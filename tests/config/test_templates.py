"""References to an event's fields: paths, and nothing but paths."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.config.templates import (
    EVENT_FIELDS,
    BadTemplate,
    fill_templates,
    parse_templates,
    read_template,
)
from anyport.record.event import EventRecord

EVENT: dict[str, Any] = {
    "event_type": "gateway.tool_call",
    "status": "failure",
    "duration_ms": 12.5,
    "error_code": -32000,
    "metadata": {"server": "github", "cached": True, "frames": ["a", "b"], "profile": "dev"},
}


def filled(value: Any) -> tuple[Any, list[str]]:
    missing: list[str] = []
    return fill_templates(parse_templates(value), EVENT, missing), missing


def test_the_fields_are_those_of_an_event() -> None:
    assert EventRecord.__struct_fields__ == EVENT_FIELDS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("", ""),
        ("{ not } a {reference}", "{ not } a {reference}"),
        ("{{ metadata.server }}", "github"),
        ("{{metadata.server}} failed", "github failed"),
        ("{{ metadata.server }}/{{ status }}", "github/failure"),
        ("took {{ duration_ms }} ms", "took 12.5 ms"),
        ("code {{ error_code }}, {{ metadata.cached }}", "code -32000, true"),
        ("{{ metadata.frames }}!", '["a","b"]!'),
    ],
)
def test_a_reference_is_replaced_by_what_the_event_has(text: str, expected: str) -> None:
    assert filled(text) == (expected, [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ duration_ms }}", 12.5),
        ("{{ error_code }}", -32000),
        ("{{ metadata.cached }}", True),
        ("{{ metadata.frames }}", ["a", "b"]),
    ],
)
def test_a_text_that_is_one_reference_alone_is_the_value_itself(text: str, expected: Any) -> None:
    assert filled(text) == (expected, [])


def test_what_the_event_lacks_is_empty_and_told() -> None:
    value = {"a": "{{ metadata.tool }}", "b": ["<{{ error_message }}>", "{{ status.x }}"]}

    assert filled(value) == (
        {"a": "", "b": ["<>", ""]},
        ["metadata.tool", "error_message", "status.x"],
    )


def test_a_table_is_filled_however_deep_and_everything_else_stays() -> None:
    value = {"n": 1, "t": True, "l": [{"x": "{{ status }}"}, 2.5], "{{ status }}": "key"}

    assert filled(value)[0] == {
        "n": 1,
        "t": True,
        "l": [{"x": "failure"}, 2.5],
        "{{ status }}": "key",
    }


def test_what_an_event_says_is_never_read_as_a_template() -> None:
    event = {"error_message": "{{ metadata.server }}", "metadata": {"server": "secret"}}

    assert (
        fill_templates(parse_templates("> {{ error_message }}"), event, [])
        == "> {{ metadata.server }}"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ metadata.server", "has '{{' without a closing '}}'"),
        ("a {{ {{ status }}", "has '{{' without a closing '}}'"),
        ("{{ }}", "has a reference that is no path of names"),
        ("{{ status | upper }}", "has a reference that is no path of names"),
        ("{{ metadata['server'] }}", "has a reference that is no path of names"),
        ("{{ metadata..server }}", "has a reference that is no path of names"),
        ("{{ stauts }}", "refers to 'stauts', which no event has"),
        ("{{ __class__ }}", "refers to '__class__', which no event has"),
    ],
)
def test_what_is_no_path_to_a_field_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadTemplate) as caught:
        read_template(text)
    assert caught.value.message == message
    assert caught.value.hint


def test_the_nearest_field_is_suggested() -> None:
    with pytest.raises(BadTemplate) as caught:
        read_template("{{ stauts }}")
    assert caught.value.hint == "did you mean status?"


@given(st.text(alphabet="{} .metadaservstu_", max_size=60))
def test_any_text_is_read_or_refused_and_what_is_read_can_be_filled(text: str) -> None:
    try:
        prepared = parse_templates(text)
    except BadTemplate:
        return
    msgspec.json.encode(fill_templates(prepared, EVENT, []))

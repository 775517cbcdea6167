"""Downgrades of questions for clients of older revisions."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.protocol.adapters.downgrade import downgrade_question_params, explain_inexpressible
from anyport.protocol.revisions import LEGACY, REVISIONS, Revision
from tests.schema import check_sent

FORM = "elicitation/create"
SAMPLE = "sampling/createMessage"
OLD, NEW = REVISIONS["2025-06-18"], REVISIONS["2025-11-25"]
BEFORE_FORMS = [REVISIONS["2024-11-05"], REVISIONS["2025-03-26"]]
TITLED = {
    "type": "string",
    "title": "Colour",
    "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}],
}
SEVERAL = {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}


def asked(method: str, params: Any, revision: Revision) -> Any:
    converted = downgrade_question_params(method, json.dumps(params).encode(), revision)
    return None if converted is None else json.loads(converted)


def form(required: list[str] | None = None, **fields: Any) -> Any:
    schema: dict[str, Any] = {"type": "object", "properties": fields}
    if required is not None:
        schema["required"] = required
    return {"message": "m", "requestedSchema": schema}


def fields(params: Any) -> Any:
    return params["requestedSchema"]["properties"]


@pytest.mark.parametrize("params", [b'{ "mode":"form", "message" : 1 }', b'{"message":"m"}'])
def test_a_question_that_needs_no_downgrade_keeps_its_bytes(params: bytes) -> None:
    assert downgrade_question_params(FORM, params, NEW) == params
    assert downgrade_question_params(SAMPLE, params, NEW) == params
    assert downgrade_question_params("roots/list", params, REVISIONS["2024-11-05"]) == params


def test_an_older_form_has_no_mode_no_schema_of_its_own_and_is_no_task() -> None:
    params = form(a={"type": "string"})
    newer = {**params, "mode": "form", "task": {"ttl": 1}, "vendor": 1}
    newer["requestedSchema"] = {"$schema": "x", **params["requestedSchema"]}

    assert asked(FORM, newer, OLD) == {**params, "vendor": 1}


def test_an_older_form_has_no_defaults_but_those_of_switches() -> None:
    converted = asked(
        FORM,
        form(
            a={"type": "string", "default": "x", "minLength": 1},
            b={"type": "integer", "default": 1},
            c={"type": "boolean", "default": True},
            d={"type": "string", "enum": ["p"], "enumNames": ["P"], "default": "p"},
        ),
        OLD,
    )

    assert fields(converted) == {
        "a": {"type": "string", "minLength": 1},
        "b": {"type": "integer"},
        "c": {"type": "boolean", "default": True},
        "d": {"type": "string", "enum": ["p"], "enumNames": ["P"]},
    }


def test_a_form_of_many_fields_takes_no_longer_than_its_fields() -> None:
    fields = {f"f{number}": {"type": "string", "default": "x"} for number in range(50_000)}
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    params = json.dumps({"message": "?", "requestedSchema": schema}).encode()
    began = time.process_time()

    told = downgrade_question_params(FORM, params, OLD)

    assert told is not None
    assert set(map(len, json.loads(told)["requestedSchema"]["properties"].values())) == {1}
    assert time.process_time() - began < 3


def test_titled_choices_are_values_with_names_beside_them() -> None:
    converted = asked(FORM, form(a=TITLED, b={"type": "string", "oneOf": [{"const": "x"}]}), OLD)

    assert fields(converted) == {
        "a": {
            "type": "string",
            "title": "Colour",
            "enum": ["r", "g"],
            "enumNames": ["Red", "Green"],
        },
        "b": {"type": "string", "enum": ["x"], "enumNames": ["x"]},
    }


def test_a_field_of_several_choices_is_left_out_where_it_may_be() -> None:
    converted = asked(FORM, form(["a"], a={"type": "string"}, b=SEVERAL), OLD)

    assert converted == form(["a"], a={"type": "string"})


@pytest.mark.parametrize(
    "params",
    [
        form(["b"], a={"type": "string"}, b=SEVERAL),
        form(b=SEVERAL),
        {"mode": "url", "message": "m", "url": "https://e.com"},
    ],
    ids=["needed", "alone", "url"],
)
def test_what_an_older_client_cannot_be_asked_is_not_asked(params: Any) -> None:
    assert asked(FORM, params, OLD) is None
    assert asked(FORM, params, NEW) is not None
    assert "2025-06-18" in explain_inexpressible(FORM, OLD)


@pytest.mark.parametrize("revision", BEFORE_FORMS, ids=lambda revision: revision.name)
def test_clients_from_before_there_were_forms_are_asked_none(revision: Revision) -> None:
    assert asked(FORM, form(a={"type": "string"}), revision) is None


def test_an_address_to_open_has_an_id_which_is_the_same_for_the_same_address() -> None:
    params = {"mode": "url", "message": "m", "url": "https://e.com"}
    first, again = asked(FORM, params, NEW), asked(FORM, {**params, "message": "n"}, NEW)
    other = asked(FORM, {**params, "url": "https://e.org"}, NEW)

    assert {**first, "elicitationId": 0} == {**params, "elicitationId": 0}
    assert first["elicitationId"] == again["elicitationId"] != other["elicitationId"]
    known = {**params, "elicitationId": "mine"}
    assert asked(FORM, known, NEW) == known


TEXT = {"type": "text", "text": "t"}


def sample(*contents: Any, **rest: Any) -> Any:
    messages = [{"role": "user", "content": content} for content in contents]
    return {"maxTokens": 1, "messages": messages, **rest}


@pytest.mark.parametrize(
    ("params", "converted"),
    [
        (sample(TEXT), sample(TEXT)),
        (sample([TEXT], TEXT), sample(TEXT, TEXT)),
        (sample(TEXT, tools=[], toolChoice={"mode": "none"}), sample(TEXT)),
        (sample(TEXT, tools=None, task={}), sample(TEXT)),
        (sample(TEXT, tools=[{"name": "x"}]), None),
        (sample([TEXT, TEXT]), None),
        (sample([]), None),
        (sample({"type": "tool_use", "id": "1"}), None),
        (sample([{"type": "tool_result"}]), None),
        ({"maxTokens": 1}, {"maxTokens": 1}),
        (
            {"maxTokens": 1, "messages": [{"role": "user"}]},
            {"maxTokens": 1, "messages": [{"role": "user"}]},
        ),
    ],
)
def test_an_older_model_has_no_tools_and_one_block_to_a_message(
    params: Any, converted: Any
) -> None:
    assert asked(SAMPLE, params, OLD) == converted
    assert asked(SAMPLE, params, NEW) == params


def test_audio_is_not_sent_to_a_model_of_a_revision_without_it() -> None:
    sound = sample({"type": "audio", "data": "", "mimeType": "audio/wav"})

    assert asked(SAMPLE, sound, REVISIONS["2024-11-05"]) is None
    assert asked(SAMPLE, sound, REVISIONS["2025-03-26"]) == sound


@pytest.mark.parametrize("method", [FORM, SAMPLE, "roots/list"])
def test_hop_keys_of_modern_messages_reach_no_session(method: str) -> None:
    own = {"io.modelcontextprotocol/clientInfo": {}, "io.modelcontextprotocol/logLevel": "info"}
    task = {"io.modelcontextprotocol/related-task": {"taskId": "1"}}

    assert asked(method, {"_meta": {**own, "k": 1, **task}}, NEW) == {"_meta": {"k": 1, **task}}
    assert asked(method, {"_meta": own}, NEW) == {}


@pytest.mark.parametrize(
    "params",
    [
        b"[]",
        b'{"requestedSchema":1}',
        b'{"requestedSchema":{"properties":1}}',
        b'{"requestedSchema":{"properties":{"a":1}}}',
        b'{"mode":"form","mode":"form"}',
        b'{"messages":[1]}',
        b'{"messages":[{"content":"words"}]}',
        b'{"_meta":{"io.modelcontextprotocol/logLevel":1,"io.modelcontextprotocol/logLevel":2}}',
    ],
)
@pytest.mark.parametrize("method", [FORM, SAMPLE])
def test_odd_params_are_left_to_the_client(method: str, params: bytes) -> None:
    converted = downgrade_question_params(method, params, OLD)

    assert converted is not None
    if b'"form"' not in params or method == FORM:
        assert converted == params


def test_every_question_that_cannot_be_expressed_has_a_reason() -> None:
    assert "tools" in explain_inexpressible(SAMPLE, OLD)
    assert explain_inexpressible("roots/list", OLD).endswith("ask this")


# Checked against the official schemas, made strict.

WORDS = st.text(max_size=5)
CHOICES = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, unique=True)
ONE_OF = CHOICES.map(lambda values: [{"const": value, "title": value * 2} for value in values])


def holding(must: Any, **may: Any) -> Any:
    return st.fixed_dictionaries(must, optional={"title": WORDS, "description": WORDS, **may})


FIELD = st.one_of(
    holding({"type": st.just("string")}, default=WORDS, format=st.just("email")),
    holding({"type": st.sampled_from(["number", "integer"])}, default=st.integers(0, 9)),
    holding({"type": st.just("boolean")}, default=st.booleans()),
    holding({"type": st.just("string"), "enum": CHOICES}, default=st.just("a")),
    holding({"type": st.just("string"), "enum": CHOICES}, enumNames=CHOICES),
    holding({"type": st.just("string"), "oneOf": ONE_OF}, default=st.just("a")),
    holding(
        {
            "type": st.just("array"),
            "items": st.fixed_dictionaries({"type": st.just("string"), "enum": CHOICES}),
        },
        default=CHOICES,
    ),
    holding({"type": st.just("array"), "items": st.fixed_dictionaries({"anyOf": ONE_OF})}),
)
FORMS = st.fixed_dictionaries(
    {
        "message": WORDS,
        "requestedSchema": st.fixed_dictionaries(
            {
                "type": st.just("object"),
                "properties": st.dictionaries(st.sampled_from(["x", "y", "z"]), FIELD, max_size=3),
            },
            optional={"required": st.just(["x"]), "$schema": st.just("s")},
        ),
    },
    optional={"mode": st.just("form")},
)
URLS = st.fixed_dictionaries(
    {"message": WORDS, "mode": st.just("url"), "url": st.just("https://example.com/")}
)


@given(st.sampled_from(LEGACY), FORMS | URLS)
def test_every_form_is_one_of_the_clients_revision(revision: Revision, params: Any) -> None:
    converted = asked(FORM, params, revision)

    if converted is not None:
        message = {"jsonrpc": "2.0", "id": 1, "method": FORM, "params": converted}
        check_sent(revision.name, message)


BLOCK = st.sampled_from(
    [
        TEXT,
        {"type": "image", "data": "", "mimeType": "image/png"},
        {"type": "audio", "data": "", "mimeType": "audio/wav"},
        {"type": "tool_use", "id": "1", "name": "t", "input": {}},
        {"type": "tool_result", "toolUseId": "1", "content": []},
    ]
)
TOOLS: st.SearchStrategy[Any] = st.just(
    [{"name": "t", "inputSchema": {"type": "object"}}]
) | st.just([])


@given(
    st.sampled_from(LEGACY),
    st.lists(BLOCK | st.lists(BLOCK, max_size=2), max_size=3),
    st.fixed_dictionaries({}, optional={"tools": TOOLS, "toolChoice": st.just({"mode": "auto"})}),
)
def test_every_sample_is_one_of_the_clients_revision(
    revision: Revision, contents: list[Any], rest: Any
) -> None:
    converted = asked(SAMPLE, sample(*contents, **rest), revision)

    if converted is not None:
        check_sent(
            revision.name, {"jsonrpc": "2.0", "id": 1, "method": SAMPLE, "params": converted}
        )

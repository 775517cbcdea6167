"""Upgrades of legacy servers' messages for modern clients."""

import json
from typing import Any

import pytest

from anyport.protocol.adapters.upgrade import (
    embed_question_params,
    encode_input_request,
    encode_input_required,
    upgrade_error,
    upgrade_tool,
)
from tests.schema import check_result

FORM = "elicitation/create"
SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "enum": ["x"]}}}
NAMED = {
    "type": "object",
    "properties": {"a": {"type": "string", "enum": ["x"], "enumNames": ["X"]}},
}


@pytest.mark.parametrize(
    ("method", "params", "converted"),
    [
        (
            FORM,
            {"message": "m", "requestedSchema": SCHEMA},
            {"message": "m", "requestedSchema": SCHEMA, "mode": "form"},
        ),
        (
            FORM,
            {"mode": None, "message": "m", "requestedSchema": NAMED, "task": {"ttl": 1}},
            {"mode": "form", "message": "m", "requestedSchema": NAMED},
        ),
        (
            FORM,
            {"mode": "url", "message": "m", "url": "https://e.com", "elicitationId": "1"},
            {"mode": "url", "message": "m", "url": "https://e.com"},
        ),
        (
            "sampling/createMessage",
            {"messages": [], "maxTokens": 1, "_meta": {"progressToken": 1}, "task": {}},
            {"messages": [], "maxTokens": 1},
        ),
        (
            "roots/list",
            {"_meta": {"progressToken": 1, "io.modelcontextprotocol/related-task": {}, "k": 1}},
            {"_meta": {"k": 1}},
        ),
        ("roots/list", {}, {}),
    ],
)
def test_a_question_in_a_result_has_nothing_of_sessions(
    method: str, params: Any, converted: Any
) -> None:
    entry = json.loads(embed_question_params(method, json.dumps(params).encode()) or b"")

    assert entry == converted
    result = {
        "resultType": "input_required",
        "inputRequests": {"q": {"method": method, "params": converted}},
    }
    check_result("2026-07-28", "tools/call", result)


def test_a_question_that_needs_no_change_keeps_its_bytes() -> None:
    params = b'{ "mode" : "form", "n":1.0 }'

    assert embed_question_params(FORM, params) == params
    assert embed_question_params("roots/list", None) is None


@pytest.mark.parametrize("params", [b"[]", b'{"mode":"form","mode":"url","task":1}'])
def test_an_odd_question_is_left_to_the_client(params: bytes) -> None:
    assert embed_question_params(FORM, params) == params


@pytest.mark.parametrize(
    ("tool", "converted"),
    [
        (b'{ "name":"a", "x":1 }', b'{ "name":"a", "x":1 }'),
        (b'{"name":"a","execution":{"taskSupport":"required"},"x":1}', b'{"name":"a","x":1}'),
        (b'{"name":"execution","x":["execution"]}', b'{"name":"execution","x":["execution"]}'),
        (b'{"execution":1,"execution":2}', b'{"execution":1,"execution":2}'),
    ],
)
def test_a_tool_says_nothing_of_tasks_in_a_session(tool: bytes, converted: bytes) -> None:
    assert upgrade_tool(tool) == converted


@pytest.mark.parametrize(
    ("error", "converted"),
    [
        (b'{"code":-32002,"message":"m","data":{}}', b'{"code":-32602,"message":"m","data":{}}'),
        (b'{"code":-32003,"message":"m"}', b'{"code":-32003,"message":"m"}'),
        (b'{"message":"m"}', b'{"message":"m"}'),
        (b"[]", b"[]"),
        (b'{"code":-32002,"code":-32002}', b'{"code":-32002,"code":-32002}'),
    ],
)
def test_a_resource_that_is_not_there_makes_the_params_invalid(
    error: bytes, converted: bytes
) -> None:
    assert upgrade_error(error) == converted


def test_a_result_that_sends_a_client_away_has_its_questions_and_a_state() -> None:
    asked = encode_input_request("roots/list", None)
    converted = encode_input_request("elicitation/create", b'{"mode":"form"}')

    assert json.loads(encode_input_required([("a", asked), ("b", converted)], b'"state"')) == {
        "resultType": "input_required",
        "inputRequests": {
            "a": {"method": "roots/list"},
            "b": {"method": "elicitation/create", "params": {"mode": "form"}},
        },
        "requestState": "state",
    }

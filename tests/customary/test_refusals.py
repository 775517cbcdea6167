"""What goes wrong in customary ways, and the customary codes for it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import LineClient, Message, transparent
from tests.journeys.scripts import Scripted, failure, gateway, rule, tools

CODES = [
    (-32700, "Parse error"),
    (-32600, "Invalid Request"),
    (-32601, "Method not found"),
    (-32602, "Invalid params"),
    (-32603, "Internal error"),
    (-32000, "Server error"),
    (-32001, "Resource not found"),
    (-32002, "Tool error"),
    (-32003, "Authorization error"),
    (-32099, "The last of the reserved range"),
]


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LineClient]:
    """A session of the first revision with an idle server behind it."""
    path = tmp_path_factory.mktemp("oldest")
    server = Scripted(path, tools("create_issue"))
    with gateway(path, {"github": server.command}) as client:
        client.initialize("2024-11-05")
        yield client


def answer_to(client: LineClient, line: str | bytes) -> Message:
    client.send((line.encode() if isinstance(line, str) else line) + b"\n")
    return client.next()


UNKNOWN_METHODS = [
    '{   "jsonrpc": "2.0",   "id": 1,   "method": "method/name",   "params": {} }',
    '{   "jsonrpc": "2.0",   "id": 1,   "method": "method_name",   "params": {} }',
    '{   "jsonrpc": "2.0",   "method": "some_method_name",   "params": {},   "id": 1 }',
    '{   "jsonrpc": "2.0",   "id": 5,   "method": "unknown_method" }',
    '{"jsonrpc": "2.0", "id": 6, "method": "resources/get", "params": {"uri": "a:b"}}',
    '{"jsonrpc": "2.0", "id": 7, "method": "rpc.discover"}',
]


@pytest.mark.parametrize("line", UNKNOWN_METHODS)
def test_a_method_nobody_has_is_named_in_the_refusal(oldest: LineClient, line: str) -> None:
    asked = json.loads(line)
    assert answer_to(oldest, line) == {
        "jsonrpc": "2.0",
        "id": asked["id"],
        "error": {"code": -32601, "message": f"Method not found: {asked['method']}"},
    }


def test_a_tool_nobody_has_is_not_found_in_the_oldest_revision(oldest: LineClient) -> None:
    line = '{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "unknown_tool"}}'
    assert answer_to(oldest, line) == {
        "jsonrpc": "2.0",
        "id": 3,
        "error": {"code": -32601, "message": "Tool not found: unknown_tool"},
    }


def test_a_tool_nobody_has_is_a_bad_parameter_later(tmp_path: Path) -> None:
    server = Scripted(tmp_path, tools("create_issue"))
    with gateway(tmp_path, {"github": server.command}) as client:
        for revision in ("2025-03-26", "2025-06-18", "2025-11-25"):
            client.initialize(revision)
            error = client.call("unknown_tool")["error"]
            assert (error["code"], error["message"]) == (-32602, "Unknown tool: unknown_tool")


NOT_JSON = [
    "not json",
    '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"',
    '{   "jsonrpc": "2.0",  // Always the same    "id": 1,   "method": "initialize" }',
    '{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { ... }}',
    "{'jsonrpc': '2.0', 'id': 1, 'method': 'tools/list'}",
]


@pytest.mark.parametrize("line", NOT_JSON)
def test_what_is_not_json_is_a_parse_error_of_nobody(oldest: LineClient, line: str) -> None:
    answer = answer_to(oldest, line)
    assert (answer["id"], answer["error"]["code"]) == (None, -32700)
    assert answer["error"]["message"].startswith("Parse error")


@pytest.mark.parametrize(
    ("line", "id"),
    [
        ('{"jsonrpc": "1.0", "id": 1, "method": "ping"}', 1),
        ('{"id": 2, "method": "ping"}', 2),
        ('{"jsonrpc": "2.0", "id": 3, "method": 7}', 3),
        ('{"jsonrpc": "2.0", "id": null, "method": "ping"}', None),
        ('{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', None),
        ('{"jsonrpc": "2.0", "id": "four"}', "four"),
        ("42", None),
    ],
)
def test_what_is_not_json_rpc_is_an_invalid_request(oldest: LineClient, line: str, id: Any) -> None:
    answer = answer_to(oldest, line)
    assert (answer["id"], answer["error"]["code"]) == (id, -32600)
    assert answer["error"]["message"].startswith("Invalid Request")


def test_params_by_position_are_invalid_params(oldest: LineClient) -> None:
    line = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params": ["first_param", 42, true]}'
    answer = answer_to(oldest, line)
    assert (answer["id"], answer["error"]["code"]) == (1, -32602)


def test_params_by_name_that_no_method_knows_do_no_harm(oldest: LineClient) -> None:
    line = (
        '{"jsonrpc":"2.0","id":1,"method":"ping",'
        '"params": {               "name": "my-project",               "version": "1.2.3" }}'
    )
    assert answer_to(oldest, line) == {"jsonrpc": "2.0", "id": 1, "result": {}}


def issue_refused(path: Path, error: str) -> Scripted:
    return Scripted(path, tools("create_issue"), rule("tools/call", failure(error)))


def test_every_customary_code_of_a_server_comes_through(tmp_path: Path) -> None:
    errors = {f"fail{code}": {"code": code, "message": message} for code, message in CODES}
    refusals = [
        rule("tools/call", failure(error), where={"name": name}) for name, error in errors.items()
    ]
    server = Scripted(tmp_path, tools(*errors), *refusals)
    profiles = transparent("github")
    with gateway(tmp_path, {"github": server.command}, profiles=profiles) as client:
        assert {name: client.call(name)["error"] for name in errors} == errors


def test_a_forwarded_error_says_which_server_and_keeps_the_original(tmp_path: Path) -> None:
    original = {"code": -32001, "message": "Tool error", "data": {"field": "title"}}
    server = issue_refused(tmp_path, json.dumps(original))
    with gateway(tmp_path, {"github": server.command}) as client:
        answer = client.call("github__create_issue")
    assert answer["error"] == {
        "code": -32001,
        "message": "Tool error",
        "data": {"field": "title", "server": "github", "originalError": original},
    }


def test_a_sentence_as_data_is_kept_in_the_original_error(tmp_path: Path) -> None:
    words = "The 'repository' field is required and cannot be empty."
    original = {"code": -32602, "message": "Invalid Params", "data": words}
    server = issue_refused(tmp_path, json.dumps(original))
    with gateway(tmp_path, {"github": server.command}) as client:
        params = {"name": "github__create_issue"}
        error = client.request("tools/call", params, id="request-008")["error"]
    assert (error["code"], error["message"]) == (-32602, "Invalid Params")
    assert error["data"] == {"server": "github", "originalError": original}

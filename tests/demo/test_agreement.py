"""Headers against bodies."""

from typing import Any

import pytest

from anyport.demo.agreement import check_arguments, check_envelope
from anyport.demo.calls import Request, Tool
from anyport.demo.faults import Fault
from anyport.demo.headers import Headers
from anyport.demo.revisions import Json
from anyport.demo.tools import TOOLS


def request_of(method: str, params: Json, headers: Json | None) -> Request:
    said = None if headers is None else Headers(headers.items())
    return Request(identity=1, method=method, params=params, headers=said)


def envelope_agrees(method: str, params: Json, headers: Json | None) -> bool:
    try:
        check_envelope(request_of(method, params, headers), "v1")
    except Fault as fault:
        assert fault.code == -32020
        return False
    return True


BOTH = {"MCP-Protocol-Version": "v1", "Mcp-Method": "tools/list"}


@pytest.mark.parametrize(
    ("method", "params", "headers", "agrees"),
    [
        ("tools/list", {}, None, True),
        ("tools/list", {}, BOTH, True),
        ("tools/list", {"name": "x"}, BOTH, True),
        ("tools/list", {}, {**BOTH, "Mcp-Name": "stray"}, True),
        ("tools/list", {}, {**BOTH, "MCP-Protocol-Version": "v2"}, False),
        ("prompts/list", {}, BOTH, False),
        ("tools/call", {"name": "x"}, {**BOTH, "Mcp-Method": "tools/call"}, False),
        ("tools/call", {"name": "x"}, {**BOTH, "Mcp-Method": "tools/call", "Mcp-Name": "x"}, True),
        ("tools/call", {"name": 1}, {**BOTH, "Mcp-Method": "tools/call"}, True),
        (
            "prompts/get",
            {"name": "x"},
            {**BOTH, "Mcp-Method": "prompts/get", "Mcp-Name": "y"},
            False,
        ),
        ("resources/read", {"uri": "a:b"}, {**BOTH, "Mcp-Method": "resources/read"}, False),
        ("tasks/get", {"taskId": "t"}, {**BOTH, "Mcp-Method": "tasks/get"}, False),
        (
            "tasks/update",
            {"taskId": "t"},
            {**BOTH, "Mcp-Method": "tasks/update", "Mcp-Name": "t"},
            True,
        ),
        (
            "tasks/cancel",
            {"taskId": "t"},
            {**BOTH, "Mcp-Method": "tasks/cancel", "Mcp-Name": "u"},
            False,
        ),
    ],
)
def test_the_envelope_is_in_the_headers_too(
    method: str, params: Json, headers: Json | None, agrees: bool
) -> None:
    assert envelope_agrees(method, params, headers) is agrees


def arguments_agree(value: Any, header: str | None) -> bool:
    properties = {"a": {"x-mcp-header": "A"}, "b": {}}
    descriptor = {"inputSchema": {"type": "object", "properties": properties}}
    tools = {"t": Tool(descriptor=descriptor, run=lambda _call, _given: {})}
    headers = {} if header is None else {"mcp-param-a": header}
    params = {"name": "t", "arguments": {"b": 1, "a": value}}
    try:
        check_arguments(request_of("tools/call", params, headers), tools)
    except Fault as fault:
        assert fault.code == -32020
        return False
    return True


@pytest.mark.parametrize(
    ("value", "header", "agrees"),
    [
        ("x", "x", True),
        ("x", "X", False),
        ("x", None, False),
        ("", "", True),
        ("42", "42", True),
        (None, None, True),
        (None, "null", False),
        (True, "true", True),
        (True, "True", False),
        (False, "false", True),
        (1, "true", False),
        (42, "42", True),
        (42, "42.0", True),
        (42, "43", False),
        (42, "forty-two", False),
        (2**60, str(2**60), True),
        ([1], "[1]", False),
        ("é", "=?base64?w6k=?=", True),
        ("é", "=?base64?w6k?=", False),
    ],
)
def test_arguments_are_in_the_headers_that_the_tool_names(
    value: Any, header: str | None, agrees: bool
) -> None:
    assert arguments_agree(value, header) is agrees


@pytest.mark.parametrize(
    "params", [{"name": "regional"}, {"name": "u", "arguments": {"a": 1}}, {"arguments": []}, {}]
)
def test_a_call_that_no_tool_could_take_is_for_others_to_refuse(params: Json) -> None:
    check_arguments(request_of("tools/call", params, {}), TOOLS)

"""Older clients are told newer kinds of content in kinds they have."""

import json
from typing import Any

import pytest

from anyport.protocol.downgrade import downgrade, downgrade_tool
from anyport.protocol.revision import REVISIONS

TEXT = {"type": "text", "text": "hi"}
AUDIO = {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "uri": "a:b", "name": "it", "title": "It"}
EMBEDDED = {
    "type": "resource",
    "resource": {"uri": "attachment:audio", "mimeType": "audio/wav", "blob": "UklGRg=="},
}
LINKED = {"type": "text", "text": "It: a:b"}


@pytest.mark.parametrize(
    ("revision", "told"),
    [
        ("2024-11-05", [TEXT, EMBEDDED, LINKED]),
        ("2025-03-26", [TEXT, AUDIO, LINKED]),
        ("2025-06-18", [TEXT, AUDIO, LINK]),
        ("2025-11-25", [TEXT, AUDIO, LINK]),
    ],
)
def test_each_revision_is_told_in_its_own_kinds(revision: str, told: list[Any]) -> None:
    result = json.dumps({"vendor": 1, "content": [TEXT, AUDIO, LINK]}).encode()

    changed = json.loads(downgrade("tools/call", result, REVISIONS[revision]))

    assert changed == {"vendor": 1, "content": told}


def test_the_content_of_prompts_is_told_the_same_way() -> None:
    messages = [{"role": "user", "content": block} for block in (TEXT, LINK)] + [{"role": "x"}]
    result = json.dumps({"messages": messages}).encode()

    changed = json.loads(downgrade("prompts/get", result, REVISIONS["2024-11-05"]))

    assert changed["messages"] == [
        {"role": "user", "content": TEXT},
        {"role": "user", "content": LINKED},
        {"role": "x"},
    ]


@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("tools/call", b'{ "content" : [ {"type":"text","text":"hi"} ] }'),
        ("tools/call", b'{"content":"audio"}'),
        ("tools/call", b'{"content":["audio"]}'),
        ("tools/call", b'{"structuredContent":{"type":"audio"}}'),
        ("prompts/get", b'{"messages":[{"content":["audio"]}]}'),
        ("tools/list", b'{"tools":[{"name":"audio"}]}'),
        ("resources/read", b'{"contents":[{"uri":"audio"}]}'),
    ],
)
def test_what_has_no_newer_content_keeps_its_bytes(method: str, result: bytes) -> None:
    assert downgrade(method, result, REVISIONS["2024-11-05"]) == result


def test_a_link_without_a_name_is_its_uri() -> None:
    result = b'{"content":[{"type":"resource_link","uri":"a:b"}]}'

    changed = json.loads(downgrade("tools/call", result, REVISIONS["2025-03-26"]))

    assert changed["content"] == [{"type": "text", "text": "a:b"}]


@pytest.mark.parametrize("value", ["[1, 2.50]", '"words"', "null", "7"])
def test_structured_content_that_is_no_object_becomes_text(value: str) -> None:
    result = f'{{"structuredContent": {value}, "content": []}}'.encode()

    changed = json.loads(downgrade("tools/call", result, REVISIONS["2025-11-25"]))

    assert changed == {"content": [{"type": "text", "text": value}]}


def test_text_that_is_there_already_stays_the_only_one() -> None:
    result = b'{"content":[{"type":"text","text":"[1]"}],"structuredContent":[1]}'

    changed = json.loads(downgrade("tools/call", result, REVISIONS["2025-06-18"]))

    assert changed == {"content": [{"type": "text", "text": "[1]"}]}


def test_structured_content_that_is_an_object_keeps_its_bytes() -> None:
    result = b'{"content":[], "structuredContent": {"a": 1.0}}'

    assert downgrade("tools/call", result, REVISIONS["2025-06-18"]) == result


@pytest.mark.parametrize(
    ("tool", "taken"),
    [
        ({"name": "a"}, {"name": "a", "inputSchema": {"type": "object"}}),
        (
            {"name": "a", "inputSchema": {"properties": {}}},
            {"name": "a", "inputSchema": {"properties": {}, "type": "object"}},
        ),
        (
            {"name": "a", "inputSchema": {"type": "object"}, "outputSchema": {"type": "array"}},
            {"name": "a", "inputSchema": {"type": "object"}},
        ),
        (
            {"name": "a", "inputSchema": {"type": "object"}, "outputSchema": True},
            {"name": "a", "inputSchema": {"type": "object"}},
        ),
    ],
)
def test_one_odd_schema_does_not_cost_a_strict_client_the_list(
    tool: dict[str, Any], taken: dict[str, Any]
) -> None:
    assert json.loads(downgrade_tool(json.dumps(tool).encode())) == taken


def test_a_tool_whose_schemas_are_those_of_objects_keeps_every_byte() -> None:
    tool = b'{ "name":"a", "inputSchema": {"type":"object"} , "outputSchema":{ "type":"object" }}'

    assert downgrade_tool(tool) == tool

"""Downgrades of results and tools for clients of older revisions."""

import json
import time
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from anyport.protocol.adapters.downgrade import (
    INLINE_TEXT_BYTES_MAX,
    downgrade_error,
    downgrade_result,
    downgrade_tool,
    remove_output_schema,
)
from anyport.protocol.result import read_shape
from anyport.protocol.revisions import LEGACY, REVISIONS, UNNEGOTIATED, Revision
from tests.schema import check_result

TEXT = {"type": "text", "text": "hi"}
AUDIO = {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "uri": "a:b", "name": "it", "title": "It"}
EMBEDDED = {
    "type": "resource",
    "resource": {"uri": "attachment:audio", "mimeType": "audio/wav", "blob": "UklGRg=="},
}
LINKED = {"type": "text", "text": "It: a:b"}


@pytest.mark.parametrize(
    ("revision", "converted"),
    [
        ("2024-11-05", [TEXT, EMBEDDED, LINKED]),
        ("2025-03-26", [TEXT, AUDIO, LINKED]),
        ("2025-06-18", [TEXT, AUDIO, LINK]),
        ("2025-11-25", [TEXT, AUDIO, LINK]),
    ],
)
def test_each_revision_gets_its_own_kinds_of_content(revision: str, converted: list[Any]) -> None:
    result = json.dumps({"vendor": 1, "content": [TEXT, AUDIO, LINK]}).encode()

    changed = json.loads(downgrade_result("tools/call", result, REVISIONS[revision]))

    assert changed == {"vendor": 1, "content": converted}


def test_the_content_of_prompts_is_downgraded_the_same_way() -> None:
    messages = [{"role": "user", "content": block} for block in (TEXT, LINK)] + [{"role": "x"}]
    result = json.dumps({"messages": messages}).encode()

    changed = json.loads(downgrade_result("prompts/get", result, REVISIONS["2024-11-05"]))

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
        ("tools/call", b'{"content":[{"type":5}]}'),
        ("tools/call", b'{"content":[{"type":"audio"}],"content":[]}'),
        ("tools/call", b'{"content":{"type":"audio"}}'),
        ("tools/call", b'{"content":[], "vendor": {"type":"audio"}}'),
        ("tools/call", b'{"vendor":{"type":"audio"}}'),
        ("tools/call", b'{"structuredContent":1,"structuredContent":2}'),
        ("prompts/get", b'{"messages":[{"content":["audio"]}]}'),
        ("prompts/get", b'{"messages":[ {"content": {"type":"text"}, "type":1}]}'),
        ("tools/list", b'{"tools":[{"name":"audio"}]}'),
        ("resources/read", b'{"contents":[{"uri":"audio"}]}'),
    ],
)
def test_what_has_no_newer_content_keeps_its_bytes(method: str, result: bytes) -> None:
    assert downgrade_result(method, result, REVISIONS["2024-11-05"]) == result


def test_a_link_without_a_name_is_its_uri() -> None:
    result = b'{"content":[{"type":"resource_link","uri":"a:b"}]}'

    changed = json.loads(downgrade_result("tools/call", result, REVISIONS["2025-03-26"]))

    assert changed["content"] == [{"type": "text", "text": "a:b"}]


@pytest.mark.parametrize("revision", LEGACY, ids=lambda revision: revision.name)
@pytest.mark.parametrize("method", ["tools/call", "prompts/get"])
def test_a_kind_of_content_that_no_revision_has_becomes_a_note(
    method: str, revision: Revision
) -> None:
    chart = {"type": "chart", "points": [1, 2], "annotations": {"priority": 1}}

    def wrapped(block: Any) -> Any:
        if method == "tools/call":
            return {"content": [TEXT, block]}
        return {"messages": [{"role": "user", "content": block}]}

    changed = json.loads(downgrade_result(method, json.dumps(wrapped(chart)).encode(), revision))

    words = f"Content of type 'chart': {json.dumps(chart)}"
    assert changed == wrapped({"type": "text", "text": words, "annotations": {"priority": 1}})


def test_a_large_block_of_an_unknown_kind_is_not_shown_as_text() -> None:
    film = {"type": "film", "data": "A" * INLINE_TEXT_BYTES_MAX}
    result = json.dumps({"content": [film]}).encode()

    changed = json.loads(downgrade_result("tools/call", result, REVISIONS["2025-11-25"]))

    (note,) = changed["content"]
    assert note["type"] == "text"
    assert "'film'" in note["text"]
    assert len(note["text"]) < 100


def test_results_without_a_handshake_keep_later_content() -> None:
    result = json.dumps({"content": [AUDIO, LINK], "structuredContent": {"a": 1}}).encode()

    assert downgrade_result("tools/call", result, UNNEGOTIATED) == result
    odd = json.loads(downgrade_result("tools/call", b'{"content":[{"type":"x"}]}', UNNEGOTIATED))
    assert odd["content"][0]["type"] == "text"


@pytest.mark.parametrize("shaped", [True, False])
@pytest.mark.parametrize("value", ["[1, 2.50]", '"words"', "null", "7"])
def test_structured_content_that_is_no_object_becomes_text(value: str, shaped: bool) -> None:
    result = f'{{"structuredContent": {value}, "content": []}}'.encode()
    shape = read_shape(result) if shaped else None

    changed = json.loads(downgrade_result("tools/call", result, REVISIONS["2025-11-25"], shape))

    assert changed == {"content": [{"type": "text", "text": value}]}


@pytest.mark.parametrize(
    ("content", "more"),
    [
        ([{"type": "text", "text": "[1]"}], []),
        ([{"type": "text", "text": " [ 1 ] "}], []),
        ([{"type": "text", "text": "One."}], [{"type": "text", "text": "[1]"}]),
        ([{"type": "text", "text": "["}], [{"type": "text", "text": "[1]"}]),
        ([{"type": "text", "text": "[" * 100_000}], [{"type": "text", "text": "[1]"}]),
        (["odd"], [{"type": "text", "text": "[1]"}]),
        ([{"type": "image", "data": ""}], [{"type": "text", "text": "[1]"}]),
    ],
    ids=["same", "spaced", "words", "broken", "deep", "odd", "image"],
)
def test_what_was_structured_is_in_some_text(content: list[Any], more: list[Any]) -> None:
    result = json.dumps({"content": content, "structuredContent": [1]}).encode()

    changed = json.loads(downgrade_result("tools/call", result, REVISIONS["2025-06-18"]))

    assert changed == {"content": content + more}


def test_many_texts_beside_a_large_value_take_no_longer_than_both() -> None:
    blocks = [{"type": "text", "text": "1"}] * 10_000
    value = list(range(20_000))
    result = json.dumps({"content": blocks, "structuredContent": value}).encode()
    began = time.process_time()

    told = json.loads(downgrade_result("tools/call", result, REVISIONS["2025-11-25"]))

    assert json.loads(told["content"][-1]["text"]) == value
    assert time.process_time() - began < 2


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_structured_content_that_is_an_object_keeps_its_bytes(revision: str) -> None:
    result = b'{"content":[], "structuredContent": {"a": 1.0}}'

    assert downgrade_result("tools/call", result, REVISIONS[revision]) == result


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
def test_structured_content_is_added_as_text_for_older_clients(revision: str) -> None:
    result = b'{"content":[],"structuredContent":{"a": 1.0}}'
    message = b'{"content":[{"type":"text","text":"one"}],"structuredContent":{"a":1.0}}'

    changed = json.loads(downgrade_result("tools/call", result, REVISIONS[revision]))

    assert changed == {"content": [{"type": "text", "text": '{"a": 1.0}'}]}
    put = downgrade_result("tools/call", message, REVISIONS[revision])
    assert put == b'{"content":[{"type":"text","text":"one"}]}', "the server has its own words"


def test_modern_members_of_lists_are_removed() -> None:
    result = (
        b'{"tools":[{"name":"ttlMs"}],"resultType":"complete","ttlMs":5,"cacheScope":"public",'
        b'"vendor":1,"_meta":{"io.modelcontextprotocol/serverInfo":{},"k":1}}'
    )

    changed = downgrade_result("tools/list", result, REVISIONS["2025-11-25"])

    assert changed == b'{"tools":[{"name":"ttlMs"}],"vendor":1,"_meta":{"k":1}}'


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


def test_a_rule_for_a_field_is_an_object() -> None:
    terse = {"type": "object", "properties": {"a": True, "b": False, "c": {"type": "string"}}}
    full = {"type": "object", "properties": {"a": {}, "b": {"not": {}}, "c": {"type": "string"}}}

    converted = downgrade_tool(json.dumps({"inputSchema": terse, "outputSchema": terse}).encode())

    assert json.loads(converted) == {"inputSchema": full, "outputSchema": full}


@pytest.mark.parametrize("schema", [{}, {"properties": {}}, None, True])
def test_invalid_schemas_are_repaired_only_on_request(schema: Any) -> None:
    tool = json.dumps({"name": "a", "inputSchema": schema}).encode()

    assert downgrade_tool(tool, repair=False) == tool
    assert downgrade_tool(b'{"name":"a"}', repair=False) == b'{"name":"a"}'


def test_a_schema_of_many_rules_takes_no_longer_than_its_rules() -> None:
    fields = {f"f{number}": True for number in range(50_000)}
    schema = {"type": "object", "properties": fields}
    tool = json.dumps({"name": "t", "inputSchema": schema}).encode()
    began = time.process_time()

    changed = json.loads(downgrade_tool(tool, repair=True))

    assert changed["inputSchema"]["properties"] == {name: {} for name in fields}
    assert time.process_time() - began < 2


def test_a_tool_whose_schemas_are_those_of_objects_keeps_every_byte() -> None:
    tool = b'{ "name":"a", "inputSchema": {"type":"object"} , "outputSchema":{ "type":"object" }}'

    assert downgrade_tool(tool) == tool


URI = Raw(b'"file:\\/\\/\\/a"')


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ({"code": -32602, "message": "m", "data": {"uri": "file:///a"}}, -32002),
        ({"code": -32602, "message": "m", "data": {"uri": "file:///b"}}, -32602),
        ({"code": -32602, "message": "m", "data": {"uri": 1}}, -32602),
        ({"code": -32602, "message": "m", "data": "file:///a"}, -32602),
        ({"code": -32602, "message": "m"}, -32602),
        ({"code": -32603, "message": "m", "data": {"uri": "file:///a"}}, -32603),
    ],
)
def test_a_resource_that_is_not_there_has_a_code_of_its_own(error: Any, code: int) -> None:
    changed = json.loads(downgrade_error(json.dumps(error).encode(), URI))

    assert changed == {**error, "code": code}


@pytest.mark.parametrize(
    "error", [b"[]", b'{"message":"m"}', b'{"code":-32602,"data":{"uri":"u"},"code":-32602}']
)
def test_an_odd_error_is_left_as_it_is(error: bytes) -> None:
    assert downgrade_error(error, Raw(b'"u"')) == error
    assert downgrade_error(b'{"code":-32602,"data":{}}', None) == b'{"code":-32602,"data":{}}'


# Checked against the official schemas, made strict.

WORDS = st.text(max_size=5)
NOTES = st.fixed_dictionaries(
    {},
    optional={
        "audience": st.lists(st.sampled_from(["user", "assistant"]), max_size=2, unique=True),
        "priority": st.floats(0, 1),
    },
)


def blocks(**rest: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(rest, optional={"annotations": NOTES})


DATA = st.sampled_from(["", "UklGRg=="])
CONTENT = st.one_of(
    blocks(type=st.just("text"), text=WORDS),
    blocks(type=st.just("image"), data=DATA, mimeType=st.just("image/png")),
    blocks(type=st.just("audio"), data=DATA, mimeType=st.just("audio/wav")),
    blocks(type=st.just("resource_link"), uri=st.just("a:b"), name=WORDS),
    blocks(type=st.just("resource_link"), uri=st.just("a:b"), name=WORDS, title=WORDS),
    blocks(type=st.just("resource"), resource=st.just({"uri": "a:b", "text": "x"})),
    blocks(type=st.sampled_from(["film", "tool_use", "Text", "text ", ""]), data=WORDS),
)
STRUCTURED = st.sampled_from([None, {"a": 1}, {"type": "film"}, [1], "x", 7, True])


@given(st.sampled_from(LEGACY), st.lists(CONTENT, max_size=4), STRUCTURED, st.booleans())
def test_every_result_of_a_tool_is_one_of_the_clients_revision(
    revision: Revision, content: list[Any], structured: Any, spaced: bool
) -> None:
    result = {"content": content, "isError": False}
    if structured is not None:
        result["structuredContent"] = structured
    separators = None if spaced else (",", ":")
    raw = json.dumps(result, separators=separators).encode()

    changed = json.loads(downgrade_result("tools/call", raw, revision))

    if not revision.structured:
        # Clients ignore unknown members beside known ones.
        changed.pop("structuredContent", None)
    check_result(revision.name, "tools/call", changed)
    assert len(changed["content"]) >= len(content)


@given(st.sampled_from(LEGACY), st.lists(CONTENT, max_size=4))
def test_every_prompt_is_one_of_the_clients_revision(
    revision: Revision, content: list[Any]
) -> None:
    messages = [{"role": "user", "content": block} for block in content]
    raw = json.dumps({"messages": messages}).encode()

    changed = json.loads(downgrade_result("prompts/get", raw, revision))

    check_result(revision.name, "prompts/get", changed)


SCHEMAS: list[Any] = [
    {"type": "object"},
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
    {"type": "object", "properties": {"a": True, "b": False}},
    {"type": "array"},
    {"oneOf": [{"type": "object"}]},
    {"properties": {"a": True}},
    {},
    True,
    None,
]


@pytest.mark.parametrize("revision", LEGACY, ids=lambda revision: revision.name)
def test_every_tool_is_one_of_the_clients_revision(revision: Revision) -> None:
    for takes, gives in product(SCHEMAS, SCHEMAS):
        tool = {"name": "a", "inputSchema": takes, "outputSchema": gives}

        changed = json.loads(downgrade_tool(json.dumps(tool).encode()))

        check_result(revision.name, "tools/list", {"tools": [changed]}, strict=False)


@pytest.mark.parametrize(
    ("tool", "converted"),
    [
        (b'{"name":"a","outputSchema":{"type":"object"},"x":1.0}', b'{"name":"a","x":1.0}'),
        (b'{ "name":"a" }', b'{ "name":"a" }'),
        (b"[]", b"[]"),
    ],
)
def test_an_output_schema_goes_where_structured_content_goes(tool: bytes, converted: bytes) -> None:
    assert remove_output_schema(tool) == converted

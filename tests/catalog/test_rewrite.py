"""Only the URIs that must change are changed, where results hold them."""

import json
from typing import Any

import pytest

from anyport.catalog.rewrite import (
    ITEMS_MAX,
    rewrite_error,
    rewrite_result,
    rewrite_skill,
    rewrite_uri,
)


def public(uri: str) -> str:
    return f"a+{uri}" if uri.startswith("file:") else uri


def rewritten(method: str, result: Any) -> Any:
    return json.loads(rewrite_result(method, json.dumps(result).encode(), public))


def test_links_and_embedded_resources_of_a_tool_result_are_made_public() -> None:
    result = {
        "content": [
            {"type": "text", "text": "file:///x"},
            {"type": "resource_link", "uri": "file:///x", "name": "x"},
            {"type": "resource", "resource": {"uri": "file:///y", "text": "file:///z"}},
            {"type": "resource_link", "uri": "https://example.com"},
        ]
    }

    assert rewritten("tools/call", result)["content"] == [
        {"type": "text", "text": "file:///x"},
        {"type": "resource_link", "uri": "a+file:///x", "name": "x"},
        {"type": "resource", "resource": {"uri": "a+file:///y", "text": "file:///z"}},
        {"type": "resource_link", "uri": "https://example.com"},
    ]


def test_the_messages_of_a_prompt_are_made_public() -> None:
    result = {
        "messages": [
            {"role": "user", "content": {"type": "resource", "resource": {"uri": "file:///x"}}},
            {"role": "user", "content": {"type": "resource_link", "uri": "file:///y"}},
            {"role": "user", "content": {"type": "text", "text": "t"}},
            {"role": "user", "content": "plain"},
            {"role": "user"},
        ]
    }

    messages = rewritten("prompts/get", result)["messages"]

    assert messages[0]["content"]["resource"]["uri"] == "a+file:///x"
    assert messages[1]["content"]["uri"] == "a+file:///y"
    assert messages[2:] == result["messages"][2:]


def test_the_contents_of_a_resource_are_made_public() -> None:
    assert rewritten("resources/read", {"contents": [{"uri": "file:///x"}, {"text": "t"}, 1]}) == {
        "contents": [{"uri": "a+file:///x"}, {"text": "t"}, 1]
    }


def test_everything_else_in_a_changed_result_keeps_its_bytes() -> None:
    raw = b'{ "n": 1.0, "contents": [ {"uri": "file:///x", "m": 1e5}, {"uri":"b:///"} ], "z": [ ] }'

    assert rewrite_result("resources/read", raw, public) == (
        b'{ "n": 1.0, "contents": [{"uri": "a+file:///x", "m": 1e5},{"uri":"b:///"}], "z": [ ] }'
    )


@pytest.mark.parametrize(
    ("method", "raw"),
    [
        ("completion/complete", b'{"content":[{"uri":"file:///x"}]}'),
        ("tools/call", b'{"content":[ {"type":"text"} , 1 ]}'),
        ("tools/call", b'{"content":{}}'),
        ("tools/call", b'{"content":null}'),
        ("tools/call", b"{}"),
        ("tools/call", b'{"content":[{"uri":7}]}'),
        ("tools/call", b'{"content":[{"resource":null}]}'),
        ("tools/call", b'{"content":[{"resource":{"uri":"b:///"}}]}'),
        ("tools/call", b'{"content":[{"uri":"file:///x","uri":"file:///x"}]}'),
        ("tools/call", b'{"content":[],"content":[{"uri":"file:///x"}]}'),
        ("prompts/get", b'{"messages":[{"content":{"uri":"b:///"}}]}'),
    ],
)
def test_a_result_with_nothing_to_change_or_not_understood_passes_untouched(
    method: str, raw: bytes
) -> None:
    assert rewrite_result(method, raw, public) == raw


@pytest.mark.parametrize(
    ("holder", "expected"),
    [
        (b'{"uri":"file:///x"}', b'{"uri":"a+file:///x"}'),
        (b'{"uri":"b:///"}', b'{"uri":"b:///"}'),
        (b'{"uri":null}', b'{"uri":null}'),
        (b"{}", b"{}"),
        (b"[]", b"[]"),
        (b'{"URI":"b:c","uri":"file:///x"}', b'{"uri":"a+file:///x"}'),
    ],
)
def test_the_uri_of_an_object_is_made_public(holder: bytes, expected: bytes) -> None:
    assert rewrite_uri(holder, public) == expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            b'{"code":1,"data":{"uri":"file:///x","originalError":{"data":{"uri":"file:///x"}}}}',
            b'{"code":1,"data":{"uri":"a+file:///x","originalError":{"data":{"uri":"file:///x"}}}}',
        ),
        (b'{ "code":1,"data":{"uri":"b:///"}}', b'{ "code":1,"data":{"uri":"b:///"}}'),
        (b'{"code":1,"data":"file:///x"}', b'{"code":1,"data":"file:///x"}'),
        (b'{"code":1}', b'{"code":1}'),
        (b'{"data":{"uri":"file:///x"},"data":{"uri":"file:///x"}}',) * 2,
        (b"[]", b"[]"),
    ],
)
def test_the_uri_that_an_error_is_about_is_made_public(error: bytes, expected: bytes) -> None:
    assert rewrite_error(error, public) == expected


def test_a_directory_lists_its_children_under_public_uris() -> None:
    result = {"resources": [{"uri": "file:///x", "name": "x"}, {"uri": "y:1"}], "nextCursor": "c"}

    assert rewritten("resources/directory/read", result) == {
        "resources": [{"uri": "a+file:///x", "name": "x"}, {"uri": "y:1"}],
        "nextCursor": "c",
    }


def test_a_skill_and_its_files_are_made_public_and_its_digests_are_not_touched() -> None:
    skill = (
        b'{ "uri": "file:///t/SKILL.md", "frontmatter": {"n": 1.0}, "resources": ['
        b'{"uri": "file:///t/SKILL.md", "digest": "sha256:00", "size": 1.0}, {"uri": "y:1"}] }'
    )
    expected = skill.replace(b"file:", b"a+file:")

    assert json.loads(rewrite_skill(skill, public)) == json.loads(expected)
    assert b'"frontmatter": {"n": 1.0}' in rewrite_skill(skill, public)
    whole = b'{"skill":%b,"ttlMs":5}'
    told = rewrite_result("skills/get", whole % skill, public)
    assert told == whole % rewrite_skill(skill, public)


def test_a_skill_that_is_made_on_demand_has_no_files_to_name() -> None:
    skill = b'{"uri":"file:///t/SKILL.md","resources":"dynamic"}'

    assert rewrite_skill(skill, public) == skill.replace(b"file:", b"a+file:")
    assert rewrite_skill(b'{"uri":"y:1"}', public) == b'{"uri":"y:1"}'


@pytest.mark.parametrize(
    "result",
    [
        b"{}",
        b'{"skill":7}',
        b'{"skill":{"uri":"y:1"}}',
        b'{"skill":{"uri":"file:///x","uri":"file:///y"}}',
    ],
)
def test_the_result_for_a_skill_that_is_none_passes_as_it_is(result: bytes) -> None:
    assert rewrite_result("skills/get", result, public) == result


def test_of_a_file_that_is_named_twice_the_skill_keeps_the_list() -> None:
    skill = b'{"uri":"y:1","resources":[{"uri":"file:///a","uri":"file:///b"},7]}'

    assert rewrite_skill(skill, public) == skill


def test_of_endless_lists_so_many_items_are_looked_into() -> None:
    links = [{"type": "resource_link", "uri": "file:///x"}] * (ITEMS_MAX + 1)

    content = rewritten("tools/call", {"content": links})["content"]

    assert [item["uri"] for item in content] == ["a+file:///x"] * ITEMS_MAX + ["file:///x"]

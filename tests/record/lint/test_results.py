"""Rules about results."""

from typing import Any

import pytest

from anyport.record.lint.results import LISTED
from tests.record.lint.conversations import ask, call, give, hello
from tests.record.lint.judged import broken, words


@pytest.mark.parametrize("method", LISTED)
def test_every_list_has_its_name(method: str) -> None:
    good = give({LISTED[method]: []})

    assert "list-member" in broken(*hello(), ask(method), give({"items": []}))
    assert "list-member" not in broken(*hello(), ask(method), good)


@pytest.mark.parametrize("method", ["ping", "logging/setLevel", "resources/subscribe"])
def test_what_has_nothing_to_say_says_nothing(method: str) -> None:
    assert "empty-result" in broken(*hello(), ask(method, {}), give({"status": "ok"}))
    assert "empty-result" not in broken(*hello(), ask(method, {}), give({}))


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text"},
        {"type": "text", "text": 1},
        {"type": "image", "data": "x"},
        {"type": "resource", "resource": "a:b"},
        {"type": "resource_link", "uri": "a:b"},
        {"type": None},
        {},
    ],
)
def test_content_that_lacks_something(block: dict[str, Any]) -> None:
    assert "content-block" in broken(*call({"content": [block]}))


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": ""},
        {"type": "image", "data": "x", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "a:b", "text": ""}},
        {"type": "resource_link", "uri": "a:b", "name": "b"},
    ],
)
def test_content_that_lacks_nothing(block: dict[str, Any]) -> None:
    assert "content-block" not in broken(*call({"content": [block]}))


def test_the_content_of_a_prompt_is_judged_too() -> None:
    told = {"messages": [{"role": "user", "content": {"type": "video"}}]}
    assert words("content-block", *hello(), ask("prompts/get", {"name": "p"}), give(told)) == [
        "messages[0].content.type is 'video'"
    ]


def test_what_is_read_is_text_or_bytes_and_not_both() -> None:
    both = {"contents": [{"uri": "a:b", "text": "", "blob": ""}]}
    assert "resource-contents" in broken(ask("resources/read", {"uri": "a:b"}), give(both))


def test_a_handshake_with_members_of_a_wrong_type() -> None:
    told = {"protocolVersion": 1, "capabilities": [], "serverInfo": {"name": "x"}}
    assert words("handshake-result", ask("initialize", {}), give(told)) == [
        "protocolVersion is of no use",
        "capabilities is of no use",
    ]


def test_a_handshake_does_not_agree_on_a_revision_without_one() -> None:
    assert "negotiated-revision" in broken(*hello("2026-07-28"))

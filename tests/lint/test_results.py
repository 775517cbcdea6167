"""Rules about results."""

import pytest

from anyport.lint.rules.results import LIST_MEMBERS
from tests.lint.checking import broken, messages
from tests.lint.conversations import ask, give, hello


@pytest.mark.parametrize("method", LIST_MEMBERS)
def test_every_list_has_its_name(method: str) -> None:
    good = give({LIST_MEMBERS[method]: []})

    assert "list-member" in broken(*hello(), ask(method), give({"items": []}))
    assert "list-member" not in broken(*hello(), ask(method), good)


@pytest.mark.parametrize("method", ["ping", "logging/setLevel", "resources/subscribe"])
def test_what_has_nothing_to_say_says_nothing(method: str) -> None:
    assert "empty-result" in broken(*hello(), ask(method, {}), give({"status": "ok"}))
    assert "empty-result" not in broken(*hello(), ask(method, {}), give({}))


def test_the_content_of_a_prompt_is_judged_too() -> None:
    told = {"messages": [{"role": "user", "content": {"type": "video"}}]}
    assert messages("content-block", *hello(), ask("prompts/get", {"name": "p"}), give(told)) == [
        'result.messages[0].content.type must be one of "text", "image", "audio", "resource_link",'
        ' "resource", not "video"'
    ]


def test_what_is_read_is_text_or_bytes_and_not_both() -> None:
    both = {"contents": [{"uri": "a:b", "text": "", "blob": ""}]}
    assert "resource-contents" in broken(ask("resources/read", {"uri": "a:b"}), give(both))


def test_a_handshake_with_members_of_a_wrong_type() -> None:
    told = {"protocolVersion": 1, "capabilities": [], "serverInfo": {"name": "x"}}
    assert messages("handshake-result", ask("initialize", {}), give(told)) == [
        "result.protocolVersion must be a string, not 1",
        "result.capabilities must be an object, not []",
    ]


def test_a_handshake_does_not_agree_on_a_revision_without_one() -> None:
    assert "negotiated-revision" in broken(*hello("2026-07-28"))

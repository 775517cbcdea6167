"""Rules about tools."""

import pytest

from tests.lint.checking import broken, messages
from tests.lint.conversations import afresh, ask, call, give, kept, listed, text, tool, whole


@pytest.mark.parametrize("name", ["", "a.b", "a b", "é", "x" * 65, "git/log"])
def test_names_that_some_client_refuses(name: str) -> None:
    assert "tool-name" in broken(*listed(tool(name)))


@pytest.mark.parametrize("name", ["a", "A_b-9", "x" * 64])
def test_names_that_every_client_takes(name: str) -> None:
    assert "tool-name" not in broken(*listed(tool(name)))


def test_without_a_session_an_output_may_be_anything() -> None:
    result = kept(tools=[tool("a", outputSchema={"type": "array"})])
    assert "output-schema" not in broken(*afresh("tools/list", result))
    said = afresh("tools/call", whole(**text("[1]"), structuredContent=[1]), {"name": "a"})
    assert "structured-object" not in broken(*said)


def test_a_call_that_failed_need_not_keep_its_promise() -> None:
    promised = listed(tool("a", outputSchema={"type": "object"}))
    failed = {**text("No"), "isError": True}
    said = [*promised, ask("tools/call", {"name": "a"}, 10), give(failed, 10)]
    assert "structured-missing" not in broken(*said)


def test_a_promise_that_was_taken_back_binds_nobody() -> None:
    said = [
        *listed(tool("a", outputSchema={"type": "object"})),
        ask("tools/list", id=10),
        give({"tools": [tool("a")]}, 10),
        ask("tools/call", {"name": "a"}, 11),
        give(text("x"), 11),
    ]
    assert "structured-missing" not in broken(*said)


@pytest.mark.parametrize("member", ["task", "toolResult"])
def test_something_else_may_come_in_place_of_content(member: str) -> None:
    assert "tool-content" not in broken(*call({member: {}}))


@pytest.mark.parametrize("words", ["Error: x", "failed to open", "Traceback (most"])
def test_a_text_that_sounds_like_a_failure_is_noted(words: str) -> None:
    assert "failure-as-success" in broken(*call(text(words)))


@pytest.mark.parametrize("words", ["No errors", "errors.txt", "The failed tests: 0"])
def test_a_text_about_failures_is_not(words: str) -> None:
    assert "failure-as-success" not in broken(*call(text(words)))


def test_each_tool_without_a_schema_is_told() -> None:
    said = listed({"name": "a"}, {"name": "b", "inputSchema": {"properties": {}}}, tool("c"))
    assert messages("input-schema", *said) == [
        "result.tools[0].inputSchema of a is missing",
        "result.tools[1].inputSchema.type of b is missing",
    ]


def test_pages_of_one_list_are_not_taken_for_two_orders() -> None:
    said = [
        *listed(tool("a"), tool("b")),
        ask("tools/list", {"cursor": "2"}, 10),
        give({"tools": [tool("b"), tool("a")]}, 10),
    ]
    assert "tool-order" not in broken(*said)


def test_a_revision_without_structured_content_promises_none() -> None:
    said = [
        *listed(tool("a", outputSchema={"type": "object"}), revision="2025-03-26"),
        ask("tools/call", {"name": "a"}, 10),
        give(text("x"), 10),
    ]
    assert "structured-missing" not in broken(*said)

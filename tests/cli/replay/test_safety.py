"""The question before a tool is called that may do harm."""

import asyncio
from typing import Any

import pytest

from anyport.cli.exit_codes import CommandFailed, WrongUsage
from anyport.cli.replay import safety
from anyport.cli.replay.cases import ReplayCase
from anyport.cli.replay.safety import UnsafeCalls, ask_permission, find_unsafe_calls, unsafe_reason

HARMFUL = UnsafeCalls(harmful={"delete": "is marked as destructive"})


@pytest.mark.parametrize(
    ("hints", "words"),
    [
        ({"readOnlyHint": True}, None),
        ({"idempotentHint": True}, None),
        ({"idempotentHint": True, "destructiveHint": False}, None),
        ({"idempotentHint": True, "destructiveHint": True}, "is marked as destructive"),
        ({"destructiveHint": False}, "is not marked as read-only or idempotent"),
        ({"readOnlyHint": "yes"}, "is not marked as read-only or idempotent"),
        (None, "is not marked as read-only or idempotent"),
    ],
)
def test_a_server_says_what_its_tools_may_do(hints: Any, words: str | None) -> None:
    assert unsafe_reason({"name": "a", "annotations": hints}) == words


def test_only_calls_do_harm() -> None:
    cases = [
        ReplayCase(name="1", method="tools/call", params=b'{"name":"a"}'),
        ReplayCase(name="2", method="tools/call", params=b'{"name":"b"}'),
        ReplayCase(name="3", method="tools/call", params=b'{"name":"a"}'),
        ReplayCase(name="4", method="prompts/get", params=b'{"name":"c"}'),
    ]
    tools: dict[str, Any] = {"a": {}, "b": {"annotations": {"readOnlyHint": True}}}

    assert find_unsafe_calls(cases, tools) == UnsafeCalls(
        harmful={"a": "is not marked as read-only or idempotent"}, unlisted=[]
    )
    assert find_unsafe_calls(cases, {}) == UnsafeCalls(harmful={}, unlisted=["a", "b"])


def test_where_nothing_can_happen_nobody_is_asked() -> None:
    asyncio.run(ask_permission(UnsafeCalls(harmful={}), uses_native_names=True))


def test_without_a_terminal_nothing_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(WrongUsage, match="add --yes"):
        asyncio.run(ask_permission(HARMFUL, uses_native_names=True))
    told = capsys.readouterr().err
    assert "again may do harm:\n  delete is marked as destructive\n" in told
    assert "not listed" not in told


@pytest.mark.parametrize(
    ("native", "words"),
    [
        (
            True,
            "list these tools; a server knows only native names, without a prefix:\n  d__add",
        ),
        (False, "does not list these tools:\n  d__add"),
    ],
)
def test_a_name_that_is_not_known_there_is_told(
    capsys: pytest.CaptureFixture[str], native: bool, words: str
) -> None:
    with pytest.raises(WrongUsage, match="add --yes"):
        asyncio.run(
            ask_permission(UnsafeCalls(harmful={}, unlisted=["d__add"]), uses_native_names=native)
        )
    told = capsys.readouterr().err
    assert words in told
    assert "did before" not in told


@pytest.mark.parametrize(
    ("answer", "goes_on"), [("y", True), ("Yes", True), ("", False), (None, False)]
)
def test_a_person_decides(
    monkeypatch: pytest.MonkeyPatch, answer: str | None, goes_on: bool
) -> None:
    async def read(prompt: str) -> str | None:
        assert prompt == "Call them? [y/N] "
        return answer

    monkeypatch.setattr(safety, "is_interactive", lambda: True)
    monkeypatch.setattr(safety, "read_line", read)
    if goes_on:
        asyncio.run(ask_permission(HARMFUL, uses_native_names=True))
    else:
        with pytest.raises(CommandFailed, match="nothing was sent"):
            asyncio.run(ask_permission(HARMFUL, uses_native_names=True))

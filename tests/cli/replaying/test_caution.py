"""The question before a tool is called that may do harm."""

import asyncio
from typing import Any

import pytest

from anyport.cli.ending import CommandFailed, WrongUsage
from anyport.cli.replaying import caution
from anyport.cli.replaying.case import Case
from anyport.cli.replaying.caution import Doubts, ask_leave, danger, doubts

HARMFUL = Doubts(harmful={"delete": "is marked as destructive"})


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
    assert danger({"name": "a", "annotations": hints}) == words


def test_only_calls_do_harm() -> None:
    cases = [
        Case(name="1", method="tools/call", params=b'{"name":"a"}'),
        Case(name="2", method="tools/call", params=b'{"name":"b"}'),
        Case(name="3", method="tools/call", params=b'{"name":"a"}'),
        Case(name="4", method="prompts/get", params=b'{"name":"c"}'),
    ]
    tools: dict[str, Any] = {"a": {}, "b": {"annotations": {"readOnlyHint": True}}}

    assert doubts(cases, tools) == Doubts(
        harmful={"a": "is not marked as read-only or idempotent"}, unlisted=[]
    )
    assert doubts(cases, {}) == Doubts(harmful={}, unlisted=["a", "b"])


def test_where_nothing_can_happen_nobody_is_asked() -> None:
    asyncio.run(ask_leave(Doubts(harmful={}), by_own_names=True))


def test_without_a_terminal_nothing_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(WrongUsage, match="add --yes"):
        asyncio.run(ask_leave(HARMFUL, by_own_names=True))
    told = capsys.readouterr().err
    assert "may do again what they did before:\n  delete is marked as destructive\n" in told
    assert "not listed" not in told


@pytest.mark.parametrize(
    ("by_own_names", "words"),
    [
        (True, "not listed there; a server is asked by its own names, without a prefix:\n  d__add"),
        (False, "not listed there:\n  d__add"),
    ],
)
def test_a_name_that_is_not_known_there_is_told(
    capsys: pytest.CaptureFixture[str], by_own_names: bool, words: str
) -> None:
    with pytest.raises(WrongUsage, match="add --yes"):
        asyncio.run(ask_leave(Doubts(harmful={}, unlisted=["d__add"]), by_own_names=by_own_names))
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

    monkeypatch.setattr(caution, "someone_is_there", lambda: True)
    monkeypatch.setattr(caution, "read_line", read)
    if goes_on:
        asyncio.run(ask_leave(HARMFUL, by_own_names=True))
    else:
        with pytest.raises(CommandFailed, match="nothing was sent"):
            asyncio.run(ask_leave(HARMFUL, by_own_names=True))

"""Following the events."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from anyport.gateway.api import stream
from anyport.gateway.api.stream import KEEP_ALIVE, OPENING, Follower
from anyport.record.journal import LISTENERS_MAX, Journal
from tests.gateway.api.fakes import DEADLINE_SECONDS, FakeGateway


def note(journal: Journal, tool: str) -> None:
    journal.note("gateway.tool_call", "success", trace_id="a" * 32, metadata={"tool": tool})


async def opened(follower: Follower) -> AsyncIterator[bytes]:
    pieces = follower.pieces()
    assert await anext(pieces) == OPENING
    return pieces


def tools_in(piece: bytes) -> list[Any]:
    events = [block.removeprefix(b"data: ") for block in piece.split(b"\n\n") if block]
    return [json.loads(event)["metadata"]["tool"] for event in events]


def test_events_come_as_they_are_noted(gateway: FakeGateway) -> None:
    async def scene() -> None:
        follower = Follower(gateway.journal)
        pieces = await opened(follower)
        note(gateway.journal, "one")
        note(gateway.journal, "two")
        assert tools_in(await anext(pieces)) == ["one", "two"]
        note(gateway.journal, "three\u2028\r\n")
        assert tools_in(await anext(pieces)) == ["three\u2028\r\n"]

    asyncio.run(asyncio.wait_for(scene(), DEADLINE_SECONDS))


def test_silence_is_broken_by_a_comment(gateway: FakeGateway) -> None:
    async def scene() -> None:
        follower = Follower(gateway.journal, keep_alive_seconds=0.001)
        pieces = await opened(follower)
        assert await anext(pieces) == KEEP_ALIVE

    asyncio.run(asyncio.wait_for(scene(), DEADLINE_SECONDS))


def test_a_slow_follower_is_told_how_much_it_missed(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "WAITING_BYTES_MAX", 600)

    async def scene() -> None:
        follower = Follower(gateway.journal)
        pieces = await opened(follower)
        for number in range(10):
            note(gateway.journal, str(number))
        kept, _, lost = (await anext(pieces)).partition(b"event: lost\n")
        assert 0 < len(tools_in(kept)) < 10
        missed = 10 - len(tools_in(kept))
        assert lost == b'data: {"lost":%d}\n\n' % missed
        note(gateway.journal, "later")
        assert tools_in(await anext(pieces)) == ["later"]

    asyncio.run(asyncio.wait_for(scene(), DEADLINE_SECONDS))


def test_only_so_many_can_follow_and_one_that_is_closed_makes_room(gateway: FakeGateway) -> None:
    async def scene() -> None:
        followers = [Follower(gateway.journal) for _ in range(LISTENERS_MAX)]
        with pytest.raises(ValueError, match="Too many follow the events already"):
            Follower(gateway.journal)
        followers[0].close()
        Follower(gateway.journal)

    asyncio.run(scene())


def test_only_what_is_chosen_waits_for_a_follower(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "WAITING_BYTES_MAX", 600)

    async def scene() -> None:
        follower = Follower(gateway.journal, lambda line: line if b'"wanted"' in line else None)
        pieces = await opened(follower)
        for _ in range(10):
            note(gateway.journal, "other")
        note(gateway.journal, "wanted")
        assert tools_in(await anext(pieces)) == ["wanted"]

    asyncio.run(asyncio.wait_for(scene(), DEADLINE_SECONDS))

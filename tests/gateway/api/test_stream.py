"""Following the events."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from anyport.gateway.api import stream
from anyport.gateway.api import stream as module
from anyport.gateway.api.stream import KEEP_ALIVE, OPENING, Follower, LineSelector
from anyport.record.filter.parser import parse_filter
from anyport.record.journal.journal import LISTENERS_MAX, Journal
from anyport.record.traffic import row_of
from tests.gateway.api.fakes import DEADLINE_SECONDS, FakeGateway
from tests.record.recorded import SPAN, exchange, frame


def note(journal: Journal, tool: str) -> None:
    journal.record("gateway.tool_call", "success", trace_id="a" * 32, metadata={"tool": tool})


async def opened(follower: Follower) -> AsyncIterator[bytes]:
    pieces = follower.stream()
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
        with pytest.raises(ValueError, match="Too many listeners follow the events"):
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


# What of the journal each follower gets.


def line(event: dict[str, Any]) -> bytes:
    return json.dumps(event).encode()


def test_events_that_match_pass_as_they_are() -> None:
    choose = LineSelector().select_events(parse_filter("server:github", 0.0))
    wanted = line(exchange())

    assert choose(wanted) is wanted
    assert choose(line(exchange(server="docs"))) is None


def test_rows_are_made_of_what_matches() -> None:
    choose = LineSelector().select_rows(parse_filter("server:github", 0.0))

    made = choose(line(exchange()))
    assert made is not None
    assert json.loads(made)["id"] == SPAN
    assert choose(line(exchange(server="docs"))) is None
    assert choose(line(exchange(event={"status": "pending"}))) is None


def test_a_row_cannot_break_a_line_nor_confuse_a_terminal() -> None:
    made = LineSelector().select_rows(parse_filter("", 0.0))(
        line(exchange(tool="a\n\u2028\u202eb"))
    )
    assert made is not None
    assert made.isascii()
    assert b"\n" not in made


def test_however_many_follow_a_line_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hearing, made = LineSelector(), 0

    def counted(event: Any) -> Any:
        nonlocal made
        made += 1
        return row_of(event)

    monkeypatch.setattr(module, "row_of", counted)
    choices = [
        hearing.select_rows(parse_filter(text, 0.0)) for text in ("", "server:github", "id:00")
    ]
    for event in (exchange(), frame()):
        heard = line(event)
        assert all(choose(heard) for choose in choices)

    assert made == 2

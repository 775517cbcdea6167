"""An event stream of a gateway, taken as it comes."""

import asyncio
from typing import Any

import pytest

from anyport.cli.ending import CommandFailed
from anyport.cli.options import Given
from anyport.cli.target import read_target
from anyport.cli.watching import Watching
from anyport.upstream.http.line import Trouble, TroubleKind
from anyport.wire.http import read_reply_head
from tests.harness import WAIT_SECONDS

TARGET = read_target(Given(url="http://127.0.0.1:1"), {})
HEAD = read_reply_head(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")


def played(scene: Any) -> None:
    async def whole() -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            await scene(Watching(TARGET))

    asyncio.run(whole())


def test_events_come_once_each_in_their_order() -> None:
    async def scene(watching: Watching) -> None:
        watching.opened(HEAD)
        await watching.wait_open()
        watching.portion(b"retry: 2000\n\ndata: 1\n\nda")
        watching.portion(b"ta: 2\n\n")
        assert [event.data for event in await watching.next()] == [b"1", b"2"]
        asyncio.get_running_loop().call_soon(watching.portion, b"event: lost\ndata: 3\n\n")
        [event] = await watching.next()
        assert (event.name, event.data) == ("lost", b"3")

    played(scene)


def test_what_came_before_the_end_is_still_given() -> None:
    async def scene(watching: Watching) -> None:
        watching.opened(HEAD)
        watching.portion(b"data: 1\n\n")
        watching.closed(None)
        assert len(await watching.next()) == 1
        with pytest.raises(CommandFailed, match="has ended the stream"):
            await watching.next()

    played(scene)


def test_a_refusal_is_told_in_the_words_of_the_gateway() -> None:
    head = read_reply_head(
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\n\r\n"
    )

    async def scene(watching: Watching) -> None:
        watching.answered(head, b'{"detail":"Too many follow"}')
        with pytest.raises(CommandFailed, match="Too many follow"):
            await watching.wait_open()

    played(scene)


def test_nobody_there_is_told() -> None:
    async def scene(watching: Watching) -> None:
        watching.failed(Trouble(TroubleKind.CONNECT, "connection refused", sent=False))
        with pytest.raises(CommandFailed, match="nothing answers at"):
            await watching.wait_open()

    played(scene)

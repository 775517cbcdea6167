"""Reading one list of a server's."""

import asyncio

import pytest

from anyport.protocol.method import Kind
from anyport.routing.offers import Listing
from anyport.upstream.connection import Lost
from anyport.upstream.listing import read_list
from tests.upstream.fakes import LEGACY, connected, offers, peer_of, run, say, until


def test_a_list_is_read_to_its_last_page() -> None:
    async def scene() -> None:
        connection, channel, _ = connected(LEGACY)
        reading = asyncio.get_running_loop().create_task(
            read_list(connection, Kind.TOOLS, over_http=False)
        )
        await until(lambda: len(channel.sent) == 1)
        # An empty cursor is a cursor.
        say(connection, id=channel.sent[0]["id"], result={**offers("a"), "nextCursor": ""})
        await until(lambda: len(channel.sent) == 2)
        say(connection, id=channel.sent[1]["id"], result=offers("b"))
        listing = await reading

        assert [message["params"].get("cursor") for message in channel.sent] == [None, ""]
        assert isinstance(listing, Listing)
        assert [offer.native for offer in listing.offers] == ["a", "b"]

    run(scene)


def test_a_list_that_a_server_does_not_offer_is_empty_and_not_asked_for() -> None:
    async def scene() -> None:
        connection, channel, _ = connected()
        connection.peer = peer_of(LEGACY, prompts={})

        assert await read_list(connection, Kind.TOOLS, over_http=False) == Listing()
        assert channel.sent == []

    run(scene)


def test_a_list_that_a_server_offers_but_does_not_have_is_empty() -> None:
    async def scene() -> None:
        connection, channel, _ = connected(LEGACY)
        reading = asyncio.get_running_loop().create_task(
            read_list(connection, Kind.TEMPLATES, over_http=False)
        )
        await until(lambda: len(channel.sent) == 1)
        error = {"code": -32601, "message": "Method not found"}
        say(connection, id=channel.sent[0]["id"], error=error)

        assert await reading == Listing()

    run(scene)


def test_of_a_server_that_is_lost_on_the_way_nothing_is_known() -> None:
    async def scene() -> None:
        connection, channel, _ = connected(LEGACY)
        reading = asyncio.get_running_loop().create_task(
            read_list(connection, Kind.TOOLS, over_http=False)
        )
        await until(lambda: len(channel.sent) == 1)
        connection.end("it is gone")

        assert await reading == Lost("it is gone")

    run(scene)


def test_before_its_handshake_a_server_is_not_asked_for_lists() -> None:
    async def scene() -> None:
        connection, channel, _ = connected()

        assert isinstance(await read_list(connection, Kind.TOOLS, over_http=False), Lost)
        assert channel.sent == []

    run(scene)


def test_a_server_that_is_too_slow_is_told_that_nobody_waits_any_more() -> None:
    async def scene() -> None:
        connection, channel, _ = connected(LEGACY)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await read_list(connection, Kind.TOOLS, over_http=False)

        assert [message["method"] for message in channel.sent] == [
            "tools/list",
            "notifications/cancelled",
        ]
        assert connection.open_calls == 0
        say(connection, id=channel.sent[0]["id"], result=offers("late"))
        assert connection.stray_count == 1

    run(scene)

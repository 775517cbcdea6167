"""Reading one list of a server's."""

import asyncio
from dataclasses import replace

import pytest

from anyport.catalog.offers import Listing, Offer
from anyport.config.model import ServerConfig
from anyport.protocol.extensions import SKILLS, TASKS
from anyport.protocol.methods import OfferKind
from anyport.protocol.revisions import Revision
from anyport.upstream import lists as module
from anyport.upstream.lists import ListReader, has_list, notifies_changes, read_list
from anyport.upstream.pending_call import BROKEN, CallOutcome, NoAnswer, Retryable
from tests.upstream.fakes import LEGACY, MODERN, connected, offers, peer_of, run, say, until


def test_a_list_is_read_to_its_last_page() -> None:
    async def scene() -> None:
        connection, channel, _ = connected(LEGACY)
        reading = asyncio.get_running_loop().create_task(
            read_list(connection, OfferKind.TOOLS, over_http=False)
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


@pytest.mark.parametrize(
    ("revision", "extension", "tasks"),
    [(MODERN, TASKS, True), (MODERN, SKILLS, False), (LEGACY, TASKS, False)],
)
def test_a_modern_server_with_tasks_makes_them_of_any_tool(
    revision: Revision, extension: str, tasks: bool
) -> None:
    """A session's tools say themselves what they can be."""

    async def scene() -> None:
        connection, channel, _ = connected(revision)
        assert connection.peer is not None
        connection.peer = replace(connection.peer, extensions={extension: b"{}"})
        reading = asyncio.get_running_loop().create_task(
            read_list(connection, OfferKind.TOOLS, over_http=False)
        )
        await until(lambda: len(channel.sent) == 1)
        say(connection, id=channel.sent[0]["id"], result=offers("a"))
        listing = await reading

        assert isinstance(listing, Listing)
        assert listing.tasks is tasks

    run(scene)


def test_a_list_that_a_server_does_not_offer_is_empty_and_not_asked_for() -> None:
    async def scene() -> None:
        connection, channel, _ = connected()
        connection.peer = peer_of(LEGACY, prompts={})

        assert await read_list(connection, OfferKind.TOOLS, over_http=False) == Listing()
        assert channel.sent == []

    run(scene)


def test_a_list_that_a_server_offers_but_does_not_have_is_empty() -> None:
    async def scene() -> None:
        connection, channel, _ = connected(LEGACY)
        reading = asyncio.get_running_loop().create_task(
            read_list(connection, OfferKind.TEMPLATES, over_http=False)
        )
        await until(lambda: len(channel.sent) == 1)
        error = {"code": -32601, "message": "Method not found"}
        say(connection, id=channel.sent[0]["id"], error=error)

        assert await reading == Listing()

    run(scene)


def test_a_server_that_refuses_says_nothing_of_what_it_has() -> None:
    async def scene() -> None:
        connection, channel, _ = connected(LEGACY)
        reading = asyncio.get_running_loop().create_task(
            read_list(connection, OfferKind.TOOLS, over_http=False)
        )
        await until(lambda: len(channel.sent) == 1)
        say(connection, id=channel.sent[0]["id"], result={**offers("a"), "nextCursor": "b"})
        await until(lambda: len(channel.sent) == 2)
        error = {"code": -32603, "message": "out of order"}
        say(connection, id=channel.sent[1]["id"], error=error)

        assert await reading is None

    run(scene)


def test_of_a_server_that_is_lost_on_the_way_nothing_is_known() -> None:
    async def scene() -> None:
        connection, channel, _ = connected(LEGACY)
        reading = asyncio.get_running_loop().create_task(
            read_list(connection, OfferKind.TOOLS, over_http=False)
        )
        await until(lambda: len(channel.sent) == 1)
        connection.end("it is gone")

        assert await reading == BROKEN.result_for_sent("it is gone")

    run(scene)


def test_before_its_handshake_a_server_is_not_asked_for_lists() -> None:
    async def scene() -> None:
        connection, channel, _ = connected()

        assert isinstance(await read_list(connection, OfferKind.TOOLS, over_http=False), NoAnswer)
        assert channel.sent == []

    run(scene)


def test_a_server_that_is_too_slow_is_told_that_nobody_waits_any_more() -> None:
    async def scene() -> None:
        connection, channel, _ = connected(LEGACY)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await read_list(connection, OfferKind.TOOLS, over_http=False)

        assert [message["method"] for message in channel.sent] == [
            "tools/list",
            "notifications/cancelled",
        ]
        assert connection.open_calls == 0
        say(connection, id=channel.sent[0]["id"], result=offers("late"))
        assert connection.unsolicited_count == 1

    run(scene)


def test_skills_are_asked_for_where_they_are_declared_and_nowhere_else() -> None:
    async def scene() -> None:
        connection, channel, _ = connected()
        connection.peer = peer_of(LEGACY, resources={}, skills={})
        assert await read_list(connection, OfferKind.SKILLS, over_http=False) == Listing()
        assert channel.sent == []

        connection.peer = replace(peer_of(LEGACY, resources={}), extensions={SKILLS: b"{}"})
        reading = asyncio.get_running_loop().create_task(
            read_list(connection, OfferKind.SKILLS, over_http=False)
        )
        await until(lambda: len(channel.sent) == 1)
        assert channel.sent[0]["method"] == "skills/list"
        skills = [{"uri": "skill://tea/SKILL.md"}, {"no": "uri"}]
        say(connection, id=channel.sent[0]["id"], result={"skills": skills})
        listing = await reading
        assert isinstance(listing, Listing)
        assert [offer.native for offer in listing.offers] == ["skill://tea/SKILL.md"]

    run(scene)


def test_nobody_promises_to_tell_when_skills_change() -> None:
    peer = replace(peer_of(LEGACY, resources={"listChanged": True}), extensions={SKILLS: b"{}"})

    assert has_list(peer, OfferKind.SKILLS)
    assert notifies_changes(peer, OfferKind.RESOURCES)
    assert not notifies_changes(peer, OfferKind.SKILLS)


def test_what_some_clients_saw_in_an_earlier_run_stays_in_the_list_that_all_see() -> None:
    async def scene() -> None:
        connection, channel, _ = connected(LEGACY)
        reader = ListReader(ServerConfig(slug="s", name="s", command="server"))
        asks = Offer("b", b'{"name":"b"}', needs_input=True)
        known = {OfferKind.TOOLS: Listing(offers=(Offer("a", b'{"name":"a"}'), asks))}
        reader.restore(known)
        assert reader.complete

        listings = dict(known)
        reading = asyncio.get_running_loop().create_task(
            reader.refresh(listings, {OfferKind.TOOLS}, connection, None)
        )
        await until(lambda: len(channel.sent) == 1)
        say(connection, id=channel.sent[0]["id"], result=offers("a", "c"))
        assert await reading is None

        shown = [(offer.native, offer.needs_input) for offer in listings[OfferKind.TOOLS].offers]
        assert shown == [("a", False), ("b", True), ("c", False)]

    run(scene)


def test_a_list_that_all_saw_alike_says_nothing_of_what_some_may_see() -> None:
    reader = ListReader(ServerConfig(slug="s", name="s", command="server"))

    reader.restore({OfferKind.TOOLS: Listing(offers=(Offer("a", b'{"name":"a"}'),))})

    assert not reader.complete


def test_reading_a_list_is_a_request_of_our_own() -> None:
    async def scene() -> None:
        connection, channel, _ = connected(LEGACY)
        reading = asyncio.get_running_loop().create_task(
            read_list(connection, OfferKind.TOOLS, over_http=False)
        )
        await until(lambda: len(channel.sent) == 1)
        say(connection, id=channel.sent[0]["id"], result=offers("a"))
        await reading

        assert connection.own_requests == connection.last_number == 1

    run(scene)


def test_a_list_whose_server_could_not_be_reached_is_asked_for_until_it_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.001)

    async def scene() -> None:
        connection, channel, _ = connected(LEGACY)
        reading = asyncio.get_running_loop().create_task(
            read_list(connection, OfferKind.TOOLS, over_http=True)
        )
        unreached = NoAnswer("refused", outcome=CallOutcome.UNREACHABLE, retryable=Retryable.ALWAYS)
        for count in range(1, 5):
            await until(lambda: len(channel.calls) == count)  # noqa: B023
            connection.settle(channel.calls[-1], unreached)
        await until(lambda: len(channel.calls) == 5)
        say(connection, id=channel.sent[-1]["id"], result=offers("a"))

        found = await reading
        assert isinstance(found, Listing)
        assert [offer.native for offer in found.offers] == ["a"]

    run(scene)


@pytest.mark.parametrize(
    ("lost", "attempts"),
    [
        (NoAnswer("cut", outcome=CallOutcome.CONNECTION_LOST, retryable=Retryable.IF_SAFE), 2),
        (NoAnswer("too large", outcome=CallOutcome.GOOD), 1),
    ],
)
def test_a_list_whose_server_was_reached_is_asked_for_twice_at_most(
    monkeypatch: pytest.MonkeyPatch, lost: NoAnswer, attempts: int
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.001)

    async def scene() -> None:
        connection, channel, _ = connected(LEGACY)
        reading = asyncio.get_running_loop().create_task(
            read_list(connection, OfferKind.TOOLS, over_http=True)
        )
        for count in range(1, attempts + 1):
            await until(lambda: len(channel.calls) == count)  # noqa: B023
            connection.settle(channel.calls[-1], lost)

        assert await reading == lost

    run(scene)

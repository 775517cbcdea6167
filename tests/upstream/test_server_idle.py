"""A server that is started when it is used, and stopped when it is not."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from anyport.config.schema import ServerConfig
from anyport.protocol.method import Kind
from anyport.routing.offers import Listing, Offer
from anyport.upstream.call import Lost
from anyport.upstream.connection import Connection
from anyport.upstream.key import SHARED, LeaseKey
from anyport.upstream.tender import UNUSED, State
from tests.upstream.fakes import Script, legacy, modern, offers, until
from tests.upstream.recorded import CONFIG, MINE, Scene, play

IDLE_SECONDS = 20.0
LAZY = replace(CONFIG, start="first-use")
RESTING = replace(CONFIG, idle_seconds=IDLE_SECONDS)
ASKABLE = LeaseKey(owner="asked", capabilities=b'{"roots":{}}', interactive=True)
KNOWN = {Kind.TOOLS: Listing(offers=(Offer("a", b'{"name":"a"}'),))}


def warm(*scripts: Script | str, config: ServerConfig = LAZY) -> Scene:
    """A server of which it is known what it offers."""
    at = Scene(*scripts, config=config)
    at.server.lists.recall(KNOWN, complete=True)
    return at


def look(at: Scene, later: float = 0.0) -> None:
    """Let time pass, and what is due happen."""
    at.now += later
    due, at.later[:] = list(at.later), []
    for _, act in due:
        act()


async def given(ask: Callable[[Callable[[Connection | str], None]], None]) -> Connection | str:
    found: list[Connection | str] = []
    ask(found.append)
    await until(lambda: len(found) == 1)
    return found[0]


def test_a_server_that_is_started_on_first_use_is_listed_and_does_not_run() -> None:
    async def scene() -> Scene:
        at = warm(legacy())

        at.server.prepare(MINE)
        at.server.prepare(SHARED)

        assert at.tools == ["a"]
        assert (at.server.state, at.server.reason) == (State.IDLE, UNUSED)
        assert at.server.settled and at.server.asleep
        assert at.warden.commands == []
        return at

    play(scene)


def test_the_first_use_starts_it_and_nobody_waits_for_its_lists() -> None:
    async def scene() -> Scene:
        at = warm(legacy(tools__list=offers("a", "b")))
        at.server.prepare(SHARED)

        at.server.lease(SHARED, lambda _: None)
        assert at.server.state is State.STARTING
        assert at.server.settled, "what it listed last is good enough"
        await at.listed()

        assert at.tools == ["a", "b"]
        (changed,) = [about for what, about in at.story if what == "listed"]
        assert isinstance(changed, frozenset) and Kind.TOOLS in changed
        return at

    play(scene)


def test_a_server_of_which_nothing_is_known_is_started_to_learn_what_it_offers() -> None:
    async def scene() -> Scene:
        at = Scene(legacy(tools__list=offers("a")), config=LAZY)

        at.server.prepare(SHARED)

        assert (at.server.state, at.server.settled) == (State.STARTING, False)
        await at.listed()
        assert at.tools == ["a"]
        return at

    play(scene)


def test_a_server_whose_wider_list_is_not_known_is_started_for_who_may_see_it() -> None:
    async def scene() -> Scene:
        at = Scene(legacy(tools__list=offers("a")), config=LAZY)
        at.server.lists.recall(KNOWN, complete=False)

        at.server.prepare(SHARED)
        assert at.server.asleep, "others see what is known"
        at.server.prepare(ASKABLE)

        assert not at.server.asleep
        await until(lambda: at.server.lists.complete)
        return at

    play(scene)


@pytest.mark.parametrize(
    "script", [legacy(tools__list=offers("a")), modern(tools__list=offers("a"))]
)
def test_a_server_that_nobody_has_used_for_a_while_is_stopped_and_still_listed(
    script: Script,
) -> None:
    async def scene() -> Scene:
        at = Scene(script, config=RESTING)
        at.server.prepare(SHARED)
        await at.listed()

        look(at, IDLE_SECONDS - 1)
        assert at.server.state is State.READY
        look(at, 1)

        assert (at.server.state, at.count("rested")) == (State.IDLE, 1)
        words = "nobody has used it for 20 s; it is started on the next use"
        assert at.server.reason == words
        assert (at.tools, at.server.settled) == (["a"], True)
        await until(lambda: at.warden.servers[0].child.stopped)
        assert at.later == [], "nobody looks at what does not run"
        assert at.count("failed") == at.count("stopped") == 0
        return at

    play(scene)


def test_the_next_use_starts_it_again_and_it_is_looked_at_again() -> None:
    async def scene() -> Scene:
        at = Scene(modern(tools__list=offers("a")), config=RESTING)
        at.server.prepare(SHARED)
        await at.listed()
        look(at, IDLE_SECONDS)
        assert at.server.asleep

        connection = await given(lambda ready: at.server.lease(MINE, ready))

        assert isinstance(connection, Connection)
        assert (at.server.state, at.count("started")) == (State.READY, 2)
        await at.listed(2)
        assert at.server.main is not None
        assert at.server.main.restarts == 0
        look(at, IDLE_SECONDS)
        assert at.server.asleep
        return at

    play(scene)


def test_a_server_in_use_is_not_stopped() -> None:
    async def scene() -> Scene:
        at = Scene(legacy(tools__list=offers("a"), tools__call=None), config=RESTING)
        at.server.prepare(SHARED)
        await at.listed()
        connection = await given(lambda ready: at.server.lease(SHARED, ready))
        assert isinstance(connection, Connection)
        call = connection.call("tools/call", None, lambda _: None)
        assert not isinstance(call, Lost)

        look(at, 10 * IDLE_SECONDS)
        assert (at.server.state, at.server.open_calls) == (State.READY, 1)

        connection.cancel(call, None)
        at.owner.relied.add(SHARED)
        look(at, 10 * IDLE_SECONDS)
        assert at.server.state is State.READY

        at.owner.relied.clear()
        at.server.await_return(15 * IDLE_SECONDS)
        look(at, 10 * IDLE_SECONDS)
        assert at.server.state is State.READY

        look(at, 10 * IDLE_SECONDS)
        assert at.server.asleep
        return at

    play(scene)


def test_listening_to_a_modern_server_is_no_use_of_it() -> None:
    async def scene() -> Scene:
        at = Scene(modern(tools__list=offers("a")), config=RESTING)
        at.server.prepare(SHARED)
        await at.listed()
        (_, connection), *_ = at.server.connections()

        assert connection.open_calls == 1
        assert at.server.open_calls == 0
        return at

    play(scene)


def test_a_session_s_own_process_rests_with_the_first_and_both_come_back() -> None:
    async def scene() -> Scene:
        at = Scene(legacy(tools__list=offers("a")), config=RESTING)
        at.server.prepare(SHARED)
        await at.listed()
        await given(lambda ready: at.server.lease(MINE, ready))
        assert len(at.server.connections()) == 2

        at.owner.relied.add(MINE)
        look(at, IDLE_SECONDS)
        assert len(at.server.connections()) == 2, "lists are read through the first"
        at.owner.relied.clear()
        look(at, IDLE_SECONDS)
        assert (at.server.connections(), at.count("rested")) == ([], 2)

        await given(lambda ready: at.server.lease(MINE, ready))
        await until(lambda: len(at.server.connections()) == 2)
        assert len(at.warden.servers) == 4
        return at

    play(scene)


def test_a_session_that_ends_takes_a_process_that_rests_with_it() -> None:
    async def scene() -> Scene:
        at = Scene(legacy(tools__list=offers("a")), config=RESTING)
        at.server.prepare(SHARED)
        await at.listed()
        await given(lambda ready: at.server.lease(MINE, ready))
        look(at, IDLE_SECONDS)

        at.server.drop("mine")
        await until(lambda: all(server.child.stopped for server in at.warden.servers))

        assert list(at.server.tenders) == [SHARED]
        assert at.count("stopped") == 0, "it did not run"
        return at

    play(scene)


def test_a_server_that_was_never_listed_is_not_stopped() -> None:
    async def scene() -> Scene:
        at = Scene(legacy(tools__list=None), config=RESTING)
        at.server.prepare(SHARED)
        await until(lambda: at.count("started") == 1)

        look(at, IDLE_SECONDS)
        look(at, IDLE_SECONDS)

        assert at.server.state is State.READY
        return at

    play(scene)


def test_a_server_on_first_use_that_dies_is_left_alone_until_somebody_needs_it() -> None:
    async def scene() -> Scene:
        at = warm(legacy(tools__list=offers("a")))
        at.server.prepare(SHARED)
        await given(lambda ready: at.server.lease(SHARED, ready))
        await at.listed()

        at.warden.servers[0].die(7)
        await until(lambda: at.server.asleep)

        assert (at.server.state, at.server.last_error) == (State.BROKEN, "exit code 7")
        assert (len(at.warden.servers), at.count("failed")) == (1, 1)
        assert at.server.settled
        connection = await given(lambda ready: at.server.lease(SHARED, ready))
        assert isinstance(connection, Connection)
        return at

    play(scene)


def test_a_server_on_first_use_that_dies_while_somebody_relies_on_it_is_started_again() -> None:
    async def scene() -> Scene:
        at = warm(legacy(tools__list=offers("a")))
        at.server.prepare(SHARED)
        await given(lambda ready: at.server.lease(SHARED, ready))
        at.owner.relied.add(SHARED)

        at.warden.servers[0].die(7)

        await until(lambda: at.count("started") == 2)
        return at

    play(scene)


def test_a_server_that_is_always_to_run_is_never_looked_at() -> None:
    async def scene() -> Scene:
        at = Scene(legacy(tools__list=offers("a")))
        at.server.prepare(SHARED)
        await at.listed()

        assert at.later == []
        assert not at.server.asleep
        return at

    play(scene)

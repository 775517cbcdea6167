"""A server that is started when it is used, and stopped when it is not."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from anyport.catalog.offers import Listing, Offer
from anyport.config.model import ServerConfig
from anyport.protocol.methods import OfferKind
from anyport.upstream.connection import Connection
from anyport.upstream.lease_key import SHARED, LeaseKey
from anyport.upstream.pending_call import NoAnswer
from anyport.upstream.pool import OWN_IDLE_SECONDS
from anyport.upstream.supervisor import NOT_STARTED_YET, NotReady, ServerState
from tests.upstream.fakes import Message, Script, legacy, modern, offers, until
from tests.upstream.server_scene import CONFIG, MINE, Scene, play

IDLE_SECONDS = 20.0
LAZY = replace(CONFIG, start="first-use")
RESTING = replace(CONFIG, idle_seconds=IDLE_SECONDS)
ASKABLE = LeaseKey(owner="asked", capabilities=b'{"roots":{}}', interactive=True)
KNOWN = {OfferKind.TOOLS: Listing(offers=(Offer("a", b'{"name":"a"}'),))}


def warm(*scripts: Script | str, config: ServerConfig = LAZY) -> Scene:
    """A server of which it is known what it offers."""
    at = Scene(*scripts, config=config)
    at.server.lists.restore(KNOWN, complete=True)
    return at


def look(at: Scene, later: float = 0.0) -> None:
    """Let time pass, and what is due happen."""
    at.clock.seconds += later
    due, at.clock.timers[:] = list(at.clock.timers), []
    for _, act in due:
        act()


async def quiet(at: Scene) -> None:
    """Wait until no request is open, not even one of the gateway's own for lists."""
    await until(lambda: not any(at.server.is_busy(key) for key, _ in at.server.connections()))


async def given(
    ask: Callable[[Callable[[Connection | NotReady], None]], None],
) -> Connection | NotReady:
    found: list[Connection | NotReady] = []
    ask(found.append)
    await until(lambda: len(found) == 1)
    return found[0]


def test_a_server_that_is_started_on_first_use_is_listed_and_does_not_run() -> None:
    async def scene() -> Scene:
        at = warm(legacy())

        at.server.prepare(MINE)
        at.server.prepare(SHARED)

        assert at.tools == ["a"]
        assert (at.server.state, at.server.reason) == (ServerState.IDLE, NOT_STARTED_YET)
        assert at.server.lists_settled and at.server.asleep
        assert at.spawner.commands == []
        return at

    play(scene)


def test_the_first_use_starts_it_and_nobody_waits_for_its_lists() -> None:
    async def scene() -> Scene:
        at = warm(legacy(tools__list=offers("a", "b")))
        at.server.prepare(SHARED)

        at.server.lease(SHARED, lambda _: None)
        assert at.server.state is ServerState.STARTING
        assert at.server.lists_settled, "what it listed last is good enough"
        await at.listed()

        assert at.tools == ["a", "b"]
        (changed,) = [about for what, about in at.story if what == "listed"]
        assert isinstance(changed, frozenset) and OfferKind.TOOLS in changed
        return at

    play(scene)


def test_a_server_of_which_nothing_is_known_is_started_to_learn_what_it_offers() -> None:
    async def scene() -> Scene:
        at = Scene(legacy(tools__list=offers("a")), config=LAZY)

        at.server.prepare(SHARED)

        assert (at.server.state, at.server.lists_settled) == (ServerState.STARTING, False)
        await at.listed()
        assert at.tools == ["a"]
        return at

    play(scene)


def test_a_server_whose_wider_list_is_not_known_is_started_for_who_may_see_it() -> None:
    async def scene() -> Scene:
        script = legacy(tools__list=offers("a"))
        at = Scene(script, script, config=LAZY)
        at.server.lists.restore(KNOWN, complete=False)

        at.server.prepare(SHARED)
        assert at.server.asleep, "others see what is known"
        at.server.read_interactive_lists(frozenset({"roots"}), b'{"roots":{}}')

        assert not at.server.asleep
        assert not at.server.lists_settled
        await until(lambda: at.server.lists.complete)
        assert at.server.lists_settled
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
        await quiet(at)

        look(at, IDLE_SECONDS - 1)
        assert at.server.state is ServerState.READY
        look(at, 1)

        assert (at.server.state, at.count("rested")) == (ServerState.IDLE, 1)
        words = "it was idle for 20 s; it is started on the next use"
        assert at.server.reason == words
        assert (at.tools, at.server.lists_settled) == (["a"], True)
        await until(lambda: at.spawner.servers[0].child.stopped)
        assert at.clock.timers == [], "nobody looks at what does not run"
        assert at.count("failed") == at.count("stopped") == 0
        return at

    play(scene)


def test_the_next_use_starts_it_again_and_it_is_looked_at_again() -> None:
    async def scene() -> Scene:
        at = Scene(modern(tools__list=offers("a")), config=RESTING)
        at.server.prepare(SHARED)
        await at.listed()
        await quiet(at)
        look(at, IDLE_SECONDS)
        assert at.server.asleep

        connection = await given(lambda ready: at.server.lease(MINE, ready))

        assert isinstance(connection, Connection)
        assert (at.server.state, at.count("started")) == (ServerState.READY, 2)
        await at.listed(2)
        assert at.server.main is not None
        assert at.server.main.restarts == 0
        await quiet(at)
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
        assert not isinstance(call, NoAnswer)

        look(at, 10 * IDLE_SECONDS)
        assert (at.server.state, at.server.open_calls) == (ServerState.READY, 1)

        connection.cancel(call, None)
        at.owner.relied.add(SHARED)
        look(at, 10 * IDLE_SECONDS)
        assert at.server.state is ServerState.READY

        at.owner.relied.clear()
        at.server.expect_return(15 * IDLE_SECONDS)
        look(at, 10 * IDLE_SECONDS)
        assert at.server.state is ServerState.READY

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
        await quiet(at)

        at.owner.relied.add(MINE)
        look(at, IDLE_SECONDS)
        assert len(at.server.connections()) == 2, "lists are read through the first"
        at.owner.relied.clear()
        look(at, IDLE_SECONDS)
        assert (at.server.connections(), at.count("rested")) == ([], 2)

        await given(lambda ready: at.server.lease(MINE, ready))
        await until(lambda: len(at.server.connections()) == 2)
        assert len(at.spawner.servers) == 4
        return at

    play(scene)


def test_a_session_that_ends_takes_a_process_that_rests_with_it() -> None:
    async def scene() -> Scene:
        at = Scene(legacy(tools__list=offers("a")), config=RESTING)
        at.server.prepare(SHARED)
        await at.listed()
        await given(lambda ready: at.server.lease(MINE, ready))
        await quiet(at)
        look(at, IDLE_SECONDS)

        at.server.drop("mine")
        await until(lambda: all(server.child.stopped for server in at.spawner.servers))

        assert list(at.server.supervisors) == [SHARED]
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

        assert at.server.state is ServerState.READY
        return at

    play(scene)


def test_a_server_on_first_use_that_dies_is_left_alone_until_somebody_needs_it() -> None:
    async def scene() -> Scene:
        at = warm(legacy(tools__list=offers("a")))
        at.server.prepare(SHARED)
        await given(lambda ready: at.server.lease(SHARED, ready))
        await at.listed()

        at.spawner.servers[0].die(7)
        await until(lambda: at.server.asleep)

        assert (at.server.state, at.server.last_error) == (ServerState.BROKEN, "exit code 7")
        assert (len(at.spawner.servers), at.count("failed")) == (1, 1)
        assert at.server.lists_settled
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

        at.spawner.servers[0].die(7)

        await until(lambda: at.count("started") == 2)
        return at

    play(scene)


def asking(*tools: str) -> Script:
    """A legacy server that asks its client something before it answers a call."""
    sound = legacy(tools__list=offers(*tools))

    def script(message: Message) -> list[Message]:
        if message.get("method") == "tools/call":
            return [
                {"id": "q", "method": "elicitation/create", "params": {"message": "?"}},
                {"id": message["id"], "result": {"content": []}},
            ]
        return sound(message)

    return script


def test_a_session_s_own_process_of_a_server_that_asks_is_closed_and_comes_back() -> None:
    mine = LeaseKey(owner="mine", capabilities=b"{}", interactive=True, fallback=SHARED)

    async def scene() -> Scene:
        at = Scene(asking("a"), sole=False)
        at.server.prepare(SHARED)
        await at.listed()
        line = await given(lambda ready: at.server.lease(mine, ready))
        assert isinstance(line, Connection)
        assert at.clock.timers == [], "it has not asked anything yet"
        answers: list[object] = []
        line.call("tools/call", None, answers.append)
        await until(lambda: len(answers) == 1 and at.count("asked") == 1)
        await quiet(at)

        look(at, OWN_IDLE_SECONDS - 1)
        assert len(at.server.connections()) == 2
        look(at, OWN_IDLE_SECONDS)
        assert [key for key, _ in at.server.connections()] == [SHARED]
        await until(lambda: at.spawner.servers[1].child.stopped)
        assert not at.spawner.servers[0].child.stopped
        assert at.server.state is ServerState.READY

        again = await given(lambda ready: at.server.lease(mine, ready))
        assert isinstance(again, Connection) and again is not line
        assert len(at.spawner.servers) == 3
        await quiet(at)
        look(at, OWN_IDLE_SECONDS)
        assert [key for key, _ in at.server.connections()] == [SHARED]
        return at

    play(scene)


def test_a_server_that_is_always_to_run_is_never_looked_at() -> None:
    async def scene() -> Scene:
        at = Scene(legacy(tools__list=offers("a")))
        at.server.prepare(SHARED)
        await at.listed()

        assert at.clock.timers == []
        assert not at.server.asleep
        return at

    play(scene)

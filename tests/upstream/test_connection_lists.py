"""What the connection of a session shows is for that session, and nobody else."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from anyport.config.model import ServerConfig
from anyport.protocol.methods import OfferKind
from anyport.protocol.principal import LOCAL, Principal
from anyport.upstream import connection_lists
from anyport.upstream.connection import Connection
from anyport.upstream.lease_key import SHARED, LeaseKey
from anyport.upstream.server import Server
from anyport.upstream.supervisor import NotReady
from tests.upstream.fakes import Message, Script, legacy, modern, offers, run, silent, until
from tests.upstream.server_scene import CONFIG, Scene, play
from tests.upstream.web import Heard, Reply, Web

CHANGED = "notifications/tools/list_changed"


class Growing:
    """A server of both eras, each of whose processes has the tools that it is given."""

    def __init__(self, *tools: str, **declared: Any) -> None:
        self.tools = [*tools]
        self.declared = {"tools": declared}
        self.refused = False
        self.heard: list[str] = []

    def __call__(self, message: Message) -> list[Message]:
        method, id = message["method"], message.get("id")
        self.heard.append(method)
        if method == "tools/list" and self.refused:
            return [{"id": id, "error": {"code": -32603, "message": "not now"}}]
        script = modern if self.heard[0] == "server/discover" else legacy
        answers = script(tools__list=offers(*self.tools))(message)
        for answer in answers:
            if "capabilities" in answer.get("result", {}):
                answer["result"]["capabilities"] = self.declared
        return answers


def own(name: str) -> LeaseKey:
    return LeaseKey(owner=name, capabilities=b'{"roots":{}}', interactive=True, fallback=SHARED)


def gateway_of_many(*scripts: Script | str, config: ServerConfig = CONFIG) -> Scene:
    return Scene(*scripts, config=config, sole=False)


def seen(server: Server, session: str) -> list[str]:
    """The tools that a session is shown."""
    listings = {**server.listings}
    difference = server.difference_for(session, LOCAL)
    if difference is not None:
        listings.update(difference.listings)
    return [offer.native for offer in listings[OfferKind.TOOLS].offers]


async def opened(at: Scene, *names: str) -> None:
    """The server runs, and these sessions have connections of their own, which were read."""
    at.server.prepare(SHARED)
    await at.listed()
    for times, name in enumerate(names, 1):
        at.server.lease(own(name), lambda _: None)
        await read(at, times)


async def read(at: Scene, times: int) -> None:
    await until(lambda: at.count("listed apart") >= times)


def differences(at: Scene) -> list[object]:
    """Of each reading over such a connection, whether its clients see others than before."""
    return [changed for kind, changed in at.story if kind == "listed apart"]


def come_due(at: Scene) -> None:
    due, at.clock.timers[:] = [*at.clock.timers], []
    for _, act in due:
        act()


@pytest.mark.parametrize("script", [Growing, lambda *tools: legacy(tools__list=offers(*tools))])
def test_what_the_process_of_one_session_lists_is_seen_in_no_other(
    script: Callable[..., Script],
) -> None:
    async def scene() -> Scene:
        at = gateway_of_many(script("a"), script("a", "b"), script("a", "c"))
        await opened(at, "one", "two")

        assert seen(at.server, "one") == ["a", "b"]
        assert seen(at.server, "two") == ["a", "c"]
        assert seen(at.server, "three") == seen(at.server, "") == at.tools == ["a"]
        assert differences(at) == [True, True]
        return at

    play(scene)


def test_the_lists_of_a_session_are_awaited_once_its_connection_is_open() -> None:
    async def scene() -> Scene:
        at = gateway_of_many(Growing("a"), legacy(tools__list=None))
        at.server.prepare(SHARED)
        await at.listed()
        at.server.lease(own("one"), lambda _: None)
        await until(lambda: at.count("started") == 2)

        source = at.server.source_for("one", LOCAL)
        assert source is not at.server
        trust = source.trust(OfferKind.TOOLS, newcomer=False)
        assert source.lists.refresh(OfferKind.TOOLS, trust)
        process = at.spawner.servers[1]
        await until(lambda: process.heard[-1]["method"] == "tools/list")
        process.say(id=process.heard[-1]["id"], result=offers("a"))
        await read(at, 1)
        assert not source.lists.refresh(OfferKind.TOOLS, trust)
        assert at.server.source_for("two", LOCAL) is at.server
        return at

    play(scene)


def test_lists_that_are_as_everybodys_make_no_difference() -> None:
    async def scene() -> Scene:
        at = gateway_of_many(Growing("a"), Growing("a"))
        await opened(at, "one")

        assert differences(at) == [False]
        assert not at.server.differences
        mine = at.server.source_for("one", LOCAL).listings[OfferKind.TOOLS]
        assert mine.offers is at.server.listings[OfferKind.TOOLS].offers, "kept once"
        return at

    play(scene)


def test_what_is_only_written_in_another_order_makes_no_difference() -> None:
    def backwards(message: Message) -> list[Message]:
        tools = [dict(reversed(tool.items())) for tool in reversed(offers("a", "b")["tools"])]
        return legacy(tools__list={"tools": tools})(message)

    async def scene() -> Scene:
        at = gateway_of_many(Growing("a", "b"), backwards)
        await opened(at, "one")

        assert differences(at) == [False]
        return at

    play(scene)


def test_connections_that_list_the_same_share_it() -> None:
    async def scene() -> Scene:
        at = gateway_of_many(Growing("a"), Growing("a", "b"), Growing("a", "b"))
        await opened(at, "one", "two")

        assert at.server.difference_for("one", LOCAL) is at.server.difference_for("two", LOCAL)
        assert len(at.server.differences) == 1
        return at

    play(scene)


def choosy(message: Message) -> list[Message]:
    """A legacy server with one more tool for a client that has roots."""
    if message["method"] == "initialize":
        able.append("roots" in message["params"]["capabilities"])
    shown = ("a", "b") if able[-1] else ("a",)
    return legacy(tools__list=offers(*shown))(message)


able: list[bool] = []


def test_what_all_see_whom_the_server_may_ask_is_nobodys_own() -> None:
    async def scene() -> Scene:
        at = gateway_of_many(choosy)
        at.server.prepare(SHARED)
        at.server.read_interactive_lists(frozenset({"roots"}), b'{"roots":{}}')
        await until(lambda: at.server.lists.complete)
        at.server.lease(own("one"), lambda _: None)
        await read(at, 1)

        assert at.tools == ["a", "b"]
        assert not at.server.differences
        return at

    play(scene)


def test_a_change_in_the_process_of_one_session_has_that_one_read_again() -> None:
    async def scene() -> Scene:
        main, mine = Growing("a", listChanged=True), Growing("a", listChanged=True)
        at = gateway_of_many(main, mine)
        await opened(at, "one")
        asked = main.heard.count("tools/list")
        mine.tools.append("b")

        at.spawner.servers[1].say(method=CHANGED)
        await until(lambda: len(at.clock.timers) > 0)
        come_due(at)
        await read(at, 2)

        assert (seen(at.server, "one"), at.tools) == (["a", "b"], ["a"])
        assert differences(at) == [False, True]
        assert main.heard.count("tools/list") == asked
        return at

    play(scene)


def test_what_is_in_no_list_is_looked_up_over_the_sessions_own_connection() -> None:
    async def scene() -> Scene:
        main, mine = Growing("a"), Growing("a")
        at = gateway_of_many(main, mine)
        await opened(at, "one")
        mine.tools.append("b")

        assert at.server.source_for("one", LOCAL).lists.look_up([OfferKind.TOOLS]) == 1
        come_due(at)
        await read(at, 2)

        assert seen(at.server, "one") == ["a", "b"]
        assert main.heard.count("tools/list") == 1
        return at

    play(scene)


def test_a_list_that_is_refused_is_taken_to_be_as_everybodys() -> None:
    async def scene() -> Scene:
        mine = Growing("b")
        mine.refused = True
        at = gateway_of_many(Growing("a"), mine)
        await opened(at, "one")

        assert seen(at.server, "one") == ["a"]
        return at

    play(scene)


@pytest.mark.parametrize("how", ["dropped", "died"])
def test_with_the_connection_its_lists_are_forgotten(how: str) -> None:
    async def scene() -> Scene:
        at = gateway_of_many(Growing("a"), Growing("a", "b"), Growing("a"))
        await opened(at, "one")
        source = at.server.source_for("one", LOCAL)
        source.lists.look_up([OfferKind.TOOLS])

        if how == "dropped":
            at.server.drop("one")
        else:
            at.spawner.servers[1].die(1)
        await read(at, 2)

        assert seen(at.server, "one") == ["a"]
        assert not at.server.differences
        assert differences(at)[:2] == [True, True]
        assert source.lists.lookups_done == 1, "nobody waits for it"
        come_due(at)
        return at

    play(scene)


def test_one_that_rests_shows_what_everybody_sees_until_it_is_used_again() -> None:
    async def scene() -> Scene:
        config = replace(CONFIG, idle_seconds=60.0)
        at = gateway_of_many(
            *[Growing("a"), Growing("a", "b"), Growing("a"), Growing("a")], config=config
        )
        await opened(at, "one")
        for _ in range(2):
            at.clock.seconds += 61.0
            come_due(at)
        await read(at, 2)
        assert seen(at.server, "one") == ["a"]

        given: list[Connection | NotReady] = []
        at.server.lease(own("one"), given.append)
        await read(at, 3)
        assert not at.server.differences
        return at

    play(scene)


def test_what_everybody_is_shown_may_become_what_one_session_was() -> None:
    async def scene() -> Scene:
        main = Growing("a", listChanged=True)
        at = gateway_of_many(main, Growing("a", "b"))
        await opened(at, "one")
        assert len(at.server.differences) == 1
        main.tools.append("b")

        at.spawner.servers[0].say(method=CHANGED)
        await until(lambda: len(at.clock.timers) > 0)
        come_due(at)
        await at.listed(2)

        assert at.tools == ["a", "b"]
        assert not at.server.differences
        return at

    play(scene)


def test_whoever_would_need_too_much_room_is_shown_what_everybody_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene() -> Scene:
        large = "b" * 200
        at = gateway_of_many(Growing("a"), Growing(large), Growing(large), Growing("c" * 200))
        monkeypatch.setattr(connection_lists, "CONNECTION_LISTS_BYTES_MAX", 300)
        await opened(at, "one", "two", "three")

        assert [seen(at.server, name) for name in ("one", "two")] == [[large], [large]]
        assert seen(at.server, "three") == ["a"]
        assert at.server.lists_warning == connection_lists.OVER_BUDGET
        at.server.drop("three")
        assert at.server.lists_warning is None
        return at

    play(scene)


def seat(number: int, principal: Principal = LOCAL) -> LeaseKey:
    return LeaseKey(owner=f"call-{number}", interactive=True, principal=principal)


def test_callers_without_a_session_are_shown_what_the_first_connection_of_their_calls_lists() -> (
    None
):
    async def scene() -> Scene:
        script = [legacy(tools__list=offers("a", *more)) for more in ("", "b", "c")]
        at = gateway_of_many(*script)
        at.server.prepare(SHARED)
        await at.listed()
        given: list[Connection | NotReady] = []
        for number in (1, 2):
            at.server.lease(seat(number), given.append)
            await until(lambda: len(given) == number)  # noqa: B023 - it is awaited here
        await read(at, 1)

        def shown(**who: Any) -> list[str]:
            source = at.server.source_for("", **{"principal": LOCAL, **who})
            return [offer.native for offer in source.listings[OfferKind.TOOLS].offers]

        assert shown(askable=True) == ["a", "b"]
        assert shown(askable=True, principal=Principal("token", "other")) == ["a"]
        assert shown() == ["a"], "its calls are made over the connection of all"
        assert at.count("listed apart") == 1, "one of the two is enough"
        at.server.drop("call-1")
        await read(at, 3)
        assert shown(askable=True) == ["a", "c"]
        return at

    play(scene)


def test_a_connection_that_is_closed_after_one_call_is_not_read() -> None:
    async def scene() -> Scene:
        config = replace(CONFIG, scope="call")
        at = gateway_of_many(legacy(tools__list=offers("a")), legacy(), config=config)
        at.server.prepare(SHARED)
        await at.listed()
        given: list[Connection | NotReady] = []
        at.server.lease(seat(1), given.append)
        await until(lambda: len(given) == 1)

        assert at.server.source_for("", LOCAL, askable=True) is at.server
        return at

    play(scene)


@pytest.mark.parametrize("how", ["own connection", "everybody's", "looked up"])
def test_what_is_found_changed_behind_a_url_is_looked_for_over_every_connection(how: str) -> None:
    tools, sessions = ["a"], count(1)

    def site(heard: Heard, reply: Reply) -> None:
        if heard.method == "server/discover":
            reply.json({"id": heard.id, "error": {"code": -32601, "message": "no"}})
        elif heard.method == "initialize":
            told = {"protocolVersion": "2025-11-25", "serverInfo": {}}
            declared = {"capabilities": {"tools": {"listChanged": True}}}
            fields = {"mcp_session_id": f"{next(sessions)}"}
            reply.json({"id": heard.id, "result": {**told, **declared}}, 200, **fields)
        elif heard.id is None:
            reply.whole(202)
        else:
            reply.json({"id": heard.id, "result": offers(*tools)})

    async def whole() -> None:
        async with Web(site) as web:
            config = ServerConfig(slug="s", name="s", url=web.url, timeout_seconds=5.0)
            at = gateway_of_many(silent, config=config)
            await opened(at, "one")
            line = at.server.supervisors[SHARED if how == "everybody's" else own("one")].connection
            assert line is not None
            tools.append("b")

            def settled() -> bool:
                if at.clock.timers:
                    come_due(at)
                return at.tools == seen(at.server, "one") == ["a", "b"]

            if how == "looked up":
                at.server.source_for("one", LOCAL).lists.look_up([OfferKind.TOOLS])
            else:
                line.receive(b'{"jsonrpc":"2.0","method":"%b"}' % CHANGED.encode())
            await until(settled)
            await until(lambda: not at.server.differences)
            await at.server.stop()

    run(whole)

"""A server that speaks both eras: each session has the one that serves it best."""

from dataclasses import replace
from typing import Any

import pytest

from anyport.config.schema import ServerConfig
from anyport.protocol.revision import Era
from anyport.upstream.connection import Connection
from anyport.upstream.key import SHARED, LeaseKey
from anyport.upstream.tender import State
from tests.upstream.fakes import Script, legacy, modern, offers, run, silent, until
from tests.upstream.recorded import CONFIG, MINE, Scene, play
from tests.upstream.web import Heard, Reply, Web

ASKABLE = LeaseKey(owner="asked", capabilities=b'{"roots":{}}', interactive=True)


def both(**answers: Any) -> Script:
    """A server that speaks both eras, and is held to the one it was first spoken to in."""
    eras = {"server/discover": modern(**answers), "initialize": legacy(**answers)}
    chosen: list[Script] = []

    def script(message: dict[str, Any]) -> list[dict[str, Any]]:
        if not chosen:
            chosen.append(eras[message["method"]])
        return chosen[0](message)

    return script


def test_a_session_that_can_be_asked_shakes_hands_with_a_server_of_both_eras() -> None:
    async def scene() -> Scene:
        at = Scene(both(), both())
        at.server.open(SHARED)
        await at.listed()
        given: list[Connection | str] = []

        at.server.lease(ASKABLE, given.append)
        at.server.lease(SHARED, given.append)
        at.server.lease(MINE, given.append)
        await until(lambda: len(given) == 3)

        shared, mine, asked = given
        assert shared is mine
        assert isinstance(shared, Connection) and isinstance(asked, Connection)
        eras = [line.peer and line.peer.revision.era for line in (shared, asked)]
        assert eras == [Era.MODERN, Era.LEGACY]
        assert at.server.modern
        first = at.warden.servers[1].heard[0]
        assert (first["method"], first["params"]["capabilities"]) == ("initialize", {"roots": {}})
        return at

    play(scene)


def test_a_server_that_refuses_the_handshake_is_not_asked_for_it_again() -> None:
    async def scene() -> Scene:
        at = Scene(modern())
        at.server.open(SHARED)
        await at.listed()
        given: list[Connection | str] = []

        at.server.lease(ASKABLE, given.append)
        await until(lambda: len(given) == 1)
        await until(lambda: at.warden.servers[1].child.stopped)
        at.server.lease(replace(ASKABLE, owner="another"), given.append)

        assert given == [at.server.main and at.server.main.connection] * 2
        assert len(at.warden.servers) == 2
        # Nobody but us has to know.
        assert (at.count("started"), at.count("failed"), at.count("stopped")) == (1, 0, 0)
        assert (at.server.state, at.server.last_error) == (State.READY, None)
        return at

    play(scene)


def test_a_tool_that_appears_in_the_process_of_one_session_is_listed() -> None:
    async def scene() -> Scene:
        at = Scene(both(tools__list=offers("a")), both(tools__list=offers("a", "b")))
        at.server.open(SHARED)
        await at.listed()
        given: list[Connection | str] = []
        at.server.lease(ASKABLE, given.append)
        await until(lambda: len(given) == 1)
        assert at.tools == ["a"]

        at.warden.servers[1].say(method="notifications/tools/list_changed")
        await until(lambda: len(at.later) > 0)
        for _, act in at.later:
            act()
        await until(lambda: at.tools == ["a", "b"])
        return at

    play(scene)


def test_a_server_behind_a_url_that_keeps_no_session_is_spoken_to_as_a_modern_one() -> None:
    def site(heard: Heard, reply: Reply) -> None:
        if heard.method == "subscriptions/listen":
            reply.stream()
        else:
            # It says yes to both eras, and gives no session.
            both = {"supportedVersions": ["2026-07-28"], "protocolVersion": "2025-11-25"}
            reply.json({"id": heard.id, "result": {**both, "capabilities": {}, "serverInfo": {}}})

    async def whole() -> None:
        async with Web(site) as web:
            config = ServerConfig(slug="s", name="s", url=web.url, timeout_seconds=5.0)
            at = Scene(silent, config=config)
            at.server.open(SHARED)
            await at.listed()
            given: list[Connection | str] = []

            at.server.lease(ASKABLE, given.append)
            await until(lambda: len(given) == 1)
            at.server.lease(replace(ASKABLE, owner="another"), given.append)

            assert given == [at.server.main and at.server.main.connection] * 2
            assert [heard.method for heard in web.heard].count("initialize") == 1
            await at.server.stop()

    run(whole)


@pytest.mark.parametrize("protocol", ["modern", "2026-07-28"])
def test_a_server_that_is_configured_as_modern_is_not_asked_for_a_handshake(protocol: str) -> None:
    async def scene() -> Scene:
        at = Scene(both(), config=replace(CONFIG, protocol=protocol))
        at.server.open(SHARED)
        await at.listed()

        assert at.server.open(ASKABLE) is at.server.main
        return at

    play(scene)

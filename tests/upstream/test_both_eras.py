"""A server that speaks both eras: each session has the one that serves it best."""

from dataclasses import replace
from typing import Any

import pytest

from anyport.config.model import ServerConfig
from anyport.protocol.principal import LOCAL
from anyport.protocol.revisions import Era
from anyport.upstream.connection import Connection
from anyport.upstream.handshake_trials import FAILED_CLIENTS_MAX, TRIAL_SECONDS_MIN
from anyport.upstream.lease_key import SHARED, LeaseKey
from anyport.upstream.supervisor import NotReady, ServerState
from tests.upstream.fakes import Script, legacy, modern, offers, run, silent, until
from tests.upstream.server_scene import CONFIG, MINE, Scene, play
from tests.upstream.web import Heard, Reply, Web
from tests.upstream.web import modern as modern_site

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
        given: list[Connection | NotReady] = []

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
        first = at.spawner.servers[1].heard[0]
        assert (first["method"], first["params"]["capabilities"]) == ("initialize", {"roots": {}})
        return at

    play(scene)


def test_a_server_that_refuses_the_handshake_is_not_asked_for_it_again() -> None:
    async def scene() -> Scene:
        at = Scene(modern())
        at.server.open(SHARED)
        await at.listed()
        given: list[Connection | NotReady] = []

        at.server.lease(ASKABLE, given.append)
        await until(lambda: len(given) == 1)
        await until(lambda: at.spawner.servers[1].child.stopped)
        at.server.lease(replace(ASKABLE, owner="another"), given.append)

        assert given == [at.server.main and at.server.main.connection] * 2
        assert len(at.spawner.servers) == 2
        # Nobody but us has to know.
        assert (at.count("started"), at.count("failed"), at.count("stopped")) == (1, 0, 0)
        assert (at.server.state, at.server.last_error) == (ServerState.READY, None)
        return at

    play(scene)


async def leased(at: Scene, key: LeaseKey) -> Connection | NotReady:
    """What a client gets."""
    given: list[Connection | NotReady] = []
    at.server.lease(key, given.append)
    await until(lambda: len(given) == 1)
    return given[0]


UNSUPPORTED = {"code": -32022, "message": "odd"}
OF_ONE_CLIENT = [
    {"code": -32602, "message": "odd"},
    {"code": -32021, "message": "odd", "data": {"requiredCapabilities": {"sampling": {}}}},
    {**UNSUPPORTED, "data": {"supported": ["2026-07-28", "2025-06-18"]}},
]
"""What a server may answer to one client's `initialize`, and not to another's."""
OF_ALL = [UNSUPPORTED, {**UNSUPPORTED, "data": {"supported": ["2026-07-28"]}}]
"""What says that it has no handshake at all."""


def refusing_odd(error: Any) -> Script:
    """A server of both eras that cannot bear one client."""

    def script(message: dict[str, Any]) -> list[dict[str, Any]]:
        if message["method"] == "initialize" and "odd" in message["params"]["capabilities"]:
            return [{"id": message["id"], "error": error}]
        return legacy()(message)

    return script


choosy = refusing_odd(OF_ONE_CLIENT[0])


@pytest.mark.parametrize("error", OF_ONE_CLIENT)
def test_a_handshake_that_fails_for_one_client_is_none_of_the_others_business(error: Any) -> None:
    async def scene() -> Scene:
        at = Scene(both(), *[refusing_odd(error)] * 3)
        at.server.open(SHARED)
        await at.listed()
        main = at.server.main and at.server.main.connection
        odd = replace(ASKABLE, owner="odd", capabilities=b'{"roots":{},"odd":{}}')
        given: list[Connection | NotReady] = []

        at.server.lease(odd, given.append)
        await until(lambda: len(given) == 1)
        at.server.lease(ASKABLE, given.append)
        await until(lambda: len(given) == 2)
        assert given[0] is main
        assert isinstance(given[1], Connection)
        assert given[1] is not main
        assert given[1].peer is not None
        assert given[1].peer.revision.era is Era.LEGACY

        at.server.lease(odd, given.append)
        assert given[2] is main, "not at once"
        assert at.server.trials.warning is not None
        at.clock.seconds += TRIAL_SECONDS_MIN
        at.server.lease(odd, given.append)
        await until(lambda: len(given) == 4)
        assert len(at.spawner.servers) == 4
        return at

    play(scene)


@pytest.mark.parametrize("error", OF_ALL)
def test_a_server_that_has_no_revision_with_a_handshake_is_not_asked_again(error: Any) -> None:
    async def scene() -> Scene:
        at = Scene(both(), refusing_odd(error))
        at.server.open(SHARED)
        await at.listed()
        odd = replace(ASKABLE, owner="odd", capabilities=b'{"roots":{},"odd":{}}')
        given: list[Connection | NotReady] = []

        at.server.lease(odd, given.append)
        await until(lambda: len(given) == 1)
        at.server.lease(ASKABLE, given.append)

        assert given == [at.server.main and at.server.main.connection] * 2
        assert at.server.trials.warning is None
        return at

    play(scene)


@pytest.mark.parametrize("error", OF_ONE_CLIENT)
def test_so_it_is_with_a_server_behind_a_url(error: Any) -> None:
    def site(heard: Heard, reply: Reply) -> None:
        if heard.method == "subscriptions/listen":
            reply.stream()
        elif heard.method == "initialize" and "odd" in heard.message["params"]["capabilities"]:
            reply.json({"id": heard.id, "error": error}, 400)
        else:
            said = {"supportedVersions": ["2026-07-28"], "protocolVersion": "2025-11-25"}
            result = {**said, "capabilities": {}, "serverInfo": {}}
            fields = {"mcp_session_id": "one"} if heard.method == "initialize" else {}
            reply.json({"id": heard.id, "result": result}, 200, **fields)

    async def whole() -> None:
        async with Web(site) as web:
            config = ServerConfig(slug="s", name="s", url=web.url, timeout_seconds=5.0)
            at = Scene(silent, config=config)
            at.server.open(SHARED)
            await at.listed()
            odd = replace(ASKABLE, owner="odd", capabilities=b'{"roots":{},"odd":{}}')

            assert era_of(await leased(at, odd)) is Era.MODERN
            assert era_of(await leased(at, ASKABLE)) is Era.LEGACY
            await at.server.stop()

    run(whole)


def test_who_is_not_answered_is_soon_served_without_a_handshake() -> None:
    async def scene() -> Scene:
        config = replace(CONFIG, timeout_seconds=0.1)
        at = Scene(both(), silent, config=config)
        at.server.open(SHARED)
        await at.listed()
        given: list[Connection | NotReady] = []

        at.server.lease(ASKABLE, given.append)
        await until(lambda: len(given) == 1)

        assert given == [at.server.main and at.server.main.connection]
        assert "did not answer the handshake within 0.05 s" in (at.server.trials.warning or "")
        assert at.server.state is ServerState.READY
        at.server.lease(ASKABLE, given.append)
        assert len(given) == 2, "at once"
        return at

    play(scene)


def test_a_server_behind_a_url_that_leaves_the_handshake_unanswered_holds_nobody_up() -> None:
    def site(heard: Heard, reply: Reply) -> None:
        if heard.method == "initialize":
            reply.stream()
        else:
            over_modern(heard, reply)

    over_modern = modern_site()

    async def whole() -> None:
        async with Web(site) as web:
            config = ServerConfig(slug="s", name="s", url=web.url, timeout_seconds=0.2)
            at = Scene(silent, config=config)
            at.server.open(SHARED)
            await at.listed()
            given: list[Connection | NotReady] = []

            at.server.lease(ASKABLE, given.append)
            await until(lambda: len(given) == 1)

            assert given == [at.server.main and at.server.main.connection]
            assert "within 0.1 s" in (at.server.trials.warning or "")
            await at.server.stop()

    run(whole)


def test_clients_for_whom_the_handshake_fails_take_it_from_no_other() -> None:
    async def scene() -> Scene:
        at = Scene(both(), *[choosy] * 2 * (FAILED_CLIENTS_MAX + 1))
        at.server.open(SHARED)
        await at.listed()
        given: list[Connection | NotReady] = []

        async def lease(key: LeaseKey) -> Connection | NotReady:
            before = len(given)
            at.server.lease(key, given.append)
            await until(lambda: len(given) == before + 1)
            return given[-1]

        for number in range(FAILED_CLIENTS_MAX + 1):
            odd = replace(ASKABLE, owner=f"odd {number}", capabilities=b'{"roots":{},"odd":{}}')
            assert era_of(await lease(odd)) is Era.MODERN
            sound = replace(ASKABLE, owner=f"sound {number}")
            assert era_of(await lease(sound)) is Era.LEGACY
        return at

    play(scene)


def test_a_server_that_has_no_time_for_a_handshake_is_asked_again() -> None:
    busy = [True]

    def site(heard: Heard, reply: Reply) -> None:
        if heard.method == "subscriptions/listen":
            reply.stream()
        elif heard.method == "initialize" and busy:
            busy.pop()
            reply.whole(503, b"")
        else:
            said = {"supportedVersions": ["2026-07-28"], "protocolVersion": "2025-11-25"}
            result = {**said, "capabilities": {}, "serverInfo": {}}
            fields = {"mcp_session_id": "one"} if heard.method == "initialize" else {}
            reply.json({"id": heard.id, "result": result}, 200, **fields)

    async def whole() -> None:
        async with Web(site) as web:
            config = ServerConfig(slug="s", name="s", url=web.url, timeout_seconds=5.0)
            at = Scene(silent, config=config)
            at.server.open(SHARED)
            await at.listed()
            given: list[Connection | NotReady] = []

            at.server.lease(ASKABLE, given.append)
            await until(lambda: len(given) == 1)
            assert given == [at.server.main and at.server.main.connection]
            assert "503" in (at.server.trials.warning or "")
            at.clock.seconds += TRIAL_SECONDS_MIN
            at.server.lease(ASKABLE, given.append)
            await until(lambda: len(given) == 2)

            assert isinstance(given[1], Connection)
            assert given[1].peer is not None
            assert given[1].peer.revision.era is Era.LEGACY
            assert at.server.trials.warning is None
            await at.server.stop()

    run(whole)


def without_sessions(heard: Heard, reply: Reply) -> None:
    """Says yes to both eras, and gives no session."""
    if heard.verb != "POST":
        reply.whole(405)
    elif heard.method == "subscriptions/listen":
        reply.stream()
    elif heard.id is None:
        reply.whole(202)
    else:
        both = {"supportedVersions": ["2026-07-28"], "protocolVersion": "2025-11-25"}
        reply.json({"id": heard.id, "result": {**both, "capabilities": {}, "serverInfo": {}}})


def test_one_that_keeps_no_session_is_spoken_to_as_a_modern_one_if_it_may_ask() -> None:
    async def whole() -> None:
        async with Web(without_sessions) as web:
            config = ServerConfig(slug="s", name="s", url=web.url, timeout_seconds=5.0)
            at = Scene(silent, config=config)
            at.server.open(SHARED)
            await at.listed()
            given: list[Connection | NotReady] = []

            at.server.lease(ASKABLE, given.append)
            await until(lambda: len(given) == 1)
            at.server.lease(replace(ASKABLE, owner="another"), given.append)

            assert given == [at.server.main and at.server.main.connection] * 2
            assert [heard.method for heard in web.heard].count("initialize") == 1
            await at.server.stop()

    run(whole)


@pytest.mark.parametrize("asked_first", [False, True])
@pytest.mark.parametrize("capabilities", [b"{}", b'{"extensions":{"com.example/own":{}}}'])
def test_for_sessions_that_cannot_be_asked_it_is_spoken_to_in_their_era(
    capabilities: bytes, asked_first: bool
) -> None:
    async def whole() -> None:
        async with Web(without_sessions) as web:
            config = ServerConfig(slug="s", name="s", url=web.url, timeout_seconds=5.0)
            at = Scene(silent, config=config)
            at.server.open(SHARED)
            await at.listed()
            unasked = replace(at.server.key_for_sessions(LOCAL), capabilities=capabilities)
            keys = (ASKABLE, unasked) if asked_first else (unasked, ASKABLE)

            eras = {key: era_of(await leased(at, key)) for key in keys}

            assert eras == {unasked: Era.LEGACY, ASKABLE: Era.MODERN}
            assert at.server.has_or_may_try(unasked)
            assert at.server.trials.warning is None
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


# Sessions that cannot be asked.


def test_sessions_that_cannot_be_asked_share_a_connection_in_their_era() -> None:
    async def scene() -> Scene:
        at = Scene(both(tools__list=offers("a")), both(tools__list=offers("a", "b")))
        at.server.prepare(SHARED)
        await at.listed()
        given: list[Connection | NotReady] = []
        key = at.server.key_for_sessions(LOCAL)
        assert at.server.has_or_may_try(key)

        for session in ("one", "two"):
            at.server.assign_session(session, key)
            at.server.lease(key, given.append)
        await until(lambda: len(given) == 2)

        assert given[0] is given[1]
        assert era_of(given[0]) is Era.LEGACY
        opening = at.spawner.servers[1].heard[0]
        assert (opening["method"], opening["params"]["capabilities"]) == ("initialize", {})
        assert len(at.spawner.servers) == 2
        await until(lambda: at.count("listed apart") == 1)
        assert [
            at.server.source_for(session, LOCAL) is at.server for session in ("one", "three", "")
        ] == [False, True, True]
        return at

    play(scene)


def test_a_session_that_joins_others_later_is_moved_to_their_connection() -> None:
    async def scene() -> Scene:
        at = Scene(both(), both())
        at.server.prepare(SHARED)
        await at.listed()
        key = at.server.key_for_sessions(LOCAL)
        given: list[Connection | NotReady] = []
        at.server.assign_session("one", key)
        at.server.lease(key, given.append)
        await until(lambda: len(given) == 1)
        assert at.count("moved") == 0, "the connection was not open"

        at.server.assign_session("two", key)
        at.server.assign_session("two", key)
        assert [what for kind, what in at.story if kind == "moved"] == ["two"]
        return at

    play(scene)


def test_a_server_of_one_era_has_no_such_connection() -> None:
    async def scene() -> Scene:
        at = Scene(modern(tools__list=offers("a")))
        at.server.prepare(SHARED)
        await at.listed()
        key = at.server.key_for_sessions(LOCAL)
        given: list[Connection | NotReady] = []

        at.server.lease(key, given.append)
        await until(lambda: len(given) == 1)

        assert given == [at.server.main and at.server.main.connection]
        assert not at.server.has_or_may_try(key)
        assert at.server.trials.warning is None
        return at

    play(scene)


def test_while_it_cannot_be_had_another_stands_in_for_it() -> None:
    async def scene() -> Scene:
        at = Scene(both(), "no such program", both())
        at.server.prepare(SHARED)
        await at.listed()
        assert at.server.main is not None
        main = at.server.main.connection
        assert main is not None
        key = at.server.key_for_sessions(LOCAL)
        given: list[Connection | NotReady] = []

        at.server.lease(key, given.append)
        await until(lambda: len(given) == 1)
        assert given == [main]
        assert at.server.is_fallback(key, main)
        assert not at.server.has_or_may_try(key)
        at.clock.seconds += TRIAL_SECONDS_MIN
        at.server.lease(key, given.append)
        await until(lambda: len(given) == 2)

        assert era_of(given[1]) is Era.LEGACY
        assert isinstance(given[1], Connection)
        assert not at.server.is_fallback(key, given[1])
        return at

    play(scene)


# A session whose connection is the first.

OWN = replace(ASKABLE, fallback=SHARED)


def era_of(connection: Connection | NotReady) -> Era | None:
    assert isinstance(connection, Connection), connection
    return None if connection.peer is None else connection.peer.revision.era


@pytest.mark.parametrize(
    ("script", "era", "methods"),
    [
        (both(), Era.LEGACY, ["initialize"]),
        (legacy(), Era.LEGACY, ["initialize"]),
        (modern(), Era.MODERN, ["initialize", "server/discover"]),
    ],
)
def test_a_sole_clients_server_is_spoken_to_as_the_client_would(
    script: Script, era: Era, methods: list[str]
) -> None:
    async def scene() -> Scene:
        at = Scene(script)
        given: list[Connection | NotReady] = []
        at.server.lease(OWN, given.append)
        await until(lambda: len(given) == 1)

        assert era_of(given[0]) is era
        assert len(at.spawner.servers) == 1
        heard = [message["method"] for message in at.spawner.servers[0].heard]
        assert heard[: len(methods)] == methods
        return at

    play(scene)


def test_a_request_without_a_session_is_still_spoken_of_in_the_newer_era() -> None:
    async def scene() -> Scene:
        at = Scene(both(), both())
        given: list[Connection | NotReady] = []
        at.server.lease(OWN, given.append)
        await until(lambda: len(given) == 1)
        at.server.lease(SHARED, given.append)
        await until(lambda: len(given) == 2)

        assert [era_of(line) for line in given] == [Era.LEGACY, Era.MODERN]
        return at

    play(scene)


@pytest.mark.parametrize("sessions", [True, False])
def test_a_server_behind_a_url_is_spoken_to_as_the_sole_client_would(sessions: bool) -> None:
    def site(heard: Heard, reply: Reply) -> None:
        if heard.method == "subscriptions/listen":
            reply.stream()
            return
        said = {"supportedVersions": ["2026-07-28"], "protocolVersion": "2025-11-25"}
        result = {**said, "capabilities": {}, "serverInfo": {}}
        opens = heard.method == "initialize" and sessions
        fields = {"mcp_session_id": "one"} if opens else {}
        reply.json({"id": heard.id, "result": result}, 200, **fields)

    async def whole() -> None:
        async with Web(site) as web:
            config = ServerConfig(slug="s", name="s", url=web.url, timeout_seconds=5.0)
            at = Scene(silent, config=config)
            given: list[Connection | NotReady] = []
            at.server.lease(OWN, given.append)
            await until(lambda: len(given) == 1)

            # Without a session it could ask nothing in the older era.
            assert era_of(given[0]) is (Era.LEGACY if sessions else Era.MODERN)
            await at.server.stop()

    run(whole)


@pytest.mark.parametrize("status", [400, 404, 405])
def test_a_modern_server_behind_a_url_may_refuse_the_handshake_as_it_likes(status: int) -> None:
    def site(heard: Heard, reply: Reply) -> None:
        if heard.method == "initialize":
            reply.whole(status)
        else:
            over_modern(heard, reply)

    over_modern = modern_site()

    async def whole() -> None:
        async with Web(site) as web:
            config = ServerConfig(slug="s", name="s", url=web.url, timeout_seconds=5.0)
            at = Scene(silent, config=config)
            given: list[Connection | NotReady] = []
            at.server.lease(OWN, given.append)
            await until(lambda: len(given) == 1)

            assert era_of(given[0]) is Era.MODERN
            await at.server.stop()

    run(whole)

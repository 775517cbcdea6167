"""The running gateway: who it starts, what it notes, and how it ends."""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from anyport.catalog.offers import Listing, Offer
from anyport.config.model import Config, GatewayConfig, ProfileConfig, ServerConfig
from anyport.gateway.gateway import Gateway
from anyport.gateway.servers import STDERR_EVENTS_PER_SECOND_MAX
from anyport.protocol.methods import OfferKind
from anyport.upstream.lease_key import SHARED
from tests.gateway.fakes import MODERN, Asked, FakeSession, caller
from tests.harness import read_events
from tests.rig.small_servers import ECHO

DEADLINE_SECONDS = 60.0


def config_of(*servers: ServerConfig) -> Config:
    slugs = tuple(server.slug for server in servers)
    return Config(
        gateway=GatewayConfig(list_seconds=10.0),
        servers={server.slug: server for server in servers},
        profiles={"default": ProfileConfig(slug="default", servers=slugs)},
    )


def echo(slug: str = "s", **rest: Any) -> ServerConfig:
    """A real server of a few lines."""
    args = ("-I", "-S", "-c", ECHO)
    return ServerConfig(
        slug=slug, name=slug, command=sys.executable, args=args, transport="stdio", **rest
    )


Scene = Callable[[Gateway], Coroutine[Any, Any, None]]


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Plays a scene with a gateway; gives the journal that it left."""

    async def whole(scene: Scene, config: Config) -> None:
        async with (
            asyncio.timeout(DEADLINE_SECONDS),
            Gateway(config, tmp_path, sole=True) as gateway,
        ):
            await scene(gateway)

    def run(scene: Scene, *servers: ServerConfig) -> list[dict[str, Any]]:
        asyncio.run(whole(scene, config_of(*servers)))
        return read_events(tmp_path)

    return run


Play = Callable[..., list[dict[str, Any]]]


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.001)


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["event_type"].removeprefix("gateway.") for event in events]


def test_start_and_stop_are_noted_and_no_server_is_started_for_nobody(play: Play) -> None:
    async def scene(gateway: Gateway) -> None:
        assert gateway.servers["s"].main is None

    assert types(play(scene, echo())) == ["started", "backend_registered", "stopped"]


def test_a_call_goes_to_a_real_server_and_back(play: Play) -> None:
    async def scene(gateway: Gateway) -> None:
        asked = Asked(params={"name": "s__echo"})
        gateway.begin(asked.exchange)
        await until(lambda: asked.ending is not None)
        assert asked.ending["content"][0]["text"] == "here"

    events = play(scene, echo())

    assert [kind for kind in types(events) if kind != "exchange"] == [
        *("started", "backend_registered", "backend_started", "tool_call"),
        *("backend_stopped", "stopped"),
    ]
    assert [
        event["metadata"]["method"] for event in events if "exchange" in event["event_type"]
    ] == [*("server/discover", "initialize", "tools/list")]


def test_a_session_has_servers_of_its_own_and_they_go_with_it(play: Play) -> None:
    async def scene(gateway: Gateway) -> None:
        session = FakeSession("mine")
        gateway.on_session_opened(session)
        (key,) = gateway.servers["s"].supervisors
        assert key.owner == "mine"
        await until(lambda: gateway.servers["s"].lists_ready)

        gateway.on_session_closed(session)

        assert gateway.servers["s"].supervisors == {}
        assert "mine" not in gateway.notifications.sessions

    events = play(scene, echo())

    assert [kind for kind in types(events) if kind != "exchange"] == [
        *("started", "backend_registered", "session_started", "backend_started"),
        *("session_ended", "backend_stopped", "stopped"),
    ]


def test_every_server_is_noted_with_the_reason_if_it_will_not_run(play: Play) -> None:
    async def scene(gateway: Gateway) -> None:
        pass

    missing = ServerConfig(slug="c", name="c", unresolved=("TOKEN is not set",))
    events = play(scene, echo("a"), echo("b", disabled=True), missing)

    noted = [event["metadata"] for event in events if "backend" in event["event_type"]]
    assert noted == [
        {"server": "a", "transport": "stdio"},
        {
            "server": "b",
            "transport": "stdio",
            "reason": "it is disabled in the configuration",
        },
        {
            "server": "c",
            "transport": "auto",
            "reason": "TOKEN is not set",
        },
    ]


def test_a_session_that_a_signal_ends_was_not_ended_by_its_client(play: Play) -> None:
    async def scene(gateway: Gateway) -> None:
        first, second = FakeSession("first"), FakeSession("second")
        gateway.on_session_opened(first)
        gateway.on_session_opened(second)
        gateway.on_session_closed(first)

        async def serve() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                gateway.on_session_closed(second)

        async with asyncio.TaskGroup() as group:
            serving = group.create_task(serve())
            await asyncio.sleep(0)
            serving.cancel()

    ended = [event for event in play(scene) if event["event_type"] == "gateway.session_ended"]

    assert [event["metadata"]["reason"] for event in ended] == [
        "ended by the client",
        "interrupted",
    ]


def test_callers_without_a_session_wake_the_servers_once(play: Play) -> None:
    async def scene(gateway: Gateway) -> None:
        for _ in range(3):
            gateway.start_servers_for(caller(revision=MODERN))
        assert list(gateway.servers["s"].supervisors) == [SHARED]

    play(scene, echo())


def test_a_server_that_cannot_start_harms_no_other(play: Play) -> None:
    missing = ServerConfig(slug="missing", name="missing", command="/nowhere/server")

    async def scene(gateway: Gateway) -> None:
        asked = Asked("tools/list")
        gateway.begin(asked.exchange)
        await until(lambda: asked.ending is not None)
        names = [tool["name"] for tool in asked.ending["tools"]]
        assert names == ["gateway_status", "get_events", "s__echo"]

    events = play(scene, missing, echo())

    # It is tried again on a machine that takes its time with the other one.
    failed, *_ = [event for event in events if event["event_type"] == "gateway.backend_failed"]
    assert failed["metadata"]["server"] == "missing"
    assert failed["error_message"] == "command 'server' does not exist"


def test_what_servers_offered_is_there_before_they_have_started(play: Play) -> None:
    async def learn(gateway: Gateway) -> None:
        gateway.start_servers_for(caller())
        await until(lambda: gateway.servers["s"].lists_ready)

    async def remember(gateway: Gateway) -> None:
        entries = gateway.profiles["default"].catalog.entries(OfferKind.TOOLS)
        assert "s__echo" in [entry.public for entry in entries]

    play(learn, echo())
    play(remember, echo())


def test_a_changed_list_is_told_to_who_has_seen_it(play: Play) -> None:
    async def scene(gateway: Gateway) -> None:
        session = FakeSession()
        gateway.notifications.on_session_opened(session)
        gateway.notifications.mark_shown(session, OfferKind.TOOLS)
        server = gateway.servers["s"]
        server.listings[OfferKind.TOOLS] = Listing(offers=(Offer("new", b'{"name":"new"}'),))

        gateway.server_registry.events.on_lists_read(server, frozenset({OfferKind.TOOLS}))
        gateway.server_registry.events.on_lists_read(server, frozenset())

        assert session.notified == [("notifications/tools/list_changed", None)]

    play(scene, echo())


def test_a_talkative_server_does_not_fill_the_journal(play: Play) -> None:
    async def scene(gateway: Gateway) -> None:
        for number in range(1000):
            gateway.server_registry.events.on_stderr(gateway.servers["s"], [f"line {number}"])

    lines = types(play(scene, echo())).count("stderr")

    assert STDERR_EVENTS_PER_SECOND_MAX <= lines <= 5 * STDERR_EVENTS_PER_SECOND_MAX


def test_a_call_that_takes_too_long_is_ended(play: Play) -> None:
    hang = "import signal\nwhile True: signal.pause()"
    silent = ServerConfig(
        slug="s",
        name="s",
        command=sys.executable,
        args=("-I", "-S", "-c", hang),
        timeout_seconds=0.1,
    )

    async def scene(gateway: Gateway) -> None:
        server = gateway.servers["s"]
        server.listings[OfferKind.TOOLS] = Listing(offers=(Offer("echo", b'{"name":"echo"}'),))
        gateway.profiles["default"].refresh()
        asked = Asked(params={"name": "s__echo"})
        gateway.begin(asked.exchange)
        await until(lambda: asked.ending is not None)
        assert asked.ending == "Tool execution timeout (0.1s)"
        await gateway.process_spawner.close()

    play(scene, silent)


def test_what_breaks_is_said_in_one_line_without_secrets(
    play: Play, capsys: pytest.CaptureFixture[str]
) -> None:
    async def scene(gateway: Gateway) -> None:
        def breaks() -> None:
            raise RuntimeError("with s3cr3t-t0ken inside")

        asyncio.get_running_loop().call_soon(breaks)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    play(scene, echo(secrets=frozenset({"s3cr3t-t0ken"})))

    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("anyport: internal error: RuntimeError: with ")
    assert "s3cr3t" not in said


def test_whatever_breaks_a_request_it_is_answered(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(gateway: Gateway) -> None:
        monkeypatch.setattr(gateway.relay, "route", lambda *_, **__: 1 / 0)
        asked = Asked(params={"name": "s__echo"})
        gateway.begin(asked.exchange)

        assert asked.ending == "Internal error: the gateway failed to handle this request"

    play(scene)


def test_it_presents_itself_without_waiting_for_anyone(play: Play) -> None:
    async def scene(gateway: Gateway) -> None:
        description = gateway.describe("default")
        assert description is not None
        assert json.loads(description.server_info)["name"] == "anyport"
        assert json.loads(gateway.server_info("default"))["name"] == "anyport"

    play(scene, echo())

"""A changed configuration: provisioned beside the old one, then taken over at once, or not at all.

The servers are real ones of a few lines.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anyport.config.faults import ConfigError, ConfigFault
from anyport.config.model import (
    Config,
    GatewayConfig,
    HookConfig,
    ProfileConfig,
    RecordConfig,
    ServerConfig,
)
from anyport.gateway.config_diff import ConfigDiff
from anyport.gateway.gateway import Gateway
from anyport.gateway.reload import FAULTS_SHOWN_MAX, ReloadRefused
from anyport.protocol.methods import OfferKind
from anyport.record.journal.journal import Journal
from anyport.upstream.lease_key import SHARED
from anyport.upstream.server import Server
from tests.gateway.fakes import Asked, FakeSession
from tests.gateway.test_gateway import config_of, until
from tests.harness import read_events
from tests.rig.small_servers import MINIMAL

DEADLINE_SECONDS = 60.0

HOLDING = (
    MINIMAL
    + """
held = []

def use(message):
    name = message["params"]["name"]
    if name == "hold":
        held.append(message)
    else:
        say(message, "here")
    if name == "release":
        for each in held:
            say(each, "held")

serve(["echo", "hold", "release"], use)
"""
)
"""A server that answers some calls only when it is told to."""

Scene = Callable[[Gateway, "Files"], Coroutine[Any, Any, None]]


def echo(slug: str, **rest: Any) -> ServerConfig:
    args = ("-I", "-S", "-c", HOLDING)
    return ServerConfig(
        slug=slug, name=slug, command=sys.executable, args=args, transport="stdio", **rest
    )


def release(server: Server) -> None:
    """Have a server answer what it holds; nobody else may be able to reach it any more."""
    for _, line in server.connections():
        line.call("tools/call", b'{"name":"release","arguments":{}}', lambda _: None)


class Files:
    """What the gateway finds when it reads its configuration again."""

    def __init__(self, config: Config) -> None:
        self.config: Config | Exception = config

    def read(self, before: Config) -> Config:
        if isinstance(self.config, Exception):
            raise self.config
        return self.config


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    async def whole(scene: Scene, config: Config) -> None:
        async with (
            asyncio.timeout(DEADLINE_SECONDS),
            Gateway(config, tmp_path, sole=False) as gateway,
        ):
            files = Files(config)
            gateway.reload.source = files.read
            for server in gateway.servers.values():
                server.open(SHARED)
            await until(lambda: all(server.lists_settled for server in gateway.servers.values()))
            await scene(gateway, files)

    def run(scene: Scene, config: Config) -> list[dict[str, Any]]:
        asyncio.run(whole(scene, config))
        return read_events(tmp_path)

    return run


Play = Callable[..., list[dict[str, Any]]]


async def called(gateway: Gateway, name: str, **more: Any) -> Any:
    asked = Asked(params={"name": name, **more})
    gateway.begin(asked.exchange)
    await until(lambda: asked.ending is not None)
    return asked.ending


def tools(gateway: Gateway, profile: str = "default") -> set[str]:
    return {entry.public for entry in gateway.profiles[profile].catalog.entries(OfferKind.TOOLS)}


def process_of(gateway: Gateway, slug: str) -> int:
    main = gateway.servers[slug].main
    assert main is not None and main.child is not None
    return main.child.pid


def test_a_server_that_is_added_can_be_called_the_moment_it_is_taken_over(play: Play) -> None:
    async def scene(gateway: Gateway, files: Files) -> None:
        process = process_of(gateway, "a")
        files.config = config_of(echo("a"), echo("b"))

        found = await gateway.reload.run()

        assert found == ConfigDiff(added=("b",), profiles=("default",))
        assert {"a__echo", "b__echo"} <= tools(gateway)
        assert (await called(gateway, "b__echo"))["content"][0]["text"] == "here"
        assert process_of(gateway, "a") == process, "an unchanged server keeps its process"

    [event] = [e for e in play(scene, config_of(echo("a"))) if "reloaded" in e["event_type"]]
    assert event["status"] == "success"
    assert event["metadata"] == {
        "added": ["b"],
        "removed": [],
        "changed": [],
        "profiles": ["default"],
        "settings": [],
    }


def test_a_server_that_is_removed_finishes_its_call_and_is_stopped(play: Play) -> None:
    async def scene(gateway: Gateway, files: Files) -> None:
        slow = Asked(params={"name": "b__hold"})
        gateway.begin(slow.exchange)
        server = gateway.servers["b"]
        await until(lambda: any(line.open_calls for _, line in server.connections()))
        files.config = config_of(echo("a"))

        await gateway.reload.run()

        assert tools(gateway).isdisjoint({"b__echo", "b__hold"})
        assert await called(gateway, "b__echo") == "Unknown tool: b__echo"
        assert slow.ending is None, "it is still at work"
        release(server)
        await until(lambda: slow.ending is not None)
        assert "held" in str(slow.ending)
        await until(lambda: not server.connections())

    events = play(scene, config_of(echo("a"), echo("b")))
    stopped = [e["metadata"] for e in events if e["event_type"] == "gateway.backend_stopped"]
    assert {"server": "b", "reason": "no longer in the configuration"} in stopped


def test_a_server_that_is_changed_is_replaced_and_the_old_one_finishes_its_call(
    play: Play,
) -> None:
    async def scene(gateway: Gateway, files: Files) -> None:
        held = Asked(params={"name": "a__hold"})
        gateway.begin(held.exchange)
        old = gateway.servers["a"]
        await until(lambda: any(line.open_calls for _, line in old.connections()))
        process = process_of(gateway, "a")
        files.config = config_of(echo("a", env={"NEW": "1"}))

        found = await gateway.reload.run()

        assert found.changed == ("a",)
        assert process_of(gateway, "a") != process
        assert (await called(gateway, "a__echo"))["content"][0]["text"] == "here"
        assert held.ending is None
        release(old)
        await until(lambda: held.ending is not None)
        assert "held" in str(held.ending)

    play(scene, config_of(echo("a")))


def test_calls_made_again_and_again_go_to_the_new_server_after_a_change(play: Play) -> None:
    async def scene(gateway: Gateway, files: Files) -> None:
        for _ in range(3):
            await called(gateway, "a__echo")
        old = gateway.servers["a"]
        files.config = config_of(echo("a", env={"NEW": "1"}))
        await gateway.reload.run()
        for _ in range(3):
            await called(gateway, "a__echo")
        await until(lambda: not old.connections())

    play(scene, config_of(echo("a")))


def test_legacy_sessions_learn_that_lists_changed(play: Play) -> None:
    async def scene(gateway: Gateway, files: Files) -> None:
        session = FakeSession("mine")
        gateway.on_session_opened(session)
        gateway.notifications.mark_shown(session, OfferKind.TOOLS)
        files.config = config_of(echo("a"), echo("b"))
        await gateway.reload.run()
        assert "notifications/tools/list_changed" in [method for method, _ in session.notified]

    play(scene, config_of(echo("a")))


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (
            ReloadRefused("server 'b': the command x is not found"),
            "server 'b': the command x is not found",
        ),
        (
            ConfigError(
                ConfigFault(file="f.toml", line=n, column=1, path="", message="wrong")
                for n in range(1, 8)
            ),
            f"and {7 - FAULTS_SHOWN_MAX} more",
        ),
    ],
)
def test_a_configuration_that_cannot_be_used_changes_nothing(
    play: Play, trouble: Exception, words: str
) -> None:
    async def scene(gateway: Gateway, files: Files) -> None:
        before, profile = gateway.config, gateway.profiles["default"]
        files.config = trouble
        with pytest.raises(ReloadRefused, match=words):
            await gateway.reload.run()
        assert gateway.config is before
        assert gateway.profiles["default"] is profile
        assert (await called(gateway, "a__echo"))["content"][0]["text"] == "here"

    [event] = [e for e in play(scene, config_of(echo("a"))) if "reloaded" in e["event_type"]]
    assert event["status"] == "failure"
    assert words in event["error_message"]


def test_a_gateway_without_files_says_that_there_is_nothing_to_read(play: Play) -> None:
    async def scene(gateway: Gateway, files: Files) -> None:
        gateway.reload.source = None
        with pytest.raises(ReloadRefused, match="not started from files"):
            await gateway.reload.run()

    play(scene, config_of())


def test_what_has_not_changed_is_not_noted(play: Play) -> None:
    async def scene(gateway: Gateway, files: Files) -> None:
        assert not await gateway.reload.run()

    assert not [e for e in play(scene, config_of(echo("a"))) if "reloaded" in e["event_type"]]


def test_settings_hold_from_then_on(play: Play) -> None:
    async def scene(gateway: Gateway, files: Files) -> None:
        hook = HookConfig(name="h", on="status:failure", run=("true",))
        files.config = replace(
            config_of(echo("a")),
            gateway=GatewayConfig(list_seconds=0.5),
            record=RecordConfig(capture="off"),
            hooks=(hook,),
        )
        await gateway.reload.run()
        assert gateway.local_methods.list_seconds == 0.5
        assert gateway.capture.level_of("default", "a") == "off"
        assert set(gateway.hooks.report()) == {"h"}

    play(scene, config_of(echo("a")))


def test_secrets_of_a_new_server_are_never_shown_and_old_ones_neither(play: Play) -> None:
    async def scene(gateway: Gateway, files: Files) -> None:
        files.config = config_of(echo("b", secrets=frozenset({"new-secret"})))
        await gateway.reload.run()
        shown = gateway.redact("old-secret and new-secret")
        assert "secret" not in shown

    play(scene, config_of(echo("a", secrets=frozenset({"old-secret"}))))


def test_profiles_come_and_go(play: Play) -> None:
    async def scene(gateway: Gateway, files: Files) -> None:
        one = ProfileConfig(slug="one", servers=("a",), prefix="never")
        files.config = replace(config_of(echo("a")), profiles={"one": one})
        await gateway.reload.run()
        assert set(gateway.profiles) == {"one"}
        assert "echo" in tools(gateway, "one")

    play(scene, config_of(echo("a")))


def test_two_reloads_at_once_happen_one_after_the_other(play: Play) -> None:
    async def scene(gateway: Gateway, files: Files) -> None:
        files.config = config_of(echo("a"), echo("b"))
        first, second = await asyncio.gather(gateway.reload.run(), gateway.reload.run())
        assert (first.added, second.added) == (("b",), ())

    play(scene, config_of(echo("a")))


def test_a_change_that_cannot_be_recorded_is_not_made(play: Play) -> None:
    async def scene(gateway: Gateway, files: Files) -> None:
        files.config = config_of(echo("a"), echo("b"))
        failure = "The event journal cannot be written: no room"
        with pytest.MonkeyPatch.context() as patch:
            # On the property: the writer clears its own as soon as a flush succeeds.
            patch.setattr(Journal, "last_error", property(lambda _: failure))
            with pytest.raises(ReloadRefused, match=r"no room, and a change .* has to be recorded"):
                await gateway.reload.run()
        assert tools(gateway) >= {"a__echo"}
        assert "b" not in gateway.servers
        await gateway.reload.run()
        assert "b" in gateway.servers

    play(scene, config_of(echo("a")))


def test_what_becomes_of_calls_without_a_record_can_be_changed(play: Play) -> None:
    async def scene(gateway: Gateway, files: Files) -> None:
        assert (gateway.relay.durability.policy, gateway.journal.on_failure) == (
            "degrade",
            "degrade",
        )
        files.config = replace(
            config_of(echo("a")), record=RecordConfig(on_failure="block", sync="always")
        )
        await gateway.reload.run()
        assert (gateway.relay.durability.policy, gateway.journal.on_failure) == ("block", "block")
        assert (gateway.journal.sync, gateway.journal.file_writer.syncs) == ("always", True)

    play(scene, config_of(echo("a")))


def bare(*servers: ServerConfig, **rest: Any) -> Config:
    """A configuration whose names have no prefix while nobody else has them."""
    made = config_of(*servers)
    profile = replace(made.profiles["default"], prefix="on-conflict", gateway_tools=False, **rest)
    return replace(made, profiles={"default": profile})


def owner(gateway: Gateway, name: str) -> str | None:
    entry = gateway.profiles["default"].catalog.find_named(OfferKind.TOOLS, name)
    return None if entry is None else entry.slug


def test_a_name_stays_with_its_server_whatever_else_is_reloaded(play: Play) -> None:
    async def scene(gateway: Gateway, files: Files) -> None:
        assert owner(gateway, "echo") == "a"
        for config in (
            bare(echo("b"), echo("a")),
            bare(echo("b"), echo("a", timeout_seconds=7.0)),
            bare(echo("c"), echo("b"), echo("a"), allow=("*",), deny=("x/*",)),
        ):
            files.config = config
            await gateway.reload.run()
            assert owner(gateway, "echo") == "a"
            assert owner(gateway, "b__echo") == "b"

        files.config = bare(echo("b"), echo("a"), deny=("a/echo",))
        await gateway.reload.run()
        assert owner(gateway, "echo") is None, "it is denied, and still nobody else's"
        files.config = bare(echo("b"), echo("a"))
        await gateway.reload.run()
        assert owner(gateway, "echo") == "a"

    events = play(scene, bare(echo("a"), echo("b")))
    told = [e["metadata"] for e in events if e["event_type"] == "gateway.name_conflict"]
    assert [(about["server"], set(about["owners"])) for about in told] == [
        ("b", {"a"}),
        ("c", {"a"}),
    ]


def test_a_server_that_is_removed_leaves_its_names_to_others(play: Play) -> None:
    async def scene(gateway: Gateway, files: Files) -> None:
        files.config = bare(echo("b"))
        _, preview = await gateway.reload.preview()
        assert owner(gateway, "echo") == "a", "a preview changes nothing"
        [shift] = preview
        assert "b__echo" in shift.removed
        assert "echo" in shift.changed

        await gateway.reload.run()

        assert owner(gateway, "echo") == "b"

    play(scene, bare(echo("a"), echo("b")))

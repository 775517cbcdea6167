"""A server that is a process of ours: started as configured, and its end has a reason."""

import asyncio
import json
import os
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from anyport.protocol.revisions import Era
from anyport.upstream import handshake
from anyport.upstream.connection import Connection
from anyport.upstream.pending_call import BROKEN, Answer, NoAnswer
from anyport.upstream.stdio.transport import START_NOISE_LINES_MAX, StdioTransport
from anyport.wire.jsonrpc import Result
from tests.upstream.fakes import Message, legacy, modern, run, silent, until
from tests.upstream.transports import TransportScene, refused, soon


def play(scene: Callable[[], Coroutine[Any, Any, tuple[TransportScene, StdioTransport]]]) -> None:
    """Play a scene; then the transport is stopped, and nothing may be left of its processes."""

    async def whole() -> None:
        at, transport = await scene()
        await transport.stop("enough")
        await transport.clean_up()
        for server in at.spawner.servers:
            assert server.child.exit_status is not None
            assert server.child.stdout == -1, "a pipe was left open"

    run(whole)


async def opened(at: TransportScene, **settings: Any) -> tuple[StdioTransport, Connection]:
    transport = at.local(**settings)
    return transport, await transport.open()


# How it is started.


def test_a_process_is_started_as_configured() -> None:
    async def scene() -> tuple[TransportScene, StdioTransport]:
        at = TransportScene(legacy())
        transport, _ = await opened(
            at, command="/opt/tools/server", args=("-x", "y z"), cwd="/srv", env={"A": "1"}
        )

        (command,) = at.spawner.commands
        assert command.argv == ("/opt/tools/server", "-x", "y z")
        assert command.env == {"LANG": "C", "A": "1"}
        assert command.cwd == "/srv"
        assert transport.child is not None
        assert transport.transport_name == "stdio"
        return at, transport

    play(scene)


@pytest.mark.parametrize("removed", [False, True])
def test_without_a_folder_of_its_own_it_runs_where_the_gateway_runs(
    removed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = os.getcwd()

    def gone() -> str:
        raise FileNotFoundError

    async def scene() -> tuple[TransportScene, StdioTransport]:
        at = TransportScene(legacy())
        if removed:
            monkeypatch.setattr(os, "getcwd", gone)
        transport, _ = await opened(at)

        assert at.spawner.commands[0].cwd == ("/" if removed else here)
        return at, transport

    play(scene)


def test_a_command_that_cannot_be_started_is_the_reason() -> None:
    async def scene() -> tuple[TransportScene, StdioTransport]:
        at = TransportScene("command 'server' was not found")
        transport = at.local()

        assert await refused(transport) == "command 'server' was not found"
        assert (transport.child, transport.current_connection) == (None, None)
        return at, transport

    play(scene)


def test_one_that_is_stopped_while_it_is_being_started_ends_at_once() -> None:
    async def scene() -> tuple[TransportScene, StdioTransport]:
        at = TransportScene(silent)
        at.spawner.gate = gate = asyncio.Event()
        transport = at.local()
        opening = asyncio.get_running_loop().create_task(refused(transport))
        await until(lambda: bool(at.spawner.commands))

        await transport.stop("the gateway is stopping")
        gate.set()

        assert await opening == "the gateway is stopping"
        assert len(at.spawner.servers) == 1
        return at, transport

    play(scene)


# How it ends.


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        (b"", "exit code 2"),
        (b"warming up\nno token: secret\n", "exit code 2; last line on stderr: no token: ***"),
        (b"warming up\nin the middle of", "exit code 2; last line on stderr: in the middle"),
    ],
)
def test_the_exit_code_and_the_last_words_are_the_reason(stderr: bytes, reason: str) -> None:
    async def scene() -> tuple[TransportScene, StdioTransport]:
        at = TransportScene(legacy())
        transport, connection = await opened(at)
        at.server.script = silent
        answers: list[Answer] = []
        connection.call("tools/call", None, answers.append)
        os.write(at.server.stderr, stderr)

        at.server.die(2)

        (answer,) = answers
        assert isinstance(answer, NoAnswer)
        assert answer.reason.startswith(reason)
        assert at.owner.draining == [answer.reason]
        assert len(at.owner.stderr) == len(stderr.splitlines())
        return at, transport

    play(scene)


def test_what_it_said_right_before_its_end_is_still_heard() -> None:
    async def scene() -> tuple[TransportScene, StdioTransport]:
        at = TransportScene(legacy())
        transport, connection = await opened(at)
        answers: list[Answer] = []
        connection.call("tools/call", None, answers.append)
        connection.call("tools/call", None, answers.append)
        at.server.script = silent
        last = connection.claim_number() - 1

        at.server.say(id=last, result={"just": "in time"})
        at.server.die(1)

        first, second = answers
        assert isinstance(first, Result)
        assert json.loads(first.result) == {"just": "in time"}
        assert second == BROKEN.result_for_unsent("exit code 1"), "it was never written"
        return at, transport

    play(scene)


def test_what_is_left_of_a_life_is_put_away() -> None:
    async def scene() -> tuple[TransportScene, StdioTransport]:
        at = TransportScene(legacy())
        transport, connection = await opened(at)
        child = at.server.child

        await transport.clean_up()

        assert child.stopped
        assert (child.stdin, child.stdout, child.stderr) == (-1, -1, -1)
        assert transport.child is None
        assert not connection.usable
        return at, transport

    play(scene)


# What kills it.


def dying_of(*methods: str, at: Callable[[], TransportScene], code: int = 1) -> Callable[..., Any]:
    """A legacy server that exits when it hears one of these."""

    def script(message: Message) -> list[Message]:
        if message["method"] not in methods:
            return legacy()(message)
        soon(lambda: at().server.die(code))
        return []

    return script


def test_a_server_that_dies_of_the_probe_gets_a_fresh_process_and_is_remembered() -> None:
    async def scene() -> tuple[TransportScene, StdioTransport]:
        at = TransportScene(dying_of("server/discover", at=lambda: at))
        transport, connection = await opened(at)
        assert connection.usable
        assert len(at.spawner.servers) == 2
        assert at.quirks.dies_of_probe

        at.server.die(3)
        await transport.clean_up()
        await transport.open()

        assert len(at.spawner.servers) == 3
        assert at.server.heard[0]["method"] == "initialize"
        return at, transport

    play(scene)


def test_a_slow_one_that_dies_of_the_probe_after_its_handshake_is_remembered_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handshake, "SILENCE_SECONDS_MAX", 0.0)

    async def scene() -> tuple[TransportScene, StdioTransport]:
        def slow(message: Message) -> list[Message]:
            heard = at.server.heard
            if message["method"] == "server/discover":
                soon(lambda: at.server.die(1))
                return legacy()(heard[0])
            return legacy()(message) if len(at.spawner.servers) > 1 else []

        at = TransportScene(slow)
        transport, connection = await opened(at, first_era=Era.LEGACY)
        assert connection.usable
        assert len(at.spawner.servers) == 2
        assert at.quirks.dies_of_probe
        methods = [[said["method"] for said in server.heard] for server in at.spawner.servers]
        assert methods[0] == ["initialize", "server/discover"]
        assert "server/discover" not in methods[1]
        return at, transport

    play(scene)


def of_both_eras(message: Message) -> list[Message]:
    """A server that opens a session whenever it is asked to, whatever it has said before."""
    return (legacy() if message["method"] == "initialize" else modern())(message)


def starting_slowly() -> Callable[[Message], list[Message]]:
    """It answers nothing until it has heard a second question."""
    held: list[Message] = []

    def script(message: Message) -> list[Message]:
        held.append(message)
        if message["method"] != "initialize":
            return []
        first, second = held
        return of_both_eras(first) + of_both_eras(second)

    return script


def test_a_slow_server_of_both_eras_is_asked_for_the_newer_one_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handshake, "PROBE_SECONDS_MAX", 0.0)

    async def scene() -> tuple[TransportScene, StdioTransport]:
        at = TransportScene(starting_slowly(), of_both_eras, of_both_eras)
        transport, connection = await opened(at)
        assert connection.peer is not None
        assert connection.peer.revision.name == "2026-07-28"
        assert [said["method"] for said in at.server.heard] == ["server/discover"]
        assert len(at.spawner.servers) == 2

        at.server.die(3)
        await transport.clean_up()
        await transport.open()

        assert [said["method"] for said in at.server.heard] == ["server/discover"]
        assert len(at.spawner.servers) == 3
        return at, transport

    play(scene)


def test_one_that_was_of_both_eras_and_is_of_the_older_one_now_is_tried_anew() -> None:
    async def scene() -> tuple[TransportScene, StdioTransport]:
        at = TransportScene(legacy())
        at.quirks.avoid_initialize = True

        transport, connection = await opened(at)

        assert connection.peer is not None
        assert connection.peer.revision.name == "2025-11-25"
        assert not at.quirks.avoid_initialize
        assert len(at.spawner.servers) == 2
        return at, transport

    play(scene)


def test_a_server_that_dies_of_everything_costs_one_process_a_life() -> None:
    async def scene() -> tuple[TransportScene, StdioTransport]:
        script = dying_of("server/discover", "initialize", at=lambda: at, code=7)
        at = TransportScene(script)
        transport = at.local()
        started = []
        for _ in range(4):
            assert await refused(transport) == "exit code 7"
            started.append(len(at.spawner.servers))
            await transport.clean_up()

        assert started == [2, 3, 4, 5]
        assert not at.quirks.dies_of_probe

        # Repaired, and of the new era only: it refuses the handshake, and is probed after all.
        at.spawner.scripts = [modern()]
        connection = await transport.open()

        assert connection.peer is not None
        assert connection.peer.revision.name == "2026-07-28"
        return at, transport

    play(scene)


@pytest.mark.parametrize("protocol", ["legacy", "modern", "2025-06-18"])
def test_a_server_whose_era_is_configured_is_not_tried_in_another(protocol: str) -> None:
    async def scene() -> tuple[TransportScene, StdioTransport]:
        at = TransportScene(dying_of("server/discover", "initialize", at=lambda: at))
        transport = at.local(protocol=protocol)

        assert await refused(transport) == "exit code 1"
        assert len(at.spawner.servers) == 1
        assert not at.quirks.dies_of_probe
        return at, transport

    play(scene)


def test_one_that_was_stopped_in_the_middle_of_the_probe_is_not_started_again() -> None:
    async def scene() -> tuple[TransportScene, StdioTransport]:
        at = TransportScene(silent)
        transport = at.local()
        opening = asyncio.get_running_loop().create_task(refused(transport))
        await until(lambda: bool(at.spawner.servers) and bool(at.server.heard))

        await transport.stop("the gateway is stopping")

        assert await opening == "the gateway is stopping"
        assert len(at.spawner.servers) == 1
        return at, transport

    play(scene)


# What people read.


def test_a_program_that_is_no_server_is_shown_by_what_it_wrote() -> None:
    async def scene() -> tuple[TransportScene, StdioTransport]:
        at = TransportScene(legacy())
        transport, connection = await opened(at)
        assert transport.noise is None

        at.server.write(b"Usage: \x1b[1mserver\x1b[0m secret\nand more\n")
        await until(lambda: connection.noise_count == 2)

        assert transport.noise is not None
        assert transport.noise.startswith("it wrote 2 lines that are not MCP, the first: Usage:")
        assert transport.noise.endswith("***")
        assert "\x1b" not in transport.noise
        return at, transport

    play(scene)


def test_a_program_that_writes_anything_but_mcp_is_given_up_at_once() -> None:
    async def scene() -> tuple[TransportScene, StdioTransport]:
        at = TransportScene(silent)
        transport = at.local(protocol="legacy")
        opening = asyncio.get_running_loop().create_task(refused(transport))
        await until(lambda: bool(at.spawner.servers) and bool(at.server.heard))

        at.server.write(b"y\n" * (START_NOISE_LINES_MAX + 1))

        assert await opening == "it is not an MCP server"
        assert transport.noise is not None
        assert transport.noise.endswith("the first: y")
        return at, transport

    play(scene)


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("command '/opt/tools/server' was not found", "command 'server' was not found"),
        ("folder '/srv/deep' is gone", "folder '…' is gone"),
        ("cannot open /srv/deep/a.json with secret", "cannot open a.json with ***"),
    ],
)
def test_callers_are_not_told_where_things_lie(reason: str, shown: str) -> None:
    transport = TransportScene(silent).local(command="/opt/tools/server", cwd="/srv/deep")

    assert transport.redact_reason(reason) == shown

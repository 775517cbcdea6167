"""A server that is a process of ours: started as configured, and its end has a reason."""

import asyncio
import json
import os
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from anyport.upstream import handshake
from anyport.upstream.call import Answer, Lost
from anyport.upstream.connection import Connection
from anyport.upstream.local import Local
from anyport.upstream.parting import BROKEN
from anyport.wire.frame import Result
from tests.upstream.fakes import Message, legacy, modern, run, silent, until
from tests.upstream.travels import Travels, refused, soon


def play(scene: Callable[[], Coroutine[Any, Any, tuple[Travels, Local]]]) -> None:
    """Play a scene; then the road is stopped, and nothing may be left of its processes."""

    async def whole() -> None:
        at, road = await scene()
        await road.stop("enough")
        await road.clear()
        for server in at.warden.servers:
            assert server.child.exited is not None
            assert server.child.stdout == -1, "a pipe was left open"

    run(whole)


async def opened(at: Travels, **settings: Any) -> tuple[Local, Connection]:
    road = at.local(**settings)
    return road, await road.open()


# How it is started.


def test_a_process_is_started_as_configured() -> None:
    async def scene() -> tuple[Travels, Local]:
        at = Travels(legacy())
        road, _ = await opened(at, command="/opt/tools/server", args=("-x", "y z"), cwd="/srv")

        (command,) = at.warden.commands
        assert command.argv == ("/opt/tools/server", "-x", "y z")
        assert command.env == {"A": "1"}
        assert command.cwd == "/srv"
        assert road.child is not None
        assert road.transport == "stdio"
        return at, road

    play(scene)


@pytest.mark.parametrize("removed", [False, True])
def test_without_a_folder_of_its_own_it_runs_where_the_gateway_runs(
    removed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = os.getcwd()

    def gone() -> str:
        raise FileNotFoundError

    async def scene() -> tuple[Travels, Local]:
        at = Travels(legacy())
        if removed:
            monkeypatch.setattr(os, "getcwd", gone)
        road, _ = await opened(at)

        assert at.warden.commands[0].cwd == ("/" if removed else here)
        return at, road

    play(scene)


def test_a_command_that_cannot_be_started_is_the_reason() -> None:
    async def scene() -> tuple[Travels, Local]:
        at = Travels("command 'server' was not found")
        road = at.local()

        assert await refused(road) == "command 'server' was not found"
        assert (road.child, road.line) == (None, None)
        return at, road

    play(scene)


def test_one_that_is_stopped_while_it_is_being_started_ends_at_once() -> None:
    async def scene() -> tuple[Travels, Local]:
        at = Travels(silent)
        at.warden.gate = gate = asyncio.Event()
        road = at.local()
        opening = asyncio.get_running_loop().create_task(refused(road))
        await until(lambda: bool(at.warden.commands))

        await road.stop("the gateway is stopping")
        gate.set()

        assert await opening == "the gateway is stopping"
        assert len(at.warden.servers) == 1
        return at, road

    play(scene)


# How it ends.


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        (b"", "exit code 2"),
        (b"warming up\nno token: secret\n", "exit code 2; its last words on stderr: no token: ***"),
        (b"warming up\nin the middle of", "exit code 2; its last words on stderr: in the middle"),
    ],
)
def test_the_exit_code_and_the_last_words_are_the_reason(stderr: bytes, reason: str) -> None:
    async def scene() -> tuple[Travels, Local]:
        at = Travels(legacy())
        road, connection = await opened(at)
        at.server.script = silent
        answers: list[Answer] = []
        connection.call("tools/call", None, answers.append)
        os.write(at.server.stderr, stderr)

        at.server.die(2)

        (answer,) = answers
        assert isinstance(answer, Lost)
        assert answer.reason.startswith(reason)
        assert at.over == [answer.reason]
        assert len(at.stderr) == len(stderr.splitlines())
        return at, road

    play(scene)


def test_what_it_said_right_before_its_end_is_still_heard() -> None:
    async def scene() -> tuple[Travels, Local]:
        at = Travels(legacy())
        road, connection = await opened(at)
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
        assert second == BROKEN.unsent("exit code 1"), "it was never written"
        return at, road

    play(scene)


def test_what_is_left_of_a_life_is_put_away() -> None:
    async def scene() -> tuple[Travels, Local]:
        at = Travels(legacy())
        road, connection = await opened(at)
        child = at.server.child

        await road.clear()

        assert child.stopped
        assert (child.stdin, child.stdout, child.stderr) == (-1, -1, -1)
        assert road.child is None
        assert not connection.usable
        return at, road

    play(scene)


# What kills it.


def dying_of(*methods: str, at: Callable[[], Travels], code: int = 1) -> Callable[..., Any]:
    """A legacy server that exits when it hears one of these."""

    def script(message: Message) -> list[Message]:
        if message["method"] not in methods:
            return legacy()(message)
        soon(lambda: at().server.die(code))
        return []

    return script


def test_a_server_that_dies_of_the_probe_gets_a_fresh_process_and_is_remembered() -> None:
    async def scene() -> tuple[Travels, Local]:
        at = Travels(dying_of("server/discover", at=lambda: at))
        road, connection = await opened(at)
        assert connection.usable
        assert len(at.warden.servers) == 2
        assert at.learned.dies_of_probe

        at.server.die(3)
        await road.clear()
        await road.open()

        assert len(at.warden.servers) == 3
        assert at.server.heard[0]["method"] == "initialize"
        return at, road

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

    async def scene() -> tuple[Travels, Local]:
        at = Travels(starting_slowly(), of_both_eras, of_both_eras)
        road, connection = await opened(at)
        assert connection.peer is not None
        assert connection.peer.revision.name == "2026-07-28"
        assert [said["method"] for said in at.server.heard] == ["server/discover"]
        assert len(at.warden.servers) == 2

        at.server.die(3)
        await road.clear()
        await road.open()

        assert [said["method"] for said in at.server.heard] == ["server/discover"]
        assert len(at.warden.servers) == 3
        return at, road

    play(scene)


def test_one_that_was_of_both_eras_and_is_of_the_older_one_now_is_tried_anew() -> None:
    async def scene() -> tuple[Travels, Local]:
        at = Travels(legacy())
        at.learned.is_misled = True

        road, connection = await opened(at)

        assert connection.peer is not None
        assert connection.peer.revision.name == "2025-11-25"
        assert not at.learned.is_misled
        assert len(at.warden.servers) == 2
        return at, road

    play(scene)


def test_a_server_that_dies_of_everything_costs_one_process_a_life() -> None:
    async def scene() -> tuple[Travels, Local]:
        script = dying_of("server/discover", "initialize", at=lambda: at, code=7)
        at = Travels(script)
        road = at.local()
        started = []
        for _ in range(4):
            assert await refused(road) == "exit code 7"
            started.append(len(at.warden.servers))
            await road.clear()

        assert started == [2, 3, 4, 5]
        assert not at.learned.dies_of_probe

        # Repaired, and of the new era only: it refuses the handshake, and is probed after all.
        at.warden.scripts = [modern()]
        connection = await road.open()

        assert connection.peer is not None
        assert connection.peer.revision.name == "2026-07-28"
        return at, road

    play(scene)


@pytest.mark.parametrize("protocol", ["legacy", "modern", "2025-06-18"])
def test_a_server_whose_era_is_configured_is_not_tried_in_another(protocol: str) -> None:
    async def scene() -> tuple[Travels, Local]:
        at = Travels(dying_of("server/discover", "initialize", at=lambda: at))
        road = at.local(protocol=protocol)

        assert await refused(road) == "exit code 1"
        assert len(at.warden.servers) == 1
        assert not at.learned.dies_of_probe
        return at, road

    play(scene)


def test_one_that_was_stopped_in_the_middle_of_the_probe_is_not_started_again() -> None:
    async def scene() -> tuple[Travels, Local]:
        at = Travels(silent)
        road = at.local()
        opening = asyncio.get_running_loop().create_task(refused(road))
        await until(lambda: bool(at.warden.servers) and bool(at.server.heard))

        await road.stop("the gateway is stopping")

        assert await opening == "the gateway is stopping"
        assert len(at.warden.servers) == 1
        return at, road

    play(scene)


# What people read.


def test_a_program_that_is_no_server_is_shown_by_what_it_wrote() -> None:
    async def scene() -> tuple[Travels, Local]:
        at = Travels(legacy())
        road, connection = await opened(at)
        assert road.noise is None

        at.server.write(b"Usage: \x1b[1mserver\x1b[0m secret\nand more\n")
        await until(lambda: connection.noise_count == 2)

        assert road.noise is not None
        assert road.noise.startswith("it wrote 2 lines that are not MCP, the first: Usage:")
        assert road.noise.endswith("***")
        assert "\x1b" not in road.noise
        return at, road

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
    road = Travels(silent).local(command="/opt/tools/server", cwd="/srv/deep")

    assert road.shown(reason) == shown

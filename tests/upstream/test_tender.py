"""A server's lives: started, watched, started again; and who is told."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from anyport.config.schema import ServerConfig
from anyport.protocol.timeouts import Timeout
from anyport.upstream import handshake
from anyport.upstream.connection import Connection
from anyport.upstream.handshake import Introduction
from anyport.upstream.parting import BROKEN
from anyport.upstream.road import Learned, Surroundings
from anyport.upstream.tender import UNUSED, WAITERS_MAX, State, Tender, Watcher
from tests.upstream.fakes import (
    Ear,
    FakeServer,
    FakeWarden,
    Script,
    legacy,
    run,
    silent,
    until,
)


class Scene:
    """A tender with a warden of fakes, and everything it told."""

    def __init__(self, *scripts: Script | str, protocol: str = "auto", needed: bool = True) -> None:
        self.warden = FakeWarden(*scripts)
        self.now = 0.0
        self.needed = needed
        self.ready: list[Connection] = []
        self.broken: list[str] = []
        self.stderr: list[str] = []
        self.late: list[Timeout] = []
        self.ear = Ear()
        config = ServerConfig(
            slug="s", name="s", command="/opt/tools/server", args=("x",), protocol=protocol
        )
        introduction = Introduction(client_info=b"{}", capabilities=b"{}", protocol=protocol)
        surroundings = Surroundings(
            warden=self.warden.warden,
            environ={"A": "1"},
            redact=lambda text: text.replace("secret", "***"),
            clock=lambda: self.now,
            chance=lambda: 0.0,  # With health, no wait at all; else the longest.
            timed_out=self.late.append,
        )
        watcher = Watcher(
            on_ready=self.ready.append,
            on_broken=self.broken.append,
            on_stderr=self.stderr.extend,
            hearer=lambda _: self.ear.hearer(),
            needed=lambda: self.needed,
        )
        self.learned = Learned()
        self.tender = Tender(config, introduction, surroundings, watcher, self.learned)

    @property
    def server(self) -> FakeServer:
        """The process that runs now."""
        return self.warden.servers[-1]


def play(scene: Callable[[], Coroutine[Any, Any, Scene]]) -> None:
    """Run a scene that ends with the tender being stopped and everything gone."""

    async def whole() -> None:
        played = await scene()
        await played.tender.stop()
        await until(lambda: played.tender.state is State.STOPPED)
        for server in played.warden.servers:
            assert server.child.exited is not None
            assert server.child.stdout == -1, "a pipe was left open"

    run(whole)


def tend(scene: Scene) -> None:
    """Start the tender; its task is over once it has been stopped."""
    task = asyncio.get_running_loop().create_task(scene.tender.run())
    task.add_done_callback(lambda done: done.result())


def test_a_server_is_started_as_configured_and_is_ready_after_its_handshake() -> None:
    async def scene() -> Scene:
        at = Scene(legacy())
        given: list[Connection | str] = []
        at.tender.when_ready(given.append)
        assert at.tender.state is State.STARTING
        tend(at)
        await until(lambda: at.tender.state is State.READY)

        (command,) = at.warden.commands
        assert command.argv == ("/opt/tools/server", "x")
        assert command.env == {"A": "1"}
        assert given == at.ready == [at.tender.connection]
        at.tender.when_ready(given.append)
        assert len(given) == 2
        assert at.tender.peer is not None
        return at

    play(scene)


def test_everyone_who_waits_for_a_server_that_does_not_start_gets_the_reason() -> None:
    async def scene() -> Scene:
        at = Scene("command '/opt/tools/server' may not be used: secret")
        given: list[Connection | str] = []
        for _ in range(3):
            at.tender.when_ready(given.append)
        tend(at)
        await until(lambda: at.tender.state is State.BROKEN)

        # Without where it lies, and without secrets: callers read this.
        reason = "command 'server' may not be used: ***"
        assert given == [reason] * 3
        assert at.broken == [reason]
        at.tender.when_ready(given.append)
        assert given[3] == reason
        return at

    play(scene)


def test_only_so_many_may_wait_for_one_server() -> None:
    async def scene() -> Scene:
        at = Scene(legacy())
        given: list[Connection | str] = []
        for _ in range(WAITERS_MAX + 1):
            at.tender.when_ready(given.append)
        assert given == ["it is starting, and too many calls are waiting for it"]
        tend(at)
        await until(lambda: len(given) == WAITERS_MAX + 1)
        return at

    play(scene)


def test_a_server_that_dies_takes_no_call_with_it_and_is_started_again() -> None:
    async def scene() -> Scene:
        at = Scene(legacy())
        tend(at)
        await until(lambda: at.tender.state is State.READY)
        first = at.tender.connection
        assert first is not None
        answers: list[object] = []
        first.call("tools/call", None, answers.append)
        # It is answered in a later turn; the server dies before that.
        at.server.script = silent

        at.server.die(9)

        assert answers == [BROKEN.unsent("exit code 9")]
        assert at.tender.state is State.BROKEN
        given: list[Connection | str] = []
        at.tender.when_ready(given.append)
        assert given == ["exit code 9"]
        await until(lambda: len(at.ready) == 2)
        assert at.tender.restarts == 1
        assert at.tender.connection is not first
        return at

    play(scene)


@pytest.mark.parametrize("moment", ["spawning", "shaking hands", "ready", "waiting to restart"])
def test_a_server_can_be_stopped_at_any_moment(moment: str) -> None:
    async def scene() -> Scene:
        scripts: dict[str, Script | str] = {
            "spawning": legacy(),
            "shaking hands": silent,
            "ready": legacy(),
            "waiting to restart": "it does not start",
        }
        at = Scene(scripts[moment])
        at.warden.gate = gate = asyncio.Event()
        if moment != "spawning":
            gate.set()
        given: list[Connection | str] = []
        at.tender.when_ready(given.append)
        tend(at)
        if moment == "spawning":
            await until(lambda: bool(at.warden.commands))
        elif moment == "shaking hands":
            await until(lambda: bool(at.warden.servers) and bool(at.server.heard))
        else:
            await until(lambda: at.tender.state in (State.READY, State.BROKEN))

        await at.tender.stop("enough")
        gate.set()
        await until(lambda: at.tender.state is State.STOPPED)

        assert len(given) == 1
        if moment in ("spawning", "shaking hands"):
            assert given == ["enough"]
        late: list[Connection | str] = []
        at.tender.when_ready(late.append)
        assert late == ["enough"]
        assert len(at.warden.commands) == 1
        assert at.broken == (["it does not start"] if moment == "waiting to restart" else [])
        return at

    play(scene)


def test_a_server_that_never_answers_the_handshake_is_stopped_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handshake, "START_SECONDS_MAX", 0.01)
    monkeypatch.setattr("anyport.upstream.backoff.FIRST_SECONDS", 0.0)

    async def scene() -> Scene:
        at = Scene(silent, silent, legacy())
        tend(at)
        await until(lambda: at.tender.state is State.READY)

        assert at.broken == ["it did not answer the handshake within 0.01 s"] * 2
        assert at.late == [Timeout.HANDSHAKE] * 2
        assert at.tender.timeout is Timeout.HANDSHAKE
        assert all(server.child.stopped for server in at.warden.servers[:2])
        return at

    play(scene)


def test_a_server_that_nobody_needs_is_not_started_before_somebody_asks_for_it() -> None:
    async def scene() -> Scene:
        at = Scene(legacy(), needed=False)
        assert (at.tender.state, at.tender.reason) == (State.IDLE, UNUSED)
        tend(at)
        for _ in range(10):
            await asyncio.sleep(0)
        assert at.warden.commands == []
        assert at.tender.coming

        given: list[Connection | str] = []
        at.tender.when_ready(given.append)
        assert at.tender.state is State.STARTING
        await until(lambda: len(given) == 1)

        assert given == [at.tender.connection]
        assert (at.tender.state, at.tender.restarts) == (State.READY, 0)
        return at

    play(scene)


def test_a_server_that_rests_is_stopped_in_good_order_and_back_on_the_next_use() -> None:
    async def scene() -> Scene:
        at = Scene(legacy())
        tend(at)
        await until(lambda: at.tender.state is State.READY)
        first = at.tender.connection
        assert first is not None
        at.needed = False

        at.tender.rest("nobody uses it")

        assert (at.tender.state, at.tender.reason) == (State.IDLE, "nobody uses it")
        assert not first.usable, "nothing new may be asked on it"
        await until(lambda: at.server.child.stopped)
        await until(lambda: at.ear.ends == 1)
        assert at.broken == []
        given: list[Connection | str] = []
        at.tender.when_ready(given.append)
        await until(lambda: len(given) == 1)
        assert isinstance(given[0], Connection) and given[0] is not first
        assert (at.tender.restarts, len(at.warden.servers)) == (0, 2)
        return at

    play(scene)


def test_who_asks_while_a_server_is_being_stopped_for_want_of_use_gets_the_next_one() -> None:
    async def scene() -> Scene:
        at = Scene(legacy())
        tend(at)
        await until(lambda: at.tender.state is State.READY)
        at.needed = False
        given: list[Connection | str] = []

        at.tender.rest("nobody uses it")
        at.tender.when_ready(given.append)
        assert at.tender.state is State.STARTING
        await until(lambda: len(given) == 1)

        assert given == [at.tender.connection]
        assert at.warden.servers[0].child.stopped
        return at

    play(scene)


def test_only_a_server_that_runs_can_rest() -> None:
    async def scene() -> Scene:
        at = Scene("it does not start")
        at.tender.rest("nobody uses it")
        assert at.tender.state is State.STARTING
        tend(at)
        await until(lambda: at.tender.state is State.BROKEN)

        at.tender.rest("nobody uses it")

        assert at.tender.reason == "it does not start"
        return at

    play(scene)


def test_a_server_that_dies_while_nobody_needs_it_is_started_again_on_the_next_use() -> None:
    async def scene() -> Scene:
        at = Scene(legacy())
        tend(at)
        await until(lambda: at.tender.state is State.READY)
        at.needed = False

        at.server.die(9)
        await until(lambda: at.tender.asleep)

        # It says what happened, and who asks does not get that for an answer.
        assert (at.tender.state, at.tender.reason) == (State.BROKEN, "exit code 9")
        assert (at.tender.coming, len(at.warden.servers)) == (True, 1)
        given: list[Connection | str] = []
        at.tender.when_ready(given.append)
        assert given == []
        await until(lambda: len(given) == 1)
        assert isinstance(given[0], Connection)
        return at

    play(scene)


def test_a_server_that_does_not_start_is_tried_again_while_somebody_asks_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("anyport.upstream.backoff.FIRST_SECONDS", 0.05)

    async def scene() -> Scene:
        at = Scene("it does not start", needed=False)
        given: list[Connection | str] = []
        at.tender.when_ready(given.append)
        tend(at)
        await until(lambda: at.tender.state is State.BROKEN)
        at.tender.when_ready(given.append)
        assert given == ["it does not start"] * 2, "both are told at once"

        # Somebody has asked since it failed, so it is tried once more; then nobody does.
        await until(lambda: len(at.warden.commands) == 2)
        await until(lambda: at.tender.asleep)

        assert at.tender.state is State.BROKEN
        assert len(at.warden.commands) == 2
        return at

    play(scene)


def test_a_server_that_sleeps_can_be_stopped() -> None:
    async def scene() -> Scene:
        at = Scene(legacy(), needed=False)
        tend(at)
        await asyncio.sleep(0)

        await at.tender.stop("enough")
        await until(lambda: at.tender.state is State.STOPPED)

        given: list[Connection | str] = []
        at.tender.when_ready(given.append)
        assert given == ["enough"]
        assert at.warden.commands == []
        return at

    play(scene)


def test_a_server_that_was_needed_when_it_was_set_up_and_is_not_any_more_sleeps() -> None:
    async def scene() -> Scene:
        at = Scene(legacy())
        at.needed = False
        tend(at)
        await until(lambda: at.tender.asleep)

        assert (at.tender.state, at.tender.reason) == (State.IDLE, UNUSED)
        return at

    play(scene)

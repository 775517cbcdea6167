"""A server's lives: started, watched, started again; and who is told."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from anyport.config.model import ServerConfig
from anyport.protocol.errors import Timeout
from anyport.upstream import handshake
from anyport.upstream.connection import Connection
from anyport.upstream.handshake import HandshakeOptions
from anyport.upstream.lease_key import SHARED, LeaseKey
from anyport.upstream.pending_call import BROKEN
from anyport.upstream.supervisor import (
    CHECK_SECONDS_MAX,
    NOT_STARTED_YET,
    WAITERS_MAX,
    ConnectionSupervisor,
    IdleTracker,
    NotReady,
    ServerState,
    UsageSample,
)
from anyport.upstream.transport import ServerQuirks, UpstreamContext
from tests.upstream.fakes import (
    FakeClock,
    FakeServer,
    FakeSpawner,
    Script,
    SupervisedServer,
    legacy,
    run,
    silent,
    until,
)


class Scene:
    """A supervisor with a fake spawner, and everything it reported."""

    def __init__(self, *scripts: Script | str, protocol: str = "auto", needed: bool = True) -> None:
        self.spawner = FakeSpawner(*scripts)
        self.clock = FakeClock()  # With chance 0: no wait after health, else the longest.
        config = ServerConfig(
            slug="s",
            name="s",
            command="/opt/tools/server",
            args=("x",),
            env={"A": "1"},
            protocol=protocol,
        )
        options = HandshakeOptions(client_info=b"{}", capabilities=b"{}", protocol=protocol)
        context = UpstreamContext(
            clock=self.clock,
            spawner=self.spawner.spawner,
            client_info=b"{}",
            redact=lambda text: text.replace("secret", "***"),
            environ={},
        )
        self.owner = SupervisedServer(config, context)
        self.owner.needed = needed
        self.ready, self.broken = self.owner.ready, self.owner.broken
        self.quirks = ServerQuirks()
        self.supervisor = ConnectionSupervisor(self.owner.server, SHARED, options, self.quirks)

    @property
    def server(self) -> FakeServer:
        """The process that runs now."""
        return self.spawner.servers[-1]


def play(scene: Callable[[], Coroutine[Any, Any, Scene]]) -> None:
    """Run a scene that ends with the supervisor being stopped and everything gone."""

    async def whole() -> None:
        played = await scene()
        await played.supervisor.stop()
        await until(lambda: played.supervisor.state is ServerState.STOPPED)
        for server in played.spawner.servers:
            assert server.child.exit_status is not None
            assert server.child.stdout == -1, "a pipe was left open"

    run(whole)


def tend(scene: Scene) -> None:
    """Start the supervisor; its task is over once it has been stopped."""
    task = asyncio.get_running_loop().create_task(scene.supervisor.run())
    task.add_done_callback(lambda done: done.result())


def test_a_server_is_started_as_configured_and_is_ready_after_its_handshake() -> None:
    async def scene() -> Scene:
        at = Scene(legacy())
        given: list[Connection | NotReady] = []
        at.supervisor.when_ready(given.append)
        assert at.supervisor.state is ServerState.STARTING
        tend(at)
        await until(lambda: at.supervisor.state is ServerState.READY)

        (command,) = at.spawner.commands
        assert command.argv == ("/opt/tools/server", "x")
        assert command.env == {"A": "1"}
        assert given == at.ready == [at.supervisor.connection]
        at.supervisor.when_ready(given.append)
        assert len(given) == 2
        assert at.supervisor.peer is not None
        return at

    play(scene)


def test_everyone_who_waits_for_a_server_that_does_not_start_gets_the_reason() -> None:
    async def scene() -> Scene:
        at = Scene("command '/opt/tools/server' may not be used: secret")
        given: list[Connection | NotReady] = []
        for _ in range(3):
            at.supervisor.when_ready(given.append)
        tend(at)
        await until(lambda: at.supervisor.state is ServerState.BROKEN)

        # Without where it lies, and without secrets: callers read this.
        reason = "command 'server' may not be used: ***"
        assert given == [NotReady(reason)] * 3
        assert at.broken == [reason]
        at.supervisor.when_ready(given.append)
        assert given[3] == NotReady(reason)
        return at

    play(scene)


def test_only_so_many_may_wait_for_one_server() -> None:
    async def scene() -> Scene:
        at = Scene(legacy())
        given: list[Connection | NotReady] = []
        for _ in range(WAITERS_MAX + 1):
            at.supervisor.when_ready(given.append)
        assert given == [NotReady("it is starting, and too many calls are waiting for it")]
        tend(at)
        await until(lambda: len(given) == WAITERS_MAX + 1)
        return at

    play(scene)


def test_a_server_that_dies_takes_no_call_with_it_and_is_started_again() -> None:
    async def scene() -> Scene:
        at = Scene(legacy())
        tend(at)
        await until(lambda: at.supervisor.state is ServerState.READY)
        first = at.supervisor.connection
        assert first is not None
        answers: list[object] = []
        first.call("tools/call", None, answers.append)
        # It is answered in a later turn; the server dies before that.
        at.server.script = silent

        at.server.die(9)

        assert answers == [BROKEN.result_for_unsent("exit code 9")]
        assert at.supervisor.state is ServerState.BROKEN
        given: list[Connection | NotReady] = []
        at.supervisor.when_ready(given.append)
        assert given == [NotReady("exit code 9")]
        await until(lambda: len(at.ready) == 2)
        assert at.supervisor.restarts == 1
        assert at.supervisor.connection is not first
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
        at.spawner.gate = gate = asyncio.Event()
        if moment != "spawning":
            gate.set()
        given: list[Connection | NotReady] = []
        at.supervisor.when_ready(given.append)
        tend(at)
        if moment == "spawning":
            await until(lambda: bool(at.spawner.commands))
        elif moment == "shaking hands":
            await until(lambda: bool(at.spawner.servers) and bool(at.server.heard))
        else:
            await until(lambda: at.supervisor.state in (ServerState.READY, ServerState.BROKEN))

        await at.supervisor.stop("enough")
        gate.set()
        await until(lambda: at.supervisor.state is ServerState.STOPPED)

        assert len(given) == 1
        if moment in ("spawning", "shaking hands"):
            assert given == [NotReady("enough")]
        late: list[Connection | NotReady] = []
        at.supervisor.when_ready(late.append)
        assert late == [NotReady("enough")]
        assert len(at.spawner.commands) == 1
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
        await until(lambda: at.supervisor.state is ServerState.READY)

        assert at.broken == ["it did not answer the handshake within 0.01 s"] * 2
        assert at.owner.timeouts == [Timeout.HANDSHAKE] * 2
        assert at.supervisor.timeout is Timeout.HANDSHAKE
        assert all(server.child.stopped for server in at.spawner.servers[:2])
        return at

    play(scene)


def test_a_server_that_nobody_needs_is_not_started_before_somebody_asks_for_it() -> None:
    async def scene() -> Scene:
        at = Scene(legacy(), needed=False)
        assert (at.supervisor.state, at.supervisor.reason) == (ServerState.IDLE, NOT_STARTED_YET)
        tend(at)
        for _ in range(10):
            await asyncio.sleep(0)
        assert at.spawner.commands == []
        assert at.supervisor.can_become_ready

        given: list[Connection | NotReady] = []
        at.supervisor.when_ready(given.append)
        assert at.supervisor.state is ServerState.STARTING
        await until(lambda: len(given) == 1)

        assert given == [at.supervisor.connection]
        assert (at.supervisor.state, at.supervisor.restarts) == (ServerState.READY, 0)
        return at

    play(scene)


def test_a_server_that_rests_is_stopped_in_good_order_and_back_on_the_next_use() -> None:
    async def scene() -> Scene:
        at = Scene(legacy())
        tend(at)
        await until(lambda: at.supervisor.state is ServerState.READY)
        first = at.supervisor.connection
        assert first is not None
        at.owner.needed = False

        at.supervisor.suspend("nobody uses it")

        assert (at.supervisor.state, at.supervisor.reason) == (ServerState.IDLE, "nobody uses it")
        assert not first.usable, "nothing new may be asked on it"
        await until(lambda: at.server.child.stopped)
        await until(lambda: at.owner.ends == 1)
        assert at.broken == []
        given: list[Connection | NotReady] = []
        at.supervisor.when_ready(given.append)
        await until(lambda: len(given) == 1)
        assert isinstance(given[0], Connection) and given[0] is not first
        assert (at.supervisor.restarts, len(at.spawner.servers)) == (0, 2)
        return at

    play(scene)


def test_who_asks_while_a_server_is_being_stopped_for_want_of_use_gets_the_next_one() -> None:
    async def scene() -> Scene:
        at = Scene(legacy())
        tend(at)
        await until(lambda: at.supervisor.state is ServerState.READY)
        at.owner.needed = False
        given: list[Connection | NotReady] = []

        at.supervisor.suspend("nobody uses it")
        at.supervisor.when_ready(given.append)
        assert at.supervisor.state is ServerState.STARTING
        await until(lambda: len(given) == 1)

        assert given == [at.supervisor.connection]
        assert at.spawner.servers[0].child.stopped
        return at

    play(scene)


def test_only_a_server_that_runs_can_rest() -> None:
    async def scene() -> Scene:
        at = Scene("it does not start")
        at.supervisor.suspend("nobody uses it")
        assert at.supervisor.state is ServerState.STARTING
        tend(at)
        await until(lambda: at.supervisor.state is ServerState.BROKEN)

        at.supervisor.suspend("nobody uses it")

        assert at.supervisor.reason == "it does not start"
        return at

    play(scene)


def test_a_server_that_dies_while_nobody_needs_it_is_started_again_on_the_next_use() -> None:
    async def scene() -> Scene:
        at = Scene(legacy())
        tend(at)
        await until(lambda: at.supervisor.state is ServerState.READY)
        at.owner.needed = False

        at.server.die(9)
        await until(lambda: at.supervisor.asleep)

        # It says what happened, and who asks does not get that for an answer.
        assert (at.supervisor.state, at.supervisor.reason) == (ServerState.BROKEN, "exit code 9")
        assert (at.supervisor.can_become_ready, len(at.spawner.servers)) == (True, 1)
        given: list[Connection | NotReady] = []
        at.supervisor.when_ready(given.append)
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
        given: list[Connection | NotReady] = []
        at.supervisor.when_ready(given.append)
        tend(at)
        await until(lambda: at.supervisor.state is ServerState.BROKEN)
        at.supervisor.when_ready(given.append)
        assert given == [NotReady("it does not start")] * 2, "both are told at once"

        # Somebody has asked since it failed, so it is tried once more; then nobody does.
        await until(lambda: len(at.spawner.commands) == 2)
        await until(lambda: at.supervisor.asleep)

        assert at.supervisor.state is ServerState.BROKEN
        assert len(at.spawner.commands) == 2
        return at

    play(scene)


def test_a_server_that_sleeps_can_be_stopped() -> None:
    async def scene() -> Scene:
        at = Scene(legacy(), needed=False)
        tend(at)
        await asyncio.sleep(0)

        await at.supervisor.stop("enough")
        await until(lambda: at.supervisor.state is ServerState.STOPPED)

        given: list[Connection | NotReady] = []
        at.supervisor.when_ready(given.append)
        assert given == [NotReady("enough")]
        assert at.spawner.commands == []
        return at

    play(scene)


def test_a_server_that_was_needed_when_it_was_set_up_and_is_not_any_more_sleeps() -> None:
    async def scene() -> Scene:
        at = Scene(legacy())
        at.owner.needed = False
        tend(at)
        await until(lambda: at.supervisor.asleep)

        assert (at.supervisor.state, at.supervisor.reason) == (ServerState.IDLE, NOT_STARTED_YET)
        return at

    play(scene)


OWN = LeaseKey(owner="session")


def quiet(uses: int = 0) -> UsageSample:
    return UsageSample(uses=uses, busy=False)


BUSY = UsageSample(uses=0, busy=True)


def test_what_nobody_uses_is_closed_when_its_time_is_over_and_not_before() -> None:
    idleness = IdleTracker(lambda _: 10.0)
    idleness.on_opened(SHARED, 0, 100.0)

    assert idleness.find_idle({SHARED: quiet()}, 109.9) == []
    assert idleness.find_idle({SHARED: quiet()}, 110.0) == [SHARED]


def test_a_use_between_two_looks_is_seen_by_the_count_of_requests() -> None:
    idleness = IdleTracker(lambda _: 10.0)
    idleness.on_opened(SHARED, 3, 100.0)

    assert idleness.find_idle({SHARED: quiet(4)}, 108.0) == []
    assert idleness.find_idle({SHARED: quiet(4)}, 117.9) == []
    assert idleness.find_idle({SHARED: quiet(4)}, 118.0) == [SHARED]


def test_what_is_in_use_is_never_closed_and_its_time_begins_when_that_is_over() -> None:
    idleness = IdleTracker(lambda _: 10.0)
    idleness.on_opened(SHARED, 0, 100.0)

    assert idleness.find_idle({SHARED: BUSY}, 1000.0) == []
    assert idleness.find_idle({SHARED: quiet()}, 1009.0) == []
    assert idleness.find_idle({SHARED: quiet()}, 1010.0) == [SHARED]


def test_what_was_never_seen_before_begins_with_the_first_look() -> None:
    idleness = IdleTracker(lambda _: 10.0)

    assert idleness.find_idle({SHARED: quiet()}, 5.0) == []
    assert idleness.find_idle({SHARED: quiet()}, 15.0) == [SHARED]


def test_the_first_connection_stays_as_long_as_any_other() -> None:
    idleness = IdleTracker(lambda _: 10.0)
    for key in (SHARED, OWN):
        idleness.on_opened(key, 0, 0.0)

    assert idleness.find_idle({SHARED: quiet(), OWN: BUSY}, 20.0) == []
    # Both have been unused for long: there is no need to wait for the first once more.
    assert idleness.find_idle({SHARED: quiet(), OWN: quiet()}, 30.0) == [SHARED, OWN]


def test_another_connection_goes_while_the_first_is_in_use() -> None:
    idleness = IdleTracker(lambda _: 10.0)
    for key in (SHARED, OWN):
        idleness.on_opened(key, 0, 0.0)

    assert idleness.find_idle({SHARED: BUSY, OWN: quiet()}, 20.0) == [OWN]


def test_what_was_used_lately_is_worth_having() -> None:
    idleness = IdleTracker(lambda _: 10.0)
    assert (idleness.has_been_open(OWN), idleness.is_recent(OWN, 0.0)) == (False, False)

    idleness.on_opened(OWN, 0, 5.0)

    assert idleness.has_been_open(OWN)
    assert idleness.is_recent(OWN, 14.9)
    assert not idleness.is_recent(OWN, 15.0)
    idleness.forget(OWN)
    assert not idleness.has_been_open(OWN)


def test_what_is_kept_for_ever_stays_and_does_not_keep_others() -> None:
    idleness = IdleTracker(lambda key: 10.0 if key == OWN else 0.0)
    for key in (SHARED, OWN):
        idleness.on_opened(key, 0, 0.0)

    assert idleness.find_idle({SHARED: quiet(), OWN: quiet()}, 20.0) == [OWN]
    assert idleness.find_idle({SHARED: quiet()}, 1e9) == []


@pytest.mark.parametrize(
    ("idle_seconds", "look_seconds"),
    [
        ((0.0,), None),
        ((2.0,), 0.5),
        ((3600.0,), CHECK_SECONDS_MAX),
        ((0.0, 8.0, 40.0), 2.0),
        ((), None),
    ],
)
def test_looks_are_as_rare_as_they_may_be(
    idle_seconds: tuple[float, ...], look_seconds: float | None
) -> None:
    kept = {LeaseKey(owner=str(n)): seconds for n, seconds in enumerate(idle_seconds)}

    assert IdleTracker(kept.__getitem__).check_seconds(kept) == look_seconds

"""Which connection serves whom, which are opened, and which wait until they are used."""

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

from anyport.protocol.errors import Timeout
from anyport.protocol.principal import LOCAL
from anyport.upstream.connection import Connection
from anyport.upstream.lease_key import SHARED, LeaseKey, owner_of_sessions
from anyport.upstream.peer import Peer
from anyport.upstream.pool import SESSION_ENDED, ConnectionPool
from anyport.upstream.server import Server
from anyport.upstream.supervisor import ConnectionSupervisor, LeaseCallback, NotReady, ServerState
from anyport.upstream.transport import UpstreamContext
from tests.upstream.fakes import LEGACY, MODERN, FakeClock, connected

MINE = LeaseKey(owner="mine", capabilities=b'{"roots":{}}')
ASKABLE = LeaseKey(owner="asked", capabilities=b'{"roots":{}}', interactive=True)


class FakeSupervisor:
    """A connection that does what the test says."""

    def __init__(self, *, asleep: bool) -> None:
        self.asleep = asleep
        self.state = ServerState.IDLE if asleep else ServerState.STARTING
        self.connection: Connection | None = None
        self.waiting: list[LeaseCallback] = []
        self.wakes = 0
        self.stopped: list[str] = []
        self.refused = self.keeps_no_session = False
        self.timeout: Timeout | None = None

    @property
    def can_become_ready(self) -> bool:
        return self.asleep or self.state is ServerState.STARTING

    @property
    def peer(self) -> Peer | None:
        return None if self.connection is None else self.connection.peer

    def when_ready(self, ready: LeaseCallback) -> None:
        self.wake()
        if self.connection is None:
            self.waiting.append(ready)
        else:
            ready(self.connection)

    def wake(self) -> None:
        self.wakes += 1
        self.asleep = False

    def get_ready(self, connection: Connection) -> None:
        self.state, self.connection, self.asleep = ServerState.READY, connection, False
        waiting, self.waiting = self.waiting, []
        for ready in waiting:
            ready(connection)

    async def run(self) -> None:
        """Nothing is to be waited for."""

    def stop_restarting(self, reason: str) -> None:
        self.asleep = False

    async def stop(self, reason: str) -> None:
        self.stopped.append(reason)


class ImmediateClock(FakeClock):
    """Runs tasks to their end at once."""

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        asyncio.run(work)


class Scene:
    """A pool, and all that it opened and let go."""

    def __init__(self, *, sole: bool = False, asleep: bool = False) -> None:
        self.slug = "s"
        self.disabled_reason: str | None = None
        self.made: list[tuple[LeaseKey, bool]] = []
        self.left = 0
        self._asleep = asleep
        clock = ImmediateClock()
        self.context = UpstreamContext(
            clock=clock, spawner=cast(Any, None), client_info=b"{}", single_client=sole
        )
        self.pool = ConnectionPool(cast(Server, self), clock)
        self.given: list[Connection | NotReady] = []

    def make_supervisor(self, key: LeaseKey, *, trial: bool) -> ConnectionSupervisor:
        self.made.append((key, trial))
        return cast(ConnectionSupervisor, FakeSupervisor(asleep=self._asleep))

    def supervisor(self, key: LeaseKey) -> FakeSupervisor:
        return cast(FakeSupervisor, self.pool.supervisors[key])

    def start(self, key: LeaseKey, *, modern: bool = False) -> Connection:
        """Have a connection finish its handshake."""
        connection, _, _ = connected(MODERN if modern else LEGACY)
        self.pool.on_ready(key, automatic=True)
        self.supervisor(key).get_ready(connection)
        return connection

    def on_connection_closed(self, reason: str) -> None:
        self.left += 1


def test_whoever_waits_while_the_server_stops_opens_no_connection() -> None:
    at = Scene()
    at.pool.open(SHARED)
    at.pool.lease(MINE, at.given.append)
    asyncio.run(at.pool.stop("the gateway is stopping"))
    at.supervisor(SHARED).get_ready(connected(LEGACY)[0])

    assert at.given == [NotReady("the gateway is stopping")]
    assert at.made == [(SHARED, False)]


def test_a_session_that_ends_while_it_waits_opens_no_connection() -> None:
    at = Scene()
    at.pool.open(SHARED)
    at.pool.lease(MINE, at.given.append)
    at.pool.lease(ASKABLE, at.given.append)
    at.pool.forget_session("mine")
    assert at.given == [NotReady(SESSION_ENDED)]

    at.start(SHARED)
    assert at.made == [(SHARED, False), (ASKABLE, False)]


def test_a_legacy_server_has_a_connection_for_each_key() -> None:
    at = Scene()
    at.pool.open(SHARED)
    shared = at.start(SHARED)

    at.pool.lease(MINE, at.given.append)
    mine = at.start(MINE)
    at.pool.lease(MINE, at.given.append)
    at.pool.lease(SHARED, at.given.append)

    assert at.given == [mine, mine, shared]
    assert at.made == [(SHARED, False), (MINE, False)]
    assert at.pool.connections() == [(SHARED, shared), (MINE, mine)]
    assert at.pool.key_of("mine", LOCAL) == MINE
    assert at.pool.key_of("another", LOCAL) == SHARED
    assert not at.pool.modern


def test_a_modern_server_serves_everyone_over_one() -> None:
    at = Scene()
    at.pool.open(SHARED)
    at.pool.lease(MINE, at.given.append)
    assert at.made == [(SHARED, False)], "what it speaks is not known yet"

    shared = at.start(SHARED, modern=True)

    assert at.given == [shared]
    assert at.pool.modern
    assert at.pool.open(MINE) is at.pool.main


def test_one_that_may_ask_is_tried_for_a_handshake_and_served_as_all_others_if_it_has_none() -> (
    None
):
    at = Scene()
    at.pool.open(SHARED)
    shared = at.start(SHARED, modern=True)
    at.pool.lease(ASKABLE, at.given.append)
    assert at.made[-1] == (ASKABLE, True)
    trial = at.supervisor(ASKABLE)

    trial.refused = True
    assert at.pool.drop_failed_trial(ASKABLE, "no such method")
    for ready in trial.waiting:
        ready(NotReady("no such method"))

    assert at.given == [shared]
    assert trial.stopped == ["no such method"]
    assert ASKABLE not in at.pool.supervisors
    at.pool.lease(ASKABLE, at.given.append)
    assert at.given == [shared, shared], "it is not asked for one again"
    assert not at.pool.drop_failed_trial(SHARED, "gone"), "that was no trial"


def test_a_trial_that_succeeds_is_a_connection_like_any_other() -> None:
    at = Scene()
    at.pool.open(SHARED)
    at.start(SHARED, modern=True)
    at.pool.lease(ASKABLE, at.given.append)

    own = at.start(ASKABLE)

    assert at.given == [own]
    assert not at.pool.drop_failed_trial(ASKABLE, "gone")


def test_a_session_that_is_served_with_others_is_known_to_be_until_it_ends() -> None:
    at = Scene()
    at.pool.open(SHARED)
    at.start(SHARED, modern=True)
    everyones = LeaseKey(owner=owner_of_sessions(LOCAL), principal=LOCAL, legacy=True)

    assert at.pool.assign_session("one", everyones)
    assert not at.pool.assign_session("one", everyones), "it was before"
    assert at.pool.key_of("one", LOCAL) == SHARED, "there is no such connection yet"
    at.pool.lease(everyones, at.given.append)
    at.start(everyones)

    assert at.pool.key_of("one", LOCAL) == everyones
    assert at.pool.key_of("two", LOCAL) == at.pool.key_of("", LOCAL) == SHARED
    assert not at.pool.has_own_connection("one")
    at.pool.forget_session("one")
    assert at.pool.key_of("one", LOCAL) == SHARED


def test_the_first_connection_outlives_sessions_unless_there_can_be_only_one() -> None:
    many, one = Scene(), Scene(sole=True)

    many.pool.lease(MINE, many.given.append)
    one.pool.lease(MINE, one.given.append)

    assert many.made == [(SHARED, False)]
    assert one.made == [(MINE, False)]


def test_what_waits_until_it_is_used_is_there_before_it_is_opened() -> None:
    at = Scene(asleep=True)

    at.pool.open_first(MINE)
    at.pool.open_first(ASKABLE)

    assert at.made == [(SHARED, False)]
    assert at.supervisor(SHARED).wakes == 0


def test_whoever_needs_a_connection_of_its_own_waits_for_the_first_to_tell_the_era() -> None:
    at = Scene(asleep=True)
    at.pool.open_first(MINE)

    at.pool.lease(MINE, at.given.append)
    assert at.supervisor(SHARED).wakes == 1
    at.start(SHARED)
    assert at.given == []
    mine = at.start(MINE)

    assert at.given == [mine]


def test_the_first_connection_wakes_with_any_other() -> None:
    at = Scene(asleep=True)
    at.pool.lease(MINE, at.given.append)
    at.start(SHARED)
    at.start(MINE)
    for key in (SHARED, MINE):  # Nobody has used them for a while.
        at.supervisor(key).asleep, at.supervisor(key).connection = True, None

    at.pool.lease(MINE, at.given.append)

    # Side by side: what it speaks is known.
    assert not at.supervisor(SHARED).asleep
    assert len(at.supervisor(MINE).waiting) == 1


def test_a_server_that_will_not_be_tried_says_why() -> None:
    at = Scene()
    at.disabled_reason = "it is disabled"

    at.pool.lease(SHARED, at.given.append)

    assert at.given == [NotReady("it is disabled")]
    assert at.pool.open(SHARED) is None
    assert at.pool.main is None


def test_what_nobody_will_use_any_more_is_closed_and_told_if_it_was_open() -> None:
    at = Scene(asleep=True)
    at.pool.open(SHARED)
    at.pool.open(MINE)
    at.start(SHARED)
    shared, mine = at.supervisor(SHARED), at.supervisor(MINE)

    at.pool.close(SHARED, SESSION_ENDED)
    at.pool.close(MINE, SESSION_ENDED)

    assert shared.stopped == mine.stopped == [SESSION_ENDED]
    assert at.left == 1
    assert at.pool.supervisors == {}


def test_everything_is_stopped_for_one_reason() -> None:
    at = Scene()
    at.pool.open(SHARED)
    at.pool.open(MINE)
    tenders = [at.supervisor(SHARED), at.supervisor(MINE)]

    asyncio.run(at.pool.stop("enough"))

    assert [supervisor.stopped for supervisor in tenders] == [["enough"]] * 2


def test_what_a_server_said_of_itself_is_known_while_it_runs() -> None:
    at = Scene()
    assert at.pool.peer is None
    at.pool.open(SHARED)
    assert at.pool.peer is None

    connection = at.start(SHARED)

    assert at.pool.peer is connection.peer

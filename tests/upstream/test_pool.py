"""Which connection serves whom, which are opened, and which wait until they are used."""

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

from anyport.upstream.connection import Connection
from anyport.upstream.key import SHARED, LeaseKey
from anyport.upstream.peer import Peer
from anyport.upstream.pool import Pool
from anyport.upstream.setting import Setting
from anyport.upstream.tender import Ready, State, Tender
from tests.upstream.fakes import LEGACY, MODERN, connected

MINE = LeaseKey(owner="mine", capabilities=b'{"roots":{}}')
ASKABLE = LeaseKey(owner="asked", capabilities=b'{"roots":{}}', interactive=True)


class FakeTender:
    """A connection that does what the test says."""

    def __init__(self, *, asleep: bool) -> None:
        self.asleep = asleep
        self.state = State.IDLE if asleep else State.STARTING
        self.connection: Connection | None = None
        self.waiting: list[Ready] = []
        self.roused = 0
        self.stopped: list[str] = []

    @property
    def coming(self) -> bool:
        return self.asleep or self.state is State.STARTING

    @property
    def peer(self) -> Peer | None:
        return None if self.connection is None else self.connection.peer

    def when_ready(self, ready: Ready) -> None:
        self.rouse()
        if self.connection is None:
            self.waiting.append(ready)
        else:
            ready(self.connection)

    def rouse(self) -> None:
        self.roused += 1
        self.asleep = False

    def get_ready(self, connection: Connection) -> None:
        self.state, self.connection, self.asleep = State.READY, connection, False
        waiting, self.waiting = self.waiting, []
        for ready in waiting:
            ready(connection)

    async def run(self) -> None:
        """Nothing is to be waited for."""

    def retire(self, reason: str) -> None:
        self.asleep = False

    async def stop(self, reason: str) -> None:
        self.stopped.append(reason)


class Scene:
    """A pool, and all that it opened and let go."""

    def __init__(self, *, sole: bool = False, asleep: bool = False) -> None:
        self.slug = "s"
        self.obstacle: str | None = None
        self.made: list[tuple[LeaseKey, bool]] = []
        self.left = 0
        self._asleep = asleep
        setting = Setting(
            surroundings=cast(Any, None),
            spawn=self._spawn,
            later=cast(Any, None),
            client_info=b"{}",
            clock=lambda: 0.0,
            sole=sole,
        )
        self.pool = Pool(self, setting, self._leave)
        self.given: list[Connection | str] = []

    def make(self, key: LeaseKey, *, trial: bool) -> Tender:
        self.made.append((key, trial))
        return cast(Tender, FakeTender(asleep=self._asleep))

    def tender(self, key: LeaseKey) -> FakeTender:
        return cast(FakeTender, self.pool.tenders[key])

    def start(self, key: LeaseKey, *, modern: bool = False) -> Connection:
        """Have a connection finish its handshake."""
        connection, _, _ = connected(MODERN if modern else LEGACY)
        self.pool.started(key, automatic=True)
        self.tender(key).get_ready(connection)
        return connection

    def _leave(self) -> None:
        self.left += 1

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        asyncio.run(work)


def test_whoever_waits_while_the_server_stops_opens_no_connection() -> None:
    at = Scene()
    at.pool.open(SHARED)
    at.pool.lease(MINE, at.given.append)
    asyncio.run(at.pool.stop("the gateway is stopping"))
    at.tender(SHARED).get_ready(connected(LEGACY)[0])

    assert at.given == ["the gateway is stopping"]
    assert at.made == [(SHARED, False)]


def test_a_session_that_ends_while_it_waits_opens_no_connection() -> None:
    at = Scene()
    at.pool.open(SHARED)
    at.pool.lease(MINE, at.given.append)
    at.pool.lease(ASKABLE, at.given.append)
    at.pool.give_up("mine")
    assert at.given == ["the session it belonged to has ended"]

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
    assert at.pool.key_of("mine") == MINE
    assert at.pool.key_of("another") == SHARED
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
    trial = at.tender(ASKABLE)

    assert at.pool.refused(ASKABLE, "no such method")
    for ready in trial.waiting:
        ready("no such method")

    assert at.given == [shared]
    assert trial.stopped == ["no such method"]
    assert ASKABLE not in at.pool.tenders
    at.pool.lease(ASKABLE, at.given.append)
    assert at.given == [shared, shared], "it is not asked for one again"
    assert not at.pool.refused(SHARED, "gone"), "that was no trial"


def test_a_trial_that_succeeds_is_a_connection_like_any_other() -> None:
    at = Scene()
    at.pool.open(SHARED)
    at.start(SHARED, modern=True)
    at.pool.lease(ASKABLE, at.given.append)

    own = at.start(ASKABLE)

    assert at.given == [own]
    assert not at.pool.refused(ASKABLE, "gone")


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
    assert at.tender(SHARED).roused == 0


def test_whoever_needs_a_connection_of_its_own_waits_for_the_first_to_tell_the_era() -> None:
    at = Scene(asleep=True)
    at.pool.open_first(MINE)

    at.pool.lease(MINE, at.given.append)
    assert at.tender(SHARED).roused == 1
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
        at.tender(key).asleep, at.tender(key).connection = True, None

    at.pool.lease(MINE, at.given.append)

    # Side by side: what it speaks is known.
    assert not at.tender(SHARED).asleep
    assert len(at.tender(MINE).waiting) == 1


def test_a_server_that_will_not_be_tried_says_why() -> None:
    at = Scene()
    at.obstacle = "it is disabled"

    at.pool.lease(SHARED, at.given.append)

    assert at.given == ["it is disabled"]
    assert at.pool.open(SHARED) is None
    assert at.pool.main is None


def test_what_nobody_will_use_any_more_is_closed_and_told_if_it_was_open() -> None:
    at = Scene(asleep=True)
    at.pool.open(SHARED)
    at.pool.open(MINE)
    at.start(SHARED)
    shared, mine = at.tender(SHARED), at.tender(MINE)

    at.pool.drop(SHARED)
    at.pool.drop(MINE)

    assert shared.stopped == mine.stopped == ["the session it belonged to has ended"]
    assert at.left == 1
    assert at.pool.tenders == {}


def test_everything_is_stopped_for_one_reason() -> None:
    at = Scene()
    at.pool.open(SHARED)
    at.pool.open(MINE)
    tenders = [at.tender(SHARED), at.tender(MINE)]

    asyncio.run(at.pool.stop("enough"))

    assert [tender.stopped for tender in tenders] == [["enough"]] * 2


def test_what_a_server_said_of_itself_is_known_while_it_runs() -> None:
    at = Scene()
    assert at.pool.peer is None
    at.pool.open(SHARED)
    assert at.pool.peer is None

    connection = at.start(SHARED)

    assert at.pool.peer is connection.peer

"""When a connection is needed: as configured, and as it is used."""

from typing import Any, cast

import pytest

from anyport.config.model import ServerConfig
from anyport.upstream.connection import Connection
from anyport.upstream.lease_key import SHARED, LeaseKey
from anyport.upstream.pool import OWN_IDLE_SECONDS, ConnectionDemand, ConnectionPool
from anyport.upstream.server import Server
from tests.upstream.fakes import LEGACY, FakeClock, connected, say

OWN = LeaseKey(owner="session")
ASKABLE = LeaseKey(owner="asked", interactive=True, fallback=SHARED)
SHOWN = LeaseKey(owner="shown", interactive=True, revision="2025-11-25", fallback=SHARED)
SILENT = LeaseKey(owner="silent", fallback=SHARED)
IDLE_SECONDS = 10.0


class Scene:
    """The needs of a server with some connections, seen by a clock that is set by hand."""

    def __init__(self, **config: Any) -> None:
        self.clock = FakeClock()
        self.supervisors: dict[LeaseKey, object] = {}
        self.open: dict[LeaseKey, Connection] = {}
        self.relied: set[LeaseKey] = set()
        self.own_calls = 0
        self.config = ServerConfig(slug="s", name="s", command="server", **config)
        self.demand = ConnectionDemand(cast(Server, self), cast(ConnectionPool, self), self.clock)

    def is_relied_on(self, key: LeaseKey, connection: Connection | None) -> bool:
        return key in self.relied

    @property
    def main(self) -> object:
        return next(iter(self.supervisors.values()), None)

    def connections(self) -> list[tuple[LeaseKey, Connection]]:
        return list(self.open.items())

    def begin(self, key: LeaseKey = SHARED) -> Connection:
        connection, _, _ = connected(LEGACY)
        self.supervisors.setdefault(key, object())
        self.open[key] = connection
        self.demand.on_opened(key, connection)
        return connection

    def needed(self, key: LeaseKey = SHARED, *, known: bool = True) -> bool:
        return self.demand.is_needed(key, known=known)

    def idle(self) -> list[LeaseKey]:
        return self.demand.idle(lambda key: self.own_calls)


def test_a_server_runs_always_unless_somebody_says_otherwise() -> None:
    at = Scene()
    assert at.needed()
    at.begin()
    at.open.clear()
    at.clock.seconds = 1e9

    assert at.needed()
    assert at.demand.check_seconds is None
    assert not at.demand.lazy


def test_what_is_started_on_first_use_is_not_needed_before_unless_nothing_is_known_of_it() -> None:
    at = Scene(start="first-use")

    assert at.demand.lazy
    assert not at.needed()
    assert at.needed(known=False)


def test_what_is_started_with_the_gateway_is_needed_until_it_was_there_and_nobody_used_it() -> None:
    at = Scene(idle_seconds=IDLE_SECONDS)
    assert at.needed()
    at.begin()
    at.open.clear()  # It has gone.

    at.clock.seconds = IDLE_SECONDS - 1
    assert at.needed(), "it was used so lately that somebody may come back"
    at.clock.seconds = IDLE_SECONDS
    assert not at.needed()


def test_a_server_on_first_use_that_went_away_is_not_started_for_nobody() -> None:
    at = Scene(start="first-use")
    at.begin()
    at.open.clear()

    assert not at.needed()
    at.relied.add(SHARED)
    assert at.needed(), "somebody follows a resource"


def test_the_connection_that_lists_are_read_through_is_needed_while_there_are_others() -> None:
    at = Scene(start="first-use")
    at.begin(SHARED)
    at.begin(OWN)
    del at.open[SHARED]

    assert at.needed(SHARED)
    del at.open[OWN]
    assert not at.needed(SHARED)
    at.begin(SHARED)
    assert not at.needed(OWN), "another is no reason to have one's own"


def test_open_calls_are_use_and_our_own_are_not() -> None:
    at = Scene(idle_seconds=IDLE_SECONDS)
    connection = at.begin()
    at.own_calls = 1  # We listen for changes.
    connection.call("subscriptions/listen", None, lambda _: None)
    connection.own_requests += 1
    connection.call("tools/call", None, lambda _: None)

    at.clock.seconds = 100.0
    assert at.idle() == []
    say(connection, id=2, result={})
    at.clock.seconds += IDLE_SECONDS

    assert at.idle() == [SHARED]


def test_a_call_that_was_made_and_answered_between_two_looks_is_use() -> None:
    at = Scene(idle_seconds=IDLE_SECONDS)
    connection = at.begin()
    at.clock.seconds = IDLE_SECONDS
    connection.call("tools/call", None, lambda _: None)
    say(connection, id=1, result={})

    assert at.idle() == []


def test_reading_its_lists_is_no_use_of_a_server() -> None:
    at = Scene(idle_seconds=IDLE_SECONDS)
    connection = at.begin()
    connection.call("tools/list", None, lambda _: None)
    connection.own_requests += 1
    say(connection, id=1, result={})
    at.clock.seconds = IDLE_SECONDS

    assert at.idle() == [SHARED]


def test_what_clients_rely_on_is_kept() -> None:
    at = Scene(idle_seconds=IDLE_SECONDS)
    at.begin()
    at.relied.add(SHARED)

    at.clock.seconds = 1000.0
    assert at.idle() == []
    at.relied.clear()
    at.clock.seconds += IDLE_SECONDS

    assert at.idle() == [SHARED]


def test_a_server_is_kept_for_a_client_that_was_asked_something_and_may_come_back() -> None:
    at = Scene(idle_seconds=IDLE_SECONDS)
    at.begin()
    at.demand.expect_return(60.0)
    at.demand.expect_return(1.0)

    at.clock.seconds = 59.0
    assert at.idle() == []
    at.clock.seconds = 59.0 + IDLE_SECONDS

    assert at.idle() == [SHARED]


@pytest.mark.parametrize("start", ["eager", "first-use"])
def test_a_connection_that_is_forgotten_was_never_there(start: str) -> None:
    at = Scene(start=start, idle_seconds=IDLE_SECONDS)
    at.begin(OWN)
    assert at.needed(OWN)

    at.open.clear()
    at.demand.forget(OWN)

    assert at.needed(OWN) == (start == "eager")


def test_what_a_session_has_to_itself_because_its_server_asks_is_closed_after_a_while() -> None:
    at = Scene()
    for key in (SHARED, ASKABLE, SHOWN, SILENT):
        at.begin(key)
    at.clock.seconds = 1e6
    assert (at.idle(), at.demand.check_seconds) == ([], None), "it has not asked yet"

    at.demand.asks = True

    assert at.idle() == [ASKABLE]
    del at.open[ASKABLE]
    assert not at.needed(ASKABLE), "it is opened when its session speaks"
    assert at.needed(SHARED) and at.needed(SHOWN)


def test_it_is_kept_while_its_session_uses_it_or_relies_on_it() -> None:
    at = Scene()
    at.begin(SHARED)
    own = at.begin(ASKABLE)
    at.demand.asks = True

    at.clock.seconds = OWN_IDLE_SECONDS - 1
    own.call("tools/call", None, lambda _: None)
    say(own, id=1, result={})
    assert at.idle() == []
    at.relied.add(ASKABLE)
    at.clock.seconds += OWN_IDLE_SECONDS
    assert at.idle() == []
    at.relied.clear()
    at.clock.seconds += OWN_IDLE_SECONDS

    assert at.idle() == [ASKABLE]


@pytest.mark.parametrize("config", [{"idle_seconds": 0.0}, {"scope": "session"}])
def test_it_is_not_closed_where_the_operator_wants_it_kept(config: dict[str, Any]) -> None:
    at = Scene(**config)
    at.begin(SHARED)
    at.begin(ASKABLE)
    at.demand.asks = True
    at.clock.seconds = 1e6

    assert (at.idle(), at.demand.check_seconds) == ([], None)
    del at.open[ASKABLE]
    assert at.needed(ASKABLE)


def test_the_only_connection_of_a_sole_client_is_not_closed() -> None:
    at = Scene()
    at.begin(ASKABLE)
    at.demand.asks = True
    at.clock.seconds = 1e6

    assert at.idle() == []

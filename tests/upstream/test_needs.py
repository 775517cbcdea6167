"""When a connection is needed: as configured, and as it is used."""

from typing import Any, cast

import pytest

from anyport.config.schema import ServerConfig
from anyport.upstream.connection import Connection
from anyport.upstream.key import SHARED, LeaseKey
from anyport.upstream.needs import Needs
from anyport.upstream.pool import Pool
from tests.upstream.fakes import LEGACY, connected, say

OWN = LeaseKey(owner="session")
IDLE_SECONDS = 10.0


class Scene:
    """The needs of a server with some connections, seen by a clock that is set by hand."""

    def __init__(self, **config: Any) -> None:
        self.now = 0.0
        self.tenders: dict[LeaseKey, object] = {}
        self.open: dict[LeaseKey, Connection] = {}
        self.relied: set[LeaseKey] = set()
        self.own_calls = 0
        settings = ServerConfig(slug="s", name="s", command="server", **config)
        relied = lambda key, line: key in self.relied  # noqa: E731
        self.needs = Needs(settings, cast(Pool, self), lambda: self.now, relied)

    @property
    def main(self) -> object:
        return next(iter(self.tenders.values()), None)

    def connections(self) -> list[tuple[LeaseKey, Connection]]:
        return list(self.open.items())

    def begin(self, key: LeaseKey = SHARED) -> Connection:
        connection, _, _ = connected(LEGACY)
        self.tenders.setdefault(key, object())
        self.open[key] = connection
        self.needs.began(key, connection)
        return connection

    def needed(self, key: LeaseKey = SHARED, *, known: bool = True) -> bool:
        return self.needs.is_needed(key, known=known)

    def idle(self) -> list[LeaseKey]:
        return self.needs.idle(lambda key: self.own_calls)


def test_a_server_runs_always_unless_somebody_says_otherwise() -> None:
    at = Scene()
    assert at.needed()
    at.begin()
    at.open.clear()
    at.now = 1e9

    assert at.needed()
    assert at.needs.look_seconds is None
    assert not at.needs.lazy


def test_what_is_started_on_first_use_is_not_needed_before_unless_nothing_is_known_of_it() -> None:
    at = Scene(start="first-use")

    assert at.needs.lazy
    assert not at.needed()
    assert at.needed(known=False)


def test_what_is_started_with_the_gateway_is_needed_until_it_was_there_and_nobody_used_it() -> None:
    at = Scene(idle_seconds=IDLE_SECONDS)
    assert at.needed()
    at.begin()
    at.open.clear()  # It has gone.

    at.now = IDLE_SECONDS - 1
    assert at.needed(), "it was used so lately that somebody may come back"
    at.now = IDLE_SECONDS
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

    at.now = 100.0
    assert at.idle() == []
    say(connection, id=2, result={})
    at.now += IDLE_SECONDS

    assert at.idle() == [SHARED]


def test_a_call_that_was_made_and_answered_between_two_looks_is_use() -> None:
    at = Scene(idle_seconds=IDLE_SECONDS)
    connection = at.begin()
    at.now = IDLE_SECONDS
    connection.call("tools/call", None, lambda _: None)
    say(connection, id=1, result={})

    assert at.idle() == []


def test_reading_its_lists_is_no_use_of_a_server() -> None:
    at = Scene(idle_seconds=IDLE_SECONDS)
    connection = at.begin()
    connection.call("tools/list", None, lambda _: None)
    connection.own_requests += 1
    say(connection, id=1, result={})
    at.now = IDLE_SECONDS

    assert at.idle() == [SHARED]


def test_what_clients_rely_on_is_kept() -> None:
    at = Scene(idle_seconds=IDLE_SECONDS)
    at.begin()
    at.relied.add(SHARED)

    at.now = 1000.0
    assert at.idle() == []
    at.relied.clear()
    at.now += IDLE_SECONDS

    assert at.idle() == [SHARED]


def test_a_server_is_kept_for_a_client_that_was_asked_something_and_may_come_back() -> None:
    at = Scene(idle_seconds=IDLE_SECONDS)
    at.begin()
    at.needs.await_return(60.0)
    at.needs.await_return(1.0)

    at.now = 59.0
    assert at.idle() == []
    at.now = 59.0 + IDLE_SECONDS

    assert at.idle() == [SHARED]


@pytest.mark.parametrize("start", ["eager", "first-use"])
def test_a_connection_that_is_forgotten_was_never_there(start: str) -> None:
    at = Scene(start=start, idle_seconds=IDLE_SECONDS)
    at.begin(OWN)
    assert at.needed(OWN)

    at.open.clear()
    at.needs.forget(OWN)

    assert at.needed(OWN) == (start == "eager")

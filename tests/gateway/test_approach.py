"""How an exchange comes to the connection that it may use."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from anyport.gateway.approach import Approach
from anyport.gateway.leases import PRINCIPALS_MAX, SEATS_MAX, Leases, Seat
from anyport.protocol.exchange import Caller
from anyport.protocol.principal import Principal
from anyport.protocol.revision import Revision
from anyport.upstream.connection import Connection
from anyport.upstream.key import LeaseKey
from anyport.upstream.server import Server
from tests.gateway.fakes import (
    LEGACY,
    MODERN,
    Asked,
    FakeServer,
    FakeSession,
    Later,
    caller,
    declared,
)
from tests.upstream.fakes import peer_of


class Scene:
    """A server with a scope, and callers on their way to it."""

    def __init__(self, scope: str, revision: Revision = LEGACY) -> None:
        self.server = FakeServer("s", revision, scope=scope)
        self.leases = Leases(Later(), sole=False)

    def approach(self, by: Caller, method: str = "tools/call") -> "Traveller":
        traveller = Traveller(self.server, Asked(method, {"name": "x"}, by))
        Approach(traveller, self.leases).begin()
        return traveller

    def key(self, by: Caller, method: str = "tools/call") -> LeaseKey:
        """The key of the connection that a caller is given."""
        traveller = self.approach(by, method)
        assert traveller.refused == []
        assert isinstance(traveller.lease, Connection)
        return self.server.leased[-1]


class Traveller:
    """Remembers what it was given."""

    def __init__(self, server: FakeServer, asked: Asked) -> None:
        self.server: Server = server
        self.exchange = asked.exchange
        self.seat: Seat | None = None
        self.lease: Connection | str | None = None
        self.refused: list[str] = []

    def take_seat(self, seat: Seat) -> None:
        self.seat = seat

    def leased(self, lease: Connection | str) -> None:
        self.lease = lease

    def refuse(self, reason: str) -> None:
        self.refused.append(reason)


def modern(name: str = "me", **capabilities: Any) -> Caller:
    return replace(
        caller(None, MODERN),
        principal=Principal("token", name),
        capabilities=declared(capabilities),
    )


def session(name: str = "me", **capabilities: Any) -> Caller:
    return replace(
        caller(FakeSession(f"session of {name}", capabilities)), principal=Principal("token", name)
    )


def test_by_itself_everybody_shares_who_cannot_be_asked() -> None:
    scene = Scene("auto")

    assert {scene.key(by).owner for by in (modern("a"), modern("b"), session("c"))} == {""}
    assert scene.key(modern(elicitation={}), "completion/complete").owner == ""
    assert scene.key(session("d", roots={})).owner == "session of d"
    assert scene.key(modern("e", roots={})).owner.startswith("call-")


def test_principals_can_have_connections_of_their_own() -> None:
    scene = Scene("principal")

    first = scene.key(modern("a"))
    assert first.principal == Principal("token", "a")
    assert scene.key(modern("a")) == first
    assert scene.key(session("a")) == first
    assert scene.key(modern("b")) != first
    assert not first.interactive
    assert scene.key(session("c", roots={})).owner == "session of c", "it can be asked"


def test_a_caller_without_a_session_has_its_principals_connection_where_sessions_have_theirs() -> (
    None
):
    scene = Scene("session")

    assert scene.key(session("a")).owner == "session of a"
    assert scene.key(modern("a")).principal == Principal("token", "a")


@pytest.mark.parametrize("by", [modern("a"), session("a"), modern("a", roots={})])
def test_calls_can_have_connections_of_their_own_and_leave_nothing_behind(by: Caller) -> None:
    scene = Scene("call")

    first, second = scene.approach(by), scene.approach(by)
    assert first.seat is not None
    assert second.seat is not None
    assert first.seat.key != second.seat.key
    assert first.seat.key.interactive is by.capabilities.interactive
    scene.leases.leave(scene.server, by, first.seat)

    assert scene.server.dropped == [first.seat.key.owner]
    third = scene.approach(by).seat
    assert third is not None
    assert third.key != first.seat.key


def test_a_call_that_must_be_alone_is_refused_where_there_are_too_many() -> None:
    scene = Scene("call")
    for _ in range(SEATS_MAX):
        assert scene.approach(modern("a")).seat is not None

    assert scene.approach(modern("a")).refused == [
        f"{SEATS_MAX} calls are open, each with a connection of its own"
    ]
    assert scene.approach(modern("b")).seat is not None, "that is another's trouble"


def test_a_principal_is_refused_where_there_are_too_many() -> None:
    scene = Scene("principal")
    for number in range(PRINCIPALS_MAX):
        scene.key(modern(f"{number}"))

    assert scene.approach(modern("one more")).refused == [
        "it serves 64 others, each over a connection of its own"
    ]
    assert scene.key(modern("7")).owner, "who is there stays"


@pytest.mark.parametrize("scope", ["auto", "principal", "session", "call", "shared"])
def test_a_modern_server_serves_everybody_over_one_connection(scope: str) -> None:
    scene = Scene(scope, MODERN)

    for by in (modern("a"), modern("b", roots={})):
        traveller = scene.approach(by)
        assert traveller.seat is None
        assert traveller.exchange.lease == ""
        assert traveller.lease is scene.server.connection


@pytest.mark.parametrize("scope", ["auto", "principal", "call"])
def test_a_server_that_is_down_is_a_reason_for_everybody(scope: str) -> None:
    scene = Scene(scope)
    scene.server.down = "exit code 1"

    assert scene.approach(modern("a", roots={})).lease == "exit code 1"


def test_a_call_that_ended_on_the_way_takes_no_seat() -> None:
    scene = Scene("call")
    waiting: list[Any] = []
    scene.server.waiting = waiting
    traveller = scene.approach(modern("a"))
    traveller.exchange.cancel()
    waiting[0](scene.server.connection)

    assert traveller.seat is None


def test_what_an_extension_adds_is_asked_of_a_server_that_rests_once_its_era_is_known() -> None:
    scene = Scene("session", MODERN)
    server, by = scene.server, caller(FakeSession("mine"))
    server.shown_main = SimpleNamespace(asleep=True)
    server.connection.peer, server.waiting = None, []

    traveller = scene.approach(by, "skills/get")
    assert (traveller.lease, len(server.waiting)) == (None, 1)
    (ready,), server.waiting = server.waiting, None
    server.shown_main.asleep, server.connection.peer = False, peer_of(MODERN)
    ready(server.connection)

    assert traveller.lease is server.connection
    assert [key.owner for key in server.leased] == ["", ""]
    assert scene.key(by).owner == "mine", "a tool may ask"

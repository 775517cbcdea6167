"""Which connection a call leases."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anyport.gateway.calls.call import Call
from anyport.gateway.calls.leases import (
    EXCLUSIVE_CONNECTIONS_MAX,
    PRINCIPAL_CONNECTIONS_MAX,
    ExclusiveConnection,
    Leases,
)
from anyport.protocol.exchange import Caller
from anyport.protocol.principal import Principal
from anyport.protocol.revisions import Revision
from anyport.upstream.connection import Connection
from anyport.upstream.lease_key import LeaseKey
from anyport.upstream.supervisor import NotReady
from tests.gateway.fakes import (
    LEGACY,
    MODERN,
    Asked,
    FakeClock,
    FakeServer,
    FakeSession,
    caller,
    declared,
)
from tests.upstream.fakes import peer_of


class Scene:
    """A server with a scope, and callers on their way to it."""

    def __init__(self, scope: str, revision: Revision = LEGACY) -> None:
        self.server = FakeServer("s", revision, scope=scope)
        self.leases = Leases(FakeClock(), sole=False)

    def lease(self, by: Caller, method: str = "tools/call") -> "FakeCall":
        call = FakeCall(self.server, Asked(method, {"name": "x"}, by))
        self.leases.acquire(cast(Call, call))
        return call

    def key(self, by: Caller, method: str = "tools/call") -> LeaseKey:
        """The key of the connection that a caller is given."""
        call = self.lease(by, method)
        assert call.refusals == []
        assert isinstance(call.connection, Connection)
        return self.server.leased[-1]


class FakeCall:
    """A call that keeps what it is given."""

    def __init__(self, server: FakeServer, asked: Asked) -> None:
        self.server = server
        self.exchange = asked.exchange
        self.preferred_key: LeaseKey | None = None
        self.uses_fallback = False
        self.exclusive: ExclusiveConnection | None = None
        self.connection: Connection | NotReady | None = None
        self.refusals: list[str] = []

    def on_lease(self, connection: Connection | NotReady) -> None:
        self.connection = connection

    def refuse(self, reason: str) -> None:
        self.refusals.append(reason)


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

    first, second = scene.lease(by), scene.lease(by)
    assert first.exclusive is not None
    assert second.exclusive is not None
    assert first.exclusive.key != second.exclusive.key
    assert first.exclusive.key.interactive is by.capabilities.interactive
    scene.leases.release_exclusive(scene.server, by, first.exclusive)

    assert scene.server.dropped == [first.exclusive.key.owner]
    third = scene.lease(by).exclusive
    assert third is not None
    assert third.key != first.exclusive.key


def test_a_call_that_must_be_alone_is_refused_where_there_are_too_many() -> None:
    scene = Scene("call")
    for _ in range(EXCLUSIVE_CONNECTIONS_MAX):
        assert scene.lease(modern("a")).exclusive is not None

    assert scene.lease(modern("a")).refusals == [
        f"{EXCLUSIVE_CONNECTIONS_MAX} calls are open, each with a connection of its own"
    ]
    assert scene.lease(modern("b")).exclusive is not None, "that is another's trouble"


def test_a_principal_is_refused_where_there_are_too_many() -> None:
    scene = Scene("principal")
    for number in range(PRINCIPAL_CONNECTIONS_MAX):
        scene.server.busy.add(scene.key(modern(f"{number}")))

    assert scene.lease(modern("one more")).refusals == [
        "it serves 64 others, each over a connection of its own"
    ]
    assert scene.key(modern("7")).owner, "who is there stays"
    scene.server.busy.discard(scene.key(modern("7")))
    assert scene.key(modern("one more")).owner
    assert scene.server.dropped == ["principal-token:7"], "it was not in use"


@pytest.mark.parametrize("scope", ["auto", "principal", "session", "call", "shared"])
def test_a_modern_server_serves_everybody_over_one_connection(scope: str) -> None:
    scene = Scene(scope, MODERN)

    for by in (modern("a"), modern("b", roots={})):
        call = scene.lease(by)
        assert call.exclusive is None
        assert call.exchange.lease_owner == ""
        assert call.connection is scene.server.connection


@pytest.mark.parametrize("scope", ["auto", "principal", "call"])
def test_a_server_that_is_down_is_a_reason_for_everybody(scope: str) -> None:
    scene = Scene(scope)
    scene.server.down = "exit code 1"

    assert scene.lease(modern("a", roots={})).connection == NotReady("exit code 1")


def test_a_call_that_ended_on_the_way_takes_no_seat() -> None:
    scene = Scene("call")
    waiting: list[Any] = []
    scene.server.waiting = waiting
    call = scene.lease(modern("a"))
    call.exchange.cancel()
    waiting[0](scene.server.connection)

    assert call.exclusive is None


def test_what_an_extension_adds_is_asked_of_a_server_that_rests_once_its_era_is_known() -> None:
    scene = Scene("session", MODERN)
    server, by = scene.server, caller(FakeSession("mine"))
    server.shown_main = SimpleNamespace(asleep=True)
    server.connection.peer, server.waiting = None, []

    call = scene.lease(by, "skills/get")
    assert (call.connection, len(server.waiting)) == (None, 1)
    (ready,), server.waiting = server.waiting, None
    server.shown_main.asleep, server.connection.peer = False, peer_of(MODERN)
    ready(server.connection)

    assert call.connection is server.connection
    assert [key.owner for key in server.leased] == ["", ""]
    assert scene.key(by).owner == "mine", "a tool may ask"


# A server that speaks both eras.


def of_both_eras(scope: str = "auto", **config: Any) -> Scene:
    scene = Scene(scope, MODERN)
    scene.server.config = replace(scene.server.config, **config)
    scene.server.trials.on_server_started(automatic=True)
    return scene


def test_sessions_that_cannot_be_asked_share_a_connection_in_their_era() -> None:
    scene = of_both_eras()

    first = scene.key(session("a"))
    assert (first.legacy, first.capabilities, first.principal) == (
        True,
        b"{}",
        Principal("token", "a"),
    )
    assert scene.key(session("a")) == first
    assert scene.key(modern("a")).owner == ""
    assert scene.key(session("a", roots={})).owner == "session of a"
    assert not first.of_session


def test_what_sessions_share_is_their_principals() -> None:
    scene = of_both_eras()
    scene.server.crowded = True

    first, second = (scene.key(session(name)) for name in ("a", "b"))
    assert first != second
    assert first.fallback == scene.server.key_for(Principal("token", "a"))


@pytest.mark.parametrize("scope", ["shared", "call"])
def test_an_operator_may_have_all_served_in_one_era(scope: str) -> None:
    assert of_both_eras(scope).key(session("a")).owner == ""


def test_each_session_may_have_its_own_in_its_era() -> None:
    key = of_both_eras("session").key(session("a"))
    assert (key.owner, key.legacy) == ("session of a", True)


def test_the_one_client_of_a_gateway_shares_with_nobody() -> None:
    scene = of_both_eras()
    scene.leases = Leases(FakeClock(), sole=True)

    assert scene.key(session("a")).owner == "session of a"


def test_what_an_extension_adds_is_asked_of_a_server_in_the_era_that_was_found() -> None:
    assert of_both_eras().key(session("a"), "skills/get").owner == ""


def test_a_call_that_is_served_in_another_era_does_not_say_where_the_next_one_goes() -> None:
    scene = of_both_eras()
    key = scene.server.key_for_sessions(Principal("token", "a"))
    assert not scene.lease(modern("a")).uses_fallback

    scene.server.trials.on_failure(key, "exit code 1", 0.0, refused=False)
    call = scene.lease(session("a"))
    assert call.connection is scene.server.connection
    assert scene.server.leased[-1].owner == ""
    assert call.uses_fallback

    scene.server.trials.on_failure(key, "no such method", 0.0, refused=True)
    assert not scene.lease(session("a")).uses_fallback, "it has one era only"


# Two or more principals.


def divided(revision: Revision, **config: Any) -> Scene:
    scene = Scene("auto", revision)
    scene.server.crowded = True
    scene.server.config = replace(scene.server.config, **config)
    return scene


@pytest.mark.parametrize(
    ("revision", "url"), [(LEGACY, None), (MODERN, None), (LEGACY, "http://x")]
)
def test_principals_do_not_share_what_keeps_something_for_them(
    revision: Revision, url: str | None
) -> None:
    scene = divided(revision, url=url)

    for by in (modern("a"), session("a")):
        assert scene.key(by).principal == Principal("token", "a")
    assert scene.key(modern("b")).principal == Principal("token", "b")


def test_a_modern_server_that_is_one_for_all_of_its_clients_is_one_for_ours() -> None:
    scene = divided(MODERN, url="http://x")

    assert {scene.key(by).owner for by in (modern("a"), session("b"))} == {""}


def test_an_operator_may_have_principals_share() -> None:
    scene = divided(LEGACY, scope="shared")

    assert {scene.key(by).owner for by in (modern("a"), session("b"))} == {""}


def test_a_call_that_gets_no_connection_to_itself_has_that_of_its_principal() -> None:
    scene = divided(LEGACY)
    for _ in range(EXCLUSIVE_CONNECTIONS_MAX):
        scene.lease(modern("a", roots={}))

    assert scene.key(modern("a", roots={})).owner == "principal-token:a"


def test_a_connection_of_a_principal_that_did_not_open_is_not_kept_for_ever() -> None:
    clock, scene = FakeClock(), divided(MODERN)
    scene.leases = Leases(clock, sole=False)
    by = session("a", roots={})
    theirs = scene.server.key_for(by.principal)
    scene.server.down = "exit code 1"

    assert scene.lease(by).connection == NotReady("exit code 1")
    assert clock.due == [], "there is none"
    scene.server.have(theirs)
    assert scene.lease(by).connection == NotReady("exit code 1")
    clock.pass_by()

    assert scene.server.dropped == [theirs.owner]

"""Which connection a request uses."""

import json
from dataclasses import replace

import pytest

from anyport.gateway.calls.leases import (
    EXCLUSIVE_CONNECTIONS_MAX,
    EXCLUSIVE_IDLE_SECONDS,
    PRINCIPAL_IDLE_SECONDS,
    ExclusiveConnection,
    Leases,
    has_own_connection,
)
from anyport.protocol.capabilities import client_capabilities
from anyport.protocol.exchange import Caller
from anyport.protocol.extensions import APPS, SKILLS, TASKS
from anyport.protocol.principal import Principal
from anyport.upstream.lease_key import SHARED
from tests.gateway.fakes import MODERN, FakeClock, FakeServer, FakeSession, caller

ASKABLE: dict[str, object] = {"elicitation": {}, "roots": {}}


@pytest.mark.parametrize("scope", ["auto", "shared", "session"])
def test_a_request_without_a_session_has_no_connection_of_its_own(scope: str) -> None:
    assert not has_own_connection(scope, caller(revision=MODERN), sole=True)


@pytest.mark.parametrize(
    ("scope", "capabilities", "sole", "own"),
    [
        ("auto", {}, False, False),
        ("auto", ASKABLE, False, True),
        ("auto", {}, True, True),
        ("session", {}, False, True),
        ("shared", ASKABLE, True, False),
    ],
)
def test_a_connection_over_which_a_server_may_ask_belongs_to_one_session(
    scope: str, capabilities: dict[str, object], sole: bool, own: bool
) -> None:
    server, leases = FakeServer("s", scope=scope), Leases(FakeClock(), sole=sole)
    key = leases.key(server, caller(FakeSession("mine", capabilities)))

    assert (key.owner == "mine") is own
    assert json.loads(key.capabilities) == (capabilities if own else {})
    assert key.interactive is (own and bool(capabilities))


def test_capabilities_that_are_not_carried_are_not_declared() -> None:
    session = FakeSession("mine", {"roots": {}, "tasks": {}, "extensions": {"x": {}}, "own": 1})

    key = Leases(FakeClock(), sole=True).key(FakeServer("s"), caller(session))

    assert json.loads(key.capabilities) == {"roots": {}, "own": 1}


def test_a_legacy_server_is_told_of_every_extension_that_is_known() -> None:
    extensions: dict[str, object] = {APPS: {"n": 1}, SKILLS: {}, TASKS: {}, "x": {}}
    session = FakeSession("mine", {"extensions": extensions})

    key = Leases(FakeClock(), sole=True).key(FakeServer("s"), caller(session))

    assert json.loads(key.capabilities) == {"extensions": {APPS: {"n": 1}, SKILLS: {}}}


@pytest.mark.parametrize(
    ("offers", "passes", "scope", "own"),
    [
        ("x", True, "auto", True),
        ("x", True, "shared", False),
        ("x", False, "auto", False),
        ("y", True, "auto", False),
    ],
)
def test_a_session_that_agrees_with_a_server_on_an_extension_says_so_in_its_own_handshake(
    offers: str, passes: bool, scope: str, own: bool
) -> None:
    server = FakeServer("s", scope=scope)
    server.extensions = {offers: b"{}"}
    session = FakeSession("mine", {"extensions": {"x": {"n": 1}}})
    leases = Leases(FakeClock(), sole=False, passes_unknown=lambda _: passes)

    key = leases.key(server, caller(session))

    assert (key.owner == "mine") is own
    assert json.loads(key.capabilities) == ({"extensions": {"x": {"n": 1}}} if own else {})


def test_so_does_a_client_without_a_session_where_a_call_has_a_connection_to_itself() -> None:
    by = caller(FakeSession("mine", {**ASKABLE, "extensions": {"x": {}}}))
    for passes in (True, False):
        leases = Leases(FakeClock(), sole=False, passes_unknown={"default": passes}.__getitem__)
        seat = leases.acquire_exclusive(FakeServer("s"), replace(by, session=None))
        assert isinstance(seat, ExclusiveConnection)
        assert ("extensions" in json.loads(seat.key.capabilities)) is passes


def test_the_key_of_a_session_is_made_once_and_forgotten_with_it() -> None:
    leases, by = Leases(FakeClock(), sole=True), caller(FakeSession("mine", ASKABLE))
    server = FakeServer("s")
    key = leases.key(server, by)

    assert leases.key(server, by) is key
    assert leases.key(FakeServer("t", scope="shared"), by) == SHARED
    leases.forget("mine")
    assert leases.key(server, by) is not key
    assert leases.key(server, caller()) is SHARED


# One call at a time.


def asking(**capabilities: object) -> Caller:
    declared = client_capabilities(json.dumps(capabilities).encode())
    assert declared is not None
    return replace(caller(revision=MODERN), capabilities=declared)


def test_calls_of_a_client_without_a_session_have_a_connection_each() -> None:
    leases, server, by = Leases(FakeClock(), sole=False), FakeServer("s"), asking(elicitation={})

    first, second = leases.acquire_exclusive(server, by), leases.acquire_exclusive(server, by)

    assert isinstance(first, ExclusiveConnection)
    assert isinstance(second, ExclusiveConnection)
    assert first.key.owner != second.key.owner
    assert first.key.interactive
    assert json.loads(first.key.capabilities) == {"elicitation": {}}
    leases.release_exclusive(server, by, first)
    assert leases.acquire_exclusive(server, by) is first, "the next call may have it"


def test_a_connection_is_for_those_who_can_be_asked_the_same() -> None:
    leases, server = Leases(FakeClock(), sole=False), FakeServer("s")
    one, other = asking(elicitation={}), asking(roots={})
    seat = leases.acquire_exclusive(server, one)
    assert isinstance(seat, ExclusiveConnection)
    leases.release_exclusive(server, one, seat)

    assert leases.acquire_exclusive(server, other) is not seat
    stranger = replace(one, principal=Principal("token", "eve"))
    assert leases.acquire_exclusive(server, stranger) is not seat


def test_the_first_connection_is_kept_longer_and_used_first() -> None:
    clock, server, by = FakeClock(), FakeServer("s"), asking(elicitation={})
    leases = Leases(clock, sole=False)
    first, second = leases.acquire_exclusive(server, by), leases.acquire_exclusive(server, by)
    assert isinstance(first, ExclusiveConnection)
    assert isinstance(second, ExclusiveConnection)

    leases.release_exclusive(server, by, second)
    leases.release_exclusive(server, by, first)

    kept = [EXCLUSIVE_IDLE_SECONDS, PRINCIPAL_IDLE_SECONDS]
    assert [seconds for seconds, _ in clock.due] == kept
    assert leases.acquire_exclusive(server, by) is first


def test_there_is_a_most_of_calls_side_by_side_and_one_that_is_free_makes_room() -> None:
    leases, server, by = Leases(FakeClock(), sole=False), FakeServer("s"), asking(elicitation={})
    seats = [leases.acquire_exclusive(server, by) for _ in range(EXCLUSIVE_CONNECTIONS_MAX)]

    words = f"{EXCLUSIVE_CONNECTIONS_MAX} calls are open, each with a connection of its own"
    assert leases.acquire_exclusive(server, by) == words
    last = seats[-1]
    assert isinstance(last, ExclusiveConnection)
    leases.release_exclusive(server, by, last)
    assert isinstance(leases.acquire_exclusive(server, asking(roots={})), ExclusiveConnection)
    assert server.dropped == [last.key.owner]


def test_a_connection_that_nobody_needs_is_closed_after_a_while() -> None:
    clock, server, by = FakeClock(), FakeServer("s"), asking(elicitation={})
    leases = Leases(clock, sole=False)
    seat = leases.acquire_exclusive(server, by)
    assert isinstance(seat, ExclusiveConnection)
    leases.release_exclusive(server, by, seat)
    assert leases.acquire_exclusive(server, by) is seat
    clock.pass_by()
    assert server.dropped == [], "it is in use again"

    leases.release_exclusive(server, by, seat)
    assert leases.acquire_exclusive(server, by) is seat
    leases.release_exclusive(server, by, seat)
    assert [seconds for seconds, _ in clock.due] == [PRINCIPAL_IDLE_SECONDS], "one look for all"
    clock.pass_by()
    assert server.dropped == [], "it was used meanwhile"
    clock.pass_by()

    assert server.dropped == [seat.key.owner]
    assert leases.acquire_exclusive(server, by) is not seat


def test_a_connection_of_one_principal_is_closed_when_nobody_has_used_it_for_a_while() -> None:
    clock, server, by = FakeClock(), FakeServer("s", scope="principal"), asking()
    leases = Leases(clock, sole=False)
    key = server.key_for(by.principal)
    assert leases.register_principal_lease(server, key) is None
    assert leases.register_principal_lease(server, key) is None
    server.used[key] = 1
    assert [seconds for seconds, _ in clock.due] == [PRINCIPAL_IDLE_SECONDS], "one look for all"

    clock.pass_by()
    assert server.dropped == [], "it was used meanwhile"
    clock.pass_by()
    assert server.dropped == [key.owner]

"""Which connection a request uses."""

import json
from dataclasses import replace

import pytest

from anyport.gateway.leases import (
    FIRST_SEAT_IDLE_SECONDS,
    SEAT_IDLE_SECONDS,
    SEATS_MAX,
    Leases,
    lease_key,
)
from anyport.protocol.capability import client_capabilities
from anyport.protocol.exchange import Caller
from anyport.protocol.extension import APPS, SKILLS, TASKS
from anyport.protocol.principal import Principal
from anyport.upstream.key import SHARED
from tests.gateway.fakes import MODERN, FakeServer, FakeSession, Later, caller

ASKABLE: dict[str, object] = {"elicitation": {}, "roots": {}}


@pytest.mark.parametrize("scope", ["auto", "shared", "session"])
def test_a_request_without_a_session_uses_the_shared_connection(scope: str) -> None:
    assert lease_key(scope, caller(revision=MODERN), sole=True) == SHARED


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
    key = lease_key(scope, caller(FakeSession("mine", capabilities)), sole=sole)

    assert (key.owner == "mine") is own
    assert json.loads(key.capabilities) == (capabilities if own else {})
    assert key.interactive is (own and bool(capabilities))


def test_capabilities_that_are_not_carried_are_not_declared() -> None:
    session = FakeSession("mine", {"roots": {}, "tasks": {}, "extensions": {"x": {}}, "own": 1})

    key = lease_key("auto", caller(session), sole=True)

    assert json.loads(key.capabilities) == {"roots": {}, "own": 1}


def test_a_legacy_server_is_told_of_every_extension_that_is_known() -> None:
    extensions: dict[str, object] = {APPS: {"n": 1}, SKILLS: {}, TASKS: {}, "x": {}}
    session = FakeSession("mine", {"extensions": extensions})

    key = lease_key("auto", caller(session), sole=True)

    assert json.loads(key.capabilities) == {"extensions": {APPS: {"n": 1}, SKILLS: {}}}


def test_the_key_of_a_session_is_made_once_and_forgotten_with_it() -> None:
    leases, by = Leases(Later(), sole=True), caller(FakeSession("mine", ASKABLE))
    key = leases.key("auto", by)

    assert leases.key("auto", by) is key
    assert leases.key("shared", by) == SHARED
    leases.forget("mine")
    assert leases.key("auto", by) is not key
    assert leases.key("auto", caller()) is SHARED


# One call at a time.


def asking(**capabilities: object) -> Caller:
    declared = client_capabilities(json.dumps(capabilities).encode())
    assert declared is not None
    return replace(caller(revision=MODERN), capabilities=declared)


def test_calls_of_a_client_without_a_session_have_a_connection_each() -> None:
    leases, server, by = Leases(Later(), sole=False), FakeServer("s"), asking(elicitation={})

    first, second = leases.seat(server, by), leases.seat(server, by)

    assert first is not None
    assert second is not None
    assert first.key.owner != second.key.owner
    assert first.key.interactive
    assert json.loads(first.key.capabilities) == {"elicitation": {}}
    leases.leave(server, by, first)
    assert leases.seat(server, by) is first, "the next call may have it"


def test_a_connection_is_for_those_who_can_be_asked_the_same() -> None:
    leases, server = Leases(Later(), sole=False), FakeServer("s")
    one, other = asking(elicitation={}), asking(roots={})
    seat = leases.seat(server, one)
    assert seat is not None
    leases.leave(server, one, seat)

    assert leases.seat(server, other) is not seat
    stranger = replace(one, principal=Principal("token", "eve"))
    assert leases.seat(server, stranger) is not seat


def test_the_first_connection_is_kept_longer_and_used_first() -> None:
    later, server, by = Later(), FakeServer("s"), asking(elicitation={})
    leases = Leases(later, sole=False)
    first, second = leases.seat(server, by), leases.seat(server, by)
    assert first is not None
    assert second is not None

    leases.leave(server, by, second)
    leases.leave(server, by, first)

    kept = [SEAT_IDLE_SECONDS, FIRST_SEAT_IDLE_SECONDS]
    assert [seconds for seconds, _ in later.due] == kept
    assert leases.seat(server, by) is first


def test_there_is_a_most_of_calls_side_by_side_and_one_that_is_free_makes_room() -> None:
    leases, server, by = Leases(Later(), sole=False), FakeServer("s"), asking(elicitation={})
    seats = [leases.seat(server, by) for _ in range(SEATS_MAX)]

    assert leases.seat(server, by) is None
    last = seats[-1]
    assert last is not None
    leases.leave(server, by, last)
    assert leases.seat(server, asking(roots={})) is not None
    assert server.dropped == [last.key.owner]


def test_a_connection_that_nobody_needs_is_closed_after_a_while() -> None:
    later, server, by = Later(), FakeServer("s"), asking(elicitation={})
    leases = Leases(later, sole=False)
    seat = leases.seat(server, by)
    assert seat is not None
    leases.leave(server, by, seat)
    assert leases.seat(server, by) is seat
    later.pass_by()
    assert server.dropped == [], "it is in use again"

    leases.leave(server, by, seat)
    assert leases.seat(server, by) is seat
    leases.leave(server, by, seat)
    assert [seconds for seconds, _ in later.due] == [FIRST_SEAT_IDLE_SECONDS], "one look for all"
    later.pass_by()
    assert server.dropped == [], "it was used meanwhile"
    later.pass_by()

    assert server.dropped == [seat.key.owner]
    assert leases.seat(server, by) is not seat


def test_a_connection_of_one_principal_is_closed_when_nobody_has_used_it_for_a_while() -> None:
    later, server, by = Later(), FakeServer("s", scope="principal"), asking()
    leases = Leases(later, sole=False)
    key = leases.shared_by(server, by)
    assert key is not None
    assert leases.shared_by(server, by) == key
    assert [seconds for seconds, _ in later.due] == [FIRST_SEAT_IDLE_SECONDS], "one look for all"

    later.pass_by()
    assert server.dropped == [], "it was used meanwhile"
    later.pass_by()
    assert server.dropped == [key.owner]

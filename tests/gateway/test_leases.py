"""Which connection a request uses."""

import json

import pytest

from anyport.gateway.leases import Leases, lease_key
from anyport.upstream.server import SHARED
from tests.gateway.fakes import MODERN, FakeSession, caller

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


def test_the_key_of_a_session_is_made_once_and_forgotten_with_it() -> None:
    leases, by = Leases(sole=True), caller(FakeSession("mine", ASKABLE))
    key = leases.key("auto", by)

    assert leases.key("auto", by) is key
    assert leases.key("shared", by) == SHARED
    leases.forget("mine")
    assert leases.key("auto", by) is not key
    assert leases.key("auto", caller()) is SHARED

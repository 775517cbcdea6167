"""Why a server does not run, and what to do about it."""

from types import SimpleNamespace
from typing import Any

import pytest

from anyport.gateway.reason import ADVICE, advice, reason_of
from anyport.upstream.tender import UNUSED, State
from tests.gateway.fakes import FakeServer


def server(
    state: State, reason: str | None = None, *, asleep: bool = False, **config: Any
) -> FakeServer:
    made = FakeServer("s", None, **config)
    road = SimpleNamespace(transport="stdio")
    made.shown_main = SimpleNamespace(state=state, reason=reason, road=road, asleep=asleep)
    return made


def test_a_server_that_runs_needs_no_reason() -> None:
    assert reason_of(server(State.READY)) is None


def test_a_server_that_is_not_to_run_says_what_would_change_that() -> None:
    assert reason_of(FakeServer("s", None, disabled=True)) == (
        "it is disabled in the configuration; set disabled = false to use it"
    )
    assert reason_of(FakeServer("s", None, unresolved=("env.A needs A", "args[0] needs B"))) == (
        "env.A needs A; args[0] needs B; mend that, then restart the gateway"
    )


def test_a_server_that_nobody_has_needed_says_so() -> None:
    assert reason_of(FakeServer("s", None)) == (
        "it has not been needed yet; it starts with the first client"
    )


def test_a_server_that_is_starting_says_so_and_what_was_before() -> None:
    starting = server(State.STARTING)
    assert reason_of(starting) == "it is starting; wait a moment"

    starting.last_error = "exit code 1"
    assert reason_of(starting) == "it is being started again after: exit code 1; wait a moment"


def test_a_server_that_failed_says_why_and_what_helps() -> None:
    failed = server(State.BROKEN, "command 'x' was not found on its PATH")

    assert reason_of(failed) == (
        "command 'x' was not found on its PATH; install the command, or give its full path; "
        "it is tried again by itself"
    )


def test_where_nothing_is_known_to_help_nothing_is_advised() -> None:
    assert reason_of(server(State.BROKEN, "it exploded.")) == (
        "it exploded; it is tried again by itself"
    )
    assert reason_of(server(State.BROKEN)) == "no reason is known; it is tried again by itself"


def test_a_server_that_was_stopped_says_why() -> None:
    assert reason_of(server(State.STOPPED, "the gateway is stopping")) == "the gateway is stopping"


@pytest.mark.parametrize(
    ("reason", "helps"),
    [
        ("working directory '/x' does not exist", "create that directory, or mend cwd"),
        ("command '/x' does not exist", "install the command, or give its full path"),
        ("command 'x' may not be executed: permission denied", "make the command executable"),
        ("the server wants authorization (HTTP 401): set headers", "set headers that it accepts"),
        ("no connection: connection refused", "see that it runs where url says"),
        ("the name x.invalid cannot be resolved", "mend the host in url"),
        ("exit code 3; its last words on stderr: no", ADVICE[-1][1]),
    ],
)
def test_advice_fits_the_reason(reason: str, helps: str) -> None:
    assert advice(reason) == helps


def test_a_server_that_waits_to_be_used_says_so() -> None:
    assert reason_of(server(State.IDLE, UNUSED, asleep=True)) == UNUSED


def test_a_server_that_failed_and_is_left_alone_says_when_it_is_tried_again() -> None:
    failed = server(State.BROKEN, "exit code 7", asleep=True)

    assert reason_of(failed) == (
        "exit code 7; its last words say why; 'anyport events' has more of them; "
        "it is tried again on the next use"
    )


def test_a_server_that_runs_and_gets_no_calls_says_why() -> None:
    failing = server(State.READY)
    for _ in range(5):
        failing.guard.failed("no answer", 0.0)

    assert reason_of(failing) == (
        "it is not taking calls: 5 calls in a row failed (last: no answer); "
        "it is tried again in 30 s"
    )

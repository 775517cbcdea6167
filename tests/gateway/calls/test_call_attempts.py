"""Calls that are turned away, and calls that are made once more."""

from pathlib import Path

import pytest

from anyport.gateway.calls.retry import BUDGET_CALLS_MIN, RESTART_WAIT_SECONDS_MAX
from anyport.protocol.exchange import Question
from anyport.upstream.connection import Connection
from anyport.upstream.supervisor import ServerState
from anyport.wire import jsonrpc
from tests.gateway.fakes import LEGACY, MODERN, FakeClock
from tests.gateway.trials import GONE, UNSENT, Trial
from tests.upstream.fakes import FakeChannel, RecordingListener, peer_of


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(tmp_path)


def test_a_call_that_does_no_harm_is_made_once_more_after_a_pause(trial: Trial) -> None:
    asked = trial.look()
    trial.now = 0.1

    trial.lose()

    assert asked.told == []
    assert trial.tools == ["look"], "not at once"
    trial.clock.pass_by()
    assert trial.tools == ["look", "look"]
    trial.answer_last()
    assert asked.ending == {"content": []}
    assert trial.statuses == ["success"]
    assert trial.events[0]["metadata"]["attempts"] == 2
    assert trial.at_rest()
    assert trial.relay.retry_budgets.retried_counts == {"s": 1}


def test_but_only_once_more(trial: Trial) -> None:
    asked = trial.look()
    trial.lose()
    trial.clock.pass_by()

    trial.lose()

    assert asked.ending == GONE
    assert trial.tools == ["look", "look"]
    assert (trial.statuses, trial.events[0]["metadata"]["attempts"]) == (["failure"], 2)
    assert trial.at_rest()


def test_a_call_that_may_have_done_something_is_not(trial: Trial) -> None:
    asked = trial.begin()

    trial.lose()

    assert asked.ending == GONE
    assert "attempts" not in trial.events[0]["metadata"]


def test_a_call_that_its_server_never_saw_is_whatever_it_does(trial: Trial) -> None:
    asked = trial.begin()

    trial.lose(UNSENT)
    trial.clock.pass_by()
    trial.answer_last()

    assert asked.ending == {"content": []}


def test_so_is_a_read(trial: Trial) -> None:
    asked = trial.begin("resources/read", {"uri": "x:1"})

    trial.lose()
    trial.clock.pass_by()

    assert [each["params"] for each in trial.server.channel.sent] == [{"uri": "x:1"}] * 2
    assert asked.told == []


def test_what_is_asked_the_second_time_is_what_the_client_asked(tmp_path: Path) -> None:
    trial = Trial(tmp_path, revision=MODERN, capture="full")
    asked = trial.look(_meta={"k": 1})
    trial.server.connection.peer = peer_of(LEGACY)

    trial.lose()
    trial.clock.pass_by()

    first, second = (each["params"] for each in trial.server.channel.sent)
    assert len(first["_meta"]) > 1
    assert second == {"name": "look", "_meta": {"k": 1}}, "it speaks another era by now"
    trial.answer_last()
    assert asked.ending == {"content": []}
    frames = trial.events[0]["metadata"]["frames"]
    assert any("tools/call" in frame for frame in frames), "the record has both"


@pytest.mark.parametrize("setting", ["retry", "progress", "question", "round", "cancel", "ended"])
def test_nothing_is_repeated_that_must_not_be(tmp_path: Path, setting: str) -> None:
    trial = Trial(tmp_path)
    if setting == "retry":
        trial.server.config = type(trial.server.config)(
            slug="s", name="s", command="server", retry="never"
        )
    asked = trial.look()
    if setting == "progress":
        asked.exchange.progress_reported = True
    elif setting == "question":
        asked.exchange.questions = (Question("roots/list", None, lambda _: None),)
    elif setting == "round":
        asked.exchange.input_rounds = 1
    elif setting == "ended":
        trial.now = 1000.0
        trial.calls.sweep(trial.now)
    elif setting == "cancel":
        asked.exchange.cancel()
    before = list(trial.statuses)

    trial.lose()
    trial.clock.pass_by()

    assert trial.tools == ["look"]
    assert trial.at_rest()
    if not before:
        assert asked.ending == GONE


@pytest.mark.parametrize("how", ["cancel", "overdue"])
def test_who_gives_up_during_the_pause_is_not_asked_for_again(trial: Trial, how: str) -> None:
    asked = trial.look()
    trial.lose()

    if how == "cancel":
        asked.exchange.cancel()
    else:
        trial.now = 1000.0
        trial.calls.sweep(trial.now)
    trial.clock.pass_by()

    assert trial.tools == ["look"]
    assert trial.statuses[-1] == ("cancelled" if how == "cancel" else "timeout")
    assert trial.at_rest()


def test_only_so_many_are_made_once_more_at_a_time(trial: Trial) -> None:
    asked = [trial.look() for _ in range(BUDGET_CALLS_MIN + 2)]

    trial.server.connection.end("it was cut off")

    ended = [each.ending for each in asked]
    assert ended == [None] * BUDGET_CALLS_MIN + [GONE] * 2
    for each in asked[:BUDGET_CALLS_MIN]:
        each.exchange.cancel()
    assert trial.at_rest()


def test_a_call_that_is_made_once_more_waits_for_its_server_to_be_started(trial: Trial) -> None:
    asked = trial.look()
    trial.server.connection.end("killed by SIGKILL")
    trial.server.down = "killed by SIGKILL"

    for _ in range(3):
        trial.now += 0.1
        trial.clock.pass_by()
    assert asked.told == []

    trial.server.down = None
    trial.server.channel = FakeChannel()
    fresh = Connection(trial.server.channel, RecordingListener(), jsonrpc.OUTBOUND, FakeClock())
    fresh.peer = peer_of(LEGACY)
    trial.server.connection = fresh
    trial.clock.pass_by()
    trial.answer_last()
    assert asked.ending == {"content": []}
    assert trial.events[0]["metadata"]["attempts"] == 2
    assert trial.at_rest()


def test_but_not_for_ever(trial: Trial) -> None:
    asked = trial.look()
    trial.server.connection.end("killed by SIGKILL")
    trial.server.down = "exit code 1"

    trial.clock.pass_by()
    trial.now = RESTART_WAIT_SECONDS_MAX + 1
    trial.clock.pass_by()

    assert asked.ending == "Server 's' is not running: exit code 1"
    assert trial.at_rest()


def test_a_first_call_does_not_wait(trial: Trial) -> None:
    trial.server.down = "exit code 1"
    assert trial.server.state is ServerState.STARTING

    assert trial.look().ending == "Server 's' is not running: exit code 1"

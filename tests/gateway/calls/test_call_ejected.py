"""Calls to a server that fails: turned away, let through as a probe, and on the beaten track."""

import json
from pathlib import Path

import pytest

from anyport.protocol.exchange import Question
from anyport.upstream.circuit_breaker import FAILURES_MAX, OPEN_SECONDS
from anyport.upstream.pending_call import RetryAfterFailure
from tests.gateway.calls.fast_paths import Client, by, plain_result
from tests.gateway.fakes import LEGACY, FakeSession, caller
from tests.gateway.scene import Scene
from tests.gateway.trials import BAD, CUT, GONE, UNSENT, Trial, told


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(tmp_path)


def eject(trial: Scene) -> None:
    for _ in range(FAILURES_MAX):
        trial.begin()
        trial.server.connection.settle(trial.server.channel.calls[-1], BAD)
    assert trial.server.health.breaker.is_open


def test_a_server_that_is_ejected_gets_no_calls_and_callers_know_when_to_come_back(
    trial: Trial,
) -> None:
    eject(trial)
    sent = len(trial.server.channel.sent)

    asked = trial.begin()

    reason = "5 calls in a row failed (last: answered with HTTP 500); it is tried again in 30 s"
    assert asked.ending == f"Server 's' is not taking calls: {reason}"
    assert told(asked) == {"server": "s", "retryAfterSeconds": 30}
    assert len(trial.server.channel.sent) == sent
    assert trial.statuses == ["failure"] * (FAILURES_MAX + 1)
    assert trial.at_rest()
    assert trial.server.breaker_events.told == [f"ejected for 30 s: {reason}"]


def test_the_failure_that_ejects_a_server_is_not_repeated(trial: Trial) -> None:
    for _ in range(FAILURES_MAX - 1):
        trial.begin()
        trial.lose(BAD)

    asked = trial.look()
    trial.lose(BAD)

    assert asked.ending is not None


def test_what_failed_since_says_less_of_a_call_than_its_own_failure(trial: Trial) -> None:
    asked = trial.look()
    trial.lose(CUT)
    for _ in range(FAILURES_MAX):
        trial.begin()
        trial.lose(BAD)

    trial.clock.pass_by()

    assert asked.ending == GONE
    assert trial.at_rest()


def test_the_first_call_afterwards_is_a_probe_and_the_others_are_turned_away(trial: Trial) -> None:
    eject(trial)
    trial.server.clock.seconds = OPEN_SECONDS

    first, second = trial.begin(), trial.begin()

    assert "it is being tried now" in second.ending
    trial.answer_last()
    assert first.ending == {"content": []}
    assert trial.server.breaker_events.told[-1] == "restored after 30 s"
    assert trial.begin().told == []


@pytest.mark.parametrize("how", ["cancel", "down"])
def test_a_probe_that_comes_to_nothing_leaves_its_place(trial: Trial, how: str) -> None:
    eject(trial)
    trial.server.clock.seconds = OPEN_SECONDS
    if how == "down":
        trial.server.down = "exit code 1"

    first = trial.begin()
    if how == "cancel":
        first.exchange.cancel()

    trial.server.down = None
    assert trial.begin().told == [], "the next one is the probe"


def test_a_probe_that_fails_ejects_for_longer(trial: Trial) -> None:
    eject(trial)
    trial.server.clock.seconds = OPEN_SECONDS

    trial.begin()
    trial.lose(BAD)

    assert trial.server.breaker_events.told[-1].startswith("ejected for 60 s")


def test_calls_that_time_out_count_unless_it_is_a_person_who_did_not_answer(trial: Trial) -> None:
    for asked in [trial.begin() for _ in range(FAILURES_MAX)]:
        asked.exchange.questions = (Question("roots/list", None, lambda _: None),)
    trial.calls.sweep(1.0)
    trial.calls.sweep(10_000.0)
    assert trial.statuses == ["pending"] * FAILURES_MAX + ["timeout"] * FAILURES_MAX
    assert trial.server.health.breaker.failures == 0

    for _ in range(FAILURES_MAX):
        trial.begin()
    trial.calls.sweep(20_000.0)

    assert trial.server.health.breaker.is_open
    assert "Tool execution timeout (60s)" in trial.server.breaker_events.told[0]


def test_a_call_that_waited_for_a_server_to_start_says_nothing_of_its_calls(trial: Trial) -> None:
    trial.server.waiting = []
    for _ in range(FAILURES_MAX):
        trial.begin()

    trial.calls.sweep(10_000.0)

    assert trial.server.health.breaker.failures == 0


def test_a_server_that_says_when_is_not_asked_before(trial: Trial) -> None:
    first = trial.begin()
    error = b'{"code":-5,"message":"slow down"}'
    call = trial.server.channel.calls[-1]
    trial.server.connection.settle(call, RetryAfterFailure(b"1", error, 3.0))

    second = trial.begin()

    assert first.ending["message"] == "slow down"
    words = "it was asked too often, and wants to be asked again in 3 s"
    assert second.ending == f"Server 's' is busy: {words}"
    assert told(second)["retryAfterSeconds"] == 3
    trial.server.clock.seconds = 3.0
    assert trial.begin().told == []


# The beaten track.


def test_a_call_on_the_track_asks_first_once_its_server_fails(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    client = Client(scene, by(LEGACY))
    client.prime()
    client.call(id=2)
    assert client.tracked == 1
    client.hear(plain_result(scene))
    client.wire.take_one()
    eject(scene)

    client.call(id=3)

    assert client.tracked == 1
    assert "is not taking calls" in client.wire.take_one()["error"]["message"]


def test_an_answer_on_the_track_forgives_what_failed_before(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    client = Client(scene, by(LEGACY))
    client.prime()
    for _ in range(FAILURES_MAX - 1):
        scene.begin()
        scene.server.connection.settle(scene.server.channel.calls[-1], BAD)

    client.call(id=2)
    client.hear(plain_result(scene))

    assert client.tracked == 1
    assert scene.server.health.breaker.failures == 0


def test_a_call_that_is_lost_on_the_track_is_made_once_more_too(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    client = Client(scene, by(LEGACY))
    client.prime()
    client.call({"name": "s__echo", "arguments": {"n": 7}}, 2)
    assert client.tracked == 1

    scene.server.connection.settle(scene.server.channel.calls[-1], UNSENT)
    scene.clock.pass_by()

    first, second = (json.loads(frame)["params"] for frame in client.frames[-2:])
    assert first == second == {"name": "echo", "arguments": {"n": 7}}
    client.hear(plain_result(scene))
    assert client.wire.take_one()["id"] == 2


def test_a_session_with_a_connection_of_its_own_gets_another(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    asked = trial.begin(params={"name": "s__look"}, by=caller(FakeSession("mine")))

    trial.lose()
    trial.clock.pass_by()

    assert [key.owner for key in trial.server.leased] == ["mine", "mine"]
    assert asked.told == []

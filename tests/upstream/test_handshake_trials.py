"""Whether a modern server is asked for a handshake for a client's sake."""

import pytest

from anyport.protocol.principal import LOCAL
from anyport.upstream.handshake_trials import (
    CLIENT_KINDS_MAX,
    FAILED_CLIENTS_MAX,
    SIMILAR_CLIENTS_SECONDS_MAX,
    SUCCESS_VALID_SECONDS,
    TRIAL_SECONDS_MAX,
    TRIAL_SECONDS_MIN,
    TRIALS_OF_ONE_MAX,
    HandshakeTrials,
    handshake_seconds_max,
)
from anyport.upstream.lease_key import LeaseKey, owner_of_sessions

ODD, ANOTHER = LeaseKey(owner="odd"), LeaseKey(owner="another")


def asked() -> HandshakeTrials:
    trials = HandshakeTrials()
    trials.on_server_started(automatic=True)
    return trials


def test_a_server_whose_era_was_chosen_or_is_not_known_is_not_asked() -> None:
    trials = HandshakeTrials()
    assert not trials.may_try(ODD, 0.0)
    trials.on_server_started(automatic=False)
    assert not trials.may_try(ODD, 0.0)
    trials.on_server_started(automatic=True)
    assert trials.may_try(ODD, 0.0)


def test_a_failure_concerns_its_client_alone_and_is_tried_again() -> None:
    trials = asked()
    trials.on_failure(ODD, "the server said 503", 0.0, refused=False)

    assert not trials.may_try(ODD, 0.0)
    assert trials.may_try(ANOTHER, 0.0)
    assert trials.warning is not None
    assert "1 client is" in trials.warning
    assert "the server said 503" in trials.warning
    assert trials.may_try(ODD, TRIAL_SECONDS_MIN)
    trials.open.add(ODD)
    trials.on_success(ODD, 1.0)
    assert trials.warning is None


def test_it_is_tried_ever_more_rarely_and_not_for_ever() -> None:
    trials, now, waits = asked(), 0.0, []
    for _ in range(TRIALS_OF_ONE_MAX):
        assert trials.may_try(ODD, now)
        trials.on_failure(ODD, "no", now, refused=False)
        wait = next(
            (wait for wait in (1.0, 4.0, 16.0, 64.0, 256.0) if trials.may_try(ODD, now + wait)),
            TRIAL_SECONDS_MAX,
        )
        waits.append(wait)
        now += wait

    assert waits == [1.0, 4.0, 16.0, 64.0, 256.0, TRIAL_SECONDS_MAX]
    assert not trials.may_try(ODD, now + 10 * TRIAL_SECONDS_MAX)
    trials.forget("odd")
    assert trials.may_try(ODD, now)


def test_for_those_who_share_a_connection_it_is_tried_for_ever() -> None:
    trials, now = asked(), 0.0
    everyones = LeaseKey(owner=owner_of_sessions(LOCAL), principal=LOCAL, legacy=True)
    for _ in range(2 * TRIALS_OF_ONE_MAX):
        assert trials.may_try(everyones, now)
        trials.on_failure(everyones, "no", now, refused=False)
        assert trials.may_ever_try(everyones)
        now += TRIAL_SECONDS_MAX
    assert "clients that cannot be asked are" in (trials.warning or "")

    trials.on_failure(ODD, "no", now, refused=False)
    assert "1 client is" in (trials.warning or "")
    trials.on_failure(everyones, "no such method", now, refused=True)
    assert not trials.may_ever_try(everyones)


def test_one_that_is_not_answered_is_tried_more_rarely_still() -> None:
    trials, now, waits = asked(), 0.0, []
    while trials.may_try(ODD, now):
        trials.on_failure(ODD, "it did not answer", now, refused=False, silent=True)
        now += next((wait for wait in (1.0, 16.0) if trials.may_try(ODD, now + wait)), 1e6)
        waits.append(now)

    assert waits == [16.0, 16.0 + 1e6], "each has cost a call some time"


@pytest.mark.parametrize(
    ("began", "call", "seconds"), [(0.5, 60.0, 4.0), (5.0, 60.0, 10.0), (0.5, 3.0, 1.5)]
)
def test_a_handshake_may_take_as_long_as_the_server_needs_but_not_all_of_a_call(
    began: float, call: float, seconds: float
) -> None:
    assert handshake_seconds_max(began, call) == seconds


def client(name: str, capabilities: bytes = b"{}") -> LeaseKey:
    return LeaseKey(owner=name, capabilities=capabilities)


def fail_for(trials: HandshakeTrials, count: int, now: float, capabilities: bytes = b"{}") -> None:
    for number in range(count):
        key = client(f"{capabilities!r} {now} {number}", capabilities)
        trials.on_failure(key, "no", now, refused=False)


def works_for(trials: HandshakeTrials, key: LeaseKey, now: float) -> None:
    trials.open.add(key)
    trials.on_success(key, now)


def test_where_it_fails_for_everybody_those_who_come_take_turns() -> None:
    trials = asked()
    for number in range(FAILED_CLIENTS_MAX):
        assert trials.may_try(ANOTHER, 0.0)
        trials.on_failure(client(f"{number}"), "no", 0.0, refused=False)

    assert not trials.may_try(ANOTHER, 0.0)
    assert trials.may_try(ANOTHER, TRIAL_SECONDS_MIN)


def test_a_turn_comes_soon_however_many_had_theirs_in_vain() -> None:
    trials, now = asked(), 0.0
    fail_for(trials, 1000, now)
    for number in range(20):
        assert not trials.may_try(ANOTHER, now)
        now += SIMILAR_CLIENTS_SECONDS_MAX
        assert trials.may_try(ANOTHER, now)
        trials.on_failure(client(f"{number}"), "no", now, refused=False)


def test_odd_clients_keep_none_from_being_tried_who_declare_something_else() -> None:
    trials = asked()
    fail_for(trials, 100, 0.0, b'{"odd":{}}')

    assert trials.may_try(ANOTHER, 0.0)
    assert not trials.may_try(client("one more", b'{"odd":{}}'), 0.0)


def test_where_it_has_worked_for_one_client_the_server_can() -> None:
    trials = asked()
    works_for(trials, client("sound"), 0.0)
    fail_for(trials, 100, 1.0)
    assert trials.may_try(ANOTHER, 1.0)
    assert trials.may_try(ANOTHER, SUCCESS_VALID_SECONDS)

    fail_for(trials, FAILED_CLIENTS_MAX, SUCCESS_VALID_SECONDS + 1)
    assert not trials.may_try(ANOTHER, SUCCESS_VALID_SECONDS + 1)
    works_for(trials, client("sound"), SUCCESS_VALID_SECONDS + 2)
    assert trials.may_try(ANOTHER, SUCCESS_VALID_SECONDS + 2)


def test_a_client_for_whom_it_fails_again_and_again_delays_nobody() -> None:
    trials, now = asked(), 0.0
    for _ in range(TRIALS_OF_ONE_MAX):
        trials.on_failure(ODD, "no", now, refused=False)
        assert trials.may_try(ANOTHER, now)


def test_clients_of_many_kinds_are_not_all_remembered() -> None:
    trials = asked()
    for number in range(CLIENT_KINDS_MAX + 1):
        fail_for(trials, FAILED_CLIENTS_MAX, 0.0, b'{"%d":{}}' % number)

    assert trials.may_try(client("of the first kind", b'{"0":{}}'), 0.0)
    assert not trials.may_try(client("of the last kind", b'{"%d":{}}' % CLIENT_KINDS_MAX), 0.0)


def test_one_that_keeps_no_session_is_asked_for_a_handshake_where_there_is_nobody_to_ask() -> None:
    trials = asked()
    askable = LeaseKey(owner="askable", interactive=True)
    trials.keeps_no_session(askable)

    assert not trials.may_try(askable, 1e9)
    assert trials.may_try(ANOTHER, 0.0)
    assert trials.warning is None
    trials.on_server_started(automatic=True)
    assert trials.may_try(askable, 0.0)


def test_a_server_that_says_that_it_has_no_handshake_is_asked_no_more() -> None:
    trials = asked()
    trials.on_failure(ODD, "no such method", 0.0, refused=True)

    assert not trials.may_try(ODD, 1e9)
    assert not trials.may_try(ANOTHER, 1e9)
    assert trials.warning is None, "that is as it should be"
    trials.on_server_started(automatic=True)
    assert trials.may_try(ODD, 0.0)

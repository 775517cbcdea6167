"""When a server gets no calls, told without a clock that ticks."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from anyport.protocol.errors import Situation, Timeout
from anyport.protocol.revisions import Revision
from anyport.upstream.circuit_breaker import (
    COMMON_CAUSE_SECONDS,
    FAILURES_MAX,
    JITTER,
    OPEN_SECONDS,
    OPEN_SECONDS_MAX,
    PROBING_SECONDS,
    RETRY_AFTER_SECONDS_MAX,
    CallAdmitted,
    CallRejected,
    CircuitBreaker,
    HealthProbe,
)
from anyport.upstream.pending_call import Answer, CallOutcome, NoAnswer
from anyport.wire.jsonrpc import Result
from tests.upstream.fakes import LEGACY, MODERN, FakeClock, connected, say

MIDDLE = 0.5
"""Of all chances, the one without jitter."""


def failing(breaker: CircuitBreaker, now: float = 0.0, times: int = FAILURES_MAX) -> CircuitBreaker:
    """So many calls have failed, and it has opened if it had to."""
    for _ in range(times):
        if breaker.on_failure(now, "no answer", now):
            breaker.open(now, MIDDLE)
    return breaker


def turned(breaker: CircuitBreaker, now: float) -> CallRejected:
    entry = breaker.admit(now)
    assert isinstance(entry, CallRejected)
    return entry


def test_calls_go_through_until_five_have_failed_in_a_row() -> None:
    breaker = failing(CircuitBreaker(), times=FAILURES_MAX - 1)
    assert (breaker.is_restricting, breaker.admit(0.0)) == (False, CallAdmitted.FREE)

    failing(breaker, times=1)

    assert breaker.is_restricting and breaker.is_open
    entry = turned(breaker, 10.0)
    assert entry.situation is Situation.EJECTED
    assert entry.seconds == 20.0
    words = "5 calls in a row failed (last: no answer); it is tried again in 20 s"
    assert entry.reason == words


def test_one_answer_among_failures_is_enough() -> None:
    breaker = failing(CircuitBreaker(), times=FAILURES_MAX - 1)

    assert not breaker.on_success(0.0)

    failing(breaker, times=FAILURES_MAX - 1)
    assert not breaker.is_restricting


def test_half_open_lets_one_call_through_and_its_answer_closes() -> None:
    breaker = failing(CircuitBreaker())

    assert breaker.admit(OPEN_SECONDS) is CallAdmitted.PROBE
    others = turned(breaker, OPEN_SECONDS)
    assert others.reason.endswith("it is being tried now")
    assert others.seconds == PROBING_SECONDS

    assert breaker.on_success(31.0)
    assert (breaker.is_restricting, breaker.failures, breaker.admit(31.0)) == (
        False,
        0,
        CallAdmitted.FREE,
    )


def test_a_probe_that_fails_opens_again_for_longer() -> None:
    breaker = failing(CircuitBreaker())
    now = 0.0
    for times in range(2, 15):
        now += 1_000.0
        assert breaker.admit(now) is CallAdmitted.PROBE
        assert breaker.on_probe_failure("still nothing")
        assert breaker.open(now, MIDDLE) == min(OPEN_SECONDS * times, OPEN_SECONDS_MAX)
        assert "last: still nothing" in turned(breaker, now).reason


def test_a_probe_that_tells_nothing_leaves_its_place_to_the_next() -> None:
    breaker = failing(CircuitBreaker())
    breaker.admit(OPEN_SECONDS)

    breaker.release_probe()

    assert breaker.reason(OPEN_SECONDS).endswith("the next call tries it again")
    assert breaker.admit(OPEN_SECONDS) is CallAdmitted.PROBE


def test_an_answer_to_an_earlier_call_closes_it_and_the_probe_decides_nothing_more() -> None:
    breaker = failing(CircuitBreaker())
    breaker.admit(OPEN_SECONDS)
    assert breaker.on_success(OPEN_SECONDS)

    assert not breaker.on_probe_failure("late")
    assert breaker.admit(OPEN_SECONDS) is CallAdmitted.FREE


def test_what_was_asked_before_says_nothing_of_now() -> None:
    breaker = failing(CircuitBreaker())
    breaker.on_success(10.0)

    for _ in range(FAILURES_MAX):
        assert not breaker.on_failure(60.0, "it timed out", 9.0)

    assert breaker.failures == 0


def test_servers_that_failed_together_are_not_tried_together() -> None:
    seconds = [failing(CircuitBreaker()).open(0.0, chance) for chance in (0.0, MIDDLE, 1.0)]

    assert seconds == [60.0 * (1 - JITTER), 60.0, 60.0 * (1 + JITTER)]


def test_all_calls_of_a_process_that_dies_are_one_failure() -> None:
    breaker = CircuitBreaker()
    for _ in range(1000):
        breaker.on_failure(1.0, "killed", 0.0, CallOutcome.CONNECTION_LOST)
    assert breaker.failures == 1

    breaker.on_failure(1.0 + COMMON_CAUSE_SECONDS, "killed", 0.0, CallOutcome.CONNECTION_LOST)

    assert breaker.failures == 2, "the next accident is another"


def test_the_gateways_own_probe_shows_that_a_server_is_there_but_not_that_it_works() -> None:
    breaker = failing(CircuitBreaker())
    breaker.admit(OPEN_SECONDS)

    assert breaker.on_success(OPEN_SECONDS, own=True)

    assert (breaker.is_restricting, breaker.admit(31.0)) == (False, CallAdmitted.FREE)
    assert breaker.on_failure(32.0, "no answer", 31.0), "one failure is enough"
    assert breaker.open(32.0, MIDDLE) == 2 * OPEN_SECONDS


def test_a_call_that_works_after_it_forgives_everything() -> None:
    breaker = failing(CircuitBreaker())
    breaker.admit(OPEN_SECONDS)
    breaker.on_success(OPEN_SECONDS, own=True)

    breaker.on_success(31.0)

    failing(breaker, now=32.0)
    assert turned(breaker, 32.0).seconds == OPEN_SECONDS


def test_only_a_row_in_which_nothing_came_through_is_one_of_a_server_out_of_reach() -> None:
    breaker = CircuitBreaker()
    for _ in range(3):
        breaker.on_failure(0.0, "refused", 0.0, CallOutcome.UNREACHABLE)
    assert breaker.unreachable

    breaker.on_failure(0.0, "no answer", 0.0)
    assert not breaker.unreachable
    breaker.on_failure(0.0, "refused", 0.0, CallOutcome.UNREACHABLE)
    assert not breaker.unreachable

    breaker.on_success(0.0)
    breaker.on_failure(0.0, "refused", 0.0, CallOutcome.UNREACHABLE)
    assert breaker.unreachable


def test_a_probe_that_came_through_shows_that_it_is_in_reach() -> None:
    breaker = CircuitBreaker()
    while not breaker.on_failure(0.0, "refused", 0.0, CallOutcome.UNREACHABLE):
        pass
    breaker.open(0.0, MIDDLE)
    breaker.admit(OPEN_SECONDS)

    breaker.on_probe_failure("HTTP 500")

    assert not breaker.unreachable


def test_a_server_that_says_when_to_come_back_is_left_alone_until_then_and_has_not_failed() -> None:
    breaker = CircuitBreaker()

    breaker.apply_retry_after(0.0, 7.5)

    entry = turned(breaker, 0.5)
    assert (entry.situation, entry.seconds) == (Situation.BUSY, 7.0)
    assert entry.reason == "it was asked too often, and wants to be asked again in 7 s"
    assert not breaker.is_open
    assert breaker.on_success(1.0) is False
    assert breaker.is_restricting, "what it answers to others does not take back its word"
    assert breaker.admit(7.5) is CallAdmitted.FREE
    assert not breaker.is_restricting


def test_but_it_cannot_keep_everybody_away_for_a_day() -> None:
    breaker = CircuitBreaker()

    breaker.apply_retry_after(0.0, 86_400.0)
    breaker.apply_retry_after(0.0, 1.0)

    assert turned(breaker, 0.0).seconds == RETRY_AFTER_SECONDS_MAX


def test_what_is_switched_off_never_opens_but_keeps_the_servers_word() -> None:
    breaker = failing(CircuitBreaker(enabled=False), times=100)
    assert not breaker.is_restricting

    breaker.apply_retry_after(0.0, 5.0)

    assert turned(breaker, 0.0).situation is Situation.BUSY


class Model(RuleBasedStateMachine):
    """A breaker beside the few sentences that say what it does."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker = CircuitBreaker()
        self.now = 0.0
        self.row = 0
        self.until: float | None = None
        self.probing = False

    @rule(seconds=st.floats(0.3, 400.0))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(chance=st.floats(0.0, 1.0))
    def a_call_fails(self, chance: float) -> None:
        opens = self.breaker.on_failure(self.now, "no", self.now)
        if self.until is None:
            self.row += 1
            assert opens is (self.row >= FAILURES_MAX)
        else:
            assert not opens, "what fails while it is open was asked before"
        if opens:
            self._open(chance)

    @rule()
    def a_call_is_answered(self) -> None:
        assert self.breaker.on_success(self.now) is (self.until is not None)
        self.row, self.until, self.probing = 0, None, False

    @rule()
    def a_call_comes(self) -> None:
        entry = self.breaker.admit(self.now)
        if self.until is None:
            assert entry is CallAdmitted.FREE
        elif self.now < self.until or self.probing:
            assert isinstance(entry, CallRejected)
            assert entry.situation is Situation.EJECTED
            assert 0 < entry.seconds <= OPEN_SECONDS_MAX * (1 + JITTER)
        else:
            assert entry is CallAdmitted.PROBE
            self.probing = True

    @precondition(lambda self: self.probing)
    @rule(chance=st.floats(0.0, 1.0))
    def the_probe_fails(self, chance: float) -> None:
        assert self.breaker.on_probe_failure("no")
        self._open(chance)

    @precondition(lambda self: self.probing)
    @rule()
    def the_probe_is_given_up(self) -> None:
        self.breaker.release_probe()
        self.probing = False

    @invariant()
    def it_is_shut_while_it_is_open(self) -> None:
        assert self.breaker.is_restricting is self.breaker.is_open is (self.until is not None)
        assert bool(self.breaker.failures) is bool(self.row or self.until is not None)

    def _open(self, chance: float) -> None:
        seconds = self.breaker.open(self.now, chance)
        assert OPEN_SECONDS * (1 - JITTER) <= seconds <= OPEN_SECONDS_MAX * (1 + JITTER)
        self.until, self.probing = self.now + seconds, False


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


class Scene:
    """A probe in progress."""

    def __init__(self, revision: Revision, lost: str | None = None) -> None:
        self.clock = FakeClock()
        self.answers: list[Answer] = []
        self.connection, self.channel, self.listener = connected(revision)
        if lost is not None:
            self.connection.end(lost)
        peer = self.connection.peer
        assert peer is not None
        HealthProbe(self.connection, peer, self.clock, self.answers.append).send(5.0)

    @property
    def sent(self) -> list[Any]:
        return [message["method"] for message in self.channel.sent]


@pytest.mark.parametrize(
    ("revision", "method"),
    [(LEGACY, "ping"), (MODERN, "server/discover")],
    ids=["legacy", "modern"],
)
def test_each_era_has_its_own_question(revision: Revision, method: str) -> None:
    scene = Scene(revision)
    assert scene.sent == [method]
    about = scene.channel.sent[0].get("params", {}).get("_meta", {})
    assert bool(about) is (revision is MODERN), "a modern request says everything"

    say(scene.connection, id=scene.channel.sent[0]["id"], result={"a": 1})

    (answer,) = scene.answers
    assert isinstance(answer, Result)
    assert scene.listener.own_requests == [method]


def test_it_is_given_up_after_its_time_and_told_once() -> None:
    scene = Scene(LEGACY)
    ((seconds, give_up),) = scene.clock.timers

    give_up()
    give_up()
    say(scene.connection, id=scene.channel.sent[0]["id"], result={})

    assert seconds == 5.0
    words = "it did not answer ping within 5 s"
    assert scene.answers == [NoAnswer(words, outcome=CallOutcome.BAD, timeout=Timeout.TOTAL)]
    assert scene.sent == ["ping", "notifications/cancelled"]


def test_one_that_was_answered_is_not_given_up() -> None:
    scene = Scene(LEGACY)
    say(scene.connection, id=scene.channel.sent[0]["id"], result={})

    scene.clock.timers[0][1]()

    assert len(scene.answers) == 1
    assert scene.sent == ["ping"]


def test_a_connection_that_is_gone_is_told_at_once() -> None:
    scene = Scene(LEGACY, lost="exit code 1")

    (answer,) = scene.answers
    assert isinstance(answer, NoAnswer)
    assert answer.reason == "exit code 1"
    assert scene.clock.timers == []


def test_it_does_not_count_as_use() -> None:
    assert Scene(LEGACY).connection.own_requests == 1

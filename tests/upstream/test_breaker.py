"""When a server gets no calls, told without a clock that ticks."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from anyport.protocol.errors import Situation
from anyport.upstream.breaker import (
    ACCIDENT_SECONDS,
    FAILURES_MAX,
    JITTER,
    OPEN_SECONDS,
    OPEN_SECONDS_MAX,
    TRYING_SECONDS,
    WAIT_SECONDS_MAX,
    Breaker,
    Passed,
    Turned,
)
from anyport.upstream.sign import Sign

MIDDLE = 0.5
"""Of all chances, the one without jitter."""


def failing(breaker: Breaker, now: float = 0.0, times: int = FAILURES_MAX) -> Breaker:
    """So many calls have failed, and it has opened if it had to."""
    for _ in range(times):
        if breaker.failed(now, "no answer", now):
            breaker.open(now, MIDDLE)
    return breaker


def turned(breaker: Breaker, now: float) -> Turned:
    entry = breaker.admit(now)
    assert isinstance(entry, Turned)
    return entry


def test_calls_go_through_until_five_have_failed_in_a_row() -> None:
    breaker = failing(Breaker(), times=FAILURES_MAX - 1)
    assert (breaker.shut, breaker.admit(0.0)) == (False, Passed.FREE)

    failing(breaker, times=1)

    assert breaker.shut and breaker.is_open
    entry = turned(breaker, 10.0)
    assert entry.situation is Situation.EJECTED
    assert entry.seconds == 20.0
    words = "5 calls in a row failed (last: no answer); it is tried again in 20 s"
    assert entry.reason == words


def test_one_answer_among_failures_is_enough() -> None:
    breaker = failing(Breaker(), times=FAILURES_MAX - 1)

    assert not breaker.succeeded(0.0)

    failing(breaker, times=FAILURES_MAX - 1)
    assert not breaker.shut


def test_half_open_lets_one_call_through_and_its_answer_closes() -> None:
    breaker = failing(Breaker())

    assert breaker.admit(OPEN_SECONDS) is Passed.PROBE
    others = turned(breaker, OPEN_SECONDS)
    assert others.reason.endswith("it is being tried now")
    assert others.seconds == TRYING_SECONDS

    assert breaker.succeeded(31.0)
    assert (breaker.shut, breaker.failures, breaker.admit(31.0)) == (False, 0, Passed.FREE)


def test_a_probe_that_fails_opens_again_for_longer() -> None:
    breaker = failing(Breaker())
    now = 0.0
    for times in range(2, 15):
        now += 1_000.0
        assert breaker.admit(now) is Passed.PROBE
        assert breaker.probe_failed("still nothing")
        assert breaker.open(now, MIDDLE) == min(OPEN_SECONDS * times, OPEN_SECONDS_MAX)
        assert "last: still nothing" in turned(breaker, now).reason


def test_a_probe_that_tells_nothing_leaves_its_place_to_the_next() -> None:
    breaker = failing(Breaker())
    breaker.admit(OPEN_SECONDS)

    breaker.release()

    assert breaker.reason(OPEN_SECONDS).endswith("the next call tries it again")
    assert breaker.admit(OPEN_SECONDS) is Passed.PROBE


def test_an_answer_to_an_earlier_call_closes_it_and_the_probe_decides_nothing_more() -> None:
    breaker = failing(Breaker())
    breaker.admit(OPEN_SECONDS)
    assert breaker.succeeded(OPEN_SECONDS)

    assert not breaker.probe_failed("late")
    assert breaker.admit(OPEN_SECONDS) is Passed.FREE


def test_what_was_asked_before_says_nothing_of_now() -> None:
    breaker = failing(Breaker())
    breaker.succeeded(10.0)

    for _ in range(FAILURES_MAX):
        assert not breaker.failed(60.0, "it timed out", 9.0)

    assert breaker.failures == 0


def test_servers_that_failed_together_are_not_tried_together() -> None:
    seconds = [failing(Breaker()).open(0.0, chance) for chance in (0.0, MIDDLE, 1.0)]

    assert seconds == [60.0 * (1 - JITTER), 60.0, 60.0 * (1 + JITTER)]


def test_all_calls_of_a_process_that_dies_are_one_failure() -> None:
    breaker = Breaker()
    for _ in range(1000):
        breaker.failed(1.0, "killed", 0.0, Sign.ACCIDENT)
    assert breaker.failures == 1

    breaker.failed(1.0 + ACCIDENT_SECONDS, "killed", 0.0, Sign.ACCIDENT)

    assert breaker.failures == 2, "the next accident is another"


def test_the_gateways_own_probe_shows_that_a_server_is_there_but_not_that_it_works() -> None:
    breaker = failing(Breaker())
    breaker.admit(OPEN_SECONDS)

    assert breaker.succeeded(OPEN_SECONDS, own=True)

    assert (breaker.shut, breaker.admit(31.0)) == (False, Passed.FREE)
    assert breaker.failed(32.0, "no answer", 31.0), "one failure is enough"
    assert breaker.open(32.0, MIDDLE) == 2 * OPEN_SECONDS


def test_a_call_that_works_after_it_forgives_everything() -> None:
    breaker = failing(Breaker())
    breaker.admit(OPEN_SECONDS)
    breaker.succeeded(OPEN_SECONDS, own=True)

    breaker.succeeded(31.0)

    failing(breaker, now=32.0)
    assert turned(breaker, 32.0).seconds == OPEN_SECONDS


def test_only_a_row_in_which_nothing_came_through_is_one_of_a_server_out_of_reach() -> None:
    breaker = Breaker()
    for _ in range(3):
        breaker.failed(0.0, "refused", 0.0, Sign.UNREACHED)
    assert breaker.unreached

    breaker.failed(0.0, "no answer", 0.0)
    assert not breaker.unreached
    breaker.failed(0.0, "refused", 0.0, Sign.UNREACHED)
    assert not breaker.unreached

    breaker.succeeded(0.0)
    breaker.failed(0.0, "refused", 0.0, Sign.UNREACHED)
    assert breaker.unreached


def test_a_probe_that_came_through_shows_that_it_is_in_reach() -> None:
    breaker = Breaker()
    while not breaker.failed(0.0, "refused", 0.0, Sign.UNREACHED):
        pass
    breaker.open(0.0, MIDDLE)
    breaker.admit(OPEN_SECONDS)

    breaker.probe_failed("HTTP 500")

    assert not breaker.unreached


def test_a_server_that_says_when_to_come_back_is_left_alone_until_then_and_has_not_failed() -> None:
    breaker = Breaker()

    breaker.hold(0.0, 7.5)

    entry = turned(breaker, 0.5)
    assert (entry.situation, entry.seconds) == (Situation.BUSY, 7.0)
    assert entry.reason == "it was asked too often, and wants to be asked again in 7 s"
    assert not breaker.is_open
    assert breaker.succeeded(1.0) is False
    assert breaker.shut, "what it answers to others does not take back its word"
    assert breaker.admit(7.5) is Passed.FREE
    assert not breaker.shut


def test_but_it_cannot_keep_everybody_away_for_a_day() -> None:
    breaker = Breaker()

    breaker.hold(0.0, 86_400.0)
    breaker.hold(0.0, 1.0)

    assert turned(breaker, 0.0).seconds == WAIT_SECONDS_MAX


def test_what_is_switched_off_never_opens_but_keeps_the_servers_word() -> None:
    breaker = failing(Breaker(enabled=False), times=100)
    assert not breaker.shut

    breaker.hold(0.0, 5.0)

    assert turned(breaker, 0.0).situation is Situation.BUSY


class Model(RuleBasedStateMachine):
    """A breaker beside the few sentences that say what it does."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker()
        self.now = 0.0
        self.row = 0
        self.until: float | None = None
        self.probing = False

    @rule(seconds=st.floats(0.3, 400.0))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(chance=st.floats(0.0, 1.0))
    def a_call_fails(self, chance: float) -> None:
        opens = self.breaker.failed(self.now, "no", self.now)
        if self.until is None:
            self.row += 1
            assert opens is (self.row >= FAILURES_MAX)
        else:
            assert not opens, "what fails while it is open was asked before"
        if opens:
            self._open(chance)

    @rule()
    def a_call_is_answered(self) -> None:
        assert self.breaker.succeeded(self.now) is (self.until is not None)
        self.row, self.until, self.probing = 0, None, False

    @rule()
    def a_call_comes(self) -> None:
        entry = self.breaker.admit(self.now)
        if self.until is None:
            assert entry is Passed.FREE
        elif self.now < self.until or self.probing:
            assert isinstance(entry, Turned)
            assert entry.situation is Situation.EJECTED
            assert 0 < entry.seconds <= OPEN_SECONDS_MAX * (1 + JITTER)
        else:
            assert entry is Passed.PROBE
            self.probing = True

    @precondition(lambda self: self.probing)
    @rule(chance=st.floats(0.0, 1.0))
    def the_probe_fails(self, chance: float) -> None:
        assert self.breaker.probe_failed("no")
        self._open(chance)

    @precondition(lambda self: self.probing)
    @rule()
    def the_probe_is_given_up(self) -> None:
        self.breaker.release()
        self.probing = False

    @invariant()
    def it_is_shut_while_it_is_open(self) -> None:
        assert self.breaker.shut is self.breaker.is_open is (self.until is not None)
        assert bool(self.breaker.failures) is bool(self.row or self.until is not None)

    def _open(self, chance: float) -> None:
        seconds = self.breaker.open(self.now, chance)
        assert OPEN_SECONDS * (1 - JITTER) <= seconds <= OPEN_SECONDS_MAX * (1 + JITTER)
        self.until, self.probing = self.now + seconds, False


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)

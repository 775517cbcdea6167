"""When a call has taken too long, and when it merely takes a while."""

import pytest

from anyport.gateway.deadlines import (
    ASKING_SECONDS_MAX,
    CALL_SECONDS_MAX,
    LINGER_SECONDS,
    Deadlines,
    Term,
)
from anyport.protocol.exchange import Question
from tests.gateway.fakes import Asked


class Written(Term):
    """A term that writes down what it is told."""

    __slots__ = ("told",)

    def __init__(self, call: Asked, seconds: float = 60.0, now: float = 0.0) -> None:
        super().__init__(call.exchange, seconds, now)
        self.told: list[str] = []

    def overdue(self) -> None:
        self.told.append("overdue")

    def linger(self) -> None:
        self.told.append("lingers")

    @property
    def is_overdue(self) -> bool:
        return "overdue" in self.told


@pytest.fixture
def call() -> Asked:
    return Asked()


def started(call: Asked, seconds: float = 60.0) -> tuple[Deadlines, Written]:
    deadlines, term = Deadlines(), Written(call, seconds)
    deadlines.start(term)
    return deadlines, term


def test_a_call_is_due_when_its_time_is_up_and_only_once(call: Asked) -> None:
    deadlines, term = started(call)

    deadlines.sweep(59.9)
    assert not term.is_overdue
    deadlines.sweep(60.0)
    deadlines.sweep(61.0)

    assert term.told == ["lingers", "overdue"]
    assert len(deadlines) == 0


def test_a_call_that_takes_a_while_is_told_once(call: Asked) -> None:
    deadlines, term = started(call)

    deadlines.sweep(LINGER_SECONDS - 0.01)
    assert term.told == []
    deadlines.sweep(LINGER_SECONDS)
    deadlines.sweep(LINGER_SECONDS + 1)

    assert term.told == ["lingers"]


def test_progress_starts_the_time_anew_but_not_for_ever(call: Asked) -> None:
    deadlines, term = started(call)
    for now in range(50, int(CALL_SECONDS_MAX), 50):
        term.extend(now)
        deadlines.sweep(now + 1)
    assert not term.is_overdue

    term.extend(CALL_SECONDS_MAX - 1)
    deadlines.sweep(CALL_SECONDS_MAX)

    assert term.is_overdue


def test_a_longer_time_may_be_configured_than_the_usual_limit(call: Asked) -> None:
    deadlines, term = started(call, 3000.0)

    deadlines.sweep(2999)
    assert not term.is_overdue
    deadlines.sweep(3000)
    assert term.is_overdue


def test_a_call_that_has_ended_is_never_due(call: Asked) -> None:
    deadlines, term = started(call)

    deadlines.clear(call.exchange)
    deadlines.clear(call.exchange)
    deadlines.sweep(1000)

    assert term.told == []


def test_two_calls_that_look_the_same_have_terms_of_their_own() -> None:
    deadlines, first, second = Deadlines(), Written(Asked(), 10), Written(Asked(), 20)
    deadlines.start(first)
    deadlines.start(second)

    deadlines.sweep(10)

    assert (first.is_overdue, second.is_overdue) == (True, False)
    assert len(deadlines) == 1


def test_the_time_in_which_a_person_is_asked_does_not_count(call: Asked) -> None:
    deadlines, term = started(call)
    question = Question("elicitation/create", None, lambda _: None)
    call.exchange.questions += (question,)
    for now in range(0, 500, 10):
        deadlines.sweep(now)
    assert not term.is_overdue

    question.withdraw()
    deadlines.sweep(549)
    assert not term.is_overdue
    deadlines.sweep(550)
    assert term.is_overdue


def test_a_person_who_never_answers_does_not_keep_a_call_for_ever(call: Asked) -> None:
    deadlines, term = started(call)
    call.exchange.questions += (Question("elicitation/create", None, lambda _: None),)

    for now in range(0, int(ASKING_SECONDS_MAX) + 1, 10):
        deadlines.sweep(now)

    assert term.is_overdue


def test_a_call_may_end_others_while_it_is_being_swept(call: Asked) -> None:
    deadlines = Deadlines()
    other = Written(Asked(), 10)

    class Ending(Written):
        def overdue(self) -> None:
            super().overdue()
            deadlines.clear(other.exchange)

    term = Ending(call, 10)
    deadlines.start(term)
    deadlines.start(other)

    deadlines.sweep(10)

    assert term.is_overdue
    assert other.told == []

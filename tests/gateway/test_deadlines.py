"""When a call has taken too long."""

import pytest

from anyport.gateway.deadlines import ASKING_SECONDS_MAX, CALL_SECONDS_MAX, Deadlines
from anyport.protocol.exchange import Question
from tests.gateway.fakes import Asked


@pytest.fixture
def call() -> Asked:
    return Asked()


def started(call: Asked, seconds: float = 60.0) -> tuple[Deadlines, list[str]]:
    deadlines, due = Deadlines(), list[str]()
    deadlines.start(call.exchange, seconds, 0.0, lambda: due.append("due"))
    return deadlines, due


def test_a_call_is_due_when_its_time_is_up_and_only_once(call: Asked) -> None:
    deadlines, due = started(call)

    deadlines.sweep(59.9)
    assert due == []
    deadlines.sweep(60.0)
    deadlines.sweep(61.0)

    assert due == ["due"]
    assert len(deadlines) == 0


def test_progress_starts_the_time_anew_but_not_for_ever(call: Asked) -> None:
    deadlines, due = started(call)
    for now in range(50, int(CALL_SECONDS_MAX), 50):
        deadlines.extend(call.exchange, now)
        deadlines.sweep(now + 1)
    assert due == []

    deadlines.extend(call.exchange, CALL_SECONDS_MAX - 1)
    deadlines.sweep(CALL_SECONDS_MAX)

    assert due == ["due"]


def test_a_longer_time_may_be_configured_than_the_usual_limit(call: Asked) -> None:
    deadlines, due = started(call, 3000.0)

    deadlines.sweep(2999)
    assert due == []
    deadlines.sweep(3000)
    assert due == ["due"]


def test_a_call_that_has_ended_is_never_due(call: Asked) -> None:
    deadlines, due = started(call)

    deadlines.clear(call.exchange)
    deadlines.clear(call.exchange)
    deadlines.extend(call.exchange, 10)
    deadlines.sweep(1000)

    assert due == []


def test_the_time_in_which_a_person_is_asked_does_not_count(call: Asked) -> None:
    deadlines, due = started(call)
    question = Question("elicitation/create", None, lambda _: None)
    call.exchange.questions.append(question)
    for now in range(0, 500, 10):
        deadlines.sweep(now)
    assert due == []

    question.withdraw()
    deadlines.sweep(549)
    assert due == []
    deadlines.sweep(550)
    assert due == ["due"]


def test_a_person_who_never_answers_does_not_keep_a_call_for_ever(call: Asked) -> None:
    deadlines, due = started(call)
    call.exchange.questions.append(Question("elicitation/create", None, lambda _: None))

    for now in range(0, int(ASKING_SECONDS_MAX) + 1, 10):
        deadlines.sweep(now)

    assert due == ["due"]

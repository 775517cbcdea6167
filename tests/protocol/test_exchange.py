"""An exchange has one ending, a question one answer, and neither hears anything afterwards."""

import pytest

from anyport.protocol.errors import invalid_params
from anyport.protocol.exchange import Answered, Ending, Failed, Refused
from anyport.wire.frame import Failure, Result
from tests.protocol.fakes import Asked, Wire, exchange

ENDINGS: list[Ending] = [Answered(b"{}"), Refused(b"{}"), Failed(invalid_params("no"))]
ANSWER = Result(b"1", b"{}")


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: type(ending).__name__)
def test_only_the_first_ending_is_told(ending: Ending) -> None:
    made, told = exchange()

    made.end(ending)
    made.end(Answered(b'{"late":true}'))

    assert told == [ending]
    assert made.ended


def test_a_cancelled_exchange_tells_nothing_but_whoever_works_on_it() -> None:
    made, told = exchange()
    reasons: list[bytes | None] = []
    made.on_cancel = reasons.append

    made.cancel(b'"enough"')
    made.cancel(b'"again"')
    made.end(Answered(b"{}"))

    assert reasons == [b'"enough"']
    assert told == []


def test_an_exchange_nobody_works_on_can_be_cancelled() -> None:
    made, told = exchange()

    made.cancel()

    assert made.ended
    assert told == []


def test_an_ended_exchange_cannot_be_cancelled() -> None:
    made, _ = exchange()
    reasons: list[bytes | None] = []
    made.on_cancel = reasons.append
    made.end(Answered(b"{}"))

    made.cancel()

    assert reasons == []


@pytest.mark.parametrize("cancelled", [False, True])
def test_open_questions_end_with_their_exchange(cancelled: bool) -> None:
    made, _ = exchange()
    still_open, answered = Asked(), Asked()
    withdrawn: list[bytes | None] = []
    still_open.question.on_withdrawn = withdrawn.append
    made.questions = (still_open.question, answered.question)
    answered.question.answer(ANSWER)

    if cancelled:
        made.cancel()
    else:
        made.end(Answered(b"{}"))

    assert withdrawn == [None]
    assert still_open.error["message"] == "The call that this belonged to has ended"
    assert answered.answers == [ANSWER]


def test_a_question_takes_one_answer() -> None:
    asked = Asked()

    asked.question.answer(ANSWER)
    asked.question.answer(Failure(b"1", b"{}"))
    asked.question.withdraw()
    asked.question.abandon()

    assert asked.answers == [ANSWER]


def test_a_withdrawn_question_takes_none() -> None:
    asked = Asked()
    withdrawn: list[bytes | None] = []
    asked.question.on_withdrawn = withdrawn.append

    asked.question.withdraw(b'"never mind"')
    asked.question.withdraw()
    asked.question.answer(ANSWER)

    assert withdrawn == [b'"never mind"']
    assert asked.answers == []


def test_a_question_nobody_was_asked_can_be_withdrawn() -> None:
    asked = Asked()

    asked.question.withdraw()

    assert not asked.question.open


def test_an_answer_is_told_by_who_holds_it_where_there_is_one() -> None:
    wire = Wire()
    held: list[tuple[object, ...]] = []
    made, _ = exchange(teller=wire)
    made.give(b"{}")
    assert wire.take_one() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    made.hold = lambda who, frame, code, _: held.append((who, frame, code))
    made.give(b"{}")
    made.deny(b'{"code":1,"message":""}', 1)
    assert wire.take() == []
    assert held == [
        (made, b'{"jsonrpc":"2.0","id":1,"result":{}}', None),
        (made, b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}', 1),
    ]

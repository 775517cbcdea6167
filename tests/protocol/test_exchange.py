"""An exchange has one ending, a question one answer, and nothing follows."""

import pytest

from anyport.protocol.errors import invalid_params
from anyport.protocol.exchange import Answered, Ending, ErrorAnswered, Failed
from anyport.wire.jsonrpc import Failure, Result
from tests.protocol.fakes import FakeQuestion, FakeReplyWriter, exchange

ENDINGS: list[Ending] = [Answered(b"{}"), ErrorAnswered(b"{}"), Failed(invalid_params("no"))]
ANSWER = Result(b"1", b"{}")


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: type(ending).__name__)
def test_only_the_first_ending_is_delivered(ending: Ending) -> None:
    made, events = exchange()

    made.end(ending)
    made.end(Answered(b'{"late":true}'))

    assert events == [ending]
    assert made.ended


def test_a_cancelled_exchange_delivers_nothing_and_calls_on_cancel() -> None:
    made, events = exchange()
    reasons: list[bytes | None] = []
    made.on_cancel = reasons.append

    made.cancel(b'"enough"')
    made.cancel(b'"again"')
    made.end(Answered(b"{}"))

    assert reasons == [b'"enough"']
    assert events == []


def test_an_exchange_without_a_callback_can_be_cancelled() -> None:
    made, events = exchange()

    made.cancel()

    assert made.ended
    assert events == []


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
    still_open, answered = FakeQuestion(), FakeQuestion()
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
    asked = FakeQuestion()

    asked.question.answer(ANSWER)
    asked.question.answer(Failure(b"1", b"{}"))
    asked.question.withdraw()
    asked.question.abandon()

    assert asked.answers == [ANSWER]


def test_a_withdrawn_question_takes_none() -> None:
    asked = FakeQuestion()
    withdrawn: list[bytes | None] = []
    asked.question.on_withdrawn = withdrawn.append

    asked.question.withdraw(b'"never mind"')
    asked.question.withdraw()
    asked.question.answer(ANSWER)

    assert withdrawn == [b'"never mind"']
    assert asked.answers == []


def test_a_question_that_was_not_sent_can_be_withdrawn() -> None:
    asked = FakeQuestion()

    asked.question.withdraw()

    assert not asked.question.open


def test_a_delayed_answer_is_sent_by_the_callback() -> None:
    writer = FakeReplyWriter()
    held: list[tuple[object, ...]] = []
    made, _ = exchange(writer=writer)
    made.send_result(b"{}")
    assert writer.take_one() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    made.delay_answer = lambda who, frame, code, _: held.append((who, frame, code))
    made.send_result(b"{}")
    made.send_error(b'{"code":1,"message":""}', 1)
    assert writer.take() == []
    assert held == [
        (made, b'{"jsonrpc":"2.0","id":1,"result":{}}', None),
        (made, b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}', 1),
    ]

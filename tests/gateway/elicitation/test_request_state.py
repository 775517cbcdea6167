"""What a client brings back."""

import pytest
from msgspec import Raw

from anyport.gateway.elicitation.request_state import answer_questions, input_responses
from anyport.protocol.exchange import Question
from anyport.wire.jsonrpc import Failure, Result
from tests.gateway.fakes import Asked


def test_answers_stand_under_the_names_of_their_questions() -> None:
    asked = Asked(params={"inputResponses": {"q1": {"action": "accept"}}})
    assert input_responses(asked.exchange) == {"q1": Raw(b'{"action":"accept"}')}


@pytest.mark.parametrize("params", [{}, {"inputResponses": []}, {"inputResponses": None}])
def test_what_is_no_object_has_none(params: dict[str, object]) -> None:
    assert input_responses(Asked(params=params).exchange) is None


def test_only_answers_that_fit_are_brought() -> None:
    told: dict[str, Result | Failure] = {}
    questions = {
        name: Question("roots/list", None, lambda frame, name=name: told.update({name: frame}))  # type: ignore[misc]
        for name in ("fits", "does not", "is not there")
    }
    answer_questions({"fits": Raw(b'{"roots":[]}'), "does not": Raw(b"7")}, questions)

    assert told == {"fits": Result(b"", b'{"roots":[]}')}
    assert [name for name, question in questions.items() if question.open] == [
        "does not",
        "is not there",
    ]

"""Errors of the API."""

import json

import pytest

from anyport.gateway.api.problem import problem


def test_a_problem_says_what_happened_and_what_to_do() -> None:
    assert json.loads(problem(400, "limit must be a number")) == {
        "type": "about:blank",
        "title": "Bad Request",
        "status": 400,
        "detail": "limit must be a number",
    }


@pytest.mark.parametrize("status", [404, 405, 500])
def test_what_happens_often_has_its_sentence(status: int) -> None:
    told = json.loads(problem(status))

    assert told["detail"] != told["title"]
    assert " " in told["detail"]

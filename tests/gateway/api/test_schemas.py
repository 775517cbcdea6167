"""The shapes of answers keep up with what they are made from."""

import json

import pytest

from anyport.gateway.api.schemas import Backend, EventAnswer, Monitoring, encode_problem
from anyport.record.event import EventRecord
from tests.gateway.test_status import members_in_the_code


def test_no_member_of_the_status_is_left_out() -> None:
    of_others = {
        *("gateway", "backends", "capabilities", "config", "event_monitoring", "version"),
        *("uptime_s", "profile", "prefix", "separator", "errors", "backend_timeout", "log_level"),
        *("debug", "tools", "resources", "resource_templates", "prompts"),
    }
    shown = {*Backend.__struct_fields__, *Monitoring.__struct_fields__}

    assert shown == members_in_the_code() - of_others


def test_an_event_has_the_fields_that_the_journal_writes() -> None:
    assert EventAnswer.__struct_fields__ == EventRecord.__struct_fields__


# Errors of the API.


def test_a_problem_says_what_happened_and_what_to_do() -> None:
    assert json.loads(encode_problem(400, "limit must be a number")) == {
        "type": "about:blank",
        "title": "Bad Request",
        "status": 400,
        "detail": "limit must be a number",
    }


@pytest.mark.parametrize("status", [404, 405, 500])
def test_what_happens_often_has_its_sentence(status: int) -> None:
    told = json.loads(encode_problem(status))

    assert told["detail"] != told["title"]
    assert " " in told["detail"]

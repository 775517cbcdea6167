"""From raw arguments to a question; what it finds is shown with the events."""

import json

import pytest

from anyport.gateway.local.event_queries import BadQuery
from anyport.gateway.local.gateway_tools import EVENTS_LIMIT_DEFAULT, EVENTS_LIMIT_MAX
from anyport.gateway.local.query_params import IndexQuery, encode_cursor
from anyport.record.filter.ast import Filter

LEFT_OUT = "-type:gateway.exchange,gateway.frame"


def of_tool(**arguments: object) -> IndexQuery:
    return IndexQuery.from_tool_arguments(json.dumps(arguments).encode())


def test_all_arguments_become_one_filter() -> None:
    asked = of_tool(
        trace_id="4BF92F35-77b3-4da6-a3ce-929d0e0e4736",
        event_type="gateway.tool_call",
        status="failure",
        since="2026-07-28T12:00:00Z",
        filter='server:github "rate limit"',
        limit=7,
    )
    assert str(asked.filter) == (
        "trace:4bf92f3577b34da6a3ce929d0e0e4736 type:gateway.tool_call status:failure"
        ' since:2026-07-28T12:00:00.000000+00:00 server:github text:"rate limit"'
    )
    assert (asked.limit, asked.before) == (7, None)


def test_nothing_said_asks_for_what_happened() -> None:
    assert str(of_tool().filter) == LEFT_OUT
    assert of_tool().limit == EVENTS_LIMIT_DEFAULT
    assert str(IndexQuery.from_event_parameters({}).filter) == LEFT_OUT
    assert str(IndexQuery.from_traffic_parameters({}).filter) == "kind:* -status:pending"


@pytest.mark.parametrize(("asked", "given"), [(-1, 1), (0, 1), (10**9, EVENTS_LIMIT_MAX)])
def test_a_limit_is_kept_within_limits(asked: int, given: int) -> None:
    assert of_tool(limit=asked).limit == given
    assert IndexQuery.from_traffic_parameters({"limit": str(asked)}).limit == given


def test_a_cursor_leads_to_its_position() -> None:
    position = (1_785_240_000.250001, 2**62 + 1)
    made = encode_cursor(position)
    assert made is not None
    assert IndexQuery.from_event_parameters({"cursor": made}).before == position
    assert IndexQuery.from_traffic_parameters({"cursor": made}).before == position
    assert encode_cursor(None) is None


def test_what_cannot_be_asked_for_is_named_with_what_can() -> None:
    with pytest.raises(BadQuery, match="There is no 'trace_id' to ask by; there are filter, limit"):
        IndexQuery.from_traffic_parameters({"trace_id": "x"})
    with pytest.raises(BadQuery, match="status must be one of"):
        of_tool(status="good")
    assert isinstance(of_tool(filter="status:error").filter, Filter)


def test_a_limit_that_is_no_number_is_told_in_words() -> None:
    words = "limit must be a whole number, 1 to "
    for asked in ("abc", "1.5", ""):
        with pytest.raises(BadQuery, match=words):
            IndexQuery.from_event_parameters({"limit": asked})
        with pytest.raises(BadQuery, match=words):
            IndexQuery.from_traffic_parameters({"limit": asked})
    with pytest.raises(BadQuery, match=words):
        of_tool(limit="abc")

"""The gateway's own tools as clients see them."""

import json

from anyport.gateway.local.gateway_tools import EVENTS_LIMIT_MAX, GATEWAY_TOOLS


def test_both_are_listed_under_their_plain_names() -> None:
    assert [tool.public for tool in GATEWAY_TOOLS] == ["gateway_status", "get_events"]
    for tool in GATEWAY_TOOLS:
        listed = json.loads(tool.raw)
        assert listed["name"] == tool.native == tool.public
        assert listed["description"]
        assert listed["inputSchema"]["type"] == "object"
        assert tool.slug == ""


def test_get_events_takes_every_way_to_narrow_a_search() -> None:
    schema = json.loads(GATEWAY_TOOLS[1].raw)["inputSchema"]["properties"]

    assert set(schema) == {"trace_id", "event_type", "status", "since", "limit", "filter"}
    assert schema["status"]["enum"] == ["pending", "cancelled", "failure", "success", "timeout"]
    assert schema["limit"]["maximum"] == EVENTS_LIMIT_MAX

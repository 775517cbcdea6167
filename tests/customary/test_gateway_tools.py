"""What a client sees of the gateway itself: its two tools in the list, their answers, a session.

A server called chora stands behind it, with `:` between server and tool.
"""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.customary.examples import Example, assert_same_handshake, read_story
from tests.harness import LineClient, Message
from tests.journeys.scripts import Scripted, gateway, result, rule, said

PROFILE = {"default": {"servers": ["chora"], "separator": ":"}}
SESSION = {example.name: example for example in read_story("session.txt")}
STATUS = {example.name: example for example in read_story("status.txt")}
OWN_TOOLS = ("gateway_status", "get_events")


def printed(example: Example) -> Message:
    message: Message = json.loads(example.hears[-1])
    return message


def native_tool(example: Example) -> Message:
    """The one tool of the server in a printed list, as the server itself lists it."""
    tool: Message = printed(example)["result"]["tools"][2]
    return {**tool, "name": tool["name"].removeprefix("chora:")}


def chora(path: Path, listed: Message) -> Scripted:
    more = ("list_generators", "assemble_artifact", "validate_content")
    offers = [listed, *({"name": name, "inputSchema": {"type": "object"}} for name in more)]
    generators = printed(SESSION["a tool of the server is called"])["result"]
    return Scripted(
        path,
        rule("tools/list", result({"tools": offers})),
        rule("tools/call", result(generators), where={"name": "list_generators"}),
        rule("tools/call", result({"content": []}), where={"name": "generate_content"}),
    )


def say(client: LineClient, example: Example) -> Message:
    client.send(example.says.encode() + b"\n")
    answer = client.next()
    asked = json.loads(example.says)
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", asked["id"])
    return answer


def assert_covers(ours: object, theirs: object, where: str) -> None:
    """Ours has everything that theirs has; lists of words may have more words."""
    if isinstance(theirs, dict):
        assert isinstance(ours, dict), where
        for name, value in theirs.items():
            assert name in ours, f"{where}.{name}"
            assert_covers(ours[name], value, f"{where}.{name}")
    elif isinstance(theirs, list):
        assert isinstance(ours, list), where
        assert all(item in ours for item in theirs), where
    else:
        assert ours == theirs, where


@pytest.fixture
def session(tmp_path: Path) -> Iterator[LineClient]:
    server = chora(tmp_path, native_tool(SESSION["tools are listed"]))
    with gateway(tmp_path, {"chora": server.command}, profiles=PROFILE) as client:
        answer = say(client, SESSION["initialize"])
        assert_same_handshake(answer, printed(SESSION["initialize"]), "initialize")
        confirmed = SESSION["the handshake is confirmed by the short name"]
        client.send(confirmed.says.encode() + b"\n")
        yield client


@pytest.mark.parametrize(
    "example",
    [STATUS["the list begins with the tools of the gateway"], SESSION["tools are listed"]],
)
def test_the_list_begins_with_the_tools_of_the_gateway(tmp_path: Path, example: Example) -> None:
    server = chora(tmp_path, native_tool(example))
    with gateway(tmp_path, {"chora": server.command}, profiles=PROFILE) as client:
        ours = say(client, example)["result"]["tools"]
    theirs = printed(example)["result"]["tools"]
    assert [tool["name"] for tool in ours[:3]] == [tool["name"] for tool in theirs]
    assert ours[2] == theirs[2]
    for own, known in zip(ours, theirs[:2], strict=False):
        assert own["name"] in OWN_TOOLS
        assert own["description"]
        assert_covers(own["inputSchema"], known["inputSchema"], own["name"])


def test_a_prefixed_call_reaches_the_server_under_its_native_name(tmp_path: Path) -> None:
    example = STATUS["a tool of the server is called"]
    server = chora(tmp_path, native_tool(SESSION["tools are listed"]))
    with gateway(tmp_path, {"chora": server.command}, profiles=PROFILE) as client:
        assert say(client, example) == printed(example)
    asked = json.loads(example.says)["params"]
    (heard,) = server.heard("tools/call")
    assert heard["params"] == {**asked, "name": "generate_content"}


def test_a_whole_session_in_order_and_its_end(session: LineClient) -> None:
    listed = say(session, SESSION["tools are listed"])["result"]["tools"]
    assert listed[2] == printed(SESSION["tools are listed"])["result"]["tools"][2]

    status = say(session, SESSION["the status is asked for"])
    check_status(status, printed(SESSION["the status is asked for"]))

    called = SESSION["a tool of the server is called"]
    assert say(session, called) == printed(called)

    events = say(session, SESSION["the record is asked for"])
    check_events(events, printed(SESSION["the record is asked for"]))

    assert session.finish() == 0
    assert len(session.lines) == 5


def check_status(answer: Message, known: Message) -> None:
    """Every member that clients know is there; names, times and settings are our own."""
    assert [block["type"] for block in answer["result"]["content"]] == ["text"]
    ours, theirs = json.loads(said(answer)), json.loads(said(known))
    assert ours["gateway"].keys() >= theirs["gateway"].keys()
    assert ours["gateway"]["name"] == "anyport"
    config = ours["gateway"]["config"]
    for name, value in theirs["gateway"]["config"].items():
        kind = (int, float) if type(value) is int else type(value)
        assert isinstance(config[name], kind), name
    (known_backend,) = theirs["backends"].values()
    assert list(ours["backends"]) == ["chora"]
    assert_covers(ours["backends"]["chora"], known_backend, "backends.chora")


def check_events(answer: Message, known: Message) -> None:
    """An array of one event, with every member that clients know."""
    # Further texts may follow the one that the story knows.
    assert [block["type"] for block in answer["result"]["content"][:1]] == ["text"]
    (ours,), (theirs,) = json.loads(said(answer)), json.loads(said(known))
    assert ours.keys() >= theirs.keys()
    for name in ("status", "event_type"):
        assert ours[name] == theirs[name]
    assert ours["source"] == "anyport"
    assert ours["trace_id"]
    for event in (ours, theirs):
        when = datetime.fromisoformat(event["timestamp"])
        assert when.utcoffset() == timedelta(0)
        assert len(event["timestamp"]) == len("2025-10-21T14:32:10.123456+00:00")


def test_each_filter_of_the_record_filters(session: LineClient) -> None:
    session.call("chora:list_generators")

    def statuses(**arguments: object) -> list[str]:
        events = json.loads(said(session.call("get_events", arguments)))
        return [event["status"] for event in events]

    call = {"event_type": "gateway.tool_call"}
    assert statuses(**call) == ["success"]  # This question itself has not ended yet.
    assert statuses(**call) == ["success", "success"]
    assert len(statuses(**call, limit=1)) == 1
    assert statuses(event_type="gateway.started", since="24h") == ["success"]
    assert statuses(event_type="gateway.started", since="2999-01-01T00:00:00+00:00") == []
    assert statuses(status="failure") == []
    assert statuses(trace_id="550e8400-e29b-41d4-a716-446655440000") == []


def test_a_trace_leads_to_the_one_event_of_a_call(session: LineClient) -> None:
    session.call("chora:list_generators")
    found = json.loads(said(session.call("get_events", {"event_type": "gateway.tool_call"})))
    trace = found[0]["trace_id"]
    events = json.loads(said(session.call("get_events", {"trace_id": trace})))
    assert [event["status"] for event in events] == ["success"]
    assert events[0]["metadata"]["tool"] == "list_generators"

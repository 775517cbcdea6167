"""What a server writes beside a member of the protocol's, so that some clients take it for that.

Parsers that ignore case exist in SDKs (Go's, .NET's), and no client says which one it has.
"""

import json
from typing import Any

import pytest

from anyport.upstream.connection import Connection
from anyport.upstream.pending_call import Answer
from anyport.wire.jsonrpc import Failure, Notification, Request, Result
from tests.upstream.fakes import connected, say

COMPACT = (",", ":")
TASK = "io.modelcontextprotocol/related-task"


def hear(connection: Connection, written: str, **message: Any) -> None:
    """Have the server say something, in the way most do or in another."""
    separators = COMPACT if written == "compact" else None
    raw = json.dumps({"jsonrpc": "2.0", **message}, separators=separators)
    connection.receive(raw.encode())


@pytest.mark.parametrize("written", ["compact", "spaced"])
@pytest.mark.parametrize(
    ("told", "heard"),
    [
        ({"content": [], "IsError": True}, {"content": []}),
        ({"ResultType": "input_required", "content": []}, {"content": []}),
        ({"content": [], "isError": False, "iserror": True}, {"content": [], "isError": False}),
        ({"content": [], "StructuredContent": {}}, {"content": []}),
        ({"content": [], "_META": {"a": 1}}, {"content": []}),
        ({"content": [], "CONTENT": []}, {"content": []}),
        ({"content": [], "re\u017fulttype": "x"}, {"content": []}),
        (
            {"content": [], "_meta": {"ProgressToken": 1, "y": 1}},
            {"content": [], "_meta": {"y": 1}},
        ),
        ({"content": [], "_meta": {TASK.upper(): 1}}, {"content": []}),
        (
            {"content": [], "_meta": {"TraceParent": "x"}, "isError": True},
            {"content": [], "isError": True},
        ),
    ],
)
def test_a_result_is_read_by_every_client_as_it_is_read_here(
    told: Any, heard: Any, written: str
) -> None:
    connection, _, _ = connected()
    answers: list[Answer] = []
    connection.call("tools/call", b"{}", answers.append)

    hear(connection, written, id=1, result=told)

    (answer,) = answers
    assert isinstance(answer, Result)
    assert json.loads(answer.result) == heard


@pytest.mark.parametrize("written", ["compact", "spaced"])
@pytest.mark.parametrize(
    "told",
    [
        {"content": [{"IsError": True}], "structuredContent": {"IsError": True}},
        {"content": [], "vendor": {"IsError": True}, "Vendor": 1},
        {"content": [], "_meta": {"vendor/ProgressToken": 1, "Vendor": {"ProgressToken": 1}}},
        {"content": [], "_meta": None},
        {"content": [], "_meta": ["ProgressToken"]},
        ["IsError"],
        7,
    ],
)
def test_whatever_is_no_such_member_passes_untouched(told: Any, written: str) -> None:
    connection, _, _ = connected()
    answers: list[Answer] = []
    connection.call("tools/call", b"{}", answers.append)

    hear(connection, written, id=1, result=told)

    (answer,) = answers
    assert isinstance(answer, Result)
    separators = COMPACT if written == "compact" else None
    assert answer.result.decode() == json.dumps(told, separators=separators)


@pytest.mark.parametrize("written", ["compact", "spaced"])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("alike", ["ProgressToken", "PROGRESSTOKEN", "progre\u017fsToken"])
def test_progress_has_one_token(alike: str, written: str, *, first: bool) -> None:
    connection, _, _ = connected()
    reports: list[bytes] = []
    connection.call("tools/call", b"{}", lambda _: None, reports.extend)
    token, other = {"progressToken": 1, "progress": 1}, {alike: "zz"}

    told = {**other, **token} if first else {**token, **other}
    hear(connection, written, method="notifications/progress", params={**told, "step": 2})

    assert [json.loads(report) for report in reports] == [{**token, "step": 2}]


def test_progress_that_says_more_is_passed_on_as_it_came() -> None:
    connection, _, _ = connected()
    reports: list[bytes] = []
    connection.call("tools/call", b"{}", lambda _: None, reports.extend)
    told = {"progressToken": 1, "progress": 1, "message": "m", "step": 2, "_meta": {"v/x": 1}}

    hear(connection, "compact", method="notifications/progress", params=told)

    assert [json.loads(report) for report in reports] == [told]


@pytest.mark.parametrize(
    ("method", "told", "heard"),
    [
        ("sampling/createMessage", {"_meta": {"ProgressToken": 1, "x": 2}}, {"_meta": {"x": 2}}),
        ("sampling/createMessage", {"messages": [], "Messages": [1]}, {"messages": []}),
        (
            "elicitation/create",
            {"mode": "url", "url": "https://a.example", "URL": "http://127.0.0.1"},
            {"mode": "url", "url": "https://a.example"},
        ),
        ("elicitation/create", {"message": "m", "Mode": "url"}, {"message": "m"}),
        ("notifications/message", {"level": "debug", "Level": "alert"}, {"level": "debug"}),
        ("notifications/resources/updated", {"uri": "a:b", "URI": "c:d"}, {"uri": "a:b"}),
        ("vendor/ask", {"URL": 1, "_Meta": 1}, {"URL": 1}),
    ],
)
def test_what_a_server_asks_and_tells_is_read_by_every_client_as_it_is_read_here(
    method: str, told: Any, heard: Any
) -> None:
    connection, _, listener = connected()

    say(connection, id=7, method=method, params=told)
    say(connection, method=method, params=told)

    frames: list[Request | Notification] = [*listener.requests, *listener.notifications]
    assert [json.loads(frame.params or b"") for frame in frames] == [heard, heard]


def test_an_error_has_one_code() -> None:
    connection, _, _ = connected()
    answers: list[Answer] = []
    connection.call("tools/call", b"{}", answers.append)

    say(connection, id=1, error={"code": -1, "message": "m", "Code": -2, "MESSAGE": "n", "x": 1})

    (answer,) = answers
    assert isinstance(answer, Failure)
    assert json.loads(answer.error) == {"code": -1, "message": "m", "x": 1}


@pytest.mark.parametrize(
    "result",
    [
        '{"x":1,"x":2,"IsError":true,"content":[]}',
        '{"content":[],"content":[],"_meta":{"ProgressToken":1}}',
    ],
)
def test_they_go_also_where_a_member_stands_twice(result: str) -> None:
    connection, _, _ = connected()
    answers: list[Answer] = []
    connection.call("tools/call", b"{}", answers.append)

    connection.receive(b'{"jsonrpc":"2.0","id":1,"result":%b}' % result.encode())

    (answer,) = answers
    assert isinstance(answer, Result)
    assert json.loads(answer.result) in ({"x": 2, "content": []}, {"content": []})


@pytest.mark.parametrize(
    "result", [r'{"\ud83d":1}', r'{"_meta":{"\ud83d":1}}', r'{"IsError":"\ud83d"}']
)
def test_half_a_character_costs_no_answer(result: str) -> None:
    connection, _, listener = connected()
    answers: list[Answer] = []
    connection.call("tools/call", b"{}", answers.append)

    connection.receive(b'{"jsonrpc":"2.0","method":"vendor/told","params":%b}' % result.encode())
    connection.receive(b'{"jsonrpc":"2.0","id":1,"result":%b}' % result.encode())

    assert len(listener.notifications) + len(listener.noise) == 1
    assert len(answers) == 1

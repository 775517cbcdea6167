"""Customary notifications, in both directions, and what never leaves the gateway."""

import json
from pathlib import Path

from tests.harness import read_events, transparent
from tests.journeys.scripts import Scripted, gateway, note, result, rule, text, tools

PROGRESS = (
    '{ "progressToken": "token-123", "progress": {'
    ' "type": "step", "label": "Fetching posts...", "percentage": 50 } }'
)


def test_progress_may_be_an_object_and_keeps_its_bytes(tmp_path: Path) -> None:
    own = PROGRESS.replace('"token-123"', "$token")
    server = Scripted(
        tmp_path,
        tools("search"),
        rule("tools/call", note("notifications/progress", own), result(text("found"))),
    )
    profiles = transparent("ideas")
    with gateway(tmp_path, {"ideas": server.command}, profiles=profiles) as client:
        client.initialize("2024-11-05")
        client.call("search", progressToken="token-123")
        heard = client.wait_method("notifications/progress")
        (line,) = [line for line in client.lines if b"notifications/progress" in line]
    assert heard["params"] == json.loads(PROGRESS)
    assert b'{ "type": "step", "label": "Fetching posts...", "percentage": 50 }' in line
    # The server's token is the gateway's own, so that no two clients can meet in it.
    (call,) = server.heard("tools/call")
    assert call["params"]["_meta"]["progressToken"] != "token-123"


def test_a_numeric_progress_and_total_come_through(tmp_path: Path) -> None:
    params = '{"progressToken": $token, "progress": 50, "total": 100}'
    server = Scripted(
        tmp_path,
        tools("search"),
        rule("tools/call", note("notifications/progress", params), result(text("found"))),
    )
    with gateway(tmp_path, {"ideas": server.command}) as client:
        client.initialize("2024-11-05")
        client.call("ideas__search", progressToken="token")
        heard = client.wait_method("notifications/progress")
    assert heard["params"] == {"progressToken": "token", "progress": 50, "total": 100}


def test_a_cancelled_request_is_cancelled_at_its_server_and_not_answered(tmp_path: Path) -> None:
    server = Scripted(tmp_path, tools("search", "quick"), rule("tools/call", once=True))
    with gateway(tmp_path, {"ideas": server.command}) as client:
        client.initialize("2024-11-05")
        client.start("tools/call", {"name": "ideas__search"}, id=1)
        own_id = server.wait_heard("tools/call")["id"]
        client.send(
            b'{   "jsonrpc": "2.0",   "method": "notifications/cancelled",   "params": {'
            b'     "requestId": 1,     "reason": "User cancelled"   } }\n'
        )
        heard = server.wait_heard("notifications/cancelled")
        assert heard["params"] == {"requestId": own_id, "reason": "User cancelled"}
        client.request("ping")
        assert client.finish() == 0
    assert 1 not in [message.get("id") for message in client.seen]


def test_a_followed_resource_that_changes_is_told(tmp_path: Path) -> None:
    resources = {"resources": [{"uri": "resource://path", "name": "it"}]}
    server = Scripted(
        tmp_path,
        rule("resources/list", result(resources)),
        rule(
            "resources/subscribe",
            result({}),
            note("notifications/resources/updated", '{ "uri": "resource://path" }'),
        ),
    )
    with gateway(tmp_path, {"files": server.command}) as client:
        client.initialize("2024-11-05")
        assert client.request("resources/subscribe", {"uri": "resource://path"})["result"] == {}
        heard = client.wait_method("notifications/resources/updated")
    assert heard["params"] == {"uri": "resource://path"}


def test_a_notification_mcp_does_not_know_comes_through_as_it_is(tmp_path: Path) -> None:
    server = Scripted(
        tmp_path,
        tools("stage"),
        rule(
            "tools/call",
            note("resources/updated", '{     "uri": "git:/diff/staged"   }'),
            result(text("staged")),
        ),
    )
    with gateway(tmp_path, {"git": server.command}) as client:
        client.initialize("2024-11-05")
        client.call("git__stage")
        heard = client.wait_method("resources/updated")
    assert heard["params"] == {"uri": "git:/diff/staged"}


def test_stderr_is_in_the_record_and_never_sent_to_a_client(tmp_path: Path) -> None:
    words = "10:32:01 AM: A stderr message"
    server = Scripted(tmp_path, tools("talk"), rule("tools/call", result(text("ok")), stderr=words))
    with gateway(tmp_path, {"everything": server.command}) as client:
        client.initialize("2025-03-26")
        client.call("everything__talk")
        assert client.finish() == 0
        assert not [message for message in client.seen if "stderr" in message.get("method", "")]
        assert words.encode() not in b"".join(client.lines)
    notes = [event for event in read_events(tmp_path / "state") if "stderr" in event["event_type"]]
    assert [event["metadata"]["line"] for event in notes] == [words]
    assert notes[0]["metadata"]["method"] == "notifications/stderr"

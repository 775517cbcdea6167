"""What servers say on their own: logs at the levels asked for, resources that changed, progress."""

import json
from pathlib import Path

import pytest

from tests.harness import DEMO, MODERN_META, Message, transparent
from tests.journeys.scripts import (
    Scripted,
    failure,
    gateway,
    note,
    result,
    rule,
    said,
    text,
    tools,
)

COUNTER = {"uri": "demo://counter"}
META = "io.modelcontextprotocol/"


def logging(path: Path, name: str = "scripted") -> Scripted:
    """A server that logs one line at each of three levels whenever its tool is called."""
    lines = [
        note("notifications/message", {"level": level, "logger": "db", "data": level})
        for level in ("debug", "warning", "emergency")
    ]
    return Scripted(
        path,
        tools("work"),
        rule("logging/setLevel", result({})),
        rule("tools/call", *lines, result(text("ok"))),
        name=name,
    )


def logs(seen: list[Message]) -> list[Message]:
    return [m["params"] for m in seen if m.get("method") == "notifications/message"]


def test_logs_below_the_level_are_kept_back(tmp_path: Path) -> None:
    with gateway(tmp_path, {"only": logging(tmp_path).command}) as client:
        client.initialize()
        for level, heard in (
            (None, ["debug", "warning", "emergency"]),
            ("emergency", ["emergency"]),
            ("notice", ["warning", "emergency"]),
            ("debug", ["debug", "warning", "emergency"]),
        ):
            if level is not None:
                assert client.request("logging/setLevel", {"level": level})["result"] == {}
            client.seen.clear()
            client.call("only__work")
            assert [log["data"] for log in logs(client.seen)] == heard, level
            assert {log["logger"] for log in logs(client.seen)} == {"only/db"}


def test_the_level_is_passed_to_every_server_that_logs(tmp_path: Path) -> None:
    one, two = logging(tmp_path, "one"), logging(tmp_path, "two")
    mute = Scripted(tmp_path, tools("x"), name="mute", capabilities={"tools": {}})
    servers = {"one": one.command, "two": two.command, "mute": mute.command}
    with gateway(tmp_path, servers) as client:
        client.initialize()
        client.request("tools/list")
        client.request("logging/setLevel", {"level": "warning"})
        for server in (one, two):
            assert server.wait_heard("logging/setLevel")["params"] == {"level": "warning"}
        client.request("ping")
    assert not mute.heard("logging/setLevel")


def test_a_server_that_is_started_again_is_told_the_level_again(tmp_path: Path) -> None:
    server = Scripted(
        tmp_path,
        tools("die"),
        rule("logging/setLevel", result({})),
        rule("tools/call", exit=1),
    )
    with gateway(tmp_path, {"only": server.command}) as client:
        client.initialize()
        client.request("tools/list")
        client.request("logging/setLevel", {"level": "error"})
        server.wait_heard("logging/setLevel")
        client.call("only__die")
        assert server.wait_heard("logging/setLevel", 2)["params"] == {"level": "error"}
    assert server.starts == 2


def test_an_unknown_level_is_refused(tmp_path: Path) -> None:
    with gateway(tmp_path, {"only": logging(tmp_path).command}) as client:
        client.initialize()
        error = client.request("logging/setLevel", {"level": "loud"})["error"]
        assert error["code"] == -32602
        assert "emergency" in error["message"]


def test_a_transparent_profile_passes_logs_as_they_are(tmp_path: Path) -> None:
    server = logging(tmp_path)
    with gateway(tmp_path, {"only": server.command}, profiles=transparent("only")) as client:
        client.initialize()
        client.call("work")
        assert {log["logger"] for log in logs(client.seen)} == {"db"}


def test_a_server_hears_of_the_first_follower_and_of_the_last(tmp_path: Path) -> None:
    updated = note("notifications/resources/updated", {"uri": "a:b"})
    server = Scripted(
        tmp_path,
        tools("touch"),
        rule("resources/list", result({"resources": [{"uri": "a:b", "name": "it"}]})),
        rule("resources/subscribe", result({})),
        rule("resources/unsubscribe", result({})),
        rule("tools/call", updated, result(text("touched"))),
    )
    with gateway(tmp_path, {"only": server.command}) as client:
        client.modern("resources/list")
        params = {"notifications": {"resourceSubscriptions": ["a:b"]}, "_meta": MODERN_META}
        first, last = (client.start("subscriptions/listen", params) for _ in range(2))
        client.modern("tools/call", {"name": "only__touch"})
        client.notify("notifications/cancelled", {"requestId": first})
        client.modern("tools/call", {"name": "only__touch"})
        updates = [m["params"] for m in client.seen if m.get("method", "").endswith("updated")]
        tags = [params["_meta"][f"{META}subscriptionId"] for params in updates]
        # One has left; the other is still told, and the server knows of no change.
        assert sorted(tags) == sorted([first, last, last])
        assert not server.heard("resources/unsubscribe")
        client.notify("notifications/cancelled", {"requestId": last})
        assert server.wait_heard("resources/unsubscribe")["params"] == {"uri": "a:b"}
    assert len(server.heard("resources/subscribe")) == 1


@pytest.mark.parametrize("option", ["--legacy-only", "--modern-only"])
def test_updates_come_while_a_resource_is_followed_and_then_no_more(
    tmp_path: Path, option: str
) -> None:
    with gateway(tmp_path, {"demo": [*DEMO, option]}) as client:
        client.initialize()
        client.call("demo__touch")
        client.request("resources/subscribe", COUNTER)
        client.call("demo__touch")
        assert client.wait_method("notifications/resources/updated")["params"] == COUNTER
        client.request("resources/unsubscribe", COUNTER)
        client.seen.clear()
        client.call("demo__touch")
        assert client.finish() == 0
        assert not [m for m in client.seen if m.get("method", "").endswith("updated")]


def test_a_server_that_is_started_again_is_told_what_is_followed(tmp_path: Path) -> None:
    server = Scripted(
        tmp_path,
        tools("die"),
        rule("resources/list", result({"resources": [{"uri": "a:b", "name": "it"}]})),
        rule("resources/subscribe", result({})),
        rule("tools/call", exit=1),
    )
    with gateway(tmp_path, {"only": server.command}) as client:
        client.initialize()
        client.request("resources/list")
        client.request("resources/subscribe", {"uri": "a:b"})
        client.call("only__die")
        server.wait_heard("resources/subscribe", 2)
    assert server.starts == 2


def test_a_resource_that_cannot_be_followed_is_refused_by_its_server(tmp_path: Path) -> None:
    with gateway(tmp_path, {"demo": [*DEMO, "--legacy-only"]}) as client:
        client.initialize("2025-06-18")
        client.request("resources/list")
        error = client.request("resources/subscribe", {"uri": "demo://items/nothing"})["error"]
        assert error["code"] == -32002


@pytest.mark.parametrize("honours", ["another", "nothing", "no listening"])
def test_a_resource_of_which_a_modern_server_will_not_tell_cannot_be_followed(
    tmp_path: Path, honours: str
) -> None:
    resources = {"resources": [{"uri": uri, "name": uri} for uri in ("a:b", "a:c")]}
    complete = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
    found = {
        "supportedVersions": [MODERN_META[f"{META}protocolVersion"]],
        "capabilities": {"resources": {"subscribe": honours == "another"}},
    }
    told = {"resourceSubscriptions": ["a:c"]} if honours == "another" else {}
    about = f'"_meta":{{"{META}subscriptionId":$id}}'
    acknowledged = note(
        "notifications/subscriptions/acknowledged",
        f'{{"notifications":{json.dumps(told)},{about}}}',
    )
    refused = failure({"code": -32601, "message": "no"})
    server = Scripted(
        tmp_path,
        rule("initialize", refused),
        rule("server/discover", result({**complete, **found})),
        rule("resources/list", result({**complete, **resources})),
        rule("subscriptions/listen", refused if honours == "no listening" else acknowledged),
    )
    with gateway(tmp_path, {"only": server.command}) as client:
        client.initialize("2025-06-18")
        client.request("resources/list")
        answer = client.request("resources/subscribe", {"uri": "a:b"})
        if honours == "another":
            assert answer["error"] == {
                "code": -32602,
                "message": "Server 'only' does not announce changes of this resource: a:b",
            }
            assert client.request("resources/subscribe", {"uri": "a:c"})["result"] == {}
        else:
            assert answer["error"]["code"] == -32601


def test_progress_comes_back_under_the_clients_own_token(tmp_path: Path) -> None:
    with gateway(tmp_path, {"demo": [*DEMO, "--legacy-only"]}) as client:
        client.initialize()
        for token in ("text", 7, 0, ""):
            client.seen.clear()
            answer = client.call("demo__slow", {"seconds": 0, "steps": 3}, progressToken=token)
            assert said(answer) == "Done after 3 steps."
            told = [m["params"] for m in client.seen if m.get("method") == "notifications/progress"]
            assert [params["progress"] for params in told] == [1, 2, 3]
            tokens = [params["progressToken"] for params in told]
            assert (tokens, type(tokens[0])) == ([token] * 3, type(token))


def test_progress_of_two_calls_with_one_token_each_keeps_to_its_call(tmp_path: Path) -> None:
    progress = '{"progressToken":$token,"progress":1}'
    servers = {
        slug: Scripted(
            tmp_path,
            tools("work"),
            rule(
                "tools/call",
                note("notifications/progress", progress),
                note("notifications/progress", '{"progressToken":"stray","progress":9}'),
                result(text(slug)),
            ),
            name=slug,
        ).command
        for slug in ("one", "two")
    }
    with gateway(tmp_path, servers) as client:
        client.initialize()
        client.call("one__work", progressToken="first")
        client.call("two__work", progressToken="second")
        client.call("two__work")  # Nobody asked: the server has no token to use.
        told = [m["params"] for m in client.seen if m.get("method") == "notifications/progress"]
    assert [(params["progressToken"], params["progress"]) for params in told] == [
        ("first", 1),
        ("second", 1),
    ]

"""The API, asked as a program would ask it."""

import json
from typing import Any
from urllib.parse import quote

import pytest

from anyport.gateway.api.stream import FOLLOWERS_MAX, FOLLOWERS_OF_ONE_MAX
from anyport.gateway.reload import ReloadRefused
from anyport.protocol.principal import LOCAL, Principal
from anyport.record.index import index
from anyport.record.journal.journal import LISTENERS_MAX
from tests.gateway.api.fakes import FakeGateway, Visit, until


def note(gateway: FakeGateway, number: int, status: Any = "success") -> None:
    gateway.journal.record(
        "gateway.tool_call", status, trace_id=f"{number:032x}", metadata={"tool": f"t{number}"}
    )


def tools_of(answer: Any) -> list[str]:
    return [event["metadata"]["tool"] for event in answer["events"]]


def test_the_beginning_lists_what_there_is(gateway: FakeGateway) -> None:
    told = gateway.get("/api/v1").json

    assert told["name"] == "anyport"
    assert told["links"]["events"] == "/api/v1/events"


def test_servers_are_listed_and_found_by_their_slug(gateway: FakeGateway) -> None:
    told = gateway.get("/api/v1/servers").json["servers"]

    assert [server["slug"] for server in told] == ["docs", "down", "off"]
    assert gateway.get("/api/v1/servers/down").json == told[1]
    assert "pid" not in told[0]["status"]  # Absent where it does not apply, as in the tool.


def test_profiles_are_listed_and_found_by_their_slug(gateway: FakeGateway) -> None:
    [told] = gateway.get("/api/v1/profiles").json["profiles"]

    detail = gateway.get("/api/v1/profiles/default").json
    assert detail["profile"] == told
    assert [tool["name"] for tool in detail["tools"]][2:] == ["docs__read", "docs__odd"]


def test_the_page_of_a_profile_stands_beside_its_endpoint(gateway: FakeGateway) -> None:
    assert gateway.get("/mcp/default/info").json == gateway.get("/api/v1/profiles/default").json


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("/api/v1/servers/x", "There is no server 'x'; the servers are: docs, down, off"),
        ("/api/v1/profiles/x", "There is no profile 'x'; the profiles are: default"),
        ("/mcp/x/info", "There is no profile 'x'; the profiles are: default"),
    ],
)
def test_a_name_that_nobody_has_is_answered_with_those_there_are(
    gateway: FakeGateway, path: str, detail: str
) -> None:
    reply = gateway.get(path)

    assert reply.status == 404
    assert reply.fields["content-type"] == "application/problem+json"
    assert reply.json["detail"] == detail


def test_a_very_long_name_is_not_repeated_as_a_whole(gateway: FakeGateway) -> None:
    assert len(gateway.get("/api/v1/servers/" + "x" * 5000).body) < 500


def test_why_a_tool_is_there_or_not_can_be_asked(gateway: FakeGateway) -> None:
    there = gateway.get("/api/v1/why?name=docs__read&profile=default").json
    assert there["there"] is True
    assert there["stories"][0]["public"] == "docs__read"

    not_there = gateway.get("/api/v1/why?name=" + quote("docs/raed")).json
    assert not_there["there"] is False
    assert not_there["stories"][0]["steps"][-1]["stage"] == "listed"
    assert not_there["suggestions"] == ["docs__read"]


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("", 400, "A name is needed"),
        ("?name=", 400, "A name is needed"),
        ("?name=x&profile=y", 404, "There is no profile 'y'; the profiles are: default"),
        ("?name=x&name=y", 400, "more than once"),
    ],
)
def test_why_needs_a_name_and_a_profile_that_there_is(
    gateway: FakeGateway, query: str, status: int, words: str
) -> None:
    reply = gateway.get(f"/api/v1/why{query}")

    assert reply.status == status
    assert words in reply.json["detail"]


def test_events_can_be_asked_for_as_in_the_tool(gateway: FakeGateway) -> None:
    for number in range(3):
        note(gateway, number, "failure" if number == 1 else "success")

    assert tools_of(gateway.get("/api/v1/events").json) == ["t0", "t1", "t2"]
    assert tools_of(gateway.get("/api/v1/events?status=failure").json) == ["t1"]
    assert tools_of(gateway.get(f"/api/v1/events?trace_id={2:032x}").json) == ["t2"]
    assert tools_of(gateway.get("/api/v1/events?event_type=gateway.started").json) == []
    since = quote("2999-01-01T00:00:00+00:00")
    assert gateway.get(f"/api/v1/events?since={since}").json == {"events": [], "next_cursor": None}


def test_a_cursor_leads_to_older_events_until_there_are_none(gateway: FakeGateway) -> None:
    for number in range(5):
        note(gateway, number)

    pages, query = [], "limit=2"
    while query:
        answer = gateway.get(f"/api/v1/events?{query}").json
        note(gateway, 99)  # What happens meanwhile moves nothing.
        pages.append(tools_of(answer))
        cursor = answer["next_cursor"]
        query = f"limit=2&cursor={cursor}" if cursor else ""

    assert pages == [["t3", "t4"], ["t1", "t2"], ["t0"]]


@pytest.mark.parametrize(
    "query",
    [
        *("status=fine", "event_type=x", "since=yesterday", "limit=many", "unknown=1"),
        *("cursor=x", "cursor=%C3%A9", "cursor=WzEsIjIiLDk5OTk5OTk5OTk5OTk5OTk5OTk5XQ"),
        "status=success&status=failure",
    ],
)
def test_a_question_that_makes_no_sense_is_refused(gateway: FakeGateway, query: str) -> None:
    reply = gateway.get(f"/api/v1/events?{query}")

    assert reply.status == 400
    assert reply.fields["content-type"] == "application/problem+json"
    assert gateway.reported == []


def test_an_index_in_use_is_a_matter_of_time(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object, **__: object) -> None:
        raise index.IndexBusy("database is locked")

    monkeypatch.setattr(index.Index, "page", busy)
    reply = gateway.get("/api/v1/events")

    assert reply.status == 503
    assert "ask again in a moment" in reply.json["detail"]


def test_events_can_be_followed_until_the_client_leaves(gateway: FakeGateway) -> None:
    async def scene(visit: Visit) -> None:
        reply = visit.begin("/api/v1/events/stream")
        await until(lambda: b"retry" in reply.body)
        note(gateway, 7)
        await until(lambda: b"data:" in reply.body)
        assert reply.fields["content-type"].startswith("text/event-stream")
        line = reply.body.partition(b"data: ")[2].strip()
        assert json.loads(line)["metadata"] == {"tool": "t7"}
        reply.leave()

    gateway.play(scene)

    assert gateway.reported == []


def test_who_leaves_is_not_listened_for_any_more(gateway: FakeGateway) -> None:
    async def scene(visit: Visit) -> None:
        for _ in range(LISTENERS_MAX + 1):
            reply = visit.begin("/api/v1/events/stream")
            await until(lambda reply=reply: bool(reply.status))  # type: ignore[misc]
            assert reply.status == 200
            reply.leave()
            await until(lambda: not gateway.journal._listeners)

    gateway.play(scene)


@pytest.mark.parametrize(
    ("whose", "most"),
    [(LOCAL, FOLLOWERS_MAX), (Principal("token", "ada"), FOLLOWERS_OF_ONE_MAX)],
)
def test_for_one_more_who_follows_the_oldest_makes_room(
    gateway: FakeGateway, whose: Principal, most: int
) -> None:
    async def scene(visit: Visit) -> None:
        paths = ("/api/v1/traffic/stream", "/api/v1/events/stream")
        replies = []
        for number in range(most + 1):
            replies.append(visit.begin(paths[number % 2], whose))
            await until(lambda: bool(replies[-1].status))
        await until(lambda: replies[0].finished)
        assert {reply.status for reply in replies} == {200}
        assert [reply.finished for reply in replies[1:]] == [False] * most
        for reply in replies[1:]:
            reply.leave()

    gateway.play(scene)

    assert gateway.reported == []


def test_the_one_who_follows_most_makes_room_for_others(gateway: FakeGateway) -> None:
    async def scene(visit: Visit) -> None:
        many = [Principal("token", name) for name in "abcd"]
        replies = [
            visit.begin("/api/v1/events/stream", one)
            for one in many
            for _ in range(FOLLOWERS_MAX // len(many))
        ]
        await until(lambda: all(reply.status for reply in replies))
        late = visit.begin("/api/v1/events/stream", Principal("token", "late"))
        await until(lambda: any(reply.finished for reply in replies))
        await until(lambda: late.status == 200)
        assert sum(reply.finished for reply in replies) == 1
        for reply in (late, *replies):
            reply.leave()

    gateway.play(scene)

    assert gateway.reported == []


def test_the_head_of_the_stream_can_be_asked_for(gateway: FakeGateway) -> None:
    reply = gateway.get("/api/v1/events/stream", "HEAD")

    assert (reply.status, reply.body) == (200, b"")
    assert gateway.journal._listeners == []


def test_what_breaks_is_an_error_without_its_reason(gateway: FakeGateway) -> None:
    def broken() -> int:
        raise RuntimeError("secret reason")

    gateway.metrics.count_streams = broken

    reply = gateway.get("/api/v1/status")

    assert reply.status == 500
    assert b"secret" not in reply.body
    assert b"Traceback" not in reply.body
    assert reply.fields["content-type"] == "application/problem+json"
    assert [str(error) for error in gateway.reported] == ["secret reason"]


def test_no_answer_may_be_kept_or_run(gateway: FakeGateway) -> None:
    for path in ("/api/v1", "/api/v1/servers/x", "/metrics", "/healthz"):
        reply = gateway.get(path)
        assert reply.fields["cache-control"] == "no-store"
        assert reply.fields["x-content-type-options"] == "nosniff"


def test_a_reload_tells_what_it_changed(gateway: FakeGateway) -> None:
    reply = gateway.get("/api/v1/reload", "POST")

    assert reply.status == 200
    assert reply.json["added"] == ["new"]


def test_a_configuration_that_cannot_be_used_is_told_with_the_reason(gateway: FakeGateway) -> None:
    gateway.reloaded = ReloadRefused("anyport.toml:3:1: unknown key")
    reply = gateway.get("/api/v1/reload", "POST")

    assert reply.status == 422
    assert reply.json["detail"].endswith("stays as it is: anyport.toml:3:1: unknown key")


def test_a_reload_is_never_done_by_looking(gateway: FakeGateway) -> None:
    reply = gateway.get("/api/v1/reload", "GET")

    assert (reply.status, reply.fields["allow"]) == (405, "POST")
    assert reply.json["detail"] == "Use POST here"

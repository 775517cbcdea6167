"""The traffic, asked for as a program would ask for it."""

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from anyport.gateway.api import traffic
from anyport.record import index
from anyport.record.journal import LISTENERS_MAX
from tests.gateway.api.fakes import FakeGateway, Visit, until
from tests.record.recorded import (
    SPAN,
    exchange,
    frame,
    payload_line,
    write_events,
    write_payloads,
)
from tests.record.story import ONE, TWO

OTHER = "00f0" + "b" * 12


@pytest.fixture
def story(gateway: FakeGateway, tmp_path: Path) -> FakeGateway:
    write_events(
        tmp_path,
        exchange(event={"event_type": "gateway.started"}),
        exchange(event={"status": "pending"}),
        exchange(),
        exchange(span_id=OTHER, server="docs", payload_file=None, event={"trace_id": TWO}),
        frame(),
    )
    write_payloads(tmp_path, payload_line())
    return gateway


def asked(gateway: FakeGateway, filter: str = "", more: str = "") -> list[str]:
    reply = gateway.get(f"/api/v1/traffic?filter={quote(filter)}{more}")
    assert reply.status == 200
    return [row["id"][:6] for row in reply.json["rows"]]


def test_rows_are_exchanges_and_frames_oldest_first(story: FakeGateway) -> None:
    assert asked(story) == ["00f067", "00f0bb", "000000"]
    assert asked(story, "server:docs") == ["00f0bb"]
    assert asked(story, "-kind:exchange") == ["000000"]
    assert asked(story, "text:hello") == ["00f067"]


def test_a_cursor_leads_to_older_rows(story: FakeGateway) -> None:
    pages, more = [], "&limit=2"
    while more:
        page = story.get(f"/api/v1/traffic?filter={more}").json
        pages.append([row["id"][:6] for row in page["rows"]])
        cursor = page["next_cursor"]
        more = f"&limit=2&cursor={cursor}" if cursor else ""

    assert pages[0] == ["00f0bb", "000000"]
    assert [row for page in pages[1:] for row in page] == ["00f067"]


def test_a_row_is_shown_with_what_was_said_and_without_its_place_in_the_chain(
    story: FakeGateway,
) -> None:
    [detail] = story.get(f"/api/v1/traffic/{SPAN[:6]}").json["details"]

    assert detail["row"]["id"] == SPAN
    assert detail["event"]["metadata"]["tool"] == "create_issue"
    assert "hash" not in detail["event"]
    assert detail["frames"][0]["payload"]["arguments"] == {"title": "hello"}
    assert detail["frames"][1]["same"] is True


def test_the_id_of_a_trace_shows_all_of_it(story: FakeGateway) -> None:
    told = story.get(f"/api/v1/traffic/{ONE}").json["details"]
    assert [detail["row"]["kind"] for detail in told] == ["exchange", "server-notification"]


def test_after_a_lot_that_was_said_only_rows_are_told(
    story: FakeGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_events(tmp_path, *(exchange(span_id=f"{number:016x}") for number in range(1, 4)))
    write_payloads(tmp_path, *(payload_line(f"{number:016x}") for number in range(1, 4)))
    monkeypatch.setattr(traffic, "DETAILS_BYTES_MAX", 200)

    told = story.get(f"/api/v1/traffic/{ONE}").json["details"]
    assert 0 < sum("frames" in detail for detail in told) < len(told)


@pytest.mark.parametrize(
    ("id", "told"),
    [
        ("00f0", f"Several begin with 00f0: {SPAN}, {OTHER}. Give more digits"),
        ("0123", "Nothing that is recorded has the id 0123"),
        ("x", "An id has only the digits"),
    ],
)
def test_an_id_that_means_nothing_or_too_much_is_explained(
    story: FakeGateway, id: str, told: str
) -> None:
    reply = story.get(f"/api/v1/traffic/{id}")
    assert reply.status == 404
    assert told in reply.json["detail"]


@pytest.mark.parametrize("path", ["traffic", "traffic/stream", "events", "events/stream"])
def test_a_fault_in_a_filter_is_marked(story: FakeGateway, path: str) -> None:
    reply = story.get(f"/api/v1/{path}?filter=since:1h%20sever:docs")

    assert reply.status == 400
    assert reply.fields["content-type"] == "application/problem+json"
    message, text, carets = reply.json["detail"].split("\n")
    assert "Did you mean server?" in message
    assert text == "since:1h sever:docs"
    assert carets == " " * 9 + "^" * 5


@pytest.mark.parametrize(
    "query", ["limit=many", "unknown=1", "cursor=x", "filter=a&filter=b", "status=failure"]
)
def test_a_question_that_makes_no_sense_is_refused(story: FakeGateway, query: str) -> None:
    assert story.get(f"/api/v1/traffic?{query}").status == 400


@pytest.mark.parametrize("query", ["limit=1", "filter=a&filter=b"])
def test_there_is_nothing_to_follow_by_but_a_filter(story: FakeGateway, query: str) -> None:
    assert story.get(f"/api/v1/traffic/stream?{query}").status == 400


@pytest.mark.parametrize("path", ["traffic", f"traffic/{SPAN}"])
def test_an_index_in_use_is_a_matter_of_time(
    story: FakeGateway, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    def busy(*_: object, **__: object) -> None:
        raise index.IndexBusy("database is locked")

    monkeypatch.setattr(index.Index, "page", busy)
    assert story.get(f"/api/v1/{path}").status == 503


def note(gateway: FakeGateway, kind: str, **metadata: str) -> None:
    gateway.journal.note(kind, "success", trace_id=ONE, metadata=metadata)  # type: ignore[arg-type]


def test_rows_that_match_can_be_followed(gateway: FakeGateway) -> None:
    async def scene(visit: Visit) -> None:
        reply = visit.begin("/api/v1/traffic/stream?filter=server:docs")
        await until(lambda: b"retry" in reply.body)
        note(gateway, "gateway.started")
        note(gateway, "gateway.tool_call", server="other", tool="t1")
        note(gateway, "gateway.tool_call", server="docs", tool="t2")
        await until(lambda: b"data:" in reply.body)
        row = json.loads(reply.body.partition(b"data: ")[2])
        assert (row["method"], row["target"]) == ("tools/call", "t2")
        reply.leave()

    gateway.play(scene)


@pytest.mark.parametrize(
    ("filter", "first"), [("", "gateway.tool_call"), ("kind:*", "gateway.exchange")]
)
def test_lesser_traffic_is_among_the_events_only_where_it_is_asked_for(
    gateway: FakeGateway, filter: str, first: str
) -> None:
    async def scene(visit: Visit) -> None:
        reply = visit.begin(f"/api/v1/events/stream?filter={quote(filter)}")
        await until(lambda: b"retry" in reply.body)
        note(gateway, "gateway.exchange", method="ping")
        note(gateway, "gateway.tool_call", tool="t")
        await until(lambda: b"data:" in reply.body)
        line = reply.body.partition(b"data: ")[2].partition(b"\n")[0]
        assert json.loads(line)["event_type"] == first
        reply.leave()

    gateway.play(scene)


def test_ten_followers_neither_wait_for_each_other_nor_keep_more_than_a_limit(
    gateway: FakeGateway,
) -> None:
    async def scene(visit: Visit) -> None:
        replies = [visit.begin("/api/v1/traffic/stream?filter=tool:t") for _ in range(10)]
        await until(lambda: all(b"retry" in reply.body for reply in replies))
        slow = replies[0]
        slow.unsent_bytes = 1 << 40
        for _ in range(2000):
            note(gateway, "gateway.tool_call", tool="t", text="x" * 500)
        await until(lambda: all(reply.body.count(b"data:") > 100 for reply in replies[1:]))
        assert all(b"event: lost" in reply.body for reply in replies[1:])
        assert slow.body.count(b"data:") <= replies[1].body.count(b"data:")
        for reply in replies:
            reply.leave()

    gateway.play(scene)

    assert gateway.reported == []


def test_no_more_can_follow_than_the_limit(gateway: FakeGateway) -> None:
    async def scene(visit: Visit) -> None:
        paths = ("/api/v1/traffic/stream", "/api/v1/events/stream")
        replies = [visit.begin(paths[number % 2]) for number in range(LISTENERS_MAX)]
        await until(lambda: all(reply.status for reply in replies))
        assert (await visit.get("/api/v1/traffic/stream")).status == 503
        for reply in replies:
            reply.leave()

    gateway.play(scene)


def test_the_head_of_the_stream_can_be_asked_for(gateway: FakeGateway) -> None:
    reply = gateway.get("/api/v1/traffic/stream", "HEAD")
    assert (reply.status, reply.body) == (200, b"")

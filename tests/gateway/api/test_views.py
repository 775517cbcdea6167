"""What is shown of the gateway, its servers and its profiles."""

import json
from pathlib import Path
from typing import get_args, get_type_hints
from urllib.parse import quote

import msgspec
import pytest

from anyport.gateway.api import views
from anyport.gateway.api.schemas import Backend, OfferAnswer, OfferCounts, Resource
from anyport.gateway.api.views import profile_detail, profile_view, server_view, status_view
from anyport.record.index import index
from anyport.upstream.supervisor import ServerState
from tests.gateway.api.fakes import FakeGateway, Visit, until
from tests.record.recorded import SPAN, exchange, frame, payload_line, write_events, write_payloads
from tests.record.story import ONE, TWO


def test_a_server_shows_what_it_is_and_offers(gateway: FakeGateway) -> None:
    shown = server_view(gateway, gateway.servers["docs"])

    assert (shown.slug, shown.profiles, shown.scope) == ("docs", ("default",), "auto")
    assert shown.timeout_s == 60
    assert shown.connections == 1
    assert shown.offers == OfferCounts(tools=2, resources=1, resource_templates=1, prompts=1)
    assert shown.status.revision == "2025-11-25"
    assert shown.status.tool_count == 2


def test_a_server_that_is_down_says_why(gateway: FakeGateway) -> None:
    assert server_view(gateway, gateway.servers["down"]).status.last_error == "exit code 1"
    assert server_view(gateway, gateway.servers["off"]).status.status == "disabled"


def test_a_profile_shows_where_it_is_and_how_it_names_things(gateway: FakeGateway) -> None:
    shown = profile_view(gateway.profiles["default"])

    assert (shown.path, shown.servers) == ("/mcp/default", ("docs", "down", "off"))
    assert (shown.prefix, shown.separator, shown.errors) == ("always", "__", "context")
    assert shown.offers == OfferCounts(tools=4, resources=1, resource_templates=1, prompts=1)


def test_a_profile_in_full_shows_every_offer_and_whose_it_is(gateway: FakeGateway) -> None:
    shown = profile_detail(gateway.profiles["default"])

    assert [tool.name for tool in shown.tools[:2]] == ["gateway_status", "get_events"]
    assert [tool.server for tool in shown.tools[:2]] == [None, None]
    assert shown.tools[2] == OfferAnswer(
        name="docs__read",
        server="docs",
        native_name="read",
        title="Read",
        description="Reads a page.",
    )
    assert shown.resources == (
        Resource(
            uri="doc:1", server="docs", native_uri="doc:1", name="one", mime_type="text/plain"
        ),
    )
    assert [template.uri for template in shown.resource_templates] == ["doc:{id}"]
    assert [prompt.name for prompt in shown.prompts] == ["docs__ask"]
    assert shown.servers["docs"].tool_count == 2


def test_an_offer_with_members_of_wrong_types_still_shows_its_name(gateway: FakeGateway) -> None:
    odd = profile_detail(gateway.profiles["default"]).tools[3]

    assert odd == OfferAnswer(name="docs__odd", server="docs", native_name="odd")


def test_the_status_shows_everything_at_a_glance(gateway: FakeGateway) -> None:
    gateway.now += 1.5
    gateway.draining = True
    gateway.metrics.count_streams = lambda: 2

    shown = status_view(gateway)

    assert (shown.gateway.name, shown.gateway.uptime_s) == ("anyport", 1.5)
    assert shown.gateway.draining
    assert shown.gateway.event_monitoring.enabled
    assert (shown.traffic.sessions, shown.traffic.streams) == (0, 2)
    assert set(shown.servers) == {"docs", "down", "off"}
    assert shown.profiles["default"].tools == 4


def test_nothing_shows_what_the_configuration_keeps_secret(gateway: FakeGateway) -> None:
    shown = [
        *(server_view(gateway, server) for server in gateway.servers.values()),
        profile_detail(gateway.profiles["default"]),
        status_view(gateway),
    ]

    assert b"hunter2" not in msgspec.json.encode(shown)


def test_every_state_of_a_server_can_be_told() -> None:
    told = set(get_args(get_type_hints(Backend)["status"]))
    assert told == {"disabled", *(state.value for state in ServerState)}


# The traffic, asked for as a program would ask for it.


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
    monkeypatch.setattr(views, "DETAILS_BYTES_MAX", 200)

    told = story.get(f"/api/v1/traffic/{ONE}").json["details"]
    assert 0 < sum("frames" in detail for detail in told) < len(told)


@pytest.mark.parametrize(
    ("id", "told"),
    [
        ("00f0", f"Several ids begin with 00f0: {SPAN}, {OTHER}. Give more digits"),
        ("0123", "Nothing in the record has the id 0123"),
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
    gateway.journal.record(kind, "success", trace_id=ONE, metadata=metadata)  # type: ignore[arg-type]


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


def test_the_head_of_the_stream_can_be_asked_for(gateway: FakeGateway) -> None:
    reply = gateway.get("/api/v1/traffic/stream", "HEAD")
    assert (reply.status, reply.body) == (200, b"")

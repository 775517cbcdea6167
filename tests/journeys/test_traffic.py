"""The traffic of real clients and servers: recorded, shown, exported."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from anyport.cli.connect.traffic import FilterQuery, LocalTraffic
from anyport.record.har import HarWriter
from anyport.record.traffic import Detail, Row
from tests.harness import DEMO
from tests.journeys.clients import ModernClient, SessionClient, names
from tests.journeys.http_gateway import HttpGateway, serving
from tests.peers.http_driver import HttpDemo
from tests.record.test_har import SCHEMA

FULL = {"record": {"capture": "full"}}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    """A legacy server on pipes, a modern one over HTTP, and all that is said is kept."""
    folder = tmp_path_factory.mktemp("traffic")
    with HttpDemo("--modern-only") as new:
        servers = {
            "old": [*DEMO, "--legacy-only"],
            "new": {"url": f"http://127.0.0.1:{new.port}/mcp"},
        }
        with serving(folder, servers, **FULL) as site:
            names(ModernClient(site))
            yield site


def details(site: HttpGateway, *words: str) -> list[Detail]:
    return list(LocalTraffic(site.state).all_details(FilterQuery(words)))


def last(site: HttpGateway, *words: str) -> Detail:
    return details(site, *words)[-1]


def steps(detail: Detail) -> list[tuple[str, str]]:
    return [(frame.side, frame.kind) for frame in detail.frames]


def payloads(detail: Detail, kind: str) -> list[Any]:
    return [
        json.loads(bytes(frame.payload))
        for frame in detail.frames
        if frame.kind == kind and frame.payload
    ]


def test_an_exchange_between_the_eras_has_both_its_sides(site: HttpGateway) -> None:
    SessionClient(site, "2025-06-18").call("new__echo", {"text": "between"})
    detail = last(site, "tool:echo", "text:between")
    row = detail.row

    assert (row.client.revision, row.client.era) == ("2025-06-18", "legacy")
    assert (row.upstream.revision, row.upstream.era) == ("2026-07-28", "modern")
    assert (row.client.transport, row.upstream.transport) == ("streamable-http",) * 2
    assert (row.public_name, row.target) == ("new__echo", "echo")
    assert steps(detail)[:2] == [("client", "request"), ("server", "request")]
    assert steps(detail)[-2:] == [("server", "response"), ("client", "response")]
    assert [sent["name"] for sent in payloads(detail, "request")] == ["new__echo", "echo"]
    times = row.timings
    assert times.total_ms is not None
    assert times.gateway_ms is not None
    assert times.server_ms is not None
    assert 0 < times.server_ms <= times.total_ms
    assert times.gateway_ms <= times.total_ms


def test_progress_and_questions_stand_between_in_the_order_of_time(site: HttpGateway) -> None:
    client = SessionClient(site, capabilities={"elicitation": {}})
    answer = client.start(
        "tools/call",
        {"name": "old__elicit", "arguments": {}, "_meta": {"progressToken": 1}},
    )
    client.reply(
        answer.wait_method("elicitation/create"), {"action": "accept", "content": {"name": "Ann"}}
    )
    answer.ending()
    detail = last(site, "tool:elicit")

    kinds = [kind for _, kind in steps(detail)]
    assert kinds.index("server-request") < kinds.index("client-response")
    moments = [frame.ms for frame in detail.frames]
    assert moments == sorted(moments)
    assert "Ann" in json.dumps(payloads(detail, "client-response"))
    assert [frame.kind for frame in detail.row.frames]


@pytest.mark.parametrize(
    ("tool", "arguments", "outcome", "status"),
    [
        ("echo", {"text": "x"}, "ok", "success"),
        ("fail", {}, "tool_error", "failure"),
        ("error", {}, "server_error", "failure"),
    ],
)
def test_whose_error_it_was_is_told(
    site: HttpGateway, tool: str, arguments: dict[str, Any], outcome: str, status: str
) -> None:
    SessionClient(site).call(f"old__{tool}", arguments)
    row = last(site, "kind:exchange", f"tool:{tool}", "server:old").row
    assert (row.outcome, row.status) == (outcome, status)


def test_an_unknown_tool_is_the_gateways_error(site: HttpGateway) -> None:
    SessionClient(site).call("old__nonsense")
    row = last(site, "method:tools/call", "status:error", "-server:*").row
    assert row.outcome == "gateway_error"


def test_lists_handshakes_and_notices_are_traffic_too(site: HttpGateway) -> None:
    SessionClient(site).request("ping")
    rows = [detail.row for detail in details(site)]

    methods = {(row.kind, row.method) for row in rows}
    assert ("exchange", "initialize") in methods
    assert ("exchange", "ping") in methods
    assert ("client-notification", "notifications/initialized") in methods
    own = [row for row in rows if row.kind == "exchange" and row.profile is None]
    assert {"tools/list"} <= {row.method for row in own}
    assert {"old", "new"} <= {row.server for row in own}


def test_the_archive_of_a_session_is_valid_and_has_both_http_legs(site: HttpGateway) -> None:
    SessionClient(site).call("new__echo", {"text": "archived"})
    har = HarWriter("1")
    written = (har.encode_entries(detail) for detail in details(site))
    document = json.loads(har.opening + b"".join(written) + har.closing)

    jsonschema_rs.validator_for(SCHEMA, validate_formats=True).validate(document)
    entries = [
        entry
        for entry in document["log"]["entries"]
        if "archived" in entry["request"].get("postData", {}).get("text", "")
    ]
    assert [entry["_anyport"]["leg"] for entry in entries] == ["client", "server"]
    assert entries[0]["startedDateTime"] <= entries[1]["startedDateTime"]


def test_the_api_and_the_files_tell_the_same_rows(site: HttpGateway) -> None:
    SessionClient(site).call("old__echo", {"text": "same"})
    status, page = site.there.get("/api/v1/traffic?limit=1000&filter=tool:echo")

    assert status == 200
    rows = LocalTraffic(site.state).newest(FilterQuery(("tool:echo",)), 1000)
    assert [row["id"] for row in page["rows"]] == [row.id for row in rows]
    status, told = site.there.get(f"/api/v1/traffic/{rows[-1].id}")
    assert status == 200
    assert "same" in json.dumps(told["details"][0]["frames"])


def test_each_capture_level_keeps_what_it_says(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("levels")
    servers = {
        slug: {"command": DEMO[0], "args": [*DEMO[1:]], "capture": slug}
        for slug in ("off", "shape", "full")
    }
    with serving(folder, servers) as site:
        client = SessionClient(site)
        for slug in servers:
            client.call(f"{slug}__echo", {"text": f"said-{slug}"})
        found = {slug: last(site, "tool:echo", f"server:{slug}") for slug in servers}

    off, shape, full = (found[slug] for slug in ("off", "shape", "full"))
    assert (off.row.shapes.params, off.row.timings.gateway_ms) == (None, None)
    assert shape.row.shapes.params == '{"text":s}'
    assert (shape.row.payload_file, shape.frames) == (None, ())
    assert "said-full" in json.dumps(payloads(full, "request"))
    kept = b"".join(path.read_bytes() for path in site.state.rglob("*") if path.is_file())
    assert b"said-full" in kept
    assert b"said-shape" not in kept
    assert b"said-off" not in kept


def test_a_row_says_nothing_that_is_not_in_its_event(site: HttpGateway) -> None:
    for detail in details(site):
        told: Row = detail.row
        event = json.loads(bytes(detail.event or b""))
        assert told.id == event["metadata"].get("span_id")
        assert told.timestamp == event["timestamp"]

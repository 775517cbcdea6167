"""One trace from a client through a whole gateway to its server, as a collector sees it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.gateway.collector import CLIENT, SERVER, Collector, attributes, collecting
from tests.harness import MODERN_META, Message, gateway, read_events
from tests.journeys.clients import MODERN, SessionClient, request
from tests.journeys.http_gateway import Field, HttpGateway, serving
from tests.journeys.scripted_http_server import Script, ScriptedHttpServer, legacy, modern, saying
from tests.journeys.scripts import Scripted, eventually, result, rule, text, tools

pytestmark = pytest.mark.slow

TRACE: Final = "0af7651916cd43dd8448eb211c80319c"
SPAN: Final = "b7ad6b7169203331"
PARENT: Final = f"00-{TRACE}-{SPAN}-01"
TRACED: Final[tuple[Field, ...]] = (("traceparent", PARENT), ("tracestate", "vendor=1"))


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    with collecting() as collector:
        yield collector


def ended(state: Path, type: str = "gateway.tool_call") -> Message:
    [event] = [each for each in read_events(state) if each["event_type"] == type]
    return event


def test_over_pipes_the_spans_are_those_of_the_journal_and_of_the_server(
    tmp_path: Path, collector: Collector
) -> None:
    server = Scripted(tmp_path, tools("echo"), rule("tools/call", result(text("hi"))))
    settings = {"endpoint": collector.url, "serviceName": "mine"}
    with gateway(tmp_path, {"s": server.command}, telemetry=settings) as client:
        client.initialize()
        client.request("tools/list")
        client.call("s__echo", traceparent=PARENT)
        told = server.wait_heard("tools/call")["params"]["_meta"]["traceparent"]
        eventually(lambda: any(span.kind == CLIENT for span in collector.spans), "spans")
        assert client.finish() == 0
        assert b"telemetry" not in client.stderr

    served = collector.span(SERVER, "tools/call s__echo")
    asked = collector.span(CLIENT, "tools/call echo")
    event = ended(tmp_path / "state")
    assert told == f"00-{TRACE}-{asked.span_id.hex()}-01"
    assert asked.parent_span_id == served.span_id
    assert served.parent_span_id.hex() == SPAN
    assert (event["trace_id"], event["metadata"]["span_id"]) == (TRACE, asked.span_id.hex())
    assert served.start_time_unix_nano <= asked.start_time_unix_nano
    assert asked.end_time_unix_nano <= served.end_time_unix_nano
    assert attributes(served.attributes)["network.transport"] == "pipe"
    assert collector.resource["service.name"] == "mine"
    # What was left is sent at the end, the numbers among it.
    assert collector.span(SERVER, "tools/list")
    [point] = collector.metric("mcp.client.operation.duration").histogram.data_points
    assert attributes(point.attributes)["gen_ai.tool.name"] == "echo"
    assert point.count == 1


def test_a_call_without_a_trace_begins_one_that_the_server_joins(
    tmp_path: Path, collector: Collector
) -> None:
    server = Scripted(tmp_path, tools("echo"), rule("tools/call", result(text("hi"))))
    with gateway(tmp_path, {"s": server.command}, telemetry={"endpoint": collector.url}) as client:
        client.initialize()
        for _ in range(3):
            client.call("s__echo")
        assert client.finish() == 0

    heard = [call["params"]["_meta"]["traceparent"] for call in server.heard("tools/call")]
    asked = [span for span in collector.spans if span.name == "tools/call echo"]
    told = [f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01" for span in asked]
    assert heard == told
    assert len(set(told)) == 3


@pytest.mark.parametrize("era", [legacy, modern])
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_over_http_a_trace_travels_in_header_fields(
    tmp_path: Path, collector: Collector, era: Any, revision: str
) -> None:
    with ScriptedHttpServer(era(saying("ok"), "work")) as web:
        settings = {"endpoint": collector.url}
        with serving(tmp_path, {"s": {"url": web.url}}, telemetry=settings) as site:
            call(site, revision, *TRACED)
            heard = web.wait_of("tools/call")
            eventually(lambda: any(span.kind == CLIENT for span in collector.spans), "spans")

        asked = collector.span(CLIENT, "tools/call work")
        own = f"00-{TRACE}-{asked.span_id.hex()}-01"
        assert heard.fields["traceparent"] == own
        assert heard.fields["tracestate"] == "vendor=1"
        assert heard.message["params"]["_meta"]["traceparent"] == own
        assert heard.message["params"]["_meta"]["tracestate"] == "vendor=1"
        assert collector.span(SERVER, "tools/call s__work").parent_span_id.hex() == SPAN
        assert ended(tmp_path / "state")["metadata"]["parent_span_id"] == SPAN


@pytest.mark.parametrize("script", [legacy(saying("ok"), "work"), modern(saying("ok"), "work")])
def test_without_telemetry_a_clients_trace_reaches_the_server_and_no_other_does(
    tmp_path: Path, script: Script
) -> None:
    with ScriptedHttpServer(script) as web, serving(tmp_path, {"s": {"url": web.url}}) as site:
        session = SessionClient(site, "2025-06-18")
        session.fields += TRACED
        session.call("s__work")
        session.fields = session.fields[: -len(TRACED)]
        for _ in range(3):
            session.call("s__work")

        traced, *plain = web.of("tools/call")
        assert traced.fields["traceparent"].split("-")[1] == TRACE
        assert traced.fields["traceparent"] == traced.message["params"]["_meta"]["traceparent"]
        assert len(plain) == 3
        for heard in plain:
            assert "traceparent" not in heard.fields
            assert b"traceparent" not in heard.body


def call(site: HttpGateway, revision: str, *fields: Field) -> None:
    """Call the tool as a client of that revision, with these header fields besides its own."""
    if revision != MODERN:
        session = SessionClient(site, revision)
        session.fields += fields
        assert "result" in session.call("s__work")
        return
    message = request("tools/call", {"name": "s__work", "arguments": {}, "_meta": MODERN_META})
    own = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", "s__work")]
    assert "result" in site.post(message, *own, *fields).ending()


def test_a_client_that_is_not_sampled_is_not_told_of(tmp_path: Path, collector: Collector) -> None:
    server = Scripted(tmp_path, tools("echo"), rule("tools/call", result(text("hi"))))
    with gateway(tmp_path, {"s": server.command}, telemetry={"endpoint": collector.url}) as client:
        client.initialize()
        client.call("s__echo", traceparent=f"{PARENT[:-2]}00")
        client.call("s__echo")
        assert client.finish() == 0

    first, _ = server.heard("tools/call")
    assert first["params"]["_meta"]["traceparent"].endswith("-00")
    traces = {span.trace_id.hex() for span in collector.spans}
    assert traces
    assert TRACE not in traces


def test_without_its_packages_a_gateway_says_so_and_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = tmp_path / "hidden" / "opentelemetry"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ImportError('not installed')")
    monkeypatch.setenv("PYTHONPATH", str(hidden.parent))
    with gateway(tmp_path, telemetry={"enabled": True}) as client:
        client.initialize()
        assert "result" in client.call("demo__echo", {"text": "x"})
        eventually(lambda: b"the extra otel" in client.stderr, "the sentence")
        assert "result" in client.call("demo__echo", {"text": "x"})
        assert client.finish() == 0
        assert client.stderr.count(b"\n") == 1


def test_a_collector_that_is_away_or_refuses_harms_nobody(
    tmp_path: Path, collector: Collector
) -> None:
    collector.status = 401
    secret = "s3cret-of-the-collector"
    settings = {"endpoint": collector.url, "headers": {"Authorization": f"Bearer {secret}"}}
    with gateway(tmp_path, telemetry=settings) as client:
        client.initialize()
        assert "result" in client.call("demo__echo", {"text": "x"})
        eventually(lambda: b"does not take our spans" in client.stderr, "the sentence")
        assert "result" in client.call("demo__echo", {"text": "x"})
        assert client.finish() == 0
        assert secret.encode() not in client.stderr
    assert collector.headers[0]["authorization"] == f"Bearer {secret}"
    assert not collector.spans


HEADS: Final[dict[str, tuple[Field, ...]]] = {
    "none": (),
    "valid": TRACED,
    "capitals": (("TraceParent", PARENT),),
    "future": (("traceparent", f"01{PARENT[2:]}-more"),),
    "invalid": (("traceparent", "nonsense"), ("tracestate", "vendor=1")),
    "all-zero": (("traceparent", f"00-{'0' * 32}-{SPAN}-01"),),
    "twice": (("traceparent", PARENT), ("traceparent", PARENT)),
    "empty": (("traceparent", ""),),
    "state-alone": (("tracestate", "vendor=1"),),
    "long-state": (("traceparent", PARENT), ("tracestate", "v=" + "1" * 8192)),
    "baggage": (("traceparent", PARENT), ("baggage", "k=" + "1" * 8192)),
}
HEARD_TRACE: Final = {"valid", "capitals", "future", "long-state", "baggage"}


def test_whatever_header_fields_say_a_server_gets_a_valid_trace_or_none(tmp_path: Path) -> None:
    with ScriptedHttpServer(modern(saying("ok"), "work")) as web:
        with serving(tmp_path, {"s": {"url": web.url}}) as site:
            for fields in HEADS.values():
                call(site, MODERN, *fields)
        heard = dict(zip(HEADS, web.of("tools/call"), strict=True))

    for name, each in heard.items():
        sent = each.fields.get("traceparent")
        about = each.message["params"].get("_meta", {})
        assert about.get("traceparent") == sent, name
        if name in HEARD_TRACE:
            assert sent is not None and sent.startswith(f"00-{TRACE}-"), name
            assert sent.split("-")[2] != SPAN
        elif sent is not None:
            assert re.fullmatch(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-0[01]", sent), name
            assert TRACE not in sent, name
        assert len(each.raw) < 2048, name
        assert "baggage" not in each.fields
    assert heard["valid"].fields["tracestate"] == "vendor=1"
    assert "tracestate" not in heard["invalid"].fields
    assert "traceparent" not in heard["none"].fields

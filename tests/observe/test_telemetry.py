"""Telemetry never costs a call anything: off it is not there, on it has bounds and a thread."""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from anyport.clock import Clock
from anyport.config.model import TelemetryConfig
from anyport.observe import telemetry as module
from anyport.observe.metrics import (
    CONNECTION,
    OPERATION,
    OVERHEAD,
    REQUEST,
    SESSION,
    HistogramFamily,
    Metrics,
)
from anyport.observe.otlp import OtlpExporter
from anyport.observe.telemetry import (
    MISSING_MESSAGE,
    QUEUE_EVENTS_MAX,
    MetricsSnapshot,
    SpanData,
    Telemetry,
    is_installed,
    metric_attributes,
    open_otlp,
    outer_span_id,
    sample_ratio_of,
    snapshot_metrics,
    spans_of,
)
from anyport.record.journal.journal import Journal
from tests.gateway.collector import collecting
from tests.record.recorded import SPAN, exchange, frame
from tests.record.story import ONE

ON = TelemetryConfig(enabled=True)


class FakeExporter:
    """Keeps what is sent, and can be held up."""

    def __init__(self) -> None:
        self.spans: list[SpanData] = []
        self.snapshots: list[MetricsSnapshot] = []
        self.answer: str | None = None
        self.fault: Exception | None = None
        self.go_on = threading.Event()
        self.go_on.set()
        self.closed = threading.Event()

    def send_spans(self, spans: Sequence[SpanData]) -> str | None:
        self.go_on.wait(30)
        if self.fault is not None:
            raise self.fault
        if self.answer is None:
            self.spans += spans
        return self.answer

    def send_metrics(self, snapshots: MetricsSnapshot, now_ns: int) -> str | None:
        self.snapshots.append(snapshots)
        return None

    def close(self) -> None:
        self.closed.set()


class LoopClock(Clock):
    """A clock that stands still, with the timers of the running loop."""

    def __init__(self) -> None:
        pass

    def now(self) -> float:
        return 1000.0


class TelemetryRun:
    """A journal, its numbers and telemetry that listens to them."""

    def __init__(
        self,
        folder: Path,
        config: TelemetryConfig = ON,
        open_exporter: Callable[..., Any] | None = None,
        **environ: str,
    ) -> None:
        self.exporter = FakeExporter()
        self.warnings: list[str] = []
        self.journal = Journal(folder, source="test", now=time.time, redact=str)
        self.metrics = Metrics(lambda: 0.0)
        self.telemetry = Telemetry(
            config,
            {"OTEL_BSP_SCHEDULE_DELAY": "10", **environ},
            LoopClock(),
            self.warnings.append,
            open_exporter or (lambda config, environ: cast(OtlpExporter, self.exporter)),
        )

    async def __aenter__(self) -> "TelemetryRun":
        self.telemetry.start(self.journal, self.metrics)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.exporter.go_on.set()
        await self.telemetry.close()
        self.journal.close()

    def call(self, count: int = 1) -> None:
        event = exchange()
        for _ in range(count):
            self.journal.record(
                "gateway.tool_call",
                "success",
                trace_id=event["trace_id"],
                metadata=event["metadata"],
                duration_ms=1.0,
            )

    @property
    def listeners(self) -> int:
        return len(self.journal._listeners)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "OPEN_SECONDS", 0.0)
    yield


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize(
    ("config", "environ"),
    [(TelemetryConfig(), {}), (ON, {"OTEL_SDK_DISABLED": "true"})],
)
def test_off_nobody_listens_and_nothing_runs(
    tmp_path: Path, config: TelemetryConfig, environ: Mapping[str, str]
) -> None:
    async def scenario() -> None:
        threads = threading.active_count()
        async with TelemetryRun(tmp_path, config, None, **environ) as run:
            run.call()
            assert run.listeners == 0
            assert threading.active_count() == threads
            assert run.telemetry.sample_ratio is None
        assert not run.exporter.spans

    asyncio.run(scenario())


def test_off_no_package_of_opentelemetry_is_imported(tmp_path: Path) -> None:
    words = (
        "import sys, anyport.observe.telemetry, anyport.gateway.gateway;"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", words], check=True, timeout=120)


def test_a_call_is_told_with_both_its_spans(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with TelemetryRun(tmp_path) as run:
            run.call()
            run.journal.record("gateway.started", "success", trace_id="0" * 32, metadata={})
            await until(lambda: len(run.exporter.spans) == 2)
        assert [span.is_server for span in run.exporter.spans] == [True, False]
        assert run.listeners == 0

    asyncio.run(scenario())


def test_what_is_left_is_sent_when_the_gateway_stops(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with TelemetryRun(tmp_path, OTEL_BSP_SCHEDULE_DELAY="60000") as run:
            run.call(3)
            assert not run.exporter.spans
        assert len(run.exporter.spans) == 6
        assert len(run.exporter.snapshots) == 1
        assert run.exporter.closed.is_set()

    asyncio.run(scenario())


def test_a_full_batch_does_not_wait_for_the_time_to_send(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with TelemetryRun(tmp_path, OTEL_BSP_SCHEDULE_DELAY="60000") as run:
            run.call(module.BATCH_EVENTS_MAX)
            await until(lambda: len(run.exporter.spans) == 2 * module.BATCH_EVENTS_MAX)

    asyncio.run(scenario())


def test_numbers_are_sent_from_time_to_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with TelemetryRun(tmp_path, OTEL_METRIC_EXPORT_INTERVAL="10") as run:
            await until(lambda: len(run.exporter.snapshots) >= 2)

    asyncio.run(scenario())


def test_a_slow_collector_costs_spans_and_bounded_memory(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with TelemetryRun(tmp_path) as run:
            run.exporter.go_on.clear()
            run.call(QUEUE_EVENTS_MAX * 2)
            assert len(run.telemetry._queue) <= QUEUE_EVENTS_MAX
            dropped = run.telemetry.dropped
            assert dropped >= QUEUE_EVENTS_MAX - module.BATCH_EVENTS_MAX
            run.exporter.go_on.set()
            told = 2 * (QUEUE_EVENTS_MAX * 2 - dropped)
            await until(lambda: len(run.exporter.spans) == told)
        assert run.exporter.snapshots[-1].dropped == dropped

    asyncio.run(scenario())


def test_large_events_are_bounded_by_their_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "QUEUE_BYTES_MAX", 4000)

    async def scenario() -> None:
        async with TelemetryRun(tmp_path) as run:
            run.exporter.go_on.clear()
            run.call(100)
            assert sum(map(len, run.telemetry._queue)) <= 4000
            assert run.telemetry.dropped > 80
            run.exporter.go_on.set()
            # What has been sent makes room.
            await until(lambda: not run.telemetry._queue)
            dropped = run.telemetry.dropped
            run.call()
            assert run.telemetry.dropped == dropped

    asyncio.run(scenario())


def test_a_collector_that_hangs_does_not_hold_up_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FLUSH_SECONDS_MAX", 0.05)

    async def scenario() -> None:
        run = TelemetryRun(tmp_path)
        await run.__aenter__()
        run.exporter.go_on.clear()
        run.call()
        await until(lambda: not run.telemetry._queue)
        await run.telemetry.close()
        # It came back although nothing was sent, and the exporter was told to give up.
        assert not run.exporter.spans
        assert run.exporter.closed.is_set()
        run.exporter.go_on.set()
        run.journal.close()

    asyncio.run(scenario())


def test_trouble_is_said_once_and_so_is_its_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with TelemetryRun(tmp_path) as run:
            run.exporter.answer = "code: 401"
            for _ in range(3):
                run.call()
                await until(lambda: not run.telemetry._queue)
            await until(lambda: bool(run.telemetry.troubles))
            run.exporter.answer = None
            run.call()
            await until(lambda: not run.telemetry.troubles)
        assert run.warnings == [
            "the collector of telemetry does not take our spans: code: 401",
            "the collector of telemetry takes our spans again",
        ]

    asyncio.run(scenario())


def test_an_outlet_that_breaks_is_tried_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with TelemetryRun(tmp_path) as run:
            run.exporter.fault = ValueError("broken")
            run.call()
            await until(lambda: bool(run.warnings))
            run.exporter.fault = None
            run.call()
            await until(lambda: len(run.exporter.spans) == 2)
        assert "ValueError: broken" in run.warnings[0]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (ImportError("x"), MISSING_MESSAGE),
        (ValueError("no such file"), "telemetry cannot be sent: no such"),
    ],
)
def test_without_its_packages_the_gateway_runs_on_and_says_how_to_get_them(
    tmp_path: Path, fault: Exception, words: str
) -> None:
    def fail(*_: object) -> None:
        raise fault

    async def scenario() -> None:
        async with TelemetryRun(tmp_path, open_exporter=fail) as run:
            run.call()
            await until(lambda: bool(run.warnings))
            await until(lambda: run.listeners == 0)
            run.call()
        assert len(run.warnings) == 1
        assert run.warnings[0].startswith(words)
        assert not run.telemetry._queue

    assert "install the extra otel (in a checkout: pip install '.[otel]')" in MISSING_MESSAGE
    asyncio.run(scenario())


def test_the_real_outlet_is_found_by_its_name(tmp_path: Path) -> None:
    with collecting() as collector:
        config = TelemetryConfig(enabled=True, endpoint=collector.url)

        async def scenario() -> None:
            async with TelemetryRun(tmp_path, config, open_otlp) as run:
                run.call()
            assert not run.warnings

        asyncio.run(scenario())
    assert len(collector.spans) == 2
    assert collector.metric("anyport.telemetry.dropped")


@pytest.mark.parametrize(
    ("environ", "share"),
    [
        ({}, 1.0),
        ({"OTEL_TRACES_SAMPLER": "always_off"}, 0.0),
        ({"OTEL_TRACES_SAMPLER": "parentbased_always_on"}, 1.0),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"}, 0.25),
        ({"OTEL_TRACES_SAMPLER": "parentbased_traceidratio"}, 1.0),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "7"}, 1.0),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "nan"}, 1.0),
        ({"OTEL_TRACES_SAMPLER": "jaeger_remote"}, 1.0),
    ],
)
def test_the_share_of_traces_is_the_environments_unless_it_is_configured(
    environ: dict[str, str], share: float
) -> None:
    assert sample_ratio_of(ON, environ) == share
    assert sample_ratio_of(TelemetryConfig(sample=0.5), environ) == 0.5


def test_whether_the_packages_are_there_is_known_without_running_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert is_installed()
    monkeypatch.setattr("anyport.observe.telemetry.PACKAGES", ("anyport_absent",))
    assert not is_installed()
    monkeypatch.setattr("anyport.observe.telemetry.PACKAGES", ("anyport_absent.inner",))
    assert not is_installed()


# Spans


PARENT = "b7ad6b7169203331"
END_NS = 1_785_240_000_250_000_000
MS = 1_000_000


def told(event: dict[str, Any], share: float = 1.0) -> tuple[SpanData, ...]:
    return spans_of(json.dumps(event).encode(), share)


def both(**changes: Any) -> tuple[SpanData, SpanData]:
    served, asked = told(exchange(**changes))
    assert (served.is_server, asked.is_server) == (True, False)
    return served, asked


def test_a_call_is_a_servers_span_and_a_clients_span_inside_it() -> None:
    served, asked = both(parent_span_id=PARENT)

    assert {served.trace_id, asked.trace_id} == {int(ONE, 16)}
    # The server was told the record's own id as its parent's.
    assert asked.span_id == int(SPAN, 16)
    assert asked.parent_id == served.span_id == outer_span_id(asked.span_id)
    assert served.parent_id == int(PARENT, 16)
    assert (served.parent_is_remote, asked.parent_is_remote) == (True, False)


def test_a_trace_that_begins_here_has_no_parent() -> None:
    served, _ = both()
    assert served.parent_id is None


def test_the_wait_for_the_server_lies_within_the_wait_of_the_client() -> None:
    served, asked = both()

    assert served.end_ns == END_NS
    assert served.end_ns - served.start_ns == 231_500_000
    assert asked.start_ns - served.start_ns == round(2.5 * MS)
    assert asked.end_ns - asked.start_ns == 200 * MS


def test_a_wait_that_was_noted_longer_than_the_whole_is_cut() -> None:
    served, asked = both(queue_ms=1000.0, server_ms=1000.0)
    assert served.start_ns <= asked.start_ns <= asked.end_ns <= served.end_ns


def test_the_attributes_are_those_of_the_conventions() -> None:
    served, asked = both()

    assert served.name == "tools/call github__create_issue"
    assert served.attributes == {
        "mcp.method.name": "tools/call",
        "gen_ai.tool.name": "github__create_issue",
        "gen_ai.operation.name": "execute_tool",
        "mcp.protocol.version": "2025-06-18",
        "mcp.session.id": "s1",
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "anyport.profile": "dev",
        "anyport.server": "github",
        "anyport.client": "cursor-vscode 1.0.0",
        "anyport.principal": "alice",
        "anyport.queue_ms": 2.5,
    }
    assert asked.name == "tools/call create_issue"
    assert asked.attributes == {
        "mcp.method.name": "tools/call",
        "gen_ai.tool.name": "create_issue",
        "gen_ai.operation.name": "execute_tool",
        "mcp.protocol.version": "2026-07-28",
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "anyport.server": "github",
    }
    assert served.error is asked.error is None


def test_a_pipe_is_called_one() -> None:
    _, asked = both(server_transport="stdio")
    assert asked.attributes["network.transport"] == "pipe"
    assert "network.protocol.name" not in asked.attributes


@pytest.mark.parametrize(
    ("status", "code", "outcome", "kind"),
    [
        ("failure", None, "tool_error", "tool_error"),
        ("failure", -32602, "server_error", "-32602"),
        ("timeout", -32001, "timeout", "timeout"),
        ("cancelled", None, "cancelled", "cancelled"),
    ],
)
def test_a_failure_is_told_on_both_spans(
    status: str, code: int | None, outcome: str, kind: str
) -> None:
    event = {"status": status, "error_code": code, "error_message": "No"}
    for span in both(outcome=outcome, event=event):
        assert span.attributes["error.type"] == kind
        told = span.attributes.get("rpc.response.status_code")
        assert told == (None if code is None else str(code))
        assert span.error == "No"


def test_a_resource_is_an_attribute_and_not_part_of_a_name() -> None:
    served, asked = both(
        event={"event_type": "gateway.resource_read"},
        method="resources/read",
        tool=None,
        public_name=None,
        uri="file:///a",
    )
    for span in (served, asked):
        assert span.name == "resources/read"
        assert span.attributes["mcp.resource.uri"] == "file:///a"
        assert "gen_ai.operation.name" not in span.attributes


def test_a_prompt_is_part_of_a_name() -> None:
    _, asked = both(
        event={"event_type": "gateway.prompt_get"}, method="prompts/get", tool=None, prompt="greet"
    )
    assert asked.name == "prompts/get greet"
    assert asked.attributes["gen_ai.prompt.name"] == "greet"


def test_what_the_gateway_answers_itself_is_one_span_under_the_id_of_the_record() -> None:
    [span] = told(
        exchange(
            event={"event_type": "gateway.exchange"},
            method="tools/list",
            tool=None,
            public_name=None,
            server=None,
            server_ms=None,
        )
    )
    assert span.is_server
    assert span.span_id == int(SPAN, 16)
    assert span.name == "tools/list"


def test_what_the_gateway_asks_for_itself_is_a_clients_span_alone() -> None:
    [span] = told(
        exchange(
            event={"event_type": "gateway.exchange"},
            method="initialize",
            profile=None,
            tool=None,
            public_name=None,
        )
    )
    assert not span.is_server
    assert span.parent_id is None


@pytest.mark.parametrize("why", [{"server_ms": None, "sent_bytes": None}, {"cached": True}])
def test_a_server_that_was_not_asked_has_no_span(why: dict[str, Any]) -> None:
    [span] = told(exchange(**why))
    assert span.is_server
    assert span.attributes["anyport.server"] == "github"


def test_a_name_that_nobody_has_does_not_become_one_of_a_span() -> None:
    [span] = told(
        exchange(
            tool="made up",
            public_name=None,
            server=None,
            server_ms=None,
            event={"status": "failure", "error_code": -32602},
        )
    )
    assert span.name == "tools/call"
    assert span.attributes["gen_ai.tool.name"] == "made up"


def test_without_capture_the_whole_time_is_the_servers() -> None:
    little = {"method", "queue_ms", "server_ms", "client_revision", "server_revision"}
    served, asked = both(**dict.fromkeys(little))
    assert served.name == "tools/call github__create_issue"
    assert (asked.start_ns, asked.end_ns) == (served.start_ns, served.end_ns)


def test_a_trace_is_told_as_a_whole_or_not_at_all() -> None:
    kept = f"{'f' * 16}{'0' * 15}1"
    left = f"{'0' * 16}{'f' * 16}"
    assert len(told(exchange(event={"trace_id": kept}), 0.5)) == 2
    assert told(exchange(event={"trace_id": left}), 0.5) == ()
    assert told(exchange(), 0.0) == ()


def test_a_clients_trace_is_told_whatever_the_share_unless_the_client_does_not_want_it() -> None:
    assert len(told(exchange(parent_span_id=PARENT), 0.0)) == 2
    assert told(exchange(parent_span_id=PARENT, sampled=False), 1.0) == ()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[1]",
        b'{"event_type":"gateway.tool_call","status":"success"}',
        json.dumps(exchange(event={"status": "pending"})).encode(),
        json.dumps(exchange(event={"trace_id": "nonsense"})).encode(),
        json.dumps(exchange(event={"timestamp": "yesterday"})).encode(),
        json.dumps(exchange(event={"metadata": 7})).encode(),
        json.dumps(exchange(span_id="x")).encode(),
        json.dumps(exchange(span_id=None)).encode(),
        json.dumps(exchange(parent_span_id=7)).encode(),
        json.dumps(frame()).encode(),
        b'{"event_type":"gateway.started","status":"success","metadata":{}}',
    ],
)
def test_what_is_no_exchange_that_has_ended_makes_no_spans(line: bytes) -> None:
    assert spans_of(line, 1.0) == ()


@pytest.mark.parametrize("id", [1, 1 << 63, (1 << 64) - 1])
def test_the_id_of_the_outer_span_is_another_and_never_none(id: int) -> None:
    assert 0 < outer_span_id(id) < 1 << 64
    assert outer_span_id(id) != id


# Metrics


def counted() -> Metrics:
    metrics = Metrics(iter([0.0, 10.0, 15.0, 20.0]).__next__)
    call = ("tools/call", "dev", "2025-06-18", "tcp", "github", "search", "")
    metrics.count_call(call, 0.3, 0.2)
    metrics.count_call((*call[:-1], "-32602"), 0.3, 0.2)
    metrics.start_lifetime("s")
    metrics.end_session("s", "dev", "2025-06-18", "tcp")
    return metrics


def test_every_family_is_copied() -> None:
    metrics = counted()
    found = snapshot_metrics(metrics, 7)
    metrics.count_call(("ping", "dev", "2025-06-18", "tcp", "", "", ""), 1.0, None)
    metrics.update_histograms()

    told = {family.name: dict(series) for family, series in found.histograms}
    assert list(told) == [
        *(family.name for family in (OPERATION, REQUEST, OVERHEAD, SESSION, CONNECTION)),
    ]
    assert len(told["mcp.server.operation.duration"]) == 2
    [[session, counts]] = told["mcp.server.session.duration"].items()
    assert session == ("dev", "2025-06-18", "tcp")
    assert (sum(counts[:-1]), counts[-1]) == (1, 5.0)
    assert (found.dropped, found.uptime_seconds) == (7, 20.0)


@pytest.mark.parametrize(
    ("family", "labels", "told"),
    [
        (
            OPERATION,
            ("tools/call", "dev", "2025-06-18", "pipe", "-32602"),
            {
                "mcp.method.name": "tools/call",
                "anyport.profile": "dev",
                "mcp.protocol.version": "2025-06-18",
                "network.transport": "pipe",
                "error.type": "-32602",
                "rpc.response.status_code": "-32602",
                "gen_ai.operation.name": "execute_tool",
            },
        ),
        (
            REQUEST,
            ("prompts/get", "github", "", "timeout"),
            {
                "mcp.method.name": "prompts/get",
                "anyport.server": "github",
                "error.type": "timeout",
            },
        ),
        (OVERHEAD, ("tools/call",), {"mcp.method.name": "tools/call"}),
        (CONNECTION, ("github",), {"anyport.server": "github"}),
    ],
)
def test_attributes_that_do_not_apply_are_left_out(
    family: HistogramFamily, labels: tuple[str, ...], told: dict[str, str]
) -> None:
    assert metric_attributes(family, labels) == told

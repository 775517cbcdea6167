"""What leaves for a collector, as the packages of OpenTelemetry and a real receiver read it."""

import json
import logging
from collections.abc import Mapping
from types import MappingProxyType

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from anyport.config.model import TelemetryConfig
from anyport.observe.otlp import OtlpExporter, build_resource, open_exporter
from anyport.observe.telemetry import SpanData, snapshot_metrics, spans_of
from tests.gateway.collector import CLIENT, SERVER, attributes, collecting
from tests.observe.test_telemetry import counted
from tests.record.recorded import SPAN, exchange
from tests.record.story import ONE

PARENT = "b7ad6b7169203331"
NO_ENVIRONMENT: Mapping[str, str] = {}


def spans(failed: bool = False) -> tuple[SpanData, ...]:
    event = {"status": "failure", "error_code": -32602, "error_message": "No"} if failed else {}
    return spans_of(json.dumps(exchange(parent_span_id=PARENT, event=event)).encode(), 1.0)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exporters read the real one."""
    for name in ("ENDPOINT", "HEADERS", "TIMEOUT", "COMPRESSION"):
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{name}", raising=False)
    for name in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"):
        monkeypatch.delenv(name, raising=False)


def test_spans_are_those_of_the_sdk() -> None:
    memory = InMemorySpanExporter()
    assert OtlpExporter(Resource({}), memory, None).send_spans(spans(failed=True)) is None

    served, asked = memory.get_finished_spans()
    assert (served.kind, asked.kind) == (SpanKind.SERVER, SpanKind.CLIENT)
    assert served.parent is not None and served.parent.span_id == int(PARENT, 16)
    assert served.parent.is_remote
    assert asked.parent is not None and served.context is not None and asked.context is not None
    assert asked.parent.span_id == served.context.span_id
    assert f"{asked.context.span_id:016x}" == SPAN
    assert f"{asked.context.trace_id:032x}" == ONE
    assert served.status.status_code is StatusCode.ERROR
    assert served.status.description == "No"


def test_a_collector_gets_spans_and_numbers_with_our_headers() -> None:
    with collecting() as collector:
        headers = MappingProxyType({"Authorization": "Bearer x"})
        config = TelemetryConfig(enabled=True, endpoint=f"{collector.url}/", headers=headers)
        exporter = open_exporter(config, NO_ENVIRONMENT)
        assert exporter.send_spans(spans()) is None
        assert exporter.send_metrics(snapshot_metrics(counted(), 3), 10**18) is None
        exporter.close()

    served = collector.span(SERVER, "tools/call github__create_issue")
    asked = collector.span(CLIENT, "tools/call create_issue")
    assert asked.trace_id.hex() == ONE
    assert asked.span_id.hex() == SPAN
    assert asked.parent_span_id == served.span_id
    assert served.parent_span_id.hex() == PARENT
    assert attributes(served.attributes)["mcp.method.name"] == "tools/call"
    assert collector.resource["service.name"] == "anyport"
    assert {each["authorization"] for each in collector.headers} == {"Bearer x"}
    told = collector.metric("mcp.server.operation.duration")
    assert told.unit == "s"
    point = told.histogram.data_points[0]
    assert (point.count, point.sum, sum(point.bucket_counts)) == (1, 0.3, 1)
    assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
    assert point.start_time_unix_nano == 10**18 - 20 * 10**9
    assert not point.HasField("min")
    dropped = collector.metric("anyport.telemetry.dropped")
    assert dropped.sum.is_monotonic and dropped.sum.data_points[0].as_int == 3


def test_the_environment_names_the_collector_where_the_configuration_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=ours")
        exporter = open_exporter(TelemetryConfig(enabled=True), NO_ENVIRONMENT)
        assert exporter.send_spans(spans()) is None
        exporter.close()
    assert len(collector.spans) == 2
    assert collector.headers[0]["x-team"] == "ours"


def test_who_is_speaking_is_said_by_the_configuration_then_by_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named = TelemetryConfig(name="mine")
    assert build_resource(TelemetryConfig()).attributes["service.name"] == "anyport"
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=theirs,deployment=test")
    assert build_resource(TelemetryConfig()).attributes["service.name"] == "theirs"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "ours")
    assert build_resource(TelemetryConfig()).attributes["service.name"] == "ours"
    assert build_resource(named).attributes["service.name"] == "mine"
    assert build_resource(named).attributes["deployment"] == "test"


@pytest.mark.parametrize(
    ("environ", "counts"),
    [
        ({"OTEL_TRACES_EXPORTER": "none"}, (0, True)),
        ({"OTEL_METRICS_EXPORTER": "none"}, (2, False)),
    ],
)
def test_one_signal_can_be_switched_off(environ: dict[str, str], counts: tuple[int, bool]) -> None:
    with collecting() as collector:
        config = TelemetryConfig(enabled=True, endpoint=collector.url)
        exporter = open_exporter(config, environ)
        exporter.send_spans(spans())
        exporter.send_metrics(snapshot_metrics(counted(), 0), 10**18)
        exporter.close()
    assert (len(collector.spans), bool(collector.metrics)) == counts


def test_a_collector_that_takes_nothing_is_a_reason_and_no_noise(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with collecting() as collector:
        collector.status = 401
        exporter = open_exporter(
            TelemetryConfig(enabled=True, endpoint=collector.url), NO_ENVIRONMENT
        )
        told = exporter.send_spans(spans())
        said = exporter.send_metrics(snapshot_metrics(counted(), 0), 10**18)
        exporter.close()
    assert told is not None and "401" in told
    assert said is not None and "401" in said
    assert capfd.readouterr() == ("", "")


def test_what_the_packages_log_stays_out_of_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    OtlpExporter(Resource({}), None, None)
    logging.getLogger("opentelemetry.somewhere").error("noise")
    assert capfd.readouterr() == ("", "")

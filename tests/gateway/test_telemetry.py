"""Telemetry never costs a call anything: off it is not there, on it has bounds and a thread."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from anyport.config.schema import TelemetryConfig
from anyport.gateway import telemetry as module
from anyport.gateway.metrics import Metrics
from anyport.gateway.telemetry import (
    MISSING,
    QUEUE_EVENTS_MAX,
    Telemetry,
    installed,
    open_otlp,
    share_of,
)
from anyport.gateway.telemetry_metrics import Figures
from anyport.gateway.telemetry_spans import Span
from anyport.record.journal import Journal
from tests.gateway.collector import collecting
from tests.record.recorded import exchange

ON = TelemetryConfig(enabled=True)


class FakeOutlet:
    """Keeps what is sent, and can be held up."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.figures: list[Figures] = []
        self.answer: str | None = None
        self.fault: Exception | None = None
        self.go_on = threading.Event()
        self.go_on.set()
        self.closed = threading.Event()

    def send_spans(self, spans: Sequence[Span]) -> str | None:
        self.go_on.wait(30)
        if self.fault is not None:
            raise self.fault
        if self.answer is None:
            self.spans += spans
        return self.answer

    def send_figures(self, figures: Figures, now_ns: int) -> str | None:
        self.figures.append(figures)
        return None

    def close(self) -> None:
        self.closed.set()


class Watched:
    """A journal, its numbers and telemetry that listens to them."""

    def __init__(
        self,
        folder: Path,
        config: TelemetryConfig = ON,
        open_outlet: Callable[..., Any] | None = None,
        **environ: str,
    ) -> None:
        self.outlet = FakeOutlet()
        self.said: list[str] = []
        self.journal = Journal(folder, source="test", clock=time.time, redact=str)
        self.metrics = Metrics(lambda: 0.0)
        self.telemetry = Telemetry(
            config,
            {"OTEL_BSP_SCHEDULE_DELAY": "10", **environ},
            lambda: 1000.0,
            self.said.append,
            open_outlet or (lambda config, environ: self.outlet),
        )

    async def __aenter__(self) -> "Watched":
        later = asyncio.get_running_loop().call_later
        self.telemetry.start(self.journal, self.metrics, later)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.outlet.go_on.set()
        await self.telemetry.close()
        self.journal.close()

    def call(self, count: int = 1) -> None:
        event = exchange()
        for _ in range(count):
            self.journal.note(
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
        async with Watched(tmp_path, config, None, **environ) as watched:
            watched.call()
            assert watched.listeners == 0
            assert threading.active_count() == threads
            assert watched.telemetry.share is None
        assert not watched.outlet.spans

    asyncio.run(scenario())


def test_off_no_package_of_opentelemetry_is_imported(tmp_path: Path) -> None:
    words = (
        "import sys, anyport.gateway.telemetry, anyport.gateway.runtime;"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", words], check=True, timeout=30)


def test_a_call_is_told_with_both_its_spans(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Watched(tmp_path) as watched:
            watched.call()
            watched.journal.note("gateway.started", "success", trace_id="0" * 32, metadata={})
            await until(lambda: len(watched.outlet.spans) == 2)
        assert [span.serves for span in watched.outlet.spans] == [True, False]
        assert watched.listeners == 0

    asyncio.run(scenario())


def test_what_is_left_is_sent_when_the_gateway_stops(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Watched(tmp_path, OTEL_BSP_SCHEDULE_DELAY="60000") as watched:
            watched.call(3)
            assert not watched.outlet.spans
        assert len(watched.outlet.spans) == 6
        assert len(watched.outlet.figures) == 1
        assert watched.outlet.closed.is_set()

    asyncio.run(scenario())


def test_a_full_batch_does_not_wait_for_the_time_to_send(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Watched(tmp_path, OTEL_BSP_SCHEDULE_DELAY="60000") as watched:
            watched.call(module.BATCH_EVENTS_MAX)
            await until(lambda: len(watched.outlet.spans) == 2 * module.BATCH_EVENTS_MAX)

    asyncio.run(scenario())


def test_numbers_are_sent_from_time_to_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Watched(tmp_path, OTEL_METRIC_EXPORT_INTERVAL="10") as watched:
            await until(lambda: len(watched.outlet.figures) >= 2)

    asyncio.run(scenario())


def test_a_slow_collector_costs_spans_and_bounded_memory(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Watched(tmp_path) as watched:
            watched.outlet.go_on.clear()
            watched.call(QUEUE_EVENTS_MAX * 2)
            assert len(watched.telemetry._queue) <= QUEUE_EVENTS_MAX
            dropped = watched.telemetry.dropped
            assert dropped >= QUEUE_EVENTS_MAX - module.BATCH_EVENTS_MAX
            watched.outlet.go_on.set()
            told = 2 * (QUEUE_EVENTS_MAX * 2 - dropped)
            await until(lambda: len(watched.outlet.spans) == told)
        assert watched.outlet.figures[-1].dropped == dropped

    asyncio.run(scenario())


def test_large_events_are_bounded_by_their_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "QUEUE_BYTES_MAX", 4000)

    async def scenario() -> None:
        async with Watched(tmp_path) as watched:
            watched.outlet.go_on.clear()
            watched.call(100)
            assert sum(map(len, watched.telemetry._queue)) <= 4000
            assert watched.telemetry.dropped > 80
            watched.outlet.go_on.set()
            # What has been sent makes room.
            await until(lambda: not watched.telemetry._queue)
            dropped = watched.telemetry.dropped
            watched.call()
            assert watched.telemetry.dropped == dropped

    asyncio.run(scenario())


def test_a_collector_that_hangs_does_not_hold_up_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FLUSH_SECONDS_MAX", 0.05)

    async def scenario() -> None:
        watched = Watched(tmp_path)
        await watched.__aenter__()
        watched.outlet.go_on.clear()
        watched.call()
        await until(lambda: not watched.telemetry._queue)
        await watched.telemetry.close()
        # It came back although nothing was sent, and the outlet was told to give up.
        assert not watched.outlet.spans
        assert watched.outlet.closed.is_set()
        watched.outlet.go_on.set()
        watched.journal.close()

    asyncio.run(scenario())


def test_trouble_is_said_once_and_so_is_its_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Watched(tmp_path) as watched:
            watched.outlet.answer = "code: 401"
            for _ in range(3):
                watched.call()
                await until(lambda: not watched.telemetry._queue)
            await until(lambda: bool(watched.telemetry.troubles))
            watched.outlet.answer = None
            watched.call()
            await until(lambda: not watched.telemetry.troubles)
        assert watched.said == [
            "the collector of telemetry does not take our spans: code: 401",
            "the collector of telemetry takes our spans again",
        ]

    asyncio.run(scenario())


def test_an_outlet_that_breaks_is_tried_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Watched(tmp_path) as watched:
            watched.outlet.fault = ValueError("broken")
            watched.call()
            await until(lambda: bool(watched.said))
            watched.outlet.fault = None
            watched.call()
            await until(lambda: len(watched.outlet.spans) == 2)
        assert "ValueError: broken" in watched.said[0]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (ImportError("x"), MISSING),
        (ValueError("no such file"), "telemetry cannot be sent: no such"),
    ],
)
def test_without_its_packages_the_gateway_runs_on_and_says_how_to_get_them(
    tmp_path: Path, fault: Exception, words: str
) -> None:
    def fail(*_: object) -> None:
        raise fault

    async def scenario() -> None:
        async with Watched(tmp_path, open_outlet=fail) as watched:
            watched.call()
            await until(lambda: bool(watched.said))
            await until(lambda: watched.listeners == 0)
            watched.call()
        assert len(watched.said) == 1
        assert watched.said[0].startswith(words)
        assert not watched.telemetry._queue

    assert "install the extra otel (in a checkout: pip install '.[otel]')" in MISSING
    asyncio.run(scenario())


def test_the_real_outlet_is_found_by_its_name(tmp_path: Path) -> None:
    with collecting() as collector:
        config = TelemetryConfig(enabled=True, endpoint=collector.url)

        async def scenario() -> None:
            async with Watched(tmp_path, config, open_otlp) as watched:
                watched.call()
            assert not watched.said

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
    assert share_of(ON, environ) == share
    assert share_of(TelemetryConfig(sample=0.5), environ) == 0.5


def test_whether_the_packages_are_there_is_known_without_running_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert installed()
    monkeypatch.setattr("anyport.gateway.telemetry.PACKAGES", ("anyport_absent",))
    assert not installed()
    monkeypatch.setattr("anyport.gateway.telemetry.PACKAGES", ("anyport_absent.inner",))
    assert not installed()

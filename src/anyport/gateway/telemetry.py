"""Tells a collector of OpenTelemetry what happened: spans from the journal's events, and numbers.

Off unless somebody asks for it, and then it costs nothing: nobody listens to the journal, and no
package of OpenTelemetry is imported. On, the loop only puts an event's line into a queue; what
becomes of it is done by a thread. A collector that is slow, away or wrong costs spans, never calls.
"""

import asyncio
import math
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Protocol, TypeAlias, cast

from anyport.config.schema import TelemetryConfig
from anyport.gateway.metrics import Metrics
from anyport.gateway.telemetry_metrics import Figures, figures
from anyport.gateway.telemetry_spans import Span, spans_of
from anyport.record.journal import Journal

QUEUE_EVENTS_MAX: Final = 8192
"""Events that wait to be sent; of more, spans are not made, but counted."""
QUEUE_BYTES_MAX: Final = 16 * 1024 * 1024
"""What those may hold together."""
BATCH_EVENTS_MAX: Final = 256
"""Events whose spans are sent together; so many are sent without waiting for more."""
SEND_SECONDS_DEFAULT: Final = 5.0
"""Between two looks at what is to be sent: `OTEL_BSP_SCHEDULE_DELAY`, which has milliseconds."""
OPEN_SECONDS: Final = 1.0
"""Before the packages are imported: not while a client waits for its first answer."""
FIGURES_SECONDS_DEFAULT: Final = 60.0
"""Between two readings of the numbers: `OTEL_METRIC_EXPORT_INTERVAL`, likewise."""
FLUSH_SECONDS_MAX: Final = 3.0
"""For what is left when the gateway stops; a collector that is away must not hold it up."""

MISSING: Final = (
    "telemetry is switched on, but the packages that it needs are not installed: "
    "install the extra otel (in a checkout: pip install '.[otel]')"
)
PACKAGES: Final = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
_KINDS: Final = (
    b'"event_type":"gateway.tool_call"',
    b'"event_type":"gateway.exchange"',
    b'"event_type":"gateway.resource_read"',
    b'"event_type":"gateway.prompt_get"',
)
_KIND_BYTES_WITHIN: Final = 256
"""Where in a line its type stands: behind times and ids of known length."""
_SAMPLERS: Final[Mapping[str, float | None]] = {
    "always_on": 1.0,
    "always_off": 0.0,
    "traceidratio": None,
}
"""The share that a sampler keeps; None where `OTEL_TRACES_SAMPLER_ARG` says it."""


class Outlet(Protocol):
    """Where spans and numbers leave; see `telemetry_otlp`."""

    def send_spans(self, spans: Sequence[Span]) -> str | None:
        """Send spans; returns why they were not taken, if they were not."""

    def send_figures(self, figures: Figures, now_ns: int) -> str | None:
        """Send all numbers; returns why they were not taken, if they were not."""

    def close(self) -> None:
        """Give up what is under way."""


Later: TypeAlias = Callable[[float, Callable[[], None]], asyncio.TimerHandle]
"""Runs something on the loop after some seconds."""


def open_otlp(config: TelemetryConfig, environ: Mapping[str, str]) -> Outlet:
    """The real outlet, with all that it imports.

    Raises:
        ImportError: the packages are not there.
    """
    module = import_module("anyport.gateway.telemetry_otlp")
    return cast(Outlet, module.open_outlet(config, environ))


class Telemetry:
    """Listens, and has a thread send what it heard."""

    def __init__(
        self,
        config: TelemetryConfig,
        environ: Mapping[str, str],
        clock: Callable[[], float],
        say: Callable[[str], None],
        open_outlet: Callable[[TelemetryConfig, Mapping[str, str]], Outlet] = open_otlp,
    ) -> None:
        self.enabled = is_on(config, environ)
        self.share = share_of(config, environ) if self.enabled else None
        """Of the traces that begin here, how many are told; None if none are, nor begun."""
        self.dropped = 0
        """Exchanges that came when too many were waiting."""
        self.troubles: dict[str, str] = {}
        """Why the collector does not take spans or numbers now."""
        self._config = config
        self._environ = environ
        self._clock = clock
        self._say = say
        self._open_outlet = open_outlet
        self._outlet: Outlet | None = None
        self._queue: deque[bytes] = deque()
        self._heard_bytes = 0
        self._taken_bytes = 0
        """Counted by the one thread each; what waits is the difference."""
        self._figures: Figures | None = None
        self._wake = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._stop_listening: Callable[[], None] = lambda: None
        self._metrics: Metrics | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._send_seconds = _seconds(environ, "OTEL_BSP_SCHEDULE_DELAY", SEND_SECONDS_DEFAULT)
        self._figures_seconds = _seconds(
            environ, "OTEL_METRIC_EXPORT_INTERVAL", FIGURES_SECONDS_DEFAULT
        )

    def start(self, journal: Journal, metrics: Metrics, later: Later) -> None:
        """Begin to listen, if anybody is to be told."""
        if not self.enabled:
            return
        self._stop_listening = journal.subscribe(self._hear)
        self._metrics = metrics
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()
        self._read_later(later)

    async def close(self) -> None:
        """Send what is left, within bounds."""
        self._stop_listening()
        if self._timer is not None:
            self._timer.cancel()
        thread = self._thread
        if thread is None or not thread.is_alive():
            return
        self._read()
        self._closing = True
        self._wake.set()
        await asyncio.to_thread(thread.join, FLUSH_SECONDS_MAX)
        if thread.is_alive() and self._outlet is not None:
            self._outlet.close()  # What it still waits for, nobody waits for any more.

    def report(self) -> dict[str, Any] | None:
        """How it is doing; None while it is off."""
        if not self.enabled:
            return None
        return {"dropped": self.dropped, "troubles": self.troubles.copy()}

    # On the loop.

    def _hear(self, line: bytes) -> None:
        """Keep a line of the journal, if it tells of an exchange."""
        head = line[:_KIND_BYTES_WITHIN]
        if not any(kind in head for kind in _KINDS):
            return
        waiting, size = len(self._queue), len(line)
        held_bytes = self._heard_bytes - self._taken_bytes
        if waiting >= QUEUE_EVENTS_MAX or held_bytes + size > QUEUE_BYTES_MAX:
            self.dropped += 1
            return
        self._heard_bytes += size
        self._queue.append(line)
        if waiting + 1 == BATCH_EVENTS_MAX:
            self._wake.set()

    def _read_later(self, later: Later) -> None:
        self._timer = later(self._figures_seconds, lambda: self._read_often(later))

    def _read_often(self, later: Later) -> None:
        self._read()
        self._wake.set()
        self._read_later(later)

    def _read(self) -> None:
        if self._metrics is not None:
            self._figures = figures(self._metrics, self.dropped)

    # In the thread.

    def _run(self) -> None:
        self._wake.wait(OPEN_SECONDS)
        try:
            self._outlet = self._open_outlet(self._config, self._environ)
        except ImportError:
            self._give_up(MISSING)
            return
        except Exception as error:  # noqa: BLE001 - whatever the packages object to, calls go on
            self._give_up(f"telemetry cannot be sent: {error}")
            return
        while not self._closing:
            self._wake.wait(self._send_seconds)
            self._wake.clear()
            self._send(self._outlet)
        self._send(self._outlet)
        self._outlet.close()

    def _give_up(self, words: str) -> None:
        self.troubles["packages"] = words
        self._say(words)
        self._stop_listening()
        self._queue.clear()

    def _send(self, outlet: Outlet) -> None:
        """Send all that is there now; what comes meanwhile has its turn next."""
        try:
            for _ in range(math.ceil(len(self._queue) / BATCH_EVENTS_MAX)):
                spans = [span for line in self._take() for span in spans_of(line, self.share or 0)]
                if spans:
                    self._sent("spans", outlet.send_spans(spans))
            numbers, self._figures = self._figures, None
            if numbers is not None:
                told = outlet.send_figures(numbers, round(self._clock() * 1e9))
                self._sent("numbers", told)
            self._sent("batch", None)
        except Exception as error:  # noqa: BLE001 - the next batch may fare better
            self._sent("batch", f"{type(error).__name__}: {error}")

    def _take(self) -> list[bytes]:
        lines = [self._queue.popleft() for _ in range(min(len(self._queue), BATCH_EVENTS_MAX))]
        self._taken_bytes += sum(map(len, lines))
        return lines

    def _sent(self, what: str, trouble: str | None) -> None:
        """Say what is wrong when it begins, and that it is over; not with every batch."""
        before = self.troubles.pop(what, None)
        if trouble is not None:
            self.troubles[what] = trouble
        if trouble is not None and before is None:
            self._say(f"the collector of telemetry does not take our {what}: {trouble}")
        elif trouble is None and before is not None:
            self._say(f"the collector of telemetry takes our {what} again")


def is_on(config: TelemetryConfig, environ: Mapping[str, str]) -> bool:
    """Whether anything is to be sent."""
    return config.enabled and environ.get("OTEL_SDK_DISABLED", "").lower() != "true"


def installed() -> bool:
    """Whether the packages are there; none of them is run for that, save empty ones around them."""
    try:
        return all(find_spec(package) is not None for package in PACKAGES)
    except ImportError:
        return False


def share_of(config: TelemetryConfig, environ: Mapping[str, str]) -> float:
    """Of the traces that begin here, how many are told: as configured, or as the environment says.

    Traces of clients are told if their clients say so, whichever sampler is named.
    """
    if config.sample is not None:
        return config.sample
    name = environ.get("OTEL_TRACES_SAMPLER", "").strip().lower().removeprefix("parentbased_")
    share = _SAMPLERS.get(name, 1.0)
    if share is not None:
        return share
    said = _number(environ.get("OTEL_TRACES_SAMPLER_ARG", ""))
    return said if said is not None and 0 <= said <= 1 else 1.0


def _seconds(environ: Mapping[str, str], name: str, default: float) -> float:
    milliseconds = _number(environ.get(name, ""))
    return milliseconds / 1000 if milliseconds is not None and milliseconds > 0 else default


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None

"""A collector of OpenTelemetry over HTTP: takes what is posted, and reads it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

SERVER: Final = 2
CLIENT: Final = 3
"""Kinds of spans, as OTLP numbers them."""


class Collector:
    """What has come in."""

    def __init__(self) -> None:
        self.url = ""
        self.status = 200
        """What is answered from now on."""
        self.wait: threading.Event | None = None
        """Set: nothing is answered before it is."""
        self.headers: list[dict[str, str]] = []
        self.spans: list[Any] = []
        self.metrics: list[Any] = []
        self.resource: dict[str, Any] = {}

    def span(self, kind: int, name: str) -> Any:
        [found] = [span for span in self.spans if span.kind == kind and span.name == name]
        return found

    def metric(self, name: str) -> Any:
        """The last of that name."""
        return [metric for metric in self.metrics if metric.name == name][-1]

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        self.headers.append(headers)
        if self.wait is not None:
            self.wait.wait(30)
        if self.status != 200:
            return self.status
        if path == "/v1/traces":
            for told in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.resource = attributes(told.resource.attributes)
                self.spans += [span for scope in told.scope_spans for span in scope.spans]
            return 200
        if path == "/v1/metrics":
            for said in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.metrics += [metric for scope in said.scope_metrics for metric in scope.metrics]
            return 200
        return 404


def attributes(pairs: Iterator[KeyValue]) -> dict[str, Any]:
    """Attributes as OTLP writes them, as a plain mapping."""
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value") or "") for pair in pairs}


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector that runs for the time of a block."""
    collector = Collector()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            named = {name.lower(): value for name, value in self.headers.items()}
            status = collector.take(self.path, named, body)
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.daemon_threads = True
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        if collector.wait is not None:
            collector.wait.set()
        server.shutdown()
        server.server_close()
        thread.join()

"""The gateway's numbers, as OpenTelemetry names them."""

import pytest

from anyport.gateway.families import (
    CONNECTION,
    OPERATION,
    OVERHEAD,
    REQUEST,
    SESSION,
    Family,
)
from anyport.gateway.metrics import Metrics
from anyport.gateway.telemetry_metrics import attributes, figures


def counted() -> Metrics:
    metrics = Metrics(iter([0.0, 10.0, 15.0, 20.0]).__next__)
    call = ("tools/call", "dev", "2025-06-18", "tcp", "github", "search", "")
    metrics.called(call, 0.3, 0.2)
    metrics.called((*call[:-1], "-32602"), 0.3, 0.2)
    metrics.opened("s")
    metrics.session_closed("s", "dev", "2025-06-18", "tcp")
    return metrics


def test_every_family_is_copied() -> None:
    metrics = counted()
    found = figures(metrics, 7)
    metrics.called(("ping", "dev", "2025-06-18", "tcp", "", "", ""), 1.0, None)
    metrics.settle()

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
    family: Family, labels: tuple[str, ...], told: dict[str, str]
) -> None:
    assert attributes(family, labels) == told

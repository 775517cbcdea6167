"""The gateway's numbers in the words of OpenTelemetry: which histograms, with which attributes.

Names follow the conventions for MCP where those have one; what is ours alone begins with
`anyport.`. Knows no packages of OpenTelemetry: others send what is copied here.
"""

from dataclasses import dataclass

from anyport.gateway.families import OVERHEAD, Family, Histograms, Labels, histograms
from anyport.gateway.metrics import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """All numbers of one moment, copied, so that another thread can send them."""

    histograms: Histograms
    uptime_seconds: float
    dropped: int
    """Exchanges of which the collector was not told."""


def figures(metrics: Metrics, dropped: int) -> Figures:
    """The numbers of now."""
    return Figures(
        histograms=histograms(metrics), uptime_seconds=metrics.uptime_seconds, dropped=dropped
    )


def attributes(family: Family, labels: Labels) -> dict[str, str]:
    """The attributes of one series; those that do not apply are left out."""
    told = dict(zip(family.attributes, labels, strict=True))
    if told.get("mcp.method.name") == "tools/call" and family is not OVERHEAD:
        told["gen_ai.operation.name"] = "execute_tool"
    error = told.get("error.type", "")
    if error.removeprefix("-").isdigit():
        told["rpc.response.status_code"] = error
    return {name: text for name, text in told.items() if text}

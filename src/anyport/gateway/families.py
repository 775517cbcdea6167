"""The histograms of the gateway, as those who read them call them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from anyport.gateway.metrics import OPERATION_BOUNDS, OVERHEAD_BOUNDS, Histogram, Metrics

Labels: TypeAlias = tuple[str, ...]
"""In the order of the attributes of their family."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One histogram of seconds."""

    name: str
    """As the conventions of OpenTelemetry have it."""
    exposed: str
    """For Prometheus."""
    meaning: str
    attributes: Labels
    bounds: tuple[float, ...] = OPERATION_BOUNDS

    @property
    def labels(self) -> Labels:
        """The attributes for Prometheus."""
        return tuple(name.removeprefix("anyport.").replace(".", "_") for name in self.attributes)


OPERATION: Final = Family(
    name="mcp.server.operation.duration",
    exposed="mcp_server_operation_duration_seconds",
    meaning="How long requests of clients took, from their arrival to their answer.",
    attributes=(
        *("mcp.method.name", "anyport.profile", "mcp.protocol.version"),
        *("network.transport", "error.type"),
    ),
)
REQUEST: Final = Family(
    name="mcp.client.operation.duration",
    exposed="mcp_client_operation_duration_seconds",
    meaning="How long servers took to answer the gateway.",
    attributes=("mcp.method.name", "anyport.server", "gen_ai.tool.name", "error.type"),
)
OVERHEAD: Final = Family(
    name="anyport.overhead.duration",
    exposed="anyport_overhead_seconds",
    meaning="What of a request's time was the gateway's own, no server being waited for.",
    attributes=("mcp.method.name",),
    bounds=OVERHEAD_BOUNDS,
)
SESSION: Final = Family(
    name="mcp.server.session.duration",
    exposed="mcp_server_session_duration_seconds",
    meaning="How long sessions of clients lasted that have ended.",
    attributes=("anyport.profile", "mcp.protocol.version", "network.transport"),
)
CONNECTION: Final = Family(
    name="mcp.client.session.duration",
    exposed="mcp_client_session_duration_seconds",
    meaning="How long connections to servers lasted that have ended.",
    attributes=("anyport.server",),
)

Series: TypeAlias = tuple[tuple[Labels, Histogram], ...]
Histograms: TypeAlias = tuple[tuple[Family, Series], ...]


def histograms(metrics: Metrics) -> Histograms:
    """All of them as of now, copied, so that another thread can tell them."""
    metrics.settle()
    families: tuple[tuple[Family, Mapping[Labels, Histogram]], ...] = (
        (OPERATION, metrics.operations),
        (REQUEST, metrics.requests),
        (OVERHEAD, metrics.overheads),
        (SESSION, metrics.sessions),
        (CONNECTION, metrics.connections),
    )
    return tuple(
        (family, tuple((labels, list(counts)) for labels, counts in found.items()))
        for family, found in families
    )

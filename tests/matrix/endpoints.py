"""The endpoints of the matrix: each transport with each revision that it can carry."""

from dataclasses import dataclass
from typing import Final, Literal

Transport = Literal["stdio", "http", "sse"]

REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
MODERN: Final = "2026-07-28"

TRANSPORTS: Final[dict[Transport, str]] = {
    "stdio": "stdio",
    "http": "Streamable HTTP",
    "sse": "HTTP+SSE",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """How a client reaches the gateway, or the gateway a server."""

    transport: Transport
    revision: str

    @property
    def slug(self) -> str:
        return f"{self.transport}-{self.revision}"

    @property
    def modern(self) -> bool:
        return self.revision == MODERN


ENDPOINTS: Final = tuple(
    Endpoint(transport=transport, revision=revision)
    for revision in REVISIONS
    for transport in TRANSPORTS
    # HTTP+SSE is a session on a stream, and the modern revision has no sessions.
    if not (transport == "sse" and revision == MODERN)
)

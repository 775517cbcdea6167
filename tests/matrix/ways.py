"""The ways in and out of the gateway: each transport with each revision that it can carry.

Knows names only; what travels on these ways is not its business.
"""

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
class Way:
    """How one party is reached: as a client, or as a server."""

    transport: Transport
    revision: str

    @property
    def slug(self) -> str:
        return f"{self.transport}-{self.revision}"

    @property
    def modern(self) -> bool:
        return self.revision == MODERN


WAYS: Final = tuple(
    Way(transport=transport, revision=revision)
    for revision in REVISIONS
    for transport in TRANSPORTS
    # HTTP+SSE is a session on a stream, and the modern revision has no sessions.
    if not (transport == "sse" and revision == MODERN)
)

"""Which callers may share a connection to a server. What a connection is, is known elsewhere."""

from dataclasses import dataclass
from typing import Final

from anyport.protocol.principal import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseKey:
    """Which callers may share a connection."""

    owner: str = ""
    """The session that has the connection to itself; empty for one that is shared."""
    capabilities: bytes = b"{}"
    """What a legacy server may ask over it."""
    interactive: bool = False
    """Whether it may ask anything."""
    principal: Principal | None = None
    """Whose calls have it to themselves, one at a time."""


SHARED: Final = LeaseKey()

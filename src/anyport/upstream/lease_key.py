"""Lease keys: which callers may share a connection to a server."""

from dataclasses import dataclass, field
from typing import Final

from anyport.protocol.principal import LOCAL, Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseKey:
    """Identifies a connection by the callers that may share it."""

    owner: str = ""
    """The session, principal or call that has the connection to itself; empty if it is shared."""
    capabilities: bytes = b"{}"
    """Client capabilities that a legacy server may use over it."""
    interactive: bool = False
    """Whether the server may send requests: sampling, elicitation or roots."""
    principal: Principal | None = None
    """The principal whose calls have it to themselves, all of them or one at a time."""
    client_info: bytes | None = None
    """The `clientInfo` of the handshake; None for that of the gateway."""
    revision: str = ""
    """The client's revision, for a connection that has to speak it; empty where it does not
    matter."""
    legacy: bool = False
    """Whether it serves sessions, so that a server that speaks both eras is asked for a
    handshake."""
    separate: bool = False
    """Whether it stays a connection of its own even to a server that needs only one."""
    client_principal: Principal = field(default=LOCAL, compare=False)
    """The principal of the client."""
    fallback: "LeaseKey | None" = field(default=None, compare=False)
    """The connection to use if the server does not get one for this key; None for the shared
    one."""

    @property
    def wants_session(self) -> bool:
        """Whether a modern server is asked for a handshake, in case it speaks both eras."""
        return self.interactive or self.legacy or bool(self.revision)

    @property
    def of_session(self) -> bool:
        """Whether it belongs to one session."""
        return self.fallback is not None and self.principal is None

    @property
    def of_sessions(self) -> bool:
        """Whether several sessions of one principal share it."""
        return self.principal is not None and self.owner == owner_of_sessions(self.principal)

    @property
    def of_one_call(self) -> bool:
        """Whether it serves one call at a time."""
        principal = self.principal
        return principal is not None and self.owner not in owners_of(principal)


SHARED: Final = LeaseKey()


def owner_of_all(principal: Principal) -> str:
    """Owner of the connection that all calls of a principal share."""
    return f"principal-{principal}"


def owner_of_sessions(principal: Principal) -> str:
    """Owner of the connection that all legacy sessions of a principal share."""
    return f"sessions-{principal}"


def owners_of(principal: Principal) -> tuple[str, str]:
    """Owners of the connections that calls of a principal share."""
    return owner_of_all(principal), owner_of_sessions(principal)

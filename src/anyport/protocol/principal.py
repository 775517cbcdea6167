"""Principal: the authenticated sender of a request. Sessions, cursors, streams and leases belong to
one."""

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """Issuer and subject of a token, and the client in use."""

    issuer: str
    subject: str
    client: str = ""

    def __str__(self) -> str:
        return f"{self.issuer}:{self.subject}"


LOCAL: Final = Principal("local", "user")
"""The user who started the gateway: on stdin, or on loopback without tokens."""

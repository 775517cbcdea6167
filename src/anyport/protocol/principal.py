"""Who a request comes from, as far as the gateway could make sure.

One tuple, everywhere: sessions, cursors, streams and leases belong to a principal, and whoever
is another one sees none of them. How somebody proves who they are is not known here.
"""

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """Whose word it is, whom it names, and through which client they came."""

    issuer: str
    subject: str
    client: str = ""

    def __str__(self) -> str:
        return f"{self.issuer}:{self.subject}"


LOCAL: Final = Principal("local", "user")
"""The user who started the gateway, on stdin or over loopback without authentication."""

"""What a server tells of itself to the one that configured it. A seam, and no behaviour.

Whoever owns servers decides about clients; a server does not.
"""

from typing import TYPE_CHECKING, Protocol

from anyport.protocol.method import Kind
from anyport.upstream.connection import Connection
from anyport.wire.frame import Notification, Request

if TYPE_CHECKING:  # Each of the two names the other.
    from anyport.upstream.server import LeaseKey, Server


class Owner(Protocol):
    """Who is told what a server does."""

    def listed(self, server: "Server", changed: frozenset[Kind]) -> None:
        """Its lists were read; these differ from what was known."""

    def started(self, server: "Server", key: "LeaseKey") -> None:
        """A connection is ready."""

    def failed(self, server: "Server", reason: str) -> None:
        """A connection broke or could not be opened."""

    def stopped(self, server: "Server") -> None:
        """A connection was closed because nobody needs it any more."""

    def asked(self, server: "Server", key: "LeaseKey", line: Connection, request: Request) -> None:
        """It asks something."""

    def told(
        self, server: "Server", key: "LeaseKey", line: Connection, notification: Notification
    ) -> None:
        """It says something on its own."""

    def lost(self, server: "Server", line: Connection) -> None:
        """A connection has ended."""

    def wrote(self, server: "Server", lines: list[str]) -> None:
        """It wrote to its stderr."""

"""What a server tells of itself to the one that configured it. A seam, and no behaviour.

Whoever owns servers decides about clients; a server does not.
"""

from typing import TYPE_CHECKING, Protocol

from anyport.protocol.method import Kind
from anyport.upstream.connection import Connection
from anyport.upstream.hearer import Noise
from anyport.wire.frame import Notification, Request

if TYPE_CHECKING:  # Each of the two names the other.
    from anyport.upstream.key import LeaseKey
    from anyport.upstream.server import Server


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

    def rested(self, server: "Server") -> None:
        """A connection was closed because nobody uses it; it is opened again when somebody does."""

    def relied_on(self, server: "Server", key: "LeaseKey", line: Connection | None) -> bool:
        """Whether a client relies on what it has over a connection, though it asks nothing now.

        Without a connection: on what it had when there was one.
        """

    def ejected(self, server: "Server", reason: str, failures: int, seconds: float) -> None:
        """It gets no calls for a while: too many have failed in a row."""

    def restored(self, server: "Server", seconds: float) -> None:
        """It gets calls again, after so many seconds."""

    def asked(self, server: "Server", key: "LeaseKey", line: Connection, request: Request) -> None:
        """It asks something."""

    def told(
        self, server: "Server", key: "LeaseKey", line: Connection, notification: Notification
    ) -> None:
        """It says something on its own."""

    def lost(self, server: "Server", line: Connection) -> None:
        """A connection has ended."""

    def garbled(self, server: "Server", said: Noise, words: str) -> None:
        """It said something that is of no use."""

    def wrote(self, server: "Server", lines: list[str]) -> None:
        """It wrote to its stderr."""

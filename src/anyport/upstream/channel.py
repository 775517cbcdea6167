"""What carries frames to a server, whichever bytes it uses. A seam, and no behaviour."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # Each of the two names the other.
    from anyport.upstream.call import Call


class Channel(Protocol):
    """Carries frames to a server."""

    @property
    def full(self) -> bool:
        """Whether the server has stopped taking what is sent."""

    def send(self, frame: bytes, call: "Call | None") -> None:
        """Queue one frame: a call of ours, or something that is not answered."""

    def cancel(self, call: "Call") -> bool:
        """Give up on a call in the channel's own way; False if the server has to be told."""

"""The way to a gateway in the same process, without a pipe: straight into a `Conversation`."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from anyport.cli.caller import Hear, Line, Lost
from anyport.protocol.conversation import Conversation
from anyport.protocol.errors import Pause
from anyport.protocol.front import Relay

TRANSPORT: Final = "command"
"""What the record says of a session that nobody's client opened."""


class Behind(Relay, Protocol):
    """The gateway, as far as a line needs it."""

    @property
    def journal(self) -> Any:
        """Is flushed before an answer is believed."""


class Inside:
    """One client's line to it."""

    mute = False

    def __init__(self, gateway: Behind, profile: str, hear: Hear) -> None:
        self._gateway = gateway
        self._hear = hear
        self._conversation = Conversation(
            profile=profile,
            relay=gateway,
            teller=self,
            transport=TRANSPORT,
            new_session_id=lambda: os.urandom(8).hex(),
        )

    # What the caller does.

    def tell(self, frame: bytes, on_lost: Lost | None = None) -> None:
        """Hand a frame over. Nothing is ever lost on the way."""
        self._conversation.receive(frame)

    async def listen(self) -> None:
        """Everything is heard as it is."""

    async def arrived(self) -> None:
        """It always has."""

    async def close(self) -> None:
        """The session is over."""
        self._conversation.finish()
        self._conversation.leave()

    # What the conversation tells.

    def note(self, *frames: bytes) -> None:
        """Something on the way."""
        for frame in frames:
            self._hear(frame)

    def end(self, frame: bytes, code: int | None = None, pause: Pause | None = None) -> None:
        """An answer; whoever gets it may rely on what the journal says of it."""
        self._gateway.journal.flush()
        self._hear(frame)


def inside(gateway: Behind, profile: str) -> Callable[[Hear], Line]:
    """What connects a caller with a gateway in this process."""
    return partial(Inside, gateway, profile)

"""A batch: several messages in one JSON array, and their answers in another.

Only one revision has them. Knows frames and where their answers go, not what they mean.
"""

from typing import Final

from anyport.protocol.errors import Pause
from anyport.protocol.exchange import Teller

BATCH_MAX: Final = 100
"""Messages in one batch; the batches of real clients hold a handful."""


class Batch:
    """The answers to one batch, sent together when the last is there."""

    mute = False

    def __init__(self, teller: Teller) -> None:
        self.teller = teller
        self._answers: list[bytes] = []
        self._awaited = 0

    @property
    def owing(self) -> bool:
        """Whether it has, or will have, an answer."""
        return bool(self._awaited or self._answers)

    def expect(self) -> None:
        """One more answer will come."""
        self._awaited += 1

    def note(self, *frames: bytes) -> None:
        """What happens on the way is not part of the batch's answer."""
        self.teller.note(*frames)

    def end(self, frame: bytes, code: int | None = None, pause: Pause | None = None) -> None:
        """One answer is there."""
        self._answers.append(frame)
        self.forget()

    def forget(self) -> None:
        """One answer will not come after all, or has just come."""
        self._awaited -= 1
        if self._awaited == 0 and self._answers:
            self.teller.end(b"[%b]" % b",".join(self._answers))

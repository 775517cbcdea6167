"""What the gateway asks servers for itself, as the record is told of it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Each of the two names the other.
    from anyport.upstream.call import Answer

Asked = tuple[str, bytes | None]
"""A method and its params."""
Noted = Callable[[Asked, "Answer", float], None]
"""Takes what the gateway asked for itself, the answer, and how long that took; for the record."""


def _unnoted(asked: Asked, answer: "Answer", took: float) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Who keeps what the gateway does on its own, and by which clock."""

    clock: Callable[[], float] = time.monotonic
    noted: Noted = _unnoted

"""Who is told what a server says on its own. A seam, and no behaviour."""

from collections.abc import Callable
from dataclasses import dataclass

from anyport.wire.frame import Failure, Notification, Request, Result

Noise = bytes | Result | Failure | Notification
"""The beginning of what is no frame, or a frame that nobody waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearer:
    """Who is told what a server says on its own."""

    on_request: Callable[[Request], None]
    on_notification: Callable[[Notification], None]
    on_noise: Callable[[Noise, str], None]
    """Takes what is of no use, and why."""
    on_end: Callable[[], None]
    on_unreached: Callable[[str], None] = lambda words: None
    """Told why no bytes could be brought to the server, whichever they were."""

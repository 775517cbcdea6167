"""Whether connections to a server can be used more than once, from what earlier ones have shown.

Some servers close a connection after each response without saying so, as HTTP allows. What was seen
is kept per origin, for all of its clients. Pure: time is an argument.
"""

from math import inf
from typing import Final

SINGLE_USES_MAX: Final = 2
"""Connections that were closed after their first response without notice. Then none is used twice:
a call on a connection that is being closed may be lost."""
SINGLE_USES_OF_KEEPER_MAX: Final = 8
"""The same in a row, for a server that has kept some open: it may have been restarted."""
SINGLE_USE_SECONDS_MAX: Final = 1.0
"""How soon after the response such a close comes; later it is an idle timeout."""
SINGLE_USE_VERDICT_SECONDS: Final = 3600.0
"""How long no connection is used twice. Then a repeatable request tries it: a server that was
changed, or had only crashed, would else need a new connection per request for ever."""


class ConnectionReuse:
    """What the connections to one origin have shown."""

    __slots__ = ("_is_keeper", "_keeps", "_single_uses", "_until", "doubtful")

    def __init__(self) -> None:
        self.doubtful = False
        """Whether a connection was closed where it might have been used again."""
        self._is_keeper = False
        """Whether a connection stayed open for a while after a response. Immediate reuse shows
        nothing: the server may close connections some milliseconds after each response."""
        self._single_uses = 0
        """Connections in a row that could be used only once."""
        self._keeps = False
        """Whether any could be used again."""
        self._until = -inf

    @property
    def risky(self) -> bool:
        """Whether requests that must not be sent twice need a fresh connection."""
        return self.doubtful or not self._is_keeper

    def on_stayed_open(self) -> None:
        """A connection was still open `SINGLE_USE_SECONDS_MAX` after a response."""
        self._is_keeper = True

    def is_refused(self, now: float) -> bool:
        """Whether no connection may be used twice now."""
        return self.doubtful and now < self._until

    def on_reused(self) -> None:
        """A used connection has answered another request."""
        self._keeps = True
        self._single_uses = 0
        self.doubtful = False

    def on_single_use(self, now: float) -> None:
        """A connection could be used only once."""
        self._single_uses += 1
        if self._single_uses >= (SINGLE_USES_OF_KEEPER_MAX if self._keeps else SINGLE_USES_MAX):
            self._keeps = self._is_keeper = False
            self._until = now + SINGLE_USE_VERDICT_SECONDS
        self.doubtful = not self._keeps

"""Whether somebody needs a connection to a server: to open it, to keep it, to open it again.

The configuration decides: `start` says whether a server is started before anybody uses it, and
`idleSeconds` how long it is kept when nobody does. Here that is put together with what is known
of a server's connections; opening and closing them is not done here.
"""

from collections.abc import Callable

from anyport.config.schema import ServerConfig
from anyport.upstream.connection import Connection
from anyport.upstream.idle import Glimpse, Idleness
from anyport.upstream.key import LeaseKey
from anyport.upstream.pool import Pool

Relied = Callable[[LeaseKey, Connection | None], bool]
"""Whether a client relies on something that a server keeps over a connection."""


class Needs:
    """What is needed of one server."""

    def __init__(
        self, config: ServerConfig, pool: Pool, clock: Callable[[], float], relied: Relied
    ) -> None:
        self.lazy = config.start == "first-use"
        """Whether it is started when it is used, and not before."""
        self._kept = not self.lazy and config.idle_seconds <= 0
        """Whether it always runs."""
        self._idleness = Idleness(config.idle_seconds)
        self._pool = pool
        self._clock = clock
        self._relied = relied
        self._awaited_until = float("-inf")
        """Until when a client may come back with what the server asked it."""

    @property
    def look_seconds(self) -> float | None:
        """Until it should be asked which connections are idle; None if none ever is."""
        return self._idleness.look_seconds

    def began(self, key: LeaseKey, connection: Connection) -> None:
        """A connection was opened."""
        self._idleness.began(key, _uses(connection), self._clock())

    def forget(self, key: LeaseKey) -> None:
        """A connection will not be opened again."""
        self._idleness.forget(key)

    def await_return(self, seconds: float) -> None:
        """A client was asked something, and may come back with the answer within this time.

        What the server needs to know it by then, it may have in memory only.
        """
        self._awaited_until = max(self._awaited_until, self._clock() + seconds)

    def is_needed(self, key: LeaseKey, *, known: bool) -> bool:
        """Whether a connection is to be open though nobody asks for it.

        `known` says whether it is known what the server offers: if not, somebody must find out.
        """
        if self._kept or not known:
            return True
        if not self.lazy and not self._idleness.has_seen(key):
            return True
        pool, now = self._pool, self._clock()
        lists = pool.tenders.get(key) is pool.main and bool(pool.connections())
        return lists or self._idleness.is_recent(key, now) or self._relied(key, None)

    def idle(self, own_calls: Callable[[LeaseKey], int]) -> list[LeaseKey]:
        """The connections that nobody needs any more.

        `own_calls` tells how many requests are open on one for our own sake.
        """
        now = self._clock()
        awaited = now < self._awaited_until
        glimpses = {
            key: Glimpse(
                uses=_uses(line),
                busy=awaited or line.open_calls > own_calls(key) or self._relied(key, line),
            )
            for key, line in self._pool.connections()
        }
        return self._idleness.look(glimpses, now)


def _uses(connection: Connection) -> int:
    return connection.last_number - connection.own_requests

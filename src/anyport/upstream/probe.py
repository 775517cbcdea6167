"""One cheap question to a server, to see whether it is there.

`ping` where there is a session, `server/discover` where there is none: every server has to answer
these, and neither changes anything.
"""

from collections.abc import Callable

from anyport.protocol.revision import Era
from anyport.protocol.timeouts import Timeout
from anyport.upstream.call import Answer, Call, Lost
from anyport.upstream.connection import Connection
from anyport.upstream.peer import Peer
from anyport.upstream.sign import Sign
from anyport.upstream.watch import Ticking


class Probe:
    """Asks once; told is what came of it, or that nothing did in time."""

    def __init__(
        self, connection: Connection, peer: Peer, time: Ticking, on_done: Callable[[Answer], None]
    ) -> None:
        modern = peer.revision.era is Era.MODERN
        self._method = "server/discover" if modern else "ping"
        self._params = peer.back.own_params(b"{}") if modern else None
        self._connection = connection
        self._time = time
        self._asked_at = time.clock()
        self._call: Call | Lost | None = None
        self._on_done: Callable[[Answer], None] | None = on_done

    def ask(self, seconds: float) -> None:
        """Put the question; it is given up after so many seconds."""
        self._connection.own_requests += 1
        self._call = self._connection.call(self._method, self._params, self._settle)
        if isinstance(self._call, Lost):
            self._settle(self._call)
        else:
            self._time.later(seconds, lambda: self._give_up(seconds))

    def _settle(self, answer: Answer) -> None:
        tell, self._on_done = self._on_done, None
        if tell is not None:
            took = self._time.clock() - self._asked_at
            self._connection.noted((self._method, self._params), answer, took)
            tell(answer)

    def _give_up(self, seconds: float) -> None:
        if self._on_done is not None and isinstance(self._call, Call):
            self._connection.cancel(self._call, None)
            words = f"it did not answer {self._method} within {seconds:g} s"
            self._settle(Lost(words, sign=Sign.BAD, timeout=Timeout.TOTAL))

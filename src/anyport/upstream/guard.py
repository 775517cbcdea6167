"""Stands before one server: hears what becomes of its calls, and tries it when it fails.

Whether the server gets calls is the breaker's to decide. What is done here is what that takes:
timers, probes that no client pays for, and telling whoever wants to know.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from anyport.upstream.breaker import Breaker, Passed, Turned
from anyport.upstream.call import Answer, Lost
from anyport.upstream.connection import Connection
from anyport.upstream.probe import Probe
from anyport.upstream.sign import Postponed, Sign
from anyport.upstream.watch import Ticking

SUSPECT_SECONDS: Final = 1.0
"""Between two looks at a server that could not be reached, until that is certain."""
SILENCES_MAX: Final = 2
"""Probes in a row that go unanswered; after these the server is started anew."""

Found: TypeAlias = Callable[[Connection | str], None]
"""Takes the connection, or the reason why there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ward:
    """The server, as its guard sees it."""

    connect: Callable[[Found], None]
    """Hands over the connection that serves everybody."""
    renew: Callable[[str], None]
    """What could not be reached is to be opened anew; the text says why."""
    replace: Callable[[Connection, str], bool]
    """A connection on which nothing is answered is to be opened anew, unless calls are open on it;
    whether it is."""
    ejected: Callable[[str, int, float], None]
    """Told why it gets no calls, how many have failed, and for how many seconds."""
    restored: Callable[[float], None]
    """Told that it gets calls again, after so many seconds."""
    probe_seconds: float
    """For an answer to a probe: no less than for one to a call, or a slow server is taken for a
    dead one."""


class Guard:
    """What the gateway knows of one server's failures."""

    def __init__(self, breaker: Breaker, ward: Ward, time: Ticking) -> None:
        self.breaker = breaker
        self.ejections = 0
        """How often it was left without calls."""
        self._ward = ward
        self._time = time
        self._suspects = False
        """Whether a look at it is due."""
        self._silences = 0
        self._replaced = False
        """Whether it is being started anew because of them."""

    @property
    def reason(self) -> str | None:
        """Why it gets no calls, if it gets none."""
        return self.breaker.reason(self._time.clock()) if self.breaker.shut else None

    def enter(self) -> Passed | Turned:
        """Whether a call may be made. Who passes as a probe must `tell` or `leave`."""
        return self.breaker.admit(self._time.clock())

    def tell(self, answer: Answer, asked_at: float, *, probe: bool = False) -> None:
        """A call was answered, or will not be."""
        breaker = self.breaker
        sign = answer.sign if isinstance(answer, Lost) else Sign.GOOD
        if isinstance(answer, Lost | Postponed) and answer.retry_after:
            breaker.hold(self._time.clock(), answer.retry_after)
        if sign is Sign.GOOD:
            if breaker.failures:
                self._succeeded(own=False)
        elif isinstance(answer, Lost) and sign is not Sign.NONE:
            self.failed(answer.reason, asked_at, sign, probe=probe)
        elif probe:
            breaker.release()

    def failed(
        self, words: str, asked_at: float, sign: Sign = Sign.BAD, *, probe: bool = False
    ) -> None:
        """A call has failed."""
        now = self._time.clock()
        if probe:
            if self.breaker.probe_failed(words, sign):
                self._open()
        elif sign is not Sign.UNREACHED and self.breaker.failed(now, words, asked_at, sign):
            self._open()

    def leave(self) -> None:
        """The call that went through as a probe was given up."""
        self.breaker.release()

    def unreached(self, words: str) -> None:
        """No connection to it could be opened, whatever for."""
        now = self._time.clock()
        if self.breaker.failed(now, words, now, Sign.UNREACHED):
            self._open()
            self._ward.renew(words)
        elif not self.breaker.is_open and not self._suspects:
            self._suspects = True
            self._time.later(SUSPECT_SECONDS * (0.5 + self._time.chance()), self._look)

    def greeted(self) -> None:
        """It has answered a handshake."""
        breaker = self.breaker
        if breaker.failures and (breaker.unreached or self._replaced):
            self._succeeded(own=True)
        elif breaker.is_open:
            self._try()

    def _open(self) -> None:
        now, breaker = self._time.clock(), self.breaker
        seconds = breaker.open(now, self._time.chance())
        self.ejections += 1
        self._time.later(seconds, self._try)
        self._ward.ejected(breaker.reason(now), breaker.failures, seconds)

    def _succeeded(self, *, own: bool) -> None:
        self._silences, self._replaced = 0, False
        now = self._time.clock()
        seconds = self.breaker.open_seconds(now)
        if self.breaker.succeeded(now, own=own):
            self._ward.restored(seconds)

    # Probes, so that no client's call has to be one.

    def _try(self) -> None:
        if self.breaker.is_open and self.enter() is Passed.PROBE:
            self._ward.connect(partial(self._probe, probe=True))

    def _look(self) -> None:
        self._suspects = False
        if self.breaker.failures and self.breaker.unreached and not self.breaker.is_open:
            self._ward.connect(partial(self._probe, probe=False))

    def _probe(self, connection: Connection | str, *, probe: bool) -> None:
        peer = None if isinstance(connection, str) else connection.peer
        if not isinstance(connection, str) and peer is not None:
            on_done = partial(self._probed, connection, probe=probe)
            Probe(connection, peer, self._time, on_done).ask(self._ward.probe_seconds)
        elif probe:
            self.breaker.release()  # It is tried again when it has been started.

    def _probed(self, connection: Connection, answer: Answer, *, probe: bool) -> None:
        """`probe` if it was admitted as one; who only has a suspicion needs no admission."""
        if not isinstance(answer, Lost) or answer.sign is Sign.GOOD:
            self._succeeded(own=True)
        elif probe and answer.sign is Sign.NONE:
            self.breaker.release()
        elif probe:
            self.failed(answer.reason, 0.0, answer.sign, probe=True)
            self._silences = self._silences + 1 if answer.timeout else 0
            if self._silences >= SILENCES_MAX:
                self._replaced = self._ward.replace(connection, answer.reason)

"""What becomes of calls while the record of them cannot be written, or not quickly.

Mostly nothing is done here: a record is written before the answers of the same turn of the loop
go out, and that takes microseconds. On a slow disk answers wait here, each for its own record, and
all else goes on. On one that fails the operator has chosen: `degrade`, calls are served and what is
lost is counted; or `block`, no call is made that could not be recorded, and no answer is given
without its record.

How the record gets to the disk is not known here, nor what it says.
"""

import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol

from anyport.config.schema import OnFailure
from anyport.protocol.errors import Fault, Pause, Situation
from anyport.protocol.exchange import Exchange, Pending
from anyport.protocol.revision import Revision
from anyport.record.away import Away
from anyport.record.journal import Journal
from anyport.record.outflow import RETRY_SECONDS
from anyport.record.remedy import remedy
from anyport.wire import codec

HANG_SECONDS: Final = 1.0
"""A disk that has not answered for so long has failed: nobody waits for it any longer."""

SAY_SECONDS: Final = 60.0
"""Between two words to the operator: a disk may fail and recover every second."""

REFUSED: Final = "{trouble}; calls are refused until it can"
WITHHELD: Final = "The call was made, but its answer is withheld, for lack of a record: {trouble}"


class Held(NamedTuple):
    """An answer that waits for its record."""

    asked: Pending
    revision: Revision
    frame: bytes
    code: int | None = None
    pause: Pause | None = None

    def let_out(self) -> None:
        """Tell it."""
        self.asked.teller.end(self.frame, self.code, self.pause)

    def withhold(self, fault: Fault) -> None:
        """Tell why it is not told."""
        error, code = fault.render(self.revision), fault.code(self.revision)
        self.asked.teller.end(codec.failure(self.asked.id, error), code)


class Loop(Protocol):
    """What is needed of the loop."""

    def call_soon(self, act: Callable[[], object], /) -> object:
        """Runs something in its next turn."""

    def call_soon_threadsafe(self, act: Callable[[], object], /) -> object:
        """The same, asked for by another thread."""

    def call_later(self, seconds: float, act: Callable[[], object], /) -> object:
        """Runs something after some seconds."""


class Sluice:
    """Holds answers back while it has to."""

    def __init__(self, journal: Journal, clock: Callable[[], float] = time.monotonic) -> None:
        self.shut = False
        """Whether answers to calls have to wait here; while not, nobody need ask."""
        self.refusal: Fault | None = None
        """Why no call is made now."""
        self.policy: OnFailure = "degrade"
        self._clock = clock
        self._journal = journal
        self._outflow = journal.outflow
        self._loop: Loop | None = None
        self._say: Callable[[str], None] = lambda _: None
        self._fresh: list[Held] = []
        """Of this turn of the loop: what is noted of them may not have been noted yet."""
        self._held: deque[tuple[int, Held]] = deque()
        """Of earlier ones, each with how many lines have to be in the file."""
        self._retrying = False
        self._said: str | None = None
        """What the operator was told last, and is still so."""
        self._said_at = float("-inf")

    def begin(self, policy: OnFailure, loop: Loop, say: Callable[[str], None]) -> None:
        """From now on there is a loop, and somebody to talk to."""
        self._loop, self._say = loop, say
        self._outflow.away = Away(loop.call_soon_threadsafe)
        self._outflow.on_change = self._changed
        self._journal.on_trouble = say
        self.take(policy)

    def take(self, policy: OnFailure) -> None:
        """The configuration says what to do."""
        self.policy = self._journal.on_failure = policy
        self._changed()

    @property
    def waiting(self) -> int:
        """How many answers wait."""
        return len(self._fresh) + len(self._held)

    def hold(
        self, exchange: Exchange, frame: bytes, code: int | None, pause: Pause | None = None
    ) -> None:
        """Tell the answer of an exchange, once what is noted of it in this turn is safe."""
        if self.shut:
            self.keep(Held(exchange, exchange.caller.revision, frame, code, pause))
        else:
            exchange.teller.end(frame, code, pause)

    def keep(self, answer: Held) -> None:
        """Hold an answer back until then."""
        self._fresh.append(answer)
        if len(self._fresh) == 1 and self._loop is not None:
            self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        fresh, self._fresh = self._fresh, []
        self._journal.flush()
        mark = self._outflow.taken_count
        self._held.extend((mark, answer) for answer in fresh)
        self._let_out()
        if self._held and self._loop is not None:
            self._loop.call_later(HANG_SECONDS, partial(self._look, mark))

    def _look(self, mark: int) -> None:
        """Whether what has waited for so long still waits."""
        if self._held and self._held[0][0] <= mark:
            self._outflow.hang(HANG_SECONDS)

    def _let_out(self) -> None:
        trouble, written = self._outflow.last_error, self._outflow.written_count
        while self._held and (trouble is not None or self._held[0][0] <= written):
            mark, answer = self._held.popleft()
            if mark <= written or self.policy == "degrade":
                answer.let_out()
            else:
                answer.withhold(unrecorded(WITHHELD, trouble))

    def _changed(self) -> None:
        trouble = self._outflow.last_error
        blocking = self.policy == "block"
        self.shut = blocking or (self._outflow.slow and trouble is None)
        self.refusal = unrecorded(REFUSED, trouble) if blocking and trouble is not None else None
        self._let_out()
        if trouble is not None and not self._retrying and self._loop is not None:
            self._retrying = True
            self._loop.call_later(RETRY_SECONDS, self._retry)
        self._tell(trouble)

    def _retry(self) -> None:
        """Whoever comes next must find the disk as it is, and nobody may come."""
        self._retrying = False
        self._journal.flush()
        if self._outflow.last_error is not None:
            self._changed()

    def _tell(self, trouble: str | None) -> None:
        if trouble == self._said:
            return
        now = self._clock()
        if trouble is None:
            self._say(f"the event journal can be written again; {self._outflow.lost_count} lost")
        elif now - self._said_at >= SAY_SECONDS:
            self._said_at = now
            doing = "refused" if self.policy == "block" else "served, and not recorded"
            mend = remedy(self._outflow.errno, self._journal.directory)
            self._say(f"{trouble}. Until it can, calls are {doing}. What to do: {mend}")
        else:
            return
        self._said = trouble


def unrecorded(words: str, trouble: str | None) -> Fault:
    """A call for which there is no record."""
    return Fault(
        situation=Situation.INTERNAL,
        message=words.format(trouble=trouble),
        data=b'{"reason":"record"}',
    )

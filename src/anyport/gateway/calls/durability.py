"""The durability gate: no answer leaves before its record is written.

On a fast disk the gate does nothing: the records of a turn of the event loop are written before
its answers leave, in microseconds. On a slow disk, or with `sync = "always"`, each answer waits
here for its own record, and everything else goes on. On a disk that fails, the operator has chosen:
with `degrade` calls are served, and the lost records counted; with `block` no call is made that
could not be recorded, and no answer leaves without its record.
"""

import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol

from anyport.config.model import OnFailure, RecordConfig
from anyport.protocol.errors import Fault, RetryAfter, Situation
from anyport.protocol.exchange import Exchange, OpenRequest
from anyport.protocol.revisions import Revision
from anyport.record.journal.journal import DISTRUSTED_MESSAGE, Journal
from anyport.record.journal.writer import RETRY_SECONDS, WorkerThread, advise_on_error
from anyport.wire import jsonrpc

DISK_HANG_SECONDS: Final = 1.0
"""A disk that takes longer to answer counts as failed."""

OPERATOR_MESSAGE_SECONDS: Final = 60.0
"""Between two messages to the operator: a disk may fail and recover every second."""

CALLS_REFUSED: Final = "{trouble}; calls are refused until it can"
ANSWER_WITHHELD: Final = (
    "The call was made, but its answer is withheld, for lack of a record: {trouble}"
)


class HeldAnswer(NamedTuple):
    """An answer that waits for its record."""

    request: OpenRequest
    revision: Revision
    frame: bytes
    code: int | None = None
    pause: RetryAfter | None = None
    always: bool = False
    """Whether it is sent even if it cannot be recorded."""

    def send(self) -> None:
        self.request.writer.end(self.frame, self.code, self.pause)

    def withhold(self, fault: Fault) -> None:
        """Send an error in its place."""
        error, code = fault.render(self.revision), fault.code(self.revision)
        self.request.writer.end(jsonrpc.encode_failure(self.request.id, error), code)


class CallbackLoop(Protocol):
    """What the gate needs of an event loop."""

    def call_soon(self, act: Callable[[], object], /) -> object:
        """Call `act` in the next turn."""

    def call_soon_threadsafe(self, act: Callable[[], object], /) -> object:
        """The same, from another thread."""

    def call_later(self, seconds: float, act: Callable[[], object], /) -> object:
        """Call `act` after some seconds."""


class DurabilityGate:
    """Holds answers until they are recorded."""

    def __init__(self, journal: Journal, clock: Callable[[], float] = time.monotonic) -> None:
        self.is_holding = False
        """Whether answers have to wait; checked first, to keep the fast path fast."""
        self.refusal: Fault | None = None
        """Why calls are refused now; None if they are not."""
        self.policy: OnFailure = "degrade"
        self._clock = clock
        self._journal = journal
        self._writer = journal.file_writer
        self._loop: CallbackLoop | None = None
        self._tell_operator: Callable[[str], None] = lambda _: None
        self._this_turn: list[HeldAnswer] = []
        """Answers of this turn of the event loop, whose records may still be missing."""
        self._earlier_turns: deque[tuple[int, HeldAnswer]] = deque()
        """Answers of earlier turns, each with the number of lines that must be written first."""
        self._retrying = False
        self._last_message: str | None = None
        """The trouble that the operator was last told of, while it lasts."""
        self._last_message_at = float("-inf")

    def begin(
        self, config: RecordConfig, loop: CallbackLoop, tell_operator: Callable[[str], None]
    ) -> None:
        """Start, once there is an event loop."""
        self._loop, self._tell_operator = loop, tell_operator
        self._writer.worker = WorkerThread(loop.call_soon_threadsafe)
        self._writer.on_change = self._on_journal_change
        self._journal.on_trouble = tell_operator
        self.apply_config(config)

    def apply_config(self, config: RecordConfig) -> None:
        self.policy = self._journal.on_failure = config.on_failure
        self._journal.sync = config.sync
        self._writer.set_sync(enabled=config.sync == "always")
        self._on_journal_change()

    @property
    def waiting_count(self) -> int:
        return len(self._this_turn) + len(self._earlier_turns)

    def hold(
        self, exchange: Exchange, frame: bytes, code: int | None, pause: RetryAfter | None = None
    ) -> None:
        """Send the answer of an exchange once its record is written."""
        if self.is_holding:
            self.hold_answer(HeldAnswer(exchange, exchange.caller.revision, frame, code, pause))
        else:
            exchange.writer.end(frame, code, pause)

    def hold_if_recordable(
        self, exchange: Exchange, frame: bytes, code: int | None, pause: RetryAfter | None = None
    ) -> None:
        """The same, but send it in any case: `gateway_status` must work while the disk fails."""
        if self.is_holding:
            self.hold_answer(
                HeldAnswer(exchange, exchange.caller.revision, frame, code, pause, always=True)
            )
        else:
            exchange.writer.end(frame, code, pause)

    def hold_answer(self, answer: HeldAnswer) -> None:
        """Hold an answer until its record is written."""
        self._this_turn.append(answer)
        if len(self._this_turn) == 1 and self._loop is not None:
            self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        answers, self._this_turn = self._this_turn, []
        self._journal.flush()
        mark = self._writer.accepted_count
        self._earlier_turns.extend((mark, answer) for answer in answers)
        self._send_released()
        if self._earlier_turns and self._loop is not None:
            self._loop.call_later(DISK_HANG_SECONDS, partial(self._check_hang, mark))

    def _check_hang(self, mark: int) -> None:
        """Report a disk that has not answered for too long."""
        if self._earlier_turns and self._earlier_turns[0][0] <= mark:
            self._writer.report_hang(DISK_HANG_SECONDS)

    def _send_released(self) -> None:
        trouble, written = self._writer.last_error, self._writer.written_count
        while self._earlier_turns and (trouble is not None or self._earlier_turns[0][0] <= written):
            mark, answer = self._earlier_turns.popleft()
            if mark <= written or self.policy == "degrade" or answer.always:
                answer.send()
            else:
                answer.withhold(not_recorded_fault(ANSWER_WITHHELD, trouble))

    def _on_journal_change(self) -> None:
        trouble = self._writer.last_error
        blocking = self.policy == "block"
        self.is_holding = blocking or (self._writer.is_deferred and trouble is None)
        if self._writer.unsynced_count:
            self._journal.set_trouble("disk", DISTRUSTED_MESSAGE)
        self.refusal = (
            not_recorded_fault(CALLS_REFUSED, trouble) if blocking and trouble is not None else None
        )
        self._send_released()
        if trouble is not None and not self._retrying and self._loop is not None:
            self._retrying = True
            self._loop.call_later(RETRY_SECONDS, self._retry)
        self._report_trouble(trouble)

    def _retry(self) -> None:
        """Try the disk again, whether or not there are calls."""
        self._retrying = False
        self._journal.flush()
        if self._writer.last_error is not None:
            self._on_journal_change()

    def _report_trouble(self, trouble: str | None) -> None:
        if trouble == self._last_message:
            return
        now = self._clock()
        if trouble is None:
            self._tell_operator(
                f"the event journal can be written again; {self._writer.lost_count} lost"
            )
        elif now - self._last_message_at >= OPERATOR_MESSAGE_SECONDS:
            self._last_message_at = now
            effect = "refused" if self.policy == "block" else "served, and not recorded"
            advice = advise_on_error(self._writer.errno, self._journal.directory)
            self._tell_operator(
                f"{trouble}. Until it can, calls are {effect}. What to do: {advice}"
            )
        else:
            return
        self._last_message = trouble


def not_recorded_fault(template: str, trouble: str | None) -> Fault:
    """The fault of a call that cannot be recorded."""
    return Fault(
        situation=Situation.INTERNAL,
        message=template.format(trouble=trouble),
        data=b'{"reason":"record"}',
    )

"""The stdio transport: one client on stdin and stdout.

stdin may be a pipe, a terminal or a file. Answers of one turn of the event loop are written
together, after their events are recorded. When the input ends, every open request is still
answered.
"""

import asyncio
import os
import stat
from collections.abc import Callable
from typing import Final

from anyport.protocol.adapters.client import RequestHandler
from anyport.protocol.conversation import Conversation
from anyport.protocol.errors import RetryAfter
from anyport.protocol.memory_budget import MemoryBudget, MemoryReservation
from anyport.protocol.scheduler import HEAVY_BYTES, FairScheduler, WorkSteps, cost_of
from anyport.protocol.session import STDIO
from anyport.wire import jsonrpc
from anyport.wire.lines import LineSplitter, Overlong, encode_line
from anyport.wire.write_buffer import WriteBuffer

READ_BYTES: Final = 64 * 1024
"""One read; its messages may be handled in several turns of the event loop."""
UNSENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Unsent bytes of a client that does not read; over this, it counts as gone."""
UNSENT_BYTES_PAUSE: Final = 4 * 1024 * 1024
"""Back-pressure: above this, nothing is read until the client has read its answers."""


class StdoutWriter:
    """Writes frames to a descriptor; never blocks the event loop if the descriptor can be
    polled."""

    reply_only = False

    def __init__(self, fd: int, before_write: Callable[[], None]) -> None:
        self.broken = False
        self.on_drained: Callable[[], None] | None = None
        self._fd = fd
        self._before_write = before_write
        self._unsent = WriteBuffer()
        self.unsent_memory = MemoryReservation(MemoryBudget())
        """Unsent bytes count against the memory budget, which leaves less room for large
        answers."""
        self._scheduled = False
        self._loop = asyncio.get_running_loop()
        # A terminal is shared with the shell that started the gateway: its mode must not change.
        mode = os.fstat(fd).st_mode
        self._was_blocking = os.get_blocking(fd)
        self._pollable = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
        if self._pollable:
            os.set_blocking(fd, False)

    def send_frames(self, *frames: bytes) -> None:
        if self.broken:
            return
        for frame in frames:
            self._unsent.add(encode_line(frame))
        if self.unsent_bytes > UNSENT_BYTES_MAX:
            self._mark_broken()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def end(
        self, frame: bytes, code: int | None = None, retry_after: RetryAfter | None = None
    ) -> None:
        """Send an answer: on a pipe it is a frame like any other."""
        self.send_frames(frame)

    @property
    def unsent_bytes(self) -> int:
        return self._unsent.size

    def restore(self) -> None:
        """Restore the mode of the descriptor."""
        if self._pollable:
            self._loop.remove_writer(self._fd)
            os.set_blocking(self._fd, self._was_blocking)

    def _flush(self) -> None:
        self._scheduled = False
        if self.broken or not self._unsent.size:
            return
        self._before_write()
        try:
            self._unsent.consume(os.writev(self._fd, self._unsent.next_buffers()))
        except BlockingIOError:
            pass
        except OSError:
            self._mark_broken()
            return
        self.unsent_memory.resize(self._unsent.size)
        if not self._unsent.size:
            if self.on_drained is not None:
                self.on_drained()
        elif self._pollable:
            self._scheduled = True
            self._loop.add_writer(self._fd, self._on_writable)
        else:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _on_writable(self) -> None:
        self._loop.remove_writer(self._fd)
        self._flush()

    def _mark_broken(self) -> None:
        """The client no longer reads."""
        self.broken = True
        self._unsent.clear()
        self.unsent_memory.release()
        if self.on_drained is not None:
            self.on_drained()


class StdioIngress:
    """The gateway for a client on a pair of descriptors."""

    def __init__(
        self,
        handler: RequestHandler,
        *,
        profile: str,
        before_write: Callable[[], None],
        unrecorded_answers: Callable[[], int] = lambda: 0,
        stdin: int = 0,
        stdout: int = 1,
    ) -> None:
        self._unrecorded_answers = unrecorded_answers
        """Number of answers held back until their events are recorded."""
        self._stdin = stdin
        self._loop = asyncio.get_running_loop()
        self._writer = StdoutWriter(stdout, before_write)
        self._writer.on_drained = self._on_drained
        self.conversation = Conversation(
            profile=profile,
            handler=handler,
            writer=self._writer,
            transport=STDIO,
            new_session_id=lambda: os.urandom(8).hex(),
        )
        self._splitter = LineSplitter(jsonrpc.INBOUND.bytes_max)
        self._scheduler = FairScheduler(self._loop)
        self._deferred = False
        """Whether received messages are left for later turns; nothing is read until they are
        handled."""
        self._done = asyncio.Event()
        self._paused = False
        self._input_ended = False

    def share_limits(self, memory_budget: MemoryBudget, scheduler: FairScheduler) -> None:
        """Share the memory budget and the scheduler with the rest of the gateway."""
        self._writer.unsent_memory = MemoryReservation(memory_budget)
        self._scheduler = scheduler

    async def run(self) -> None:
        """Serve the client until its input has ended and everything is answered."""
        self.conversation.on_idle = lambda _: self._check_done()
        self._start_reading()
        try:
            await self._done.wait()
        finally:
            self.conversation.close_session()
            self._stop_reading()
            self._writer.restore()

    def _start_reading(self) -> None:
        try:
            self._loop.add_reader(self._stdin, self._read)
            self._pollable = True
        except (PermissionError, OSError):
            # A regular file is always readable and cannot be polled.
            self._pollable = False
            self._loop.call_soon(self._read)

    def _stop_reading(self) -> None:
        if self._pollable:
            self._loop.remove_reader(self._stdin)

    def _read(self) -> None:
        try:
            portion = os.read(self._stdin, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            portion = b""
        if not portion:
            self._on_input_end()
            return
        if not self._scheduler.run(
            self, self._handle_lines(self._splitter.feed(portion)), self._on_lines_handled
        ):
            self._deferred = True
            self._stop_reading()
        elif self._writer.unsent_bytes > UNSENT_BYTES_PAUSE:
            self._paused = True
            self._stop_reading()
        elif not self._pollable:
            self._loop.call_soon(self._read)

    def _on_lines_handled(self) -> None:
        """All received messages are handled: read on, unless the client has to read first."""
        self._deferred = False
        if self._writer.unsent_bytes > UNSENT_BYTES_PAUSE:
            self._paused = True
        elif not self._input_ended:
            self._start_reading()
        self._check_done()

    def _handle_lines(self, lines: list[bytes | Overlong]) -> WorkSteps:
        for line in lines:
            if isinstance(line, bytes) and len(line) > HEAVY_BYTES:
                yield cost_of(len(line))
            try:
                yield from self.conversation.receive(line) or ()
            except Exception as error:  # noqa: BLE001 - it must not cost the lines after it
                context = {"message": "A client's line was not taken", "exception": error}
                self._loop.call_exception_handler(context)
            yield 1

    def _on_drained(self) -> None:
        if self._paused and not self._input_ended and not self._deferred:
            self._paused = False
            self._start_reading()
        self._check_done()

    def _on_input_end(self) -> None:
        """End of input: handle the last line, and finish when everything is answered."""
        self._stop_reading()
        self._input_ended = True
        for _ in self._handle_lines(self._splitter.finish()):
            pass
        self.conversation.end_input()
        self._check_done()

    def _check_done(self) -> None:
        if self._writer.broken and not self._input_ended:
            self._on_input_end()
        answered = self.conversation.open_requests == 0 and self._writer.unsent_bytes == 0
        answered = answered and not self._unrecorded_answers() and not self._deferred
        if self._input_ended and (answered or self._writer.broken):
            self._done.set()

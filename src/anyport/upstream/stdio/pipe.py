"""Pipes to one stdio server: stdin, stdout and stderr of its process.

Lines out are written together once per turn of the event loop; lines in are split and passed on;
stderr is always drained, so that a server that writes a lot to it never blocks.
"""

import asyncio
import os
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Final

from anyport.protocol.memory_budget import MemoryBudget, MemoryReservation
from anyport.protocol.scheduler import (
    HEAVY_BYTES,
    SLICE_COST_MAX,
    FairScheduler,
    GroupedPeer,
    WorkSteps,
    cost_of,
)
from anyport.upstream.stdio.process import ChildProcess
from anyport.wire.lines import LineSplitter, Overlong, encode_lines, truncate_message
from anyport.wire.write_buffer import WriteBuffer

if TYPE_CHECKING:
    from anyport.upstream.connection import Connection
    from anyport.upstream.stdio.transport import StdioTransport

READ_BYTES: Final = 64 * 1024
"""One read of one server; its lines may be handled in several turns of the event loop."""

STDERR_BYTES: Final = 1024
"""One step of stderr: escaping works line by line, and lines may be short."""

UNSENT_BYTES_MAX: Final = 32 * 1024 * 1024
"""Back-pressure: a server with this much unread input gets no more calls."""

UNREAD_BYTES_MAX: Final = 2 * UNSENT_BYTES_MAX
"""Answers to its requests are still queued up to this; then it is given up."""

EXIT_SECONDS_MAX: Final = 0.5
"""How long a server that closed its stdin or stdout may take to exit with a code."""

REST_READS_MAX: Final = 32
"""More than a pipe holds: anything beyond was not written by the server that exited."""

ENDLESS_FACTOR: Final = 2
"""A line without an end is given up at this multiple of the limit."""


class StdioPipe(GroupedPeer):
    """stdin, stdout and stderr of one process."""

    def __init__(
        self,
        child: ChildProcess,
        transport: "StdioTransport",
        bytes_max: int,
        memory_budget: MemoryBudget | None = None,
        scheduler: FairScheduler | None = None,
        group: object = None,
    ) -> None:
        """`group` is the same for all processes of one server."""
        self.group = group
        self.child = child
        self.connection: Connection
        """Set before anything is sent or read."""
        self._transport = transport
        self._splitter = LineSplitter(bytes_max)
        self._reservation = MemoryReservation(memory_budget or MemoryBudget())
        """For an incomplete line."""
        self._scheduler = scheduler or FairScheduler()
        self._deferred = False
        """Some lines are left to later turns of the loop; nothing is read until they are
        handled."""
        self._on_drained: Callable[[], None] | None = None
        """Called when the rest of an exited server's output is handled."""
        self._loop = asyncio.get_running_loop()
        self._queued: list[bytes] = []
        """Frames of this turn of the loop."""
        self._queued_bytes = 0
        self._unsent = WriteBuffer()
        self.unwritten: list[bytes] = []
        """At the end: frames that the server cannot have read."""
        self._flushing = False
        self._ended = False
        self._loop.add_reader(child.stdout, self._read)
        self._loop.add_reader(child.stderr, self._read_stderr)

    listening_since = -inf
    streamless = False

    @property
    def full(self) -> bool:
        """Whether the server has stopped reading."""
        return self._unsent.size + self._queued_bytes > UNSENT_BYTES_MAX

    def send(self, frame: bytes, call: object = None) -> None:
        """Queue one frame; all frames of one turn go out in one write."""
        if self._ended:
            return
        self._queued.append(frame)
        self._queued_bytes += len(frame)
        if self._queued_bytes + self._unsent.size > UNREAD_BYTES_MAX:
            self.end(f"it has not read the last {UNREAD_BYTES_MAX} bytes that it was sent")
            return
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def cancel(self, call: object) -> bool:
        """A pipe has no way to abandon a call: the server must be notified."""
        return False

    def end(self, reason: str) -> None:
        """Stop reading and writing. Lines that were read have been passed on."""
        if self._ended:
            return
        self._ended = True
        self._loop.remove_reader(self.child.stdout)
        self._loop.remove_reader(self.child.stderr)
        if self.child.stdin >= 0:
            self._loop.remove_writer(self.child.stdin)
        self._reservation.release()
        self._set_unwritten()
        self.unwritten += self._queued
        self._queued.clear()
        self._transport.on_end(self, reason)

    def drain(self, on_drained: Callable[[], None]) -> None:
        """Read what an exited server left in its pipes, then call back."""
        self._on_drained = on_drained
        if not self._deferred:
            self._drain()

    def _drain(self) -> None:
        if self._on_drained is None:
            return
        if not self._ended:
            self._loop.remove_reader(self.child.stdout)
            self._loop.remove_reader(self.child.stderr)
        if self._scheduler.run(self, self._read_rest(), self._on_drained):
            self._on_drained()

    def _read(self) -> None:
        portion = _read(self.child.stdout)
        if portion == b"":
            self._loop.remove_reader(self.child.stdout)
            # It is probably exiting, and its exit code says more than this.
            self._loop.call_later(EXIT_SECONDS_MAX, self.end, "it closed its stdout")
        elif not self._scheduler.run(
            self, self._deliver_stdout(portion or b""), self._resume_stdout
        ):
            self._deferred = True
            self._loop.remove_reader(self.child.stdout)

    def _resume_stdout(self) -> None:
        self._deferred = False
        if self._on_drained is not None:
            self._drain()
        elif not self._ended:
            self._loop.add_reader(self.child.stdout, self._read)

    def _read_stderr(self) -> None:
        portion = _read(self.child.stderr)
        work = self._deliver_stderr(portion or b"")
        if portion == b"" or not self._scheduler.run(self, work, self._resume_stderr):
            self._loop.remove_reader(self.child.stderr)

    def _resume_stderr(self) -> None:
        if self._on_drained is None and not self._ended:
            self._loop.add_reader(self.child.stderr, self._read_stderr)

    def _read_rest(self) -> WorkSteps:
        """Pass on what is left, without waiting for the end: a surviving child may keep the pipe
        open."""
        for fd, take in (
            (self.child.stderr, self._deliver_stderr),
            (self.child.stdout, self._deliver_stdout),
        ):
            for _ in range(REST_READS_MAX):
                portion = None if self._ended else _read(fd)
                if not portion:
                    break
                yield from take(portion)
        if not self._ended:
            yield from self._deliver_lines(self._splitter.finish())

    def _deliver_stdout(self, portion: bytes) -> WorkSteps:
        lines = self._splitter.feed(portion)
        if self._splitter.pending_bytes or self._reservation.size:
            # Before the lines are handled: complete lines are accounted for by their receivers.
            self._reservation.reserve_for_splitter(self._splitter)
        yield from self._deliver_lines(lines)
        if self._splitter.pending_bytes > ENDLESS_FACTOR * self._splitter.bytes_max:
            self.end(
                f"it wrote a line of more than {self._splitter.pending_bytes} bytes without an end"
            )

    def _deliver_stderr(self, portion: bytes) -> WorkSteps:
        for at in range(0, len(portion), STDERR_BYTES):
            self._transport.on_stderr(portion[at : at + STDERR_BYTES])
            yield SLICE_COST_MAX

    def _deliver_lines(self, lines: list[bytes | Overlong]) -> WorkSteps:
        for whole in lines:
            if isinstance(whole, bytes) and len(whole) > HEAVY_BYTES:
                yield cost_of(len(whole))
            if self._ended:
                return
            try:
                self._transport.on_line(self, whole)
            except MemoryError:
                self._transport.on_line(self, truncate_message(whole))
            except Exception as error:  # noqa: BLE001 - it must not cost the lines after it
                context = {"message": "A server's line was not taken", "exception": error}
                self._loop.call_exception_handler(context)
            yield 1

    def _flush(self) -> None:
        self._flushing = False
        if self._ended:
            return
        if self._queued:
            self._unsent.add(encode_lines(self._queued))
            self._queued, self._queued_bytes = [], 0
        if not self._unsent.size:
            return
        try:
            self._unsent.consume(os.writev(self.child.stdin, self._unsent.next_buffers()))
        except BlockingIOError:
            pass
        except OSError:
            self._set_unwritten()
            self._loop.call_later(EXIT_SECONDS_MAX, self.end, "it closed its stdin")
        if self._unsent.size:
            self._flushing = True
            self._loop.add_writer(self.child.stdin, self._on_writable)

    def _set_unwritten(self) -> None:
        """Collect the frames that were not written; the first may have been written in part."""
        rest, begun = self._unsent.remaining()
        self.unwritten += rest.split(b"\n")[begun:]
        self._unsent.clear()

    def _on_writable(self) -> None:
        self._loop.remove_writer(self.child.stdin)
        self._flush()


def _read(fd: int) -> bytes | None:
    """What there is to read; empty at the end of the stream, None if nothing has come."""
    try:
        return os.read(fd, READ_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        return b""

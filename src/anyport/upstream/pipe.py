"""The bytes between the gateway and one stdio server.

Lines out are written together once a turn of the loop; lines in are cut and handed over;
stderr is always drained, so that a talkative server never blocks. Knows lines, not frames.
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from anyport.protocol.room import Held, Room
from anyport.upstream.process import Child
from anyport.wire.backlog import Backlog
from anyport.wire.framing import LineSplitter, Overlong, cut_short, lines

READ_BYTES: Final = 256 * 1024
"""One read of one server; then the others have their turn."""

UNSENT_BYTES_MAX: Final = 32 * 1024 * 1024
"""What may wait for a server that does not read its stdin; then it gets no more calls."""

UNREAD_BYTES_MAX: Final = 2 * UNSENT_BYTES_MAX
"""Answers to what it asks go on. One that asks and asks, and reads nothing, has lost its mind."""

EXIT_SECONDS_MAX: Final = 0.5
"""A server that closed its stdin or stdout has this long to exit and tell with which code."""

REST_READS_MAX: Final = 8
"""More than a pipe holds: what comes after it was not written by the server that exited."""

ENDLESS_FACTOR: Final = 2
"""A line this many times over the limit, and still no end, is not an answer: it never ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Who is told what comes out of a pipe."""

    on_line: Callable[[bytes | Overlong], None]
    on_stderr: Callable[[bytes], None]
    on_end: Callable[[str], None]
    """Called once, when nothing more can come; the text says why, for people."""


class Pipe:
    """stdin, stdout and stderr of one child."""

    def __init__(
        self, child: Child, listener: Listener, bytes_max: int, room: Room | None = None
    ) -> None:
        self.child = child
        self._listener = listener
        self._splitter = LineSplitter(bytes_max)
        self._held = Held(room or Room())
        """What has come of a line that is not whole yet."""
        self._loop = asyncio.get_running_loop()
        self._said: list[bytes] = []
        """Frames of this turn of the loop."""
        self._said_bytes = 0
        self._unsent = Backlog()
        self.unwritten: list[bytes] = []
        """Lines of which the server cannot have read anything, once it has ended."""
        self._flushing = False
        self._ended = False
        self._loop.add_reader(child.stdout, self._read)
        self._loop.add_reader(child.stderr, self._read_stderr)

    @property
    def full(self) -> bool:
        """Whether the server has stopped taking what we send."""
        return self._unsent.size + self._said_bytes > UNSENT_BYTES_MAX

    def send(self, frame: bytes, call: object = None) -> None:
        """Queue one frame; everything queued in one turn goes out in one write."""
        if self._ended:
            return
        self._said.append(frame)
        self._said_bytes += len(frame)
        if self._said_bytes + self._unsent.size > UNREAD_BYTES_MAX:
            self.end(f"it has not read the last {UNREAD_BYTES_MAX} bytes that it was sent")
            return
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def cancel(self, call: object) -> bool:
        """A pipe carries everything: only the server itself can give up on one call."""
        return False

    def end(self, reason: str) -> None:
        """Stop reading and writing; what the server wrote so far has been handed over."""
        if self._ended:
            return
        self._ended = True
        self._loop.remove_reader(self.child.stdout)
        self._loop.remove_reader(self.child.stderr)
        if self.child.stdin >= 0:
            self._loop.remove_writer(self.child.stdin)
        self._held.let_go()
        self._put_away()
        self.unwritten += self._said
        self._said.clear()
        self._listener.on_end(reason)

    def drain(self) -> None:
        """Read what an exited server left in its pipes."""
        self._read_rest(self.child.stderr, self._listener.on_stderr)
        self._read_rest(self.child.stdout, self._hand_over)
        if not self._ended:
            self._tell(self._splitter.finish())

    def _read(self) -> None:
        if not self._read_some(self.child.stdout, self._hand_over):
            self._loop.remove_reader(self.child.stdout)
            # Most likely it is exiting, and its exit code says more than this.
            self._loop.call_later(EXIT_SECONDS_MAX, self.end, "it closed its stdout")
        elif self._splitter.pending > ENDLESS_FACTOR * self._splitter.bytes_max:
            self.end(f"it wrote a line of more than {self._splitter.pending} bytes without an end")

    def _read_stderr(self) -> None:
        if not self._read_some(self.child.stderr, self._listener.on_stderr):
            self._loop.remove_reader(self.child.stderr)

    def _read_some(self, fd: int, take: Callable[[bytes], None]) -> bool:
        """Hand over one portion; False at the end of the stream."""
        try:
            portion = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if portion:
            take(portion)
        return bool(portion)

    def _read_rest(self, fd: int, take: Callable[[bytes], None]) -> None:
        """Hand over what is there; a process that outlived the server may never close its end."""
        for _ in range(REST_READS_MAX):
            try:
                portion = b"" if self._ended else os.read(fd, READ_BYTES)
            except OSError:
                return
            if not portion:
                return
            take(portion)

    def _hand_over(self, portion: bytes) -> None:
        found = self._splitter.feed(portion)
        if self._splitter.pending or self._held.size:
            # Before the lines are looked at: what is whole is held by whoever takes it.
            self._held.weigh(self._splitter)
        self._tell(found)

    def _tell(self, lines: list[bytes | Overlong]) -> None:
        for whole in lines:
            if self._ended:
                return
            try:
                self._listener.on_line(whole)
            except MemoryError:
                self._listener.on_line(cut_short(whole))
            except Exception as error:  # noqa: BLE001 - it must not cost the lines after it
                context = {"message": "A server's line was not taken", "exception": error}
                self._loop.call_exception_handler(context)

    def _flush(self) -> None:
        self._flushing = False
        if self._ended:
            return
        if self._said:
            self._unsent.add(lines(self._said))
            self._said, self._said_bytes = [], 0
        if not self._unsent.size:
            return
        try:
            self._unsent.taken(os.writev(self.child.stdin, self._unsent.next()))
        except BlockingIOError:
            pass
        except OSError:
            self._put_away()
            self._loop.call_later(EXIT_SECONDS_MAX, self.end, "it closed its stdin")
        if self._unsent.size:
            self._flushing = True
            self._loop.add_writer(self.child.stdin, self._resume)

    def _put_away(self) -> None:
        """Nobody takes what is left; of its first line, something may have been taken before."""
        rest, begun = self._unsent.rest()
        self.unwritten += rest.split(b"\n")[begun:]
        self._unsent.clear()

    def _resume(self) -> None:
        self._loop.remove_writer(self.child.stdin)
        self._flush()

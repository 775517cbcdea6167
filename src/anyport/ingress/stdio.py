"""One client on stdin and stdout.

Reads lines from whatever stdin is (pipe, terminal, file), writes answers in one go for each turn
of the loop, after the record of them is safe. When the input ends, every open request is still
answered. Knows bytes and lines; a `Conversation` knows what they mean.
"""

import asyncio
import os
import stat
from collections.abc import Callable
from typing import Final

from anyport.protocol.conversation import Conversation
from anyport.protocol.errors import Pause
from anyport.protocol.front import Relay
from anyport.protocol.room import Held, Room
from anyport.wire import codec
from anyport.wire.backlog import Backlog
from anyport.wire.framing import LineSplitter, Overlong, line

READ_BYTES: Final = 256 * 1024
UNSENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""What may wait for a client that does not read; a client further behind is not coming back."""
UNSENT_BYTES_PAUSE: Final = 4 * 1024 * 1024
"""From here on nothing more is read from the client until it has read what it asked for."""


class Outlet:
    """Writes to one descriptor; never blocks the loop where the descriptor allows that."""

    mute = False

    def __init__(self, fd: int, before_write: Callable[[], None]) -> None:
        self.broken = False
        self.on_drained: Callable[[], None] | None = None
        self._fd = fd
        self._before_write = before_write
        self._unsent = Backlog()
        self.untaken = Held(Room())
        """What the client has not taken: servers' large answers find less room then."""
        self._scheduled = False
        self._loop = asyncio.get_running_loop()
        # A terminal is shared with the shell that started us; it must stay as it is.
        mode = os.fstat(fd).st_mode
        self._was_blocking = os.get_blocking(fd)
        self._pollable = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
        if self._pollable:
            os.set_blocking(fd, False)

    def note(self, *frames: bytes) -> None:
        """Queue frames."""
        if self.broken:
            return
        for frame in frames:
            self._unsent.add(line(frame))
        if self.unsent_bytes > UNSENT_BYTES_MAX:
            self._break()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def end(self, frame: bytes, code: int | None = None, pause: Pause | None = None) -> None:
        """Queue an answer: on a pipe it is a frame like any other."""
        self.note(frame)

    @property
    def unsent_bytes(self) -> int:
        """What the client has not taken yet."""
        return self._unsent.size

    def restore(self) -> None:
        """Leave the descriptor as it was found."""
        if self._pollable:
            self._loop.remove_writer(self._fd)
            os.set_blocking(self._fd, self._was_blocking)

    def _flush(self) -> None:
        self._scheduled = False
        if self.broken or not self._unsent.size:
            return
        self._before_write()
        try:
            self._unsent.taken(os.writev(self._fd, self._unsent.next()))
        except BlockingIOError:
            pass
        except OSError:
            self._break()
            return
        self.untaken.keep(self._unsent.size)
        if not self._unsent.size:
            if self.on_drained is not None:
                self.on_drained()
        elif self._pollable:
            self._scheduled = True
            self._loop.add_writer(self._fd, self._resume)
        else:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _resume(self) -> None:
        self._loop.remove_writer(self._fd)
        self._flush()

    def _break(self) -> None:
        """The client no longer reads."""
        self.broken = True
        self._unsent.clear()
        self.untaken.let_go()
        if self.on_drained is not None:
            self.on_drained()


class StdioIngress:
    """The gateway on two descriptors."""

    def __init__(
        self,
        relay: Relay,
        *,
        profile: str,
        before_write: Callable[[], None],
        held: Callable[[], int] = lambda: 0,
        stdin: int = 0,
        stdout: int = 1,
    ) -> None:
        self._held = held
        """How many answers still wait for the record of them."""
        self._stdin = stdin
        self._loop = asyncio.get_running_loop()
        self._outlet = Outlet(stdout, before_write)
        self._outlet.on_drained = self._drained
        self.conversation = Conversation(
            profile=profile,
            relay=relay,
            teller=self._outlet,
            transport="stdio",
            new_session_id=lambda: os.urandom(8).hex(),
        )
        self._splitter = LineSplitter(codec.INBOUND.bytes_max)
        self._done = asyncio.Event()
        self._paused = False
        self._ended = False

    def within(self, room: Room) -> None:
        """Share the room for large messages with everybody else who holds some."""
        self._outlet.untaken = Held(room)

    async def run(self) -> None:
        """Serve the client until its input has ended and everything is answered."""
        self.conversation.on_idle = lambda _: self._check_done()
        self._watch()
        try:
            await self._done.wait()
        finally:
            self.conversation.leave()
            self._unwatch()
            self._outlet.restore()

    def _watch(self) -> None:
        try:
            self._loop.add_reader(self._stdin, self._read)
            self._pollable = True
        except (PermissionError, OSError):
            # A regular file is always ready, and cannot be polled.
            self._pollable = False
            self._loop.call_soon(self._read)

    def _unwatch(self) -> None:
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
            self._end()
            return
        self._take(self._splitter.feed(portion))
        if self._outlet.unsent_bytes > UNSENT_BYTES_PAUSE:
            self._paused = True
            self._unwatch()
        elif not self._pollable:
            self._loop.call_soon(self._read)

    def _take(self, lines: list[bytes | Overlong]) -> None:
        for whole in lines:
            try:
                self.conversation.receive(whole)
            except Exception as error:  # noqa: BLE001 - it must not cost the lines after it
                context = {"message": "A client's line was not taken", "exception": error}
                self._loop.call_exception_handler(context)

    def _drained(self) -> None:
        if self._paused and not self._ended:
            self._paused = False
            self._watch()
        self._check_done()

    def _end(self) -> None:
        """End of input: what is open gets its answer, then we are done."""
        self._unwatch()
        self._ended = True
        self._take(self._splitter.finish())
        self.conversation.finish()
        self._check_done()

    def _check_done(self) -> None:
        if self._outlet.broken and not self._ended:
            self._end()
        answered = self.conversation.open_requests == 0 and self._outlet.unsent_bytes == 0
        answered = answered and not self._held()
        if self._ended and (answered or self._outlet.broken):
            self._done.set()

"""The listening sockets of a gateway, handed from one process to the next.

A gateway offers them on a private socket in the state directory. Its successor takes them when
it is ready to serve, accepts connections, and says so; only then does the one before stop to
accept. In between both do: the queue of new connections is the same, and nobody is refused.
Should the successor die on the way, nothing has changed.

Both speak JSON, one note a line, and only to processes of the same user. They may be of
different versions: what one does not know, it ignores. What is served is not known here.
"""

import asyncio
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, cast

import msgspec

from anyport.record.segments import make_private_directory

PATH_BYTES_MAX: Final = 103
"""What every system takes as the path of a socket; a longer one is reached another way."""
NOTE_BYTES_MAX: Final = 16 * 1024 * 1024
"""A client's message may be in a note, written as text."""
SOCKETS_MAX: Final = 16
"""A name stands for a few addresses at most."""
ANSWER_SECONDS_MAX: Final = 5.0
"""A gateway that runs answers its successor at once."""

_CREDENTIALS: Final = struct.Struct("3i")  # Process, user and group; see unix(7).


class Note(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one process tells the other."""

    pid: int = 0
    listens: tuple[str, int] | None = None
    """Where the one before listens: its first words."""
    take: bool = False
    """The successor is ready."""
    sockets: int = 0
    """So many come along with this note."""
    accepting: bool = False
    """The successor accepts connections."""
    session: str = ""
    """The id of the session that the rest is about; alone: the register says something new."""
    frame: str = ""
    """What the session's client said."""


_decode: Final = msgspec.json.Decoder(Note).decode


class Unwilling(Exception):
    """There is a gateway, and it does not hand over; the text says what to do."""


class Line(asyncio.Protocol):
    """One end of the conversation between two processes."""

    def __init__(
        self, heard: "Callable[[Line, Note], None]", gone: "Callable[[Line], None]"
    ) -> None:
        self._heard = heard
        self._gone = gone
        self._held = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The other is there; if it is somebody else's process, it is hung up on."""
        self._transport = cast(asyncio.Transport, transport)
        with self._socket() as line:
            if not _is_ours(line):
                self.hang_up()

    def data_received(self, data: bytes) -> None:
        """Some of what it says."""
        *lines, self._held = (self._held + data).split(b"\n")
        if len(self._held) > NOTE_BYTES_MAX:
            self.hang_up()
        for line in lines:
            with suppress(msgspec.DecodeError):
                self._heard(self, _decode(line))

    def connection_lost(self, exc: Exception | None) -> None:
        """It has gone."""
        self._transport = None
        self._gone(self)

    def say(self, note: Note) -> None:
        """Tell it something, if it is still there."""
        if self._transport is not None:
            self._transport.write(_encoded(note))

    def give(self, descriptors: list[int]) -> None:
        """Hand over open sockets.

        Raises:
            OSError: they cannot be sent.
        """
        with self._socket() as line:
            socket.send_fds(line, [_encoded(Note(sockets=len(descriptors)))], descriptors)

    def hang_up(self) -> None:
        """Say nothing more."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

    @contextmanager
    def _socket(self) -> Iterator[socket.socket]:
        """The socket itself, for what a transport cannot do."""
        if self._transport is None:
            raise OSError("it has gone")
        theirs = self._transport.get_extra_info("socket")
        with socket.socket(fileno=os.dup(theirs.fileno())) as line:
            yield line


class Offer:
    """What a gateway that runs does for its successor."""

    def __init__(
        self,
        path: Path,
        listens: tuple[str, int],
        descriptors: Callable[[], list[int]],
        taken: Callable[[Line, int], None],
    ) -> None:
        self._path = path
        self._listens = listens
        self._descriptors = descriptors
        self._taken = taken
        """Called with the line to the successor and its process id, once that accepts."""
        self._server: asyncio.AbstractServer | None = None
        self._made: os.stat_result | None = None
        self._lines: set[Line] = set()
        self._taker: Line | None = None
        self.heard: Callable[[Line, Note], None] | None = None
        """Gets all that is said once the successor accepts."""

    async def open(self) -> None:
        """Be there for a successor, in place of whoever was there before.

        Raises:
            OSError: there can be no socket.
        """
        make_private_directory(self._path.parent)
        scratch = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        offered = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _reachable(scratch) as address:
                offered.bind(address)
            # Nobody can connect before somebody listens.
            scratch.chmod(0o600)
            loop = asyncio.get_running_loop()
            self._server = await loop.create_unix_server(self._line, sock=offered)
            scratch.replace(self._path)
            self._made = self._path.stat()
        except OSError:
            self.close()
            offered.close()
            with suppress(OSError):
                scratch.unlink()
            raise

    def close(self) -> None:
        """Offer nothing any more; whoever was there is gone for the others."""
        if self._server is not None:
            self._server.close()
        for line in self._lines:
            line.hang_up()
        with suppress(OSError):
            # After a restart another's lies there.
            if self._made is not None and os.path.samestat(self._made, self._path.stat()):
                self._path.unlink()

    def _line(self) -> Line:
        greeting = Note(pid=os.getpid(), listens=self._listens)
        line = _Greeting(self._hear, self._lose, greeting)
        self._lines.add(line)
        return line

    def _hear(self, line: Line, note: Note) -> None:
        if note.take and self._taker is None:
            self._taker = line
            try:
                line.give(self._descriptors())
            except OSError:
                line.hang_up()
        elif line is not self._taker:
            line.hang_up()  # There is one successor.
        elif note.accepting:
            self._taken(line, note.pid)
        elif self.heard is not None:
            self.heard(line, note)

    def _lose(self, line: Line) -> None:
        self._lines.discard(line)
        if line is self._taker:
            self._taker = None


class _Greeting(Line):
    """A line on which something is said first."""

    def __init__(
        self, heard: Callable[[Line, Note], None], gone: Callable[[Line], None], first: Note
    ) -> None:
        super().__init__(heard, gone)
        self._first = first

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.say(self._first)


class Predecessor:
    """The gateway that runs already, as its successor sees it; waits for its answers."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._held = b""
        self.pid = 0
        self.listens: tuple[str, int] | None = None

    @classmethod
    def find(cls, path: Path) -> "Predecessor | None":
        """Whoever offers sockets there; None if nobody does.

        Raises:
            Unwilling: somebody is there, and cannot be talked to.
        """
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.settimeout(ANSWER_SECONDS_MAX)
        try:
            with _reachable(path) as address:
                line.connect(address)
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            line.close()
            return None
        except OSError as error:
            line.close()
            reason = error.strerror or type(error).__name__
            raise Unwilling(f"the gateway that runs here cannot be reached: {reason}") from None
        found = cls(line)
        if not _is_ours(line):
            found.close()
            raise Unwilling("the gateway that runs here is another user's: stop it first")
        greeting = found._next()
        if greeting is None:
            found.close()
            raise Unwilling("the gateway that runs here does not answer: stop it first")
        found.pid, found.listens = greeting.pid, greeting.listens
        return found

    def take(self) -> list[socket.socket]:
        """Its listening sockets; none if it has gone meanwhile."""
        try:
            self._line.sendall(_encoded(Note(take=True, pid=os.getpid())))
            raw, descriptors, _, _ = socket.recv_fds(self._line, 4096, SOCKETS_MAX)
        except OSError:
            raw, descriptors = b"", []
        for each in descriptors:
            os.set_inheritable(each, False)  # Servers that are started must not have them.
        self._held += raw
        return [socket.socket(fileno=each) for each in descriptors]

    async def accepted(
        self, heard: Callable[[Line, Note], None], gone: Callable[[Line], None]
    ) -> Line:
        """Tell it that it need not accept connections any more; stay in touch while it is there.

        Raises:
            OSError: it has gone.
        """
        loop = asyncio.get_running_loop()
        _, line = await loop.create_unix_connection(lambda: Line(heard, gone), sock=self._line)
        line.say(Note(accepting=True, pid=os.getpid()))
        return line

    def close(self) -> None:
        """It is not needed."""
        self._line.close()

    def _next(self) -> Note | None:
        try:
            while b"\n" not in self._held:
                portion = self._line.recv(4096)
                if not portion:
                    return None
                self._held += portion
            line, _, self._held = self._held.partition(b"\n")
            return _decode(line)
        except (OSError, msgspec.DecodeError):
            return None


def _is_ours(line: socket.socket) -> bool:
    """Whether a process of the same user is at the other end."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # There the mode of the file has to do.
    raw = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(raw)[1]) == os.geteuid()


@contextmanager
def _reachable(path: Path) -> Iterator[str]:
    """A path that is short enough for a socket.

    Raises:
        OSError: there is none.
    """
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _encoded(note: Note) -> bytes:
    return msgspec.json.encode(note) + b"\n"

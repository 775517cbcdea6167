"""Handover: a restart passes the listening sockets from the old process to the new one.

The running gateway offers its sockets on a private Unix socket in the state directory. The new
process takes them when it is ready to serve, accepts connections, and confirms; only then does the
old one stop accepting. In between both accept from the same queue, so no connection is refused. If
the new process dies on the way, nothing has changed.

Messages are JSON, one per line, between processes of the same user. The processes may be of
different versions: unknown members are ignored.
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

from anyport.ingress.http.sessions import HttpSession, HttpSessions
from anyport.record.journal.segments import make_private_directory
from anyport.wire import jsonrpc
from anyport.wire.jsonrpc import Failure, Notification, Result

PATH_BYTES_MAX: Final = 103
"""The longest socket path that every system accepts; longer ones take a detour."""
MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
"""A message may contain a message of a client."""
SOCKETS_MAX: Final = 16
"""A host name stands for a few addresses at most."""
ANSWER_SECONDS_MAX: Final = 5.0
"""A running gateway answers at once."""

_CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid: see unix(7).


class HandoverMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message between the old and the new process."""

    pid: int = 0
    listens: tuple[str, int] | None = None
    """The listen address of the old process; first message only."""
    take: bool = False
    """The new process is ready for the sockets."""
    sockets: int = 0
    """Number of sockets sent along with this message."""
    accepting: bool = False
    """The new process accepts connections."""
    session: str = ""
    """The id of the session that `frame` belongs to; without a frame, its stored state has
    changed."""
    frame: str = ""
    """A message from the session's client."""


_decode: Final = msgspec.json.Decoder(HandoverMessage).decode


class HandoverRefused(Exception):
    """A gateway is running and does not hand over; the text says what to do."""


class HandoverChannel(asyncio.Protocol):
    """Connection between the old and the new process."""

    def __init__(
        self,
        on_message: "Callable[[HandoverChannel, HandoverMessage], None]",
        on_lost: "Callable[[HandoverChannel], None]",
    ) -> None:
        self._on_message = on_message
        self._on_lost = on_lost
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close the connection unless the peer belongs to the same user."""
        self._transport = cast(asyncio.Transport, transport)
        with self._socket() as sock:
            if not _is_own_user(sock):
                self.close()

    def data_received(self, data: bytes) -> None:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        if len(self._buffer) > MESSAGE_BYTES_MAX:
            self.close()
        for line in lines:
            with suppress(msgspec.DecodeError):
                self._on_message(self, _decode(line))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._on_lost(self)

    def send(self, message: HandoverMessage) -> None:
        """Send a message, if the peer is still connected."""
        if self._transport is not None:
            self._transport.write(_encode(message))

    def send_sockets(self, descriptors: list[int]) -> None:
        """Send open sockets.

        Raises:
            OSError: they cannot be sent.
        """
        with self._socket() as sock:
            socket.send_fds(sock, [_encode(HandoverMessage(sockets=len(descriptors)))], descriptors)

    def close(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

    @contextmanager
    def _socket(self) -> Iterator[socket.socket]:
        """The socket itself, for what a transport cannot do."""
        if self._transport is None:
            raise OSError("it has gone")
        transport_socket = self._transport.get_extra_info("socket")
        with socket.socket(fileno=os.dup(transport_socket.fileno())) as sock:
            yield sock


class HandoverOffer:
    """The old process: offers its listening sockets to a new one."""

    def __init__(
        self,
        path: Path,
        listens: tuple[str, int],
        descriptors: Callable[[], list[int]],
        on_taken_over: Callable[[HandoverChannel, int], None],
    ) -> None:
        self._path = path
        self._listens = listens
        self._descriptors = descriptors
        self._on_taken_over = on_taken_over
        """Called with the channel and the process id of the new process, once that accepts
        connections."""
        self._server: asyncio.AbstractServer | None = None
        self._socket_stat: os.stat_result | None = None
        self._channels: set[HandoverChannel] = set()
        self._successor: HandoverChannel | None = None
        self.on_message: Callable[[HandoverChannel, HandoverMessage], None] | None = None
        """Receives the messages of the new process from then on."""

    async def open(self) -> None:
        """Listen for a new process, replacing the socket of a previous one.

        Raises:
            OSError: the socket cannot be created.
        """
        make_private_directory(self._path.parent)
        temporary_path = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _short_socket_path(temporary_path) as address:
                sock.bind(address)
            # Before `listen`, so that no other user can connect.
            temporary_path.chmod(0o600)
            loop = asyncio.get_running_loop()
            self._server = await loop.create_unix_server(self._make_channel, sock=sock)
            temporary_path.replace(self._path)
            self._socket_stat = self._path.stat()
        except OSError:
            self.close()
            sock.close()
            with suppress(OSError):
                temporary_path.unlink()
            raise

    def close(self) -> None:
        """Stop offering, and remove the socket file."""
        if self._server is not None:
            self._server.close()
        for channel in self._channels:
            channel.close()
        with suppress(OSError):
            # Another process may have replaced it since.
            if self._socket_stat is not None and os.path.samestat(
                self._socket_stat, self._path.stat()
            ):
                self._path.unlink()

    def _make_channel(self) -> HandoverChannel:
        greeting = HandoverMessage(pid=os.getpid(), listens=self._listens)
        channel = _GreetingChannel(self._handle_message, self._on_lost, greeting)
        self._channels.add(channel)
        return channel

    def _handle_message(self, channel: HandoverChannel, message: HandoverMessage) -> None:
        if message.take and self._successor is None:
            self._successor = channel
            try:
                channel.send_sockets(self._descriptors())
            except OSError:
                channel.close()
        elif channel is not self._successor:
            channel.close()  # One successor only.
        elif message.accepting:
            self._on_taken_over(channel, message.pid)
        elif self.on_message is not None:
            self.on_message(channel, message)

    def _on_lost(self, channel: HandoverChannel) -> None:
        self._channels.discard(channel)
        if channel is self._successor:
            self._successor = None


class _GreetingChannel(HandoverChannel):
    """A channel that sends a greeting first."""

    def __init__(
        self,
        on_message: Callable[[HandoverChannel, HandoverMessage], None],
        on_lost: Callable[[HandoverChannel], None],
        greeting: HandoverMessage,
    ) -> None:
        super().__init__(on_message, on_lost)
        self._greeting = greeting

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.send(self._greeting)


class Predecessor:
    """The new process: connection to the running gateway, with blocking I/O until both serve."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._buffer = b""
        self.pid = 0
        self.listens: tuple[str, int] | None = None

    @classmethod
    def find(cls, path: Path) -> "Predecessor | None":
        """Connect to the gateway that offers sockets at this path; None if there is none.

        Raises:
            HandoverRefused: it is running, but no handover is possible.
        """
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(ANSWER_SECONDS_MAX)
        try:
            with _short_socket_path(path) as address:
                sock.connect(address)
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            sock.close()
            return None
        except OSError as error:
            sock.close()
            reason = error.strerror or type(error).__name__
            raise HandoverRefused(
                f"the gateway that runs here cannot be reached: {reason}"
            ) from None
        predecessor = cls(sock)
        if not _is_own_user(sock):
            predecessor.close()
            raise HandoverRefused("the gateway that runs here is another user's: stop it first")
        greeting = predecessor._read_message()
        if greeting is None:
            predecessor.close()
            raise HandoverRefused("the gateway that runs here does not answer: stop it first")
        predecessor.pid, predecessor.listens = greeting.pid, greeting.listens
        return predecessor

    def take_sockets(self) -> list[socket.socket]:
        """Take the listening sockets; none if the old process has exited."""
        try:
            self._socket.sendall(_encode(HandoverMessage(take=True, pid=os.getpid())))
            raw, descriptors, _, _ = socket.recv_fds(self._socket, 4096, SOCKETS_MAX)
        except OSError:
            raw, descriptors = b"", []
        for each in descriptors:
            os.set_inheritable(each, False)  # Servers started later must not inherit them.
        self._buffer += raw
        return [socket.socket(fileno=each) for each in descriptors]

    async def confirm_accepting(
        self,
        on_message: Callable[[HandoverChannel, HandoverMessage], None],
        on_lost: Callable[[HandoverChannel], None],
    ) -> HandoverChannel:
        """Tell the old process to stop accepting; returns the channel for the messages that follow.

        Raises:
            OSError: the old process has exited.
        """
        loop = asyncio.get_running_loop()
        _, channel = await loop.create_unix_connection(
            lambda: HandoverChannel(on_message, on_lost), sock=self._socket
        )
        channel.send(HandoverMessage(accepting=True, pid=os.getpid()))
        return channel

    def close(self) -> None:
        self._socket.close()

    def _read_message(self) -> HandoverMessage | None:
        try:
            while b"\n" not in self._buffer:
                portion = self._socket.recv(4096)
                if not portion:
                    return None
                self._buffer += portion
            line, _, self._buffer = self._buffer.partition(b"\n")
            return _decode(line)
        except (OSError, msgspec.DecodeError):
            return None


def _is_own_user(sock: socket.socket) -> bool:
    """Whether the peer process belongs to the same user."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # The mode of the socket file must do there.
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(raw)[1]) == os.geteuid()


@contextmanager
def _short_socket_path(path: Path) -> Iterator[str]:
    """A path to a socket that fits into its address.

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


def _encode(message: HandoverMessage) -> bytes:
    return msgspec.json.encode(message) + b"\n"


# Sessions served by two processes: messages that keep both up to date.
#
# While the old process finishes open requests, a client may send to either process. Its answer to a
# question of the old one may arrive at the new one, and a subscription made on a connection to the
# old one concerns the new one.

FORWARDED_NOTIFICATIONS: Final = frozenset({"notifications/cancelled", "notifications/progress"})
"""Notifications about requests that may be open in the old process."""


class HandoverPeers:
    """The old and the new process, as far as they exist."""

    def __init__(self, sessions: HttpSessions) -> None:
        self._sessions = sessions
        self._older: HandoverChannel | None = None
        self._newer: HandoverChannel | None = None
        sessions.on_changed = self._on_session_changed
        sessions.on_client_message = self._on_client_message

    def set_older(self, channel: HandoverChannel) -> None:
        self._older = channel

    def set_newer(self, channel: HandoverChannel) -> None:
        self._newer = channel

    def on_lost(self, channel: HandoverChannel) -> None:
        if channel is self._older:
            self._older = None
        elif channel is self._newer:
            self._newer = None

    def on_message(self, channel: HandoverChannel, message: HandoverMessage) -> None:
        """Apply a message of one process, and pass it on to the other."""
        other = self._older if channel is self._newer else self._newer
        if other is not None:
            other.send(message)
        session = self._sessions.by_id.get(message.session)
        if session is None:
            return
        if message.frame:
            session.conversation.handle(jsonrpc.decode(message.frame.encode()), session)
        else:
            self._sessions.reload_stored(session)

    def _on_session_changed(self, id: str) -> None:
        """The stored state of a session has changed."""
        for channel in (self._older, self._newer):
            if channel is not None:
                channel.send(HandoverMessage(session=id))

    def _on_client_message(
        self, session: HttpSession, frame: Notification | Result | Failure
    ) -> None:
        """A client's message may be an answer to the old process."""
        if self._older is None:
            return
        match frame:
            case Result():
                raw = jsonrpc.encode_result(frame.id, frame.result)
            case Failure():
                raw = jsonrpc.encode_failure(frame.id, frame.error)
            case Notification():
                if frame.method not in FORWARDED_NOTIFICATIONS:
                    return
                raw = jsonrpc.encode_notification(frame.method, frame.params)
        self._older.send(HandoverMessage(session=session.id, frame=raw.decode()))

"""Session store: legacy sessions on disk, so that they survive a restart.

The outcome of the handshake and the later wishes of the client (log level, subscriptions) are
enough to go on with new connections to the servers. Requests in flight are lost with the process
and never repeated: a client that asks for such an answer gets an error that says so.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import blake2b, shake_256
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from anyport.clock import boottime
from anyport.ingress.http.connection import HttpConnection
from anyport.protocol.adapters.legacy_client import LOG_LEVELS, LegacySession
from anyport.protocol.capabilities import client_capabilities
from anyport.protocol.errors import RetryAfter
from anyport.protocol.revisions import Era, find_revision
from anyport.protocol.session import SessionEvent
from anyport.record.journal.segments import make_private_directory
from anyport.record.wall_clock import JUMP_SECONDS
from anyport.wire import jsonrpc

if TYPE_CHECKING:  # It imports this module.
    from anyport.ingress.http.sessions import HttpSession

# One small private file per open session, in the state directory, from the answer to `initialize`
# until the session ends. A session without a file is over. The mtime of the file is the time of
# last use. Several processes may share the store: each writes a file atomically. When the system
# clock is set, mtimes are shifted so that they keep saying how long ago.
#
# A file can only be read with the session id, which only the client has: what a client says of
# itself is private from the administrators of the disk.
#
# If the store cannot be written, nothing fails: sessions end with the process.

FOLDER: Final = "sessions"
CLOCK_FILE: Final = "sessions-clock.json"
"""Offset of the system clock from the monotonic clock when the files were dated."""

ENTRY_BYTES_MAX: Final = 64 * 1024
"""A session with more state than this is not stored, and ends with the process."""

NAME_BYTES: Final = 16
"""Size of the digest that is the file name: a directory listing must not reveal session ids."""

NONCE_BYTES: Final = 16
"""Random bytes at the start of a file, so that each has its own key stream."""

FILES_PER_SWEEP_MAX: Final = 256
"""Files checked per sweep; they take less than a millisecond."""


NO_CLIENT_INFO: Final = msgspec.Raw(b"null")


class StoredSession(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a session on disk. Field names of the format stay as they are."""

    record_id: str = msgspec.field(name="word")
    """The id of the session in the record."""
    revision: str
    capabilities: msgspec.Raw
    client: msgspec.Raw = NO_CLIENT_INFO
    log_level: str | None = msgspec.field(default=None, name="level")
    subscriptions: tuple[str, ...] = ()


_decode: Final = msgspec.json.Decoder(StoredSession).decode


class SessionStore:
    """The stored sessions of a state directory."""

    def __init__(
        self,
        state_dir: Path,
        clock: Callable[[], float],
        monotonic_clock: Callable[[], float] = boottime,
    ) -> None:
        self._folder = state_dir / FOLDER
        self._clock = clock
        self._monotonic_clock = monotonic_clock
        self._clock_offset: float | None = None
        """As in the clock file; None until it is read."""
        self._names: Iterator[str] = iter(())
        """File names left to check in this round of sweeps."""

    def write(self, id: str, stored: StoredSession) -> None:
        """Store the state of a session; on failure it is not stored at all."""
        self._adjust_to_clock()
        nonce = os.urandom(NONCE_BYTES)
        raw = nonce + _apply_keystream(id, nonce, msgspec.json.encode(stored))
        path = self._path(id)
        temporary_path = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            if len(raw) > ENTRY_BYTES_MAX:
                raise OSError
            try:
                self._write_file(temporary_path, raw)
            except FileNotFoundError:
                make_private_directory(self._folder)
                self._write_file(temporary_path, raw)
            temporary_path.replace(path)
        except OSError:
            # The old state is outdated, and must not be resumed.
            self.delete(id)

    def read(self, id: str, idle_seconds: float) -> StoredSession | None:
        """The state of a session; None if it ended or expired."""
        self.delete_if_idle(id, idle_seconds)
        try:
            with self._path(id).open("rb", buffering=0) as file:
                raw = file.read(ENTRY_BYTES_MAX)
            nonce, ciphertext = raw[:NONCE_BYTES], raw[NONCE_BYTES:]
            return _decode(_apply_keystream(id, nonce, ciphertext))
        except (OSError, ValueError):  # Any malformed file.
            return None

    def touch(self, id: str) -> None:
        """Record that a session is in use."""
        with suppress(OSError):
            now = self._clock()
            os.utime(self._path(id), (now, now))

    def delete(self, id: str) -> None:
        with suppress(OSError):
            self._path(id).unlink()

    def delete_if_idle(self, id: str, idle_seconds: float) -> None:
        """Delete a session that is idle in all processes."""
        self._adjust_to_clock()
        with suppress(OSError):
            if self._clock() - self._path(id).stat().st_mtime > idle_seconds:
                self.delete(id)

    def sweep(self, idle_seconds: float) -> None:
        """Check the next files, and delete those of expired sessions."""
        self._adjust_to_clock()
        oldest = self._clock() - idle_seconds
        for _ in range(FILES_PER_SWEEP_MAX):
            name = next(self._names, None)
            if name is None:
                with suppress(OSError):
                    self._names = iter(os.listdir(self._folder))
                return
            path = self._folder / name
            with suppress(OSError):
                if path.lstat().st_mtime < oldest:
                    path.unlink()

    def _adjust_to_clock(self) -> None:
        """Shift all mtimes if the system clock was set since they were written, here or earlier.

        Costs a few microseconds per file, and clocks are hardly ever set. After a reboot the
        monotonic clock starts anew, which looks like a jump to the time of the boot: no younger
        file is affected.
        """
        offset = self._clock() - self._monotonic_clock()
        path = self._folder.with_name(CLOCK_FILE)
        if self._clock_offset is None:
            try:
                self._clock_offset = msgspec.json.decode(path.read_bytes(), type=float)
            except (OSError, ValueError):
                self._write_clock_offset(path, offset)
                return
        jump = offset - self._clock_offset
        if abs(jump) >= JUMP_SECONDS:
            self._shift_file_times(jump)
            self._write_clock_offset(path, offset)

    def _write_clock_offset(self, path: Path, offset: float) -> None:
        self._clock_offset = offset
        temporary_path = path.with_name(f"{path.name}.{os.getpid()}")
        with suppress(OSError):  # In memory the offset still counts.
            make_private_directory(path.parent)
            self._write_file(temporary_path, msgspec.json.encode(offset))
            temporary_path.replace(path)

    def _shift_file_times(self, jump: float) -> None:
        now, names = self._clock(), []
        with suppress(OSError):
            names = os.listdir(self._folder)
        for name in names:
            file = self._folder / name
            with suppress(OSError):
                modified_at = file.stat().st_mtime
                # Another process may have shifted it already: then its mtime is not from before the
                # jump.
                before = modified_at > now if jump < 0 else modified_at <= now - jump
                if before:
                    shifted_at = min(now, modified_at + jump)
                    os.utime(file, (shifted_at, shifted_at))

    def _write_file(self, path: Path, raw: bytes) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "wb", buffering=0) as file:
            if file.write(raw) != len(raw):
                raise OSError
            now = self._clock()
            os.utime(fd, (now, now))

    def _path(self, id: str) -> Path:
        return self._folder / blake2b(id.encode(), digest_size=NAME_BYTES).hexdigest()


def _apply_keystream(id: str, nonce: bytes, raw: bytes) -> bytes:
    """XOR with a key stream derived from the session id; the operation is its own inverse."""
    # The id has 128 random bits and is stored nowhere: without it, its digest with the nonce is
    # indistinguishable from random bytes.
    stream = shake_256(b"%b:%b" % (nonce, id.encode())).digest(len(raw))
    return (int.from_bytes(raw) ^ int.from_bytes(stream)).to_bytes(len(raw))


SESSION_CHANGING_METHODS: Final = frozenset(
    {"resources/subscribe", "resources/unsubscribe", "logging/setLevel"}
)
"""Requests that change the stored state of a session."""

RESTARTED_ERROR_CODE: Final = -32000
_RESTARTED_MESSAGE: Final = (
    "The gateway was restarted while this request was open, and its answer is lost. "
    "Whether it was carried out is not known: send it again if that does no harm"
)


class SessionSavingReply:
    """Reply writer of a request that changes its session: stores the session before the answer."""

    __slots__ = ("_connection", "_save")

    def __init__(self, connection: HttpConnection, save: Callable[[], None]) -> None:
        self._connection = connection
        self._save = save

    @property
    def reply_only(self) -> bool:
        return self._connection.reply_only

    def send_frames(self, *frames: bytes) -> None:
        self._connection.send_frames(*frames)

    def end(
        self, frame: bytes, code: int | None = None, retry_after: RetryAfter | None = None
    ) -> None:
        self._save()
        self._connection.end(frame, code, retry_after)


def to_stored_session(session: LegacySession) -> StoredSession:
    return StoredSession(
        record_id=session.id,
        revision=session.revision.name,
        capabilities=msgspec.Raw(session.capabilities.raw),
        client=NO_CLIENT_INFO if session.client is None else msgspec.Raw(session.client),
        log_level=session.log_level,
        subscriptions=tuple(sorted(session.subscriptions)),
    )


def restore_session(
    stored: StoredSession, client: "HttpSession", transport: str, question_ids: Iterator[int]
) -> LegacySession | None:
    """Recreate a session from its stored state; None if the state is invalid.

    `question_ids` must start elsewhere than in the previous process: a client may still answer a
    question of that one, which is no answer to a new question.
    """
    revision = find_revision(stored.revision)
    capabilities = client_capabilities(bytes(stored.capabilities))
    if revision is None or revision.era is not Era.LEGACY or capabilities is None:
        return None
    session = LegacySession(
        id=stored.record_id,
        profile=client.profile,
        revision=revision,
        capabilities=capabilities,
        client=None if stored.client == NO_CLIENT_INFO else bytes(stored.client),
        writer=client,
        transport=transport,
        question_ids=question_ids,
        principal=client.principal,
    )
    session.apply(SessionEvent.INITIALIZED)
    session.resumed = True
    apply_stored_session(session, stored)
    return session


def apply_stored_session(session: LegacySession, stored: StoredSession) -> None:
    """Replace log level and subscriptions of a session by the stored ones."""
    session.log_level = stored.log_level if stored.log_level in LOG_LEVELS else None
    session.subscriptions.clear()
    session.subscriptions.update(stored.subscriptions)


def lost_answer_error(request: bytes) -> bytes:
    """The error for a client that asks for an answer of a previous process."""
    return jsonrpc.encode_failure(
        request, jsonrpc.encode_error(RESTARTED_ERROR_CODE, _RESTARTED_MESSAGE)
    )

"""The register of legacy sessions: what must be known of one to go on with it after a restart.

One small private file for each session that is open, in the state directory. It is there from
the answer to `initialize` until the session ends, whatever becomes of the process; so a session
without a file is over, and stays over. When a session was last used is the time of its file.
Several processes may share the register: each writes a file as a whole or not at all.

A file can only be read by whoever has the session's id, and that is its client: what a client
says of itself is no business of those who keep the disk.

A register that cannot be written fails nobody: its sessions end with the process. It knows files
and moments; what a session is, is for others to know.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import blake2b, shake_256
from pathlib import Path
from typing import Final

import msgspec

from anyport.record.segments import make_private_directory

FOLDER: Final = "sessions"

ENTRY_BYTES_MAX: Final = 64 * 1024
"""A session of which there is more to remember is not remembered, and ends with the process."""

NAME_BYTES: Final = 16
"""Of the digest that a file is called: whoever sees the folder must not be let in by it."""

NONCE_BYTES: Final = 16
"""Of chance at the beginning of a file, so that no two are hidden in the same way."""

LOOKS_MAX: Final = 256
"""Files that are looked at in one sweep: they take less than a millisecond."""


NOBODY: Final = msgspec.Raw(b"null")


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is remembered of a session."""

    word: str
    """What the record calls it."""
    revision: str
    capabilities: msgspec.Raw
    client: msgspec.Raw = NOBODY
    level: str | None = None
    subscriptions: tuple[str, ...] = ()


_decode: Final = msgspec.json.Decoder(Entry).decode


class Register:
    """The entries of all sessions."""

    def __init__(self, state_dir: Path, clock: Callable[[], float]) -> None:
        self._folder = state_dir / FOLDER
        self._clock = clock
        self._names: Iterator[str] = iter(())
        """Of the files that are still to be looked at."""

    def write(self, id: str, entry: Entry) -> None:
        """Remember a session as it is now; if that cannot be, it is not remembered at all."""
        nonce = os.urandom(NONCE_BYTES)
        raw = nonce + _hidden(id, nonce, msgspec.json.encode(entry))
        path = self._path(id)
        scratch = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            if len(raw) > ENTRY_BYTES_MAX:
                raise OSError
            try:
                self._put(scratch, raw)
            except FileNotFoundError:
                make_private_directory(self._folder)
                self._put(scratch, raw)
            scratch.replace(path)
        except OSError:
            # What is there is no longer true, and must not be believed later.
            self.strike(id)

    def read(self, id: str, idle_seconds: float) -> Entry | None:
        """What is remembered of a session; None if it is over, or nobody has used it for long."""
        self.lapse(id, idle_seconds)
        try:
            with self._path(id).open("rb", buffering=0) as file:
                raw = file.read(ENTRY_BYTES_MAX)
            nonce, hidden = raw[:NONCE_BYTES], raw[NONCE_BYTES:]
            return _decode(_hidden(id, nonce, hidden))
        except (OSError, ValueError):  # Which a file that is no entry is, in one way or another.
            return None

    def touch(self, id: str) -> None:
        """A session was used."""
        with suppress(OSError):
            now = self._clock()
            os.utime(self._path(id), (now, now))

    def strike(self, id: str) -> None:
        """A session has ended."""
        with suppress(OSError):
            self._path(id).unlink()

    def lapse(self, id: str, idle_seconds: float) -> None:
        """End a session if nobody has used it for long, here or in another process."""
        with suppress(OSError):
            if self._clock() - self._path(id).stat().st_mtime > idle_seconds:
                self.strike(id)

    def sweep(self, idle_seconds: float) -> None:
        """Look at some more of the files, and remove those of sessions that nobody uses."""
        oldest = self._clock() - idle_seconds
        for _ in range(LOOKS_MAX):
            name = next(self._names, None)
            if name is None:
                with suppress(OSError):
                    self._names = iter(os.listdir(self._folder))
                return
            path = self._folder / name
            with suppress(OSError):
                if path.lstat().st_mtime < oldest:
                    path.unlink()

    def _put(self, path: Path, raw: bytes) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "wb", buffering=0) as file:
            if file.write(raw) != len(raw):
                raise OSError
            now = self._clock()
            os.utime(fd, (now, now))

    def _path(self, id: str) -> Path:
        return self._folder / blake2b(id.encode(), digest_size=NAME_BYTES).hexdigest()


def _hidden(id: str, nonce: bytes, raw: bytes) -> bytes:
    """The bytes with a stream over them that only the id gives; twice is the same as not at all."""
    # The id has 128 bits of chance and is kept nowhere: the digest of it and of what is known to
    # all, the nonce, is as good as chance to anybody else.
    stream = shake_256(b"%b:%b" % (nonce, id.encode())).digest(len(raw))
    return (int.from_bytes(raw) ^ int.from_bytes(stream)).to_bytes(len(raw))

"""Signed statements about the journal, kept apart from it: `heads.jsonl`, and an anchor.

Whoever can write to the journal could cut its end; with a signed head elsewhere that shows. The
anchor is a second file, best where the gateway can append and nobody can delete. Several
processes may share both files. Everything here may take a while: call it in a thread.
"""

import errno
import fcntl
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from anyport.record.chain import Link
from anyport.record.event import timestamp
from anyport.record.keys import kept_key, read_keys
from anyport.record.segments import make_private_directory, segments
from anyport.record.statements import (
    Head,
    Span,
    Statement,
    Summary,
    Tombstone,
    last_of,
    read_statements,
    sealed,
    text_of,
)

FILE: Final = "heads.jsonl"
KEY_FILE: Final = "head-key"

HEADS_BYTES_MAX: Final = 1024 * 1024
"""Then what still matters of it is put into one statement: some three thousand heads, which take a
third of a second to check."""

SYNCED_SEGMENTS: Final = 2
"""Files that can hold what a new head vouches for: the active one may just have been begun."""

_OPEN_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class Heads:
    """Signs for the journal below a state directory."""

    def __init__(
        self,
        state_dir: Path,
        *,
        anchor: Path | None,
        clock: Callable[[], float],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._state_dir = state_dir
        self._path = state_dir / FILE
        self._anchor = anchor
        self._clock = clock
        self._random_bytes = random_bytes

    def sign(self, link: Link) -> None:
        """Say that the journal has a record, and all before it.

        Raises:
            DamagedKeys: the key cannot be trusted.
            OSError: a file cannot be written.
        """
        # A loss of power must not take the record and leave its head.
        for path in segments(self._state_dir / "events")[-SYNCED_SEGMENTS:]:
            with suppress(FileNotFoundError):
                _sync(path)
        self._append(Head, writer=link.writer, seq=link.seq, hash=link.hash.decode())

    def bury(
        self, file: str, size: int, until: str, spans: Collection[Span], fault: str | None
    ) -> None:
        """Say what was in a file of the journal that goes.

        Raises:
            DamagedKeys: the key cannot be trusted.
            OSError: a file cannot be written.
        """
        said = {"file": file, "bytes": size, "until": until, "spans": tuple(spans), "fault": fault}
        self._append(Tombstone, **said)

    def summarise(self, live_writers: Callable[[], Collection[str]]) -> None:
        """Replace a long file by one statement about the writers that have records yet.

        Raises:
            DamagedKeys: the key cannot be trusted.
            OSError: the file cannot be written.
        """
        if not self._path.exists() or self._path.stat().st_size < HEADS_BYTES_MAX:
            return
        with self._locked():
            raw = self._path.read_bytes()
            known, fault = read_statements(raw, trusted_keys(self._state_dir))
            if fault is not None:  # Evidence: it stays as it is.
                return
            heads, spans = known.of_writers(live_writers())
            line = self._signed(
                Summary,
                raw,
                anchored=known.anchored or self._anchor is not None,
                heads=heads,
                spans=spans,
                removed=known.removed,
                until=known.until,
                faults=tuple(known.faults),
            )
            scratch = self._path.with_suffix(".tmp")
            scratch.unlink(missing_ok=True)
            _append_line(scratch, line)
            scratch.replace(self._path)
        self._tell_anchor(line)

    def _append(self, kind: type[Statement], **said: Any) -> None:
        with self._locked():
            raw, anchored = self._path.read_bytes(), self._anchor is not None
            line = self._signed(kind, raw, anchored=anchored, **said)
            _append_line(self._path, line)
        self._tell_anchor(line)

    def _signed(self, kind: type[Statement], raw: bytes, **said: Any) -> bytes:
        """A statement that follows those of a file."""
        # Late: it is heavy, and a gateway that has not signed yet does without.
        from anyport.record.ed25519 import public_key, signature  # noqa: PLC0415

        key = kept_key(self._state_dir / KEY_FILE, self._random_bytes)
        number, previous = last_of(raw)
        statement = kind(
            number=number + 1,
            previous=previous,
            time=timestamp(self._clock()),
            key=public_key(key).hex(),
            **said,
        )
        return sealed(statement, signature(key, text_of(statement)))

    def _tell_anchor(self, line: bytes) -> None:
        if self._anchor is not None:
            _append_line(self._anchor, line)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone with the file, which is there then: before the key is, that it is missed."""
        make_private_directory(self._state_dir)
        lock = os.open(
            self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.close(os.open(self._path, _OPEN_FLAGS, 0o600))
            yield
        finally:
            os.close(lock)


def trusted_keys(state_dir: Path) -> set[str]:
    """The public keys of those who may sign for a state directory.

    Raises:
        DamagedKeys: the key file cannot be trusted.
        OSError: it cannot be read.
    """
    from anyport.record.ed25519 import public_key  # noqa: PLC0415 - late, as above

    return {public_key(key).hex() for key in read_keys(state_dir / KEY_FILE)}


def _append_line(path: Path, line: bytes) -> None:
    fd = os.open(path, _OPEN_FLAGS, 0o600)
    try:
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":  # What a crash left is closed first.
            line = b"\n" + line
        if os.write(fd, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fdatasync(fd)
    finally:
        os.close(fd)

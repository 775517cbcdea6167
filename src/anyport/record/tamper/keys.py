"""Secret keys of the gateway: small private files in the state directory.

One key in hexadecimal per line. The first is current, the others are still accepted: to replace a
key, put a new one above it.

The sealing keys should survive a restart, which would otherwise invalidate session ids and request
states, and several gateways with one state directory should share them. Neither is worth failing
for: without a file the keys last as long as the process.
"""

import fcntl
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from anyport.protocol.sealing import KEY_BYTES
from anyport.record.journal.segments import make_private_directory

KEYS_FILE: Final = "keys"

KEYS_MAX: Final = 16
"""Each may have to be tried; a longer file is not a key file."""

_KEY_LINES: Final = re.compile(rf"(?:[0-9a-f]{{{2 * KEY_BYTES}}}\n){{1,{KEYS_MAX}}}".encode())
_FILE_BYTES_MAX: Final = KEYS_MAX * (2 * KEY_BYTES + 1)
_GROUP_AND_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class LoadedKeys(NamedTuple):
    """Keys, and a warning for the operator."""

    keys: tuple[bytes, ...]
    """The first is current, the others are still accepted."""
    warning: str | None = None


class DamagedKeys(Exception):
    """The key file cannot be trusted; the text says why."""


def load_keys(state_dir: Path, random_bytes: Callable[[int], bytes]) -> LoadedKeys:
    """The sealing keys of a state directory, created if necessary. Never fails."""
    path = state_dir / KEYS_FILE
    try:
        try:
            return LoadedKeys(read_keys(path))
        except (FileNotFoundError, DamagedKeys):
            make_private_directory(state_dir)
            return _create_keys(path, random_bytes)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return LoadedKeys(
            (random_bytes(KEY_BYTES),),
            f"the key file {path} cannot be used ({reason}): sessions end with this process",
        )


def load_or_create_key(path: Path, random_bytes: Callable[[int], bytes]) -> bytes:
    """The current key of a file that is never replaced, created if there is none.

    Raises:
        DamagedKeys: the file cannot be trusted.
        OSError: it cannot be read or created.
    """
    try:
        return read_keys(path)[0]
    except FileNotFoundError:
        make_private_directory(path.parent)
        return _create_keys(path, random_bytes).keys[0]


def read_keys(path: Path) -> tuple[bytes, ...]:
    """The keys in a file.

    Raises:
        DamagedKeys: the file cannot be trusted.
        OSError: it cannot be read.
    """
    # Non-blocking, in case it is a pipe.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(fd).st_mode
        raw = os.read(fd, _FILE_BYTES_MAX + 1)
    finally:
        os.close(fd)
    if mode & _GROUP_AND_OTHERS:
        raise DamagedKeys("users other than its owner can read or write it")
    if not _KEY_LINES.fullmatch(raw):
        raise DamagedKeys("it does not contain keys")
    return tuple(bytes.fromhex(line.decode()) for line in raw.splitlines())


def _create_keys(path: Path, random_bytes: Callable[[int], bytes]) -> LoadedKeys:
    """Create a key file, or read that of another process that was faster."""
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        warning = None
        try:
            return LoadedKeys(read_keys(path))
        except FileNotFoundError:
            pass
        except DamagedKeys as damage:
            warning = (
                f"the key file {path} was replaced, because {damage}: earlier sessions are invalid"
            )
        key = random_bytes(KEY_BYTES)
        _write_atomically(path, f"{key.hex()}\n".encode())
        return LoadedKeys((key,), warning)
    finally:
        os.close(lock)


def _write_atomically(path: Path, raw: bytes) -> None:
    """Replace a file: readers see the old or the new content, never a part."""
    scratch = path.with_suffix(".tmp")
    scratch.unlink(missing_ok=True)
    fd = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(fd)
    scratch.replace(path)

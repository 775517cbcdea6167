"""The gateway's own keys: a small private file in the state directory.

They seal what clients carry for us, so a restart should not make all of that void, and several
gateways with one state directory should understand each other. Neither is worth failing for:
where no file can be kept, the keys last as long as the process.

One key in hexadecimal on a line. The first is the current one; those below it are still accepted,
so a key is replaced by putting a new one above it.
"""

import fcntl
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from anyport.protocol.seal import KEY_BYTES
from anyport.record.segments import make_private_directory

FILE_NAME: Final = "keys"

KEYS_MAX: Final = 16
"""Each may have to be tried; a file with more was not meant for us."""

_LINES: Final = re.compile(rf"(?:[0-9a-f]{{{2 * KEY_BYTES}}}\n){{1,{KEYS_MAX}}}".encode())
_FILE_BYTES_MAX: Final = KEYS_MAX * (2 * KEY_BYTES + 1)
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class Keys(NamedTuple):
    """The keys, and what the operator should know about them."""

    keys: tuple[bytes, ...]
    """The first is current, the others are still accepted."""
    warning: str | None = None


class DamagedKeys(Exception):
    """There is a file, and it cannot be trusted; the text says why."""


def load_keys(state_dir: Path, random_bytes: Callable[[int], bytes]) -> Keys:
    """The keys of a state directory, made if there are none. Never fails."""
    path = state_dir / FILE_NAME
    try:
        try:
            return Keys(read_keys(path))
        except (FileNotFoundError, DamagedKeys):
            make_private_directory(state_dir)
            return _made(path, random_bytes)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return Keys(
            (random_bytes(KEY_BYTES),),
            f"the key file {path} cannot be used ({reason}): "
            "what clients were given ends with this process",
        )


def kept_key(path: Path, random_bytes: Callable[[int], bytes]) -> bytes:
    """The current key of a file that must last; made if there is none, and never replaced.

    Raises:
        DamagedKeys: it cannot be trusted.
        OSError: it cannot be read or made.
    """
    try:
        return read_keys(path)[0]
    except FileNotFoundError:
        make_private_directory(path.parent)
        return _made(path, random_bytes).keys[0]


def read_keys(path: Path) -> tuple[bytes, ...]:
    """The keys in a file.

    Raises:
        DamagedKeys: it cannot be trusted.
        OSError: it cannot be read.
    """
    # Not blocking: what lies there may be a pipe.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(fd).st_mode
        raw = os.read(fd, _FILE_BYTES_MAX + 1)
    finally:
        os.close(fd)
    if mode & _OTHERS:
        raise DamagedKeys("others than its owner could read or write it")
    if not _LINES.fullmatch(raw):
        raise DamagedKeys("it does not hold keys")
    return tuple(bytes.fromhex(line.decode()) for line in raw.splitlines())


def _made(path: Path, random_bytes: Callable[[int], bytes]) -> Keys:
    """New keys in a new file, or those that another process was faster to make."""
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        warning = None
        try:
            return Keys(read_keys(path))
        except FileNotFoundError:
            pass
        except DamagedKeys as damage:
            warning = f"the key file {path} was replaced, because {damage}: old sessions have ended"
        key = random_bytes(KEY_BYTES)
        _write(path, f"{key.hex()}\n".encode())
        return Keys((key,), warning)
    finally:
        os.close(lock)


def _write(path: Path, raw: bytes) -> None:
    """Whole or not at all: whoever reads meanwhile finds the old file or the new one."""
    scratch = path.with_suffix(".tmp")
    scratch.unlink(missing_ok=True)
    fd = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(fd)
    scratch.replace(path)

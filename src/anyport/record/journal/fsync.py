"""Syncs files to disk, so that they survive a loss of power.

A sync takes milliseconds, or as long as the disk likes: call these in a thread.
"""

import errno
import os
import sys
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

FOLDERS_MAX: Final = 4
"""A file may have been made along with its folder and those above it: the month, `events`, the
state directory, and the folder of that."""

_UNSUPPORTED_ERRNOS: Final = frozenset({errno.EINVAL, errno.EBADF, errno.ENOTSUP})
"""Some file systems cannot sync a folder, and do not need it."""


def sync_file(fd: int) -> None:
    """Sync the content of a file, and the metadata needed to read it.

    Raises:
        OSError: how much of it is on the disk is unknown.
    """
    if sys.platform == "darwin":
        import fcntl  # noqa: PLC0415

        with suppress(OSError):  # On macOS `fsync` ends at the cache of the disk.
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            return
        os.fsync(fd)
    else:
        os.fdatasync(fd)


def sync_parent_folders(path: Path) -> None:
    """Sync the folders of a file, so that its directory entry survives.

    Raises:
        OSError: the disk did not keep it.
    """
    for folder in islice(path.parents, FOLDERS_MAX):
        try:
            fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        except PermissionError:  # Another user's folder, which existed before.
            continue
        try:
            os.fsync(fd)
        except OSError as error:
            if error.errno not in _UNSUPPORTED_ERRNOS:
                raise
        finally:
            os.close(fd)

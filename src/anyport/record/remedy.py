"""What an operator can do about a state directory that cannot be written. Does nothing itself."""

import errno
import shlex
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

_REMEDIES: Final[Mapping[int, str]] = MappingProxyType(
    {
        errno.ENOSPC: "make room on its disk: 'df -h {place}' shows how much there is",
        errno.EDQUOT: "raise your quota or remove something: 'quota -s' shows how much there is",
        errno.EFBIG: "raise the limit on file sizes: 'ulimit -f' shows it",
        errno.EACCES: "give it to the user of the gateway: 'sudo chown -R \"$USER\" {place}'",
        errno.EPERM: "give it to the user of the gateway: 'sudo chown -R \"$USER\" {place}'",
        errno.EROFS: "its disk is read-only: 'findmnt -T {place}' shows why",
        errno.ENOTDIR: "a file is in its way: 'ls -ld {place}' shows it",
        errno.EEXIST: "a file is in its way: 'ls -ld {place}' shows it",
        errno.EMFILE: "allow more open files: 'ulimit -n' shows how many there may be",
        errno.ENFILE: "the system has too many files open: 'cat /proc/sys/fs/file-nr' shows them",
        errno.EIO: "its disk is failing: 'sudo dmesg' shows more",
    }
)


def remedy(number: int | None, state_dir: Path) -> str:
    """What to do about an error of the system with this number, in part of a sentence."""
    words = _REMEDIES.get(number or 0, "'ls -ld {place}' and 'df -h {place}' may show why")
    told = words.format(place=shlex.quote(str(state_dir)))
    return f"{told}, or choose another directory with --state-dir"

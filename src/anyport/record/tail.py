"""The end of a file of lines, where more are written.

A full disk takes a part of a line. Such a line is written again as a whole, on a line of its own;
readers skip the part. Knows an open file, not which it is, nor what is done when a disk fails.
"""

import errno
import os


class NoRoom(OSError):
    """Not one line could be written as a whole."""


class Tail:
    """Where the next lines go."""

    __slots__ = ("torn",)

    def __init__(self) -> None:
        self.torn = False
        """The file ends within a line: the next write closes it first."""

    def write(self, fd: int, lines: list[bytes]) -> int:
        """Write lines with one system call; how many are in the file as a whole.

        Raises:
            NoRoom: none of them is: the disk is full.
            OSError: none of them is.
        """
        mend = b"\n" if self.torn else b""
        block = mend + b"".join(lines)
        written = os.write(fd, block)
        if written == len(block):
            self.torn = False
            return len(lines)
        self.torn = self.torn if written == 0 else block[written - 1 : written] != b"\n"
        count = block.count(b"\n", len(mend), written)
        if count == 0:
            raise NoRoom(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return count

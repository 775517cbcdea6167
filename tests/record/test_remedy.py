import errno
from pathlib import Path

import pytest

from anyport.record.remedy import remedy


@pytest.mark.parametrize(
    ("number", "command"),
    [
        (errno.ENOSPC, "df -h '/my state'"),
        (errno.EACCES, "chown -R \"$USER\" '/my state'"),
        (errno.EROFS, "findmnt -T '/my state'"),
        (errno.ENOTDIR, "ls -ld '/my state'"),
        (errno.EMFILE, "ulimit -n"),
        (None, "ls -ld '/my state'"),
    ],
)
def test_there_is_a_command_for_every_error(number: int | None, command: str) -> None:
    words = remedy(number, Path("/my state"))
    assert command in words
    assert "--state-dir" in words

"""Why a process could not be started, in words for the operator."""

import errno
import os
from typing import Final


def unstarted(stage: str, number: int, name: str, cwd: str | None) -> str:
    """What it means that starting a command failed at this stage, with this error of the system."""
    if stage == "fork":
        return no_room(number)
    if (stage, number) == ("command", errno.ENOENT) and "/" in name:
        return f"command '{name}' does not exist"
    sentence = _REASONS.get((stage, number)) or _REASONS[stage, None]
    return sentence.format(name=name, cwd=cwd, cause=os.strerror(number))


def no_room(number: int | None) -> str:
    """What it means that the system has no place for another process."""
    return f"this machine has no room for another process: {os.strerror(number or 0)}"


_REASONS: Final = {
    ("prepare", None): "its process could not be prepared: {cause}",
    ("cwd", errno.ENOENT): "working directory '{cwd}' does not exist",
    ("cwd", None): "working directory '{cwd}' cannot be used: {cause}",
    ("command", errno.ENOENT): "command '{name}' was not found on its PATH",
    ("command", errno.EACCES): "command '{name}' may not be executed: permission denied",
    ("command", errno.ENOEXEC): (
        "command '{name}' is no program for this system, or its interpreter is missing"
    ),
    ("command", errno.E2BIG): "its arguments and environment are longer than this system allows",
    ("command", None): "command '{name}' could not be started: {cause}",
}

"""Loaded by Python itself, before anything else, where its folder is on the path: a disk and a
clock that misbehave as a file says, which may change at any time. See `tests.rig.faulty_disk`.

It stands between a program and the calls of `os` that write, and `time.time`; what C libraries do
by themselves, such as SQLite, it does not see. It needs no compiler.
"""

import errno
import json
import os
import threading
import time
from typing import Any

_CONTROL = os.environ.get("FSSHIM_CONTROL", "")
_ROOT = os.environ.get("FSSHIM_ROOT", "")
_SLICE_SECONDS = 0.01
_stat, _open, _read, _close, _sleep = os.stat, os.open, os.read, os.close, time.sleep
_real: dict[str, Any] = {
    name: getattr(os, name) for name in ("write", "writev", "pwrite", "fsync", "fdatasync")
}
_time = time.time
_told: dict[str, Any] = {}
_seen: tuple[int, int] | None = None


def _orders() -> dict[str, Any]:
    """What to do now: read again whenever the file was replaced."""
    global _told, _seen
    try:
        found = _stat(_CONTROL)
    except OSError:
        return {}
    mark = (found.st_ino, found.st_mtime_ns)
    if mark != _seen:
        fd = _open(_CONTROL, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _told, _seen = json.loads(_read(fd, 65536)), mark
        finally:
            _close(fd)
    return _told


def _place(fd: int) -> str:
    """The path of an open file below the folder that is meant; empty for all others."""
    try:
        path = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""
    return path[len(_ROOT) :] if path.startswith(_ROOT + "/") else ""


def _obey(call: str, place: str) -> None:
    for order in _orders().get("disk", ()):
        if call in order["calls"] and order["where"] in place:
            _note(call)
            _linger(order)
            if order.get("error"):
                number = getattr(errno, order["error"])
                raise OSError(number, os.strerror(number))


def _note(call: str) -> None:
    """Keep an account of what was spoilt, and on which thread."""
    thread = "main" if threading.current_thread() is threading.main_thread() else "other"
    fd = _open(f"{_CONTROL}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        _real["write"](fd, f"{call} {thread}\n".encode())
    finally:
        _close(fd)


def _linger(order: dict[str, Any]) -> None:
    """Take as long as is ordered, or until the order is withdrawn."""
    over = time.monotonic() + order.get("seconds", 0.0)
    while (left := over - time.monotonic()) > 0 and order in _orders().get("disk", ()):
        _sleep(min(left, _SLICE_SECONDS))


def _standing_between(name: str) -> Any:
    real = _real[name]

    def call(fd: int, *rest: Any) -> Any:
        place = _place(fd)
        if place:
            _obey(name, place)
        return real(fd, *rest)

    return call


def _open_between(path: Any, flags: int, *rest: Any, **more: Any) -> int:
    whole = os.path.abspath(os.fsdecode(path))
    writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if writes and whole.startswith(_ROOT + "/"):
        _obey("open", whole[len(_ROOT) :])
    return _open(path, flags, *rest, **more)


def _time_between() -> float:
    return _time() + float(_orders().get("ahead", 0.0))


if _CONTROL and _ROOT:
    for _name in _real:
        setattr(os, _name, _standing_between(_name))
    os.open = _open_between
    time.time = _time_between

"""RUN: a command gets an event on its standard input. No shell is involved.

It runs under the warden, as servers do: nothing that it starts outlives it or the gateway. It sees
as little of the gateway's environment as servers do, and what of the event is short enough for
variables. It is tried once: whether doing it twice does harm is not known here.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from anyport.config.schema import HookConfig
from anyport.gateway.hooks_action import Done, GivenUp, Occasion, Outcome
from anyport.record.stderr import StderrRing
from anyport.upstream.environment import child_environment
from anyport.upstream.process import Child, Command, Exit, SpawnFailed, Warden

RUN_SECONDS_MAX: Final = 60.0
"""Then it is killed, and all that it has started."""

READ_BYTES: Final = 64 * 1024

VARIABLE_CHARS_MAX: Final = 1024
"""Of one text of the event; all of it is on standard input."""


class Run:
    """Runs one command for each event."""

    kind = "run"

    def __init__(self, config: HookConfig, warden: Warden, redact: Callable[[str], str]) -> None:
        self._argv = config.run
        self._name = config.name
        self._warden = warden
        self._redact = redact

    async def act(self, occasion: Occasion) -> Outcome:
        """Run it to its end."""
        command = Command(
            argv=self._argv,
            env=child_environment(os.environ, variables(self._name, occasion)),
            cwd=_own_folder(),
        )
        try:
            child = await self._warden.spawn(command)
        except SpawnFailed as error:
            return GivenUp(words=self._redact(f"it cannot be started: {error}"))
        attendance = _Attendance(child, occasion.line + b"\n", self._redact)
        try:
            async with asyncio.timeout(RUN_SECONDS_MAX):
                ended = await child.wait()
        except TimeoutError:
            return GivenUp(words=f"it was killed: it ran for more than {RUN_SECONDS_MAX:g} s")
        finally:
            child.kill()
            attendance.close()
        if ended == Exit(code=0, signal=None):
            return Done()
        last = attendance.last_words
        return GivenUp(words=f"{ended}" if last is None else f"{ended}; on stderr: {last}")

    def close(self) -> None:
        """Whatever runs ends with its own attempt."""


def variables(name: str, occasion: Occasion) -> dict[str, str]:
    """What a command finds in its environment."""
    event = occasion.event()
    about: Mapping[str, Any] = event.get("metadata") or {}
    target = next((about[key] for key in ("tool", "prompt", "uri") if key in about), None)
    found = {
        "ANYPORT_HOOK": name,
        "ANYPORT_EVENT_KEY": occasion.key,
        "ANYPORT_EVENT_TYPE": event.get("event_type"),
        "ANYPORT_EVENT_STATUS": event.get("status"),
        "ANYPORT_EVENT_TIMESTAMP": event.get("timestamp"),
        "ANYPORT_EVENT_TRACE_ID": event.get("trace_id"),
        "ANYPORT_EVENT_SERVER": about.get("server"),
        "ANYPORT_EVENT_PROFILE": about.get("profile"),
        "ANYPORT_EVENT_TARGET": target,
        "ANYPORT_EVENT_ERROR": event.get("error_message"),
        "TRACEPARENT": occasion.traceparent,
    }
    return {
        key: str(value).replace("\0", "")[:VARIABLE_CHARS_MAX]
        for key, value in found.items()
        if value is not None
    }


class _Attendance:
    """Feeds a command, and reads what it writes so that it never has to wait for us."""

    def __init__(self, child: Child, given: bytes, redact: Callable[[str], str]) -> None:
        self._child = child
        self._given = memoryview(given)
        self._stderr = StderrRing(redact=redact)
        self._loop = asyncio.get_running_loop()
        self._watched = {child.stdout, child.stderr}
        self._loop.add_reader(child.stdout, partial(self._read, child.stdout, lambda _: None))
        self._loop.add_reader(child.stderr, partial(self._read, child.stderr, self._stderr.feed))
        self._loop.add_writer(child.stdin, self._write)

    @property
    def last_words(self) -> str | None:
        """The last line it wrote to its standard error."""
        return self._stderr.last_line

    def close(self) -> None:
        """Close the pipes, after a last look at what is in them."""
        if self._child.stderr in self._watched:
            self._read(self._child.stderr, self._stderr.feed)
        self._end_input()
        for fd in self._watched:
            self._loop.remove_reader(fd)
        self._child.close()

    def _read(self, fd: int, take: Callable[[bytes], object]) -> None:
        try:
            portion = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            portion = b""
        if portion:
            take(portion)
        else:
            self._loop.remove_reader(fd)
            self._watched.discard(fd)

    def _write(self) -> None:
        try:
            self._given = self._given[os.write(self._child.stdin, self._given) :]
        except BlockingIOError:
            return
        except OSError:
            self._given = self._given[:0]  # It does not want to know.
        if not self._given:
            self._end_input()

    def _end_input(self) -> None:
        if self._child.stdin >= 0:
            self._loop.remove_writer(self._child.stdin)
            self._child.close_stdin()


def _own_folder() -> str:
    """Where the gateway runs: relative arguments of a command mean that, as in a shell."""
    try:
        return os.getcwd()
    except OSError:  # It was removed, and the gateway runs on.
        return os.sep

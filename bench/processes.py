"""Processes of a run: started on a core of their own, measured from outside, and ended.

All figures come from /proc, so that everything is measured alike, whatever it is written in.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

START_SECONDS_MAX: Final = 60
"""The slowest peer needs a tenth of it."""
STOP_SECONDS_MAX: Final = 10
"""What is not gone by then is killed."""
SETTLE_SECONDS_MAX: Final = 20
"""A slow peer has 64 calls to finish when the load has ended."""
SETTLE_STEP_SECONDS: Final = 0.2
SETTLE_CPU_SECONDS: Final = 0.011
"""One tick of the kernel's clock; two within a step are work."""

TICKS: Final = os.sysconf("SC_CLK_TCK")
LOG_CHARS: Final = 300
"""Of the end of a log, where the reason stands."""


class StartFailed(Exception):
    """A process did not come up; the text has the end of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """CPU seconds since the start."""

    own: float
    tree: float
    """With all processes that it started and that still run."""


class Running:
    """A process that was started, with everything that it starts in turn."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.pid = process.pid
        self._process = process
        self._log = log

    def wait_for_port(self, port: int) -> None:
        """Return when somebody listens there. Costs the process nothing until it does."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                if self._process.poll() is not None:
                    raise StartFailed(f"{self.name} ended at once: {self._last_words()}") from None
                if time.monotonic() > deadline:
                    raise StartFailed(f"{self.name} is silent: {self._last_words()}") from None
                time.sleep(0.002)

    def usage(self) -> Usage:
        own = cpu_seconds(self.pid)
        return Usage(own=own, tree=sum(map(cpu_seconds, tree(self.pid))))

    def rss_megabytes(self) -> float:
        """Of the largest of its processes: nginx works in a child, and a stub is small."""
        return max(map(rss_kilobytes, tree(self.pid))) / 1024

    def settle(self) -> None:
        """Wait until it has finished what it was doing."""
        deadline = time.monotonic() + SETTLE_SECONDS_MAX
        before = self.usage().tree
        while time.monotonic() < deadline:
            time.sleep(SETTLE_STEP_SECONDS)
            after = self.usage().tree
            if after - before < SETTLE_CPU_SECONDS:
                return
            before = after

    def stop(self) -> None:
        """End the whole group that was started."""
        for end in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.pid, end)
            except ProcessLookupError:
                break
            try:
                self._process.wait(STOP_SECONDS_MAX)
                break
            except subprocess.TimeoutExpired:
                continue
        self._process.wait()

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-LOG_CHARS:].strip() or "(it said nothing)"


def start(name: str, argv: Sequence[str], *, core: int | None, folder: Path) -> Running:
    """Start a process, bound to a core; its output goes to a file in the folder."""
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*pinned(core), *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment(),
        )
    return Running(name, process, log)


def environment() -> Mapping[str, str]:
    """Ours, without what would make one Python program here differ from another."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def pinned(core: int | None) -> list[str]:
    return [] if core is None else [shutil.which("taskset") or "taskset", "-c", str(core)]


def cores() -> tuple[int | None, int | None]:
    """One for the load and the servers behind, one for what is measured; none if there is one."""
    available = sorted(os.sched_getaffinity(0))
    return (available[0], available[1]) if len(available) > 1 else (None, None)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def tree(pid: int) -> list[int]:
    """The process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := _stat(int(entry))):
            children.setdefault(int(fields[1]), []).append(int(entry))
    found = [pid]
    for member in found:  # Grows while it is walked.
        found.extend(children.get(member, ()))
    return found


def cpu_seconds(pid: int) -> float:
    """What all threads of one process have used; 0 if it is gone."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / TICKS if fields else 0.0


def rss_kilobytes(pid: int) -> int:
    """What one process holds; 0 if it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return int((status.partition("VmRSS:")[2].split() or ["0"])[0])


def _stat(pid: int) -> list[str]:
    """The fields after the name of the program, which may itself hold spaces."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []

"""The machine that the gateway runs on: the interpreter, the packages, and what it may use."""

import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from anyport.cli.doctoring.finding import Finding, Section, good, hint, problem, size, warning
from anyport.cli.doctoring.launchers import SOURCES, Launcher

NAME: Final = "runtime"

PYTHON_MIN: Final = (3, 11)

PACKAGES: Final = ("uvloop", "httptools", "msgspec")
"""What every call goes through."""

FILES_MIN: Final = 512
"""Open files for the gateway itself and some hundred clients."""

FILES_PER_SERVER: Final = 8
"""A server has three pipes and a control socket, and some are started again."""

MEMORY_BYTES_MIN: Final = 128 * 1024 * 1024
MEMORY_BYTES_PER_SERVER: Final = 64 * 1024 * 1024
"""A small server on Node.js, or on Python with an SDK."""

_CGROUP: Final = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What was found out about it."""

    python: tuple[int, int, int]
    implementation: str
    platform: str
    """As `sys.platform` has it."""
    system: str
    packages: Mapping[str, str | None]
    """Their versions; None for one that is missing."""
    files: tuple[int, int | None] | None
    """How many files may be open, and up to where that can be raised; None where nobody knows."""
    memory_bytes: int | None
    """What is free; None where nobody knows."""


def look() -> Machine:
    """Find out about this machine."""
    return Machine(
        python=sys.version_info[:3],
        implementation=platform.python_implementation(),
        platform=sys.platform,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        packages={package: _version(package) for package in PACKAGES},
        files=_files(),
        memory_bytes=_memory(),
    )


def judge(machine: Machine, launchers: Sequence[Launcher], processes: int) -> Section:
    """What is to be said of a machine where so many servers are to be started."""
    packages = ", ".join(f"{name} {version}" for name, version in machine.packages.items())
    python = ".".join(map(str, machine.python))
    return Section(
        name=NAME,
        summary=f"Python {python} on {machine.system.partition(' ')[0]}; {packages}",
        findings=(
            _judge_python(machine),
            _judge_platform(machine),
            *_judge_packages(machine),
            *_judge_files(machine, processes),
            *_judge_memory(machine, processes),
            *map(_judge_launcher, launchers),
        ),
    )


def _judge_python(machine: Machine) -> Finding:
    version = ".".join(map(str, machine.python))
    what = f"{machine.implementation} {version}"
    if machine.python >= PYTHON_MIN:
        return good(code="python", what=what)
    wanted = ".".join(map(str, PYTHON_MIN))
    return problem(
        code="python",
        what=f"{what} is too old",
        why="the gateway uses what came later",
        mend=f"install Python {wanted} or newer, and the gateway into it",
    )


def _judge_platform(machine: Machine) -> Finding:
    if machine.platform == "linux":
        return good(code="platform", what=machine.system)
    if machine.platform == "darwin":
        return hint(
            code="platform",
            what=f"{machine.system}: macOS is not tested yet",
            why="something may be different here",
            mend="please report what does not work",
        )
    return problem(
        code="platform",
        what=f"{machine.system} is not supported",
        why="servers cannot be started there",
        mend="run it on Linux, or in WSL on Windows",
    )


def _judge_packages(machine: Machine) -> Iterator[Finding]:
    for name, version in machine.packages.items():
        if version is not None:
            yield good(code="package", what=f"{name} {version}")
        elif name == "uvloop":
            yield warning(
                code="package",
                what="uvloop is missing",
                why="every call takes longer without it",
                mend="pip install uvloop",
            )
        else:
            yield problem(
                code="package",
                what=f"{name} is missing",
                why="the gateway cannot do without it",
                mend=f"pip install {name}",
            )


def _judge_files(machine: Machine, processes: int) -> Iterator[Finding]:
    if machine.files is None:
        return
    soft, hard = machine.files
    wanted = FILES_MIN + FILES_PER_SERVER * processes
    what = f"{soft:,} files may be open at a time"
    if soft >= wanted:
        yield good(code="open-files", what=what)
        return
    rounded = 1 << (wanted - 1).bit_length()
    raised = f"ulimit -n {rounded}"
    yield warning(
        code="open-files",
        what=f"{what}; {wanted:,} are wanted",
        why="clients are turned away when there are no more",
        mend=raised if hard is None or hard >= rounded else f"raise the hard limit, then {raised}",
    )


def _judge_memory(machine: Machine, processes: int) -> Iterator[Finding]:
    free = machine.memory_bytes
    if free is None:
        return
    wanted = MEMORY_BYTES_MIN + MEMORY_BYTES_PER_SERVER * processes
    if free >= wanted:
        yield good(code="memory", what=f"{size(free)} of memory are free")
        return
    yield warning(
        code="memory",
        what=f"{size(free)} of memory are free; {size(wanted)} are wanted for {processes} servers",
        why="the system may end one of them at any time",
        mend='free some, disable servers, or give them start = "first-use" and idleSeconds = 600',
    )


def _judge_launcher(launcher: Launcher) -> Finding:
    servers = ", ".join(launcher.servers)
    if launcher.found:
        return good(code="launcher", what=f"{launcher.program} is there, for {servers}")
    return problem(
        code="launcher",
        what=f"{launcher.program} is not found, and {servers} cannot start without it",
        why="it is looked for on the PATH of whoever starts the gateway",
        mend=f"install {SOURCES[launcher.program]}; if it is installed, write the full path that "
        f"'command -v {launcher.program}' prints as the command",
    )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _files() -> tuple[int, int | None] | None:
    try:
        import resource  # noqa: PLC0415 - it does not exist for Windows
    except ImportError:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    endless = resource.RLIM_INFINITY
    return (sys.maxsize if soft == endless else soft), (None if hard == endless else hard)


def _memory() -> int | None:
    """What is free on the machine, or in the container where that is less."""
    known = [free for free in (_machine_memory(), _container_memory()) if free is not None]
    return min(known, default=None)


def _machine_memory() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def _container_memory() -> int | None:
    try:
        most = int((_CGROUP / "memory.max").read_text("ascii"))
        used = int((_CGROUP / "memory.current").read_text("ascii"))
        kinds = dict(map(str.split, (_CGROUP / "memory.stat").read_text("ascii").splitlines()))
        # What was read from files and is not in use is given back when somebody needs it.
        return max(0, most - used + int(kinds.get("inactive_file", 0)))
    except (OSError, ValueError):  # `max`: there is no limit.
        return None

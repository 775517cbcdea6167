"""Checks the machine: Python, packages, open files, memory and launchers."""

import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from anyport.cli.doctor.findings import (
    DoctorFinding,
    Section,
    format_binary_bytes,
    good,
    hint,
    problem,
    warning,
)
from anyport.cli.doctor.launchers import SOURCES, Launcher

NAME: Final = "runtime"

PYTHON_MIN: Final = (3, 11)

PACKAGES: Final = ("uvloop", "httptools", "msgspec")
"""Packages on the path of every call."""

FILES_MIN: Final = 512
"""For the gateway and some hundred clients."""

FILES_PER_SERVER: Final = 8
"""Three pipes and a control socket, and more during a restart."""

MEMORY_BYTES_MIN: Final = 128 * 1024 * 1024
MEMORY_BYTES_PER_SERVER: Final = 64 * 1024 * 1024
"""A small server on Node.js, or on Python with an SDK."""

_CGROUP: Final = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Facts about this machine."""

    python: tuple[int, int, int]
    implementation: str
    platform: str
    """`sys.platform`."""
    system: str
    packages: Mapping[str, str | None]
    """Versions by name; None for a missing package."""
    files: tuple[int, int | None] | None
    """Soft and hard limit of open files; None if unknown."""
    memory_bytes: int | None
    """Free memory; None if unknown."""


def inspect_machine() -> Machine:
    return Machine(
        python=sys.version_info[:3],
        implementation=platform.python_implementation(),
        platform=sys.platform,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        packages={package: _version(package) for package in PACKAGES},
        files=_files(),
        memory_bytes=_memory(),
    )


def check_machine(machine: Machine, launchers: Sequence[Launcher], processes: int) -> Section:
    """The findings for a machine on which this many server processes start."""
    packages = ", ".join(f"{name} {version}" for name, version in machine.packages.items())
    python = ".".join(map(str, machine.python))
    return Section(
        name=NAME,
        summary=f"Python {python} on {machine.system.partition(' ')[0]}; {packages}",
        findings=(
            _check_python(machine),
            _check_platform(machine),
            *_check_packages(machine),
            *_check_files(machine, processes),
            *_check_memory(machine, processes),
            *map(_check_launcher, launchers),
        ),
    )


def _check_python(machine: Machine) -> DoctorFinding:
    version = ".".join(map(str, machine.python))
    what = f"{machine.implementation} {version}"
    if machine.python >= PYTHON_MIN:
        return good(code="python", what=what)
    required = ".".join(map(str, PYTHON_MIN))
    return problem(
        code="python",
        what=f"{what} is too old",
        why="the gateway needs a newer version",
        fix=f"install Python {required} or newer, and Anyport with it",
    )


def _check_platform(machine: Machine) -> DoctorFinding:
    if machine.platform == "linux":
        return good(code="platform", what=machine.system)
    if machine.platform == "darwin":
        return hint(
            code="platform",
            what=f"{machine.system}: Anyport is not tested on macOS yet",
            why="something may not work",
            fix="please report what does not work",
        )
    return problem(
        code="platform",
        what=f"{machine.system} is not supported",
        why="servers cannot be started there",
        fix="run it on Linux, or in WSL on Windows",
    )


def _check_packages(machine: Machine) -> Iterator[DoctorFinding]:
    for name, version in machine.packages.items():
        if version is not None:
            yield good(code="package", what=f"{name} {version}")
        elif name == "uvloop":
            yield warning(
                code="package",
                what="uvloop is missing",
                why="every call takes longer without it",
                fix="pip install uvloop",
            )
        else:
            yield problem(
                code="package",
                what=f"{name} is missing",
                why="the gateway needs it",
                fix=f"pip install {name}",
            )


def _check_files(machine: Machine, processes: int) -> Iterator[DoctorFinding]:
    if machine.files is None:
        return
    soft, hard = machine.files
    recommended = FILES_MIN + FILES_PER_SERVER * processes
    what = f"the limit of open files is {soft:,}"
    if soft >= recommended:
        yield good(code="open-files", what=what)
        return
    rounded = 1 << (recommended - 1).bit_length()
    raised = f"ulimit -n {rounded}"
    yield warning(
        code="open-files",
        what=f"{what}; {recommended:,} are recommended",
        why="clients are refused when the limit is reached",
        fix=raised if hard is None or hard >= rounded else f"raise the hard limit, then {raised}",
    )


def _check_memory(machine: Machine, processes: int) -> Iterator[DoctorFinding]:
    free = machine.memory_bytes
    if free is None:
        return
    recommended = MEMORY_BYTES_MIN + MEMORY_BYTES_PER_SERVER * processes
    if free >= recommended:
        yield good(code="memory", what=f"{format_binary_bytes(free)} of memory are free")
        return
    yield warning(
        code="memory",
        what=f"{format_binary_bytes(free)} of memory are free; "
        f"{format_binary_bytes(recommended)} are recommended for {processes} servers",
        why="the system may kill a server at any time",
        fix='free memory, disable servers, or set start = "first-use" and idleSeconds = 600',
    )


def _check_launcher(launcher: Launcher) -> DoctorFinding:
    servers = ", ".join(launcher.servers)
    if launcher.is_found:
        return good(code="launcher", what=f"{launcher.program} is installed, for {servers}")
    return problem(
        code="launcher",
        what=f"{launcher.program} is not found, and {servers} cannot start without it",
        why="it is searched on the PATH of the gateway",
        fix=f"install {SOURCES[launcher.program]}; if it is installed, use the full path that "
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
    """Free memory of the machine, or of the container if that is less."""
    free_bytes = [free for free in (_machine_memory(), _container_memory()) if free is not None]
    return min(free_bytes, default=None)


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
        # The page cache of inactive files can be reclaimed.
        return max(0, most - used + int(kinds.get("inactive_file", 0)))
    except (OSError, ValueError):  # `max`: there is no limit.
        return None

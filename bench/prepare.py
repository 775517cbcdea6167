"""Makes what a run needs: tools of the system, the two stubs, environments for the peers.

Everything that is made lies in `.bench/`, and is made again when its source changes.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

BENCH: Final = Path(__file__).parent
ROOT: Final = BENCH.parent
HOME: Final = ROOT / ".bench"

TOOLS: Final = {"wrk": "wrk", "nginx": "nginx", "gcc": "gcc libc6-dev", "taskset": "util-linux"}
"""Programs, and the packages of Debian and Ubuntu that have them."""

STUBS: Final = ("mcpstub", "mcpstdio")
LOCKS: Final = {
    "mcp-proxy": BENCH / "requirements-mcp-proxy.txt",
    "fastmcp": BENCH / "requirements-fastmcp.txt",
    "sdk2": ROOT / "tests/real/python-sdk2.txt",
}
"""The environments, and the lock files that they are made from."""


class Unprepared(Exception):
    """Something is missing that cannot be made; the text says what to do."""


def tool(name: str) -> str:
    """The path of a program of the system."""
    # An ordinary user of Debian does not have /usr/sbin, where nginx is, on the path.
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
    if path is None:
        raise Unprepared(f"{name} is not installed")
    return path


def require_tools() -> None:
    """Install the tools that are missing, or say which they are."""
    missing = [name for name in TOOLS if not _has(name)]
    if not missing:
        return
    packages = [package for name in missing for package in TOOLS[name].split()]
    install = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise Unprepared(
            f"these programs are missing: {', '.join(missing)}. "
            f"On Debian or Ubuntu: sudo {' '.join(install)}"
        )
    print(f"installing {', '.join(packages)}", file=sys.stderr)
    # RUNLEVEL=1: a package that brings a daemon does not start it.
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    subprocess.run(["apt-get", "update", "-qq"], env=quiet, stdout=sys.stderr, check=False)
    subprocess.run(install, env=quiet, stdout=sys.stderr, check=False)
    if still := [name for name in missing if not _has(name)]:
        raise Unprepared(f"apt-get did not bring {', '.join(still)}")


def stub(name: str) -> str:
    """The path of a stub, built if need be."""
    source, program = BENCH / "stub" / f"{name}.c", HOME / name
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        HOME.mkdir(exist_ok=True)
        subprocess.run([tool("gcc"), "-O2", "-w", "-o", str(program), str(source)], check=True)
    return str(program)


def interpreter(name: str) -> str:
    """The Python of a peer's environment, made if need be."""
    lock = LOCKS[name]
    for home in (ROOT / ".real" / name, HOME / name):  # The tests may have made it already.
        if _made_from(home, lock):
            return str(home / "bin" / "python")
    home = HOME / name
    print(f"making .bench/{name}", file=sys.stderr)
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    # The lock files are complete. --no-deps: FastMCP asks for a newer certifi than there may be.
    subprocess.run(
        [
            *(str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"),
            *("install", "--no-deps", "--require-hashes", "--only-binary", ":all:"),
            *("-r", str(lock)),
        ],
        check=True,
    )
    shutil.copy(lock, home / "lock.txt")
    return str(home / "bin" / "python")


def pinned_version(environment: str, package: str) -> str:
    """What the lock file says."""
    for line in LOCKS[environment].read_text().splitlines():
        if line.startswith(f"{package}=="):
            return line.removeprefix(f"{package}==").split()[0]
    return "?"


def _made_from(home: Path, lock: Path) -> bool:
    try:
        return (home / "lock.txt").read_bytes() == lock.read_bytes()
    except OSError:
        return False


def _has(name: str) -> bool:
    try:
        tool(name)
    except Unprepared:
        return False
    return True

"""Where and with what a run was made."""

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

from bench.prepare import pinned_version, tool


def machine() -> dict[str, str]:
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": f"{len(os.sched_getaffinity(0))} cores, {model}",
        "memory": f"{pages / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "load before": f"{os.getloadavg()[0]:.1f}",
    }


def versions() -> dict[str, str]:
    return {
        "Anyport": version("anyport"),
        platform.python_implementation(): platform.python_version(),
        "uvloop": version("uvloop"),
        "httptools": version("httptools"),
        "msgspec": version("msgspec"),
        "nginx": _last_word([tool("nginx"), "-v"]).partition("/")[2],
        "wrk": _words([tool("wrk"), "-v"])[1],
        "mcp-proxy": pinned_version("mcp-proxy", "mcp-proxy"),
        "FastMCP": pinned_version("fastmcp", "fastmcp"),
        "MCP SDK (real server)": pinned_version("sdk2", "mcp"),
    }


def _last_word(argv: list[str]) -> str:
    return _words(argv)[-1]


def _words(argv: list[str]) -> list[str]:
    finished = subprocess.run(argv, capture_output=True, text=True, check=False)
    return (finished.stdout + finished.stderr).split() or ["?"]

"""Load by wrk, and what it cost the target."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.client import Endpoint
from bench.prepare import BENCH, tool
from bench.processes import Running, pinned

MARK: Final = 10_000_000
"""Stands for the id in the texts; as wide as all ids that are sent."""
IDS_PER_RUN: Final = 1_000_000
"""More than wrk sends in one run, so that runs after each other share no ids."""
RUNS_MAX: Final = 89
PATIENCE_SECONDS: Final = 30
"""What takes longer counts as an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One run of wrk against one target."""

    requests: int
    rps: float
    p50_ms: float
    p99_ms: float
    errors: int
    """Connections refused or broken, answers that did not come, statuses other than 2xx and 3xx."""
    bytes_each: float
    cpu_us: float
    """Of the target with all its child processes, for one request."""
    own_cpu_us: float
    """Of the target's first process alone."""
    share: float
    """Of its core that the target had. Where it is low, something else was the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What wrk is to send."""

    heads: tuple[bytes, ...]
    tails: tuple[bytes, ...]


def script(endpoint: Endpoint, method: str, params: Mapping[str, Any]) -> Script:
    """The requests of all sessions, cut where the id stands; `params` may hold `MARK` too."""
    body = endpoint.body(method, params, MARK)
    first, *tails = body.split(str(MARK).encode())
    heads = []
    for session in endpoint.sessions:
        fields = endpoint.headers(method, params, session)
        lines = [
            f"POST {endpoint.path} HTTP/1.1",
            f"Host: {endpoint.host}:{endpoint.port}",
            *(f"{name}: {value}" for name, value in fields.items()),
            f"Content-Length: {len(body)}",
        ]
        heads.append("\r\n".join([*lines, "", ""]).encode() + first)
    return Script(heads=tuple(heads), tails=tuple(tails))


def lua(texts: Sequence[bytes]) -> str:
    """A list of strings in Lua."""
    return "{" + ",".join(_lua_string(text) for text in texts) + "}"


def _lua_string(text: bytes) -> str:
    plain = (
        chr(code) if 32 <= code < 127 and code not in b'"\\' else f"\\{code:03}" for code in text
    )
    return '"' + "".join(plain) + '"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    connections: int
    seconds: int
    core: int | None
    """Where wrk runs."""


def drive(url: str, sent: Script, pressure: Pressure, target: Running, run: int) -> Sample:
    """Run wrk once and charge the target for it.

    The target is charged until it is idle again, so that nothing it puts off is hidden; then it
    has also worked on the request that each connection had open at the end.
    """
    before = target.usage()
    began = time.monotonic()
    told = _wrk(url, sent, pressure, MARK + run % RUNS_MAX * IDS_PER_RUN)
    busy = target.usage().tree - before.tree
    share = busy / (time.monotonic() - began)
    target.settle()
    after = target.usage()
    charged = max(1, told["requests"] + pressure.connections)
    return Sample(
        requests=told["requests"],
        rps=told["requests"] * 1e6 / told["microseconds"],
        p50_ms=told["p50_us"] / 1000,
        p99_ms=told["p99_us"] / 1000,
        errors=sum(told[kind] for kind in ("connect", "read", "write", "timeout", "status")),
        bytes_each=told["bytes"] / max(1, told["requests"]),
        cpu_us=(after.tree - before.tree) * 1e6 / charged,
        own_cpu_us=(after.own - before.own) * 1e6 / charged,
        share=share,
    )


def middle(samples: Sequence[Sample]) -> Sample:
    """The median of each figure; errors and requests are added up."""
    fields = ("rps", "p50_ms", "p99_ms", "bytes_each", "cpu_us", "own_cpu_us", "share")
    return Sample(
        requests=sum(sample.requests for sample in samples),
        errors=sum(sample.errors for sample in samples),
        **{field: median(getattr(sample, field) for sample in samples) for field in fields},
    )


def _wrk(url: str, sent: Script, pressure: Pressure, base: int) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as folder:
        texts = Path(folder, "load.lua")
        texts.write_text(
            f"return {{heads={lua(sent.heads)},tails={lua(sent.tails)},base={base}}}", "ascii"
        )
        finished = subprocess.run(
            [
                *pinned(pressure.core),
                *(tool("wrk"), "-t1", f"-c{pressure.connections}", f"-d{pressure.seconds}s"),
                *("--timeout", f"{PATIENCE_SECONDS}s", "-s", str(BENCH / "call.lua"), url),
            ],
            env={**os.environ, "BENCH_LOAD": str(texts)},
            capture_output=True,
            text=True,
            timeout=pressure.seconds + 2 * PATIENCE_SECONDS,
            check=False,
        )
    for line in finished.stdout.splitlines():
        if line.startswith("JSON"):
            told: dict[str, int] = json.loads(line.removeprefix("JSON"))
            return told
    raise RuntimeError(f"wrk: {finished.stdout}{finished.stderr}")

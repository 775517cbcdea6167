"""One peer that sends as much as it can, in whatever way, delays nobody else.

On a machine of its own a clock can tell. On every commit others use the machine, too: there it is
told by how long the gateway itself was at work before it answered, which they cannot prolong.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from tests.harness import LEGACY_DEMO, WAIT_SECONDS, put_down
from tests.reliability.conftest import Serve
from tests.rig import flooding_peers
from tests.rig.http_probe import HttpProbe
from tests.rig.probe import MIB, descendants, eventually
from tests.rig.raw_http_client import RawHttpClient, post, tool_call
from tests.rig.scale import FULL, measured, scaled

pytestmark = pytest.mark.slow

SCRIPT: Final = [sys.executable, "-I", "-S", flooding_peers.__file__]
CALLS: Final = scaled(40, full=2_000)
"""Of the neighbour, before and during each flood."""
PERCENT: Final = scaled(75, full=99)
RATIO_MAX: Final = 5
SECONDS_MAX: Final = scaled(0.1, full=0.025)
"""This percentile of a neighbour's calls takes no longer than so many times the quiet one, or than
this: by the clock in full, of the gateway's processor time on every commit."""
SWITCHES_MIN: Final = 8
"""How often a process that floods has come to work at least."""
CONNECTIONS: Final = scaled(4, full=16)
"""That one client floods over."""
LEFT_BYTES_MAX: Final = 32 * MIB
TOKEN: Final = "the-token-of-the-flood"

Flood = Callable[[str], AbstractContextManager[int | None]]
"""Floods in a way as long as its block lasts; the process that does, if there is one."""


def test_stdio_servers_that_flood_delay_nobody_else(serve: Serve) -> None:
    kinds = [*flooding_peers.LINES, *flooding_peers.STDERR]
    with serve({f"bad-{kind}": [*SCRIPT, "stdio", kind] for kind in kinds}) as there:
        there.growth_bytes_max = LEFT_BYTES_MAX

        @contextmanager
        def flooding(kind: str) -> Iterator[int]:
            with call(there, f"bad-{kind}__flood"):
                words = f"stdio\0{kind}\0"
                own = [pid for pid in descendants(there.pid) if words in cmdline(pid)]
                yield own[-1]  # The launcher comes before what it launches.
                with suppress(ProcessLookupError):  # The gateway may have lost its patience.
                    os.kill(own[-1], signal.SIGKILL)

        check(there, kinds, flooding)


def test_a_program_that_is_no_server_delays_nobody_else(serve: Serve, tmp_path: Path) -> None:
    """It is started again and again, until it is taken out of the configuration."""
    with serve({"bad": {"command": "yes", "args": ["garbage"], "start": "first-use"}}) as there:
        there.growth_bytes_max = LEFT_BYTES_MAX

        @contextmanager
        def flooding(_: str) -> Iterator[None]:
            with call(there, "bad__anything"):
                yield

        check(there, ["yes"], flooding)
        file = tmp_path / "anyport.json"
        config = json.loads(file.read_text())
        del config["mcpServers"]["bad"]
        file.write_text(json.dumps(config))
        eventually(lambda: there.slugs() == {"neighbour"}, "a reload")


def test_servers_over_http_that_flood_delay_nobody_else(serve: Serve) -> None:
    with ExitStack() as stack:
        webs = {kind: stack.enter_context(started("http", kind)) for kind in flooding_peers.STREAMS}
        entries = {f"bad-{kind}": {"url": url} for kind, (_, url) in webs.items()}
        there = stack.enter_context(serve(entries))
        there.growth_bytes_max = LEFT_BYTES_MAX

        @contextmanager
        def flooding(kind: str) -> Iterator[int]:
            with call(there, f"bad-{kind}__flood"):
                yield webs[kind][0].pid
                put_down(webs[kind][0])

        check(there, flooding_peers.STREAMS, flooding)


def test_clients_that_flood_delay_nobody_else(serve: Serve) -> None:
    # What it calls is one process for all; else each person has one of their own.
    own = {"command": LEGACY_DEMO[0], "args": LEGACY_DEMO[1:], "scope": "shared"}
    with serve({"own": own}, tokens=True, gateway={"tokens": {"flood": TOKEN}}) as there:
        there.growth_bytes_max = LEFT_BYTES_MAX

        @contextmanager
        def flooding(kind: str) -> Iterator[int]:
            where = (str(there.port), str(CONNECTIONS), TOKEN)
            with started("client", kind, *where) as (process, _):
                yield process.pid

        check(there, flooding_peers.CLIENTS, flooding)


def test_clients_that_nobody_knows_delay_each_other_as_little(serve: Serve) -> None:
    """Without tokens each connection has its share: what is large does not make others wait."""
    with serve({"own": {"command": LEGACY_DEMO[0], "args": LEGACY_DEMO[1:]}}) as there:
        there.growth_bytes_max = LEFT_BYTES_MAX

        @contextmanager
        def flooding(kind: str) -> Iterator[int]:
            with started("client", kind, str(there.port), str(CONNECTIONS)) as (process, _):
                yield process.pid

        check(there, flooding_peers.NAMELESS, flooding)


@contextmanager
def started(*words: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A peer, and the first line that it prints."""
    process = subprocess.Popen([*SCRIPT, *words], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().decode().strip()
    finally:
        put_down(process)


@contextmanager
def call(there: HttpProbe, tool: str) -> Iterator[None]:
    """A call whose client reads whatever comes; its session ends with the block."""
    visitor = RawHttpClient(there.port, there.fields)
    visitor.wire.send(post(tool_call(tool, {}, 1, progressToken=1), visitor.fields))
    reader = threading.Thread(
        target=flooding_peers.swallow, args=(visitor.wire.socket,), daemon=True
    )
    reader.start()
    yield
    visitor.wire.socket.shutdown(socket.SHUT_RDWR)
    reader.join(WAIT_SECONDS)
    visitor.leave()


def check(there: HttpProbe, kinds: Iterable[str], flooding: Flood) -> None:
    """A neighbour's calls take about as long as beside a program that only takes time."""
    found = {}
    with closing(RawHttpClient(there.port, there.fields)) as visitor:
        clock = time.monotonic if FULL else there.cpu_seconds
        latencies(visitor, clock)
        for kind in kinds:
            with started("burn"):
                quiet = percentile(latencies(visitor, clock))
            with flooding(kind) as pid:
                before = 0 if pid is None else wait_active(pid, kind)
                during = percentile(latencies(visitor, clock))
                if pid is not None and Path(f"/proc/{pid}").exists():
                    wait_active(pid, kind, before)  # It has not stopped meanwhile.
            found[kind] = (round(1e3 * quiet, 1), round(1e3 * during, 1))
    measured(**{f"{kind}_ms": f"{quiet} {during}" for kind, (quiet, during) in found.items()})
    assert not {
        kind: (quiet, during)
        for kind, (quiet, during) in found.items()
        if during > max(RATIO_MAX * quiet, 1e3 * SECONDS_MAX)
    }, found


def wait_active(pid: int, kind: str, since: int = 0) -> int:
    """Wait until a process has come to work again a few times; how often it has ever."""
    eventually(lambda: switches(pid) > since + SWITCHES_MIN, f"a flood of {kind}")
    return switches(pid)


def switches(pid: int) -> int:
    """How often the threads of a process gave up the processor or lost it."""
    found = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        with suppress(FileNotFoundError):
            lines = status.read_text().splitlines()
            found += sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
    return found


def cmdline(pid: int) -> str:
    """The words of a process's command, each with its end."""
    return Path(f"/proc/{pid}/cmdline").read_text()


def latencies(visitor: RawHttpClient, clock: Callable[[], float]) -> list[float]:
    """How long each of the neighbour's calls took."""
    taken = []
    for number in range(CALLS):
        began = clock()
        answer = visitor.call("neighbour__echo", text=f"{number}")
        taken.append(clock() - began)
        assert answer["result"]["content"][0]["text"] == f"{number}"
    return taken


def percentile(taken: list[float]) -> float:
    return sorted(taken)[len(taken) * PERCENT // 100 - 1]

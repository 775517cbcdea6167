"""Shows that the record stays quick to ask when it is large: a million exchanges and more.

Writes a journal of exchanges over some hours, as capture `shape` notes them. Then one process goes
on writing some hundred a second while this one asks, and prints how long catching up took, how long
each question took, how much memory that needed, and whether the writer was held up.

    python tools/million.py [EXCHANGES [HOURS [SECONDS]]]
"""

import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Final

from anyport.record.event import format_timestamp
from anyport.record.filter.parser import parse_filter
from anyport.record.index.index import INDEX_FILE, Index
from anyport.record.journal.journal import Journal
from anyport.record.journal.segments import SEGMENT_BYTES_MAX
from anyport.record.tamper.chain import Chain

PER_SECOND: Final = 500
"""What the writer adds."""

QUESTIONS: Final = (
    "since:1h",
    "since:1h status:error",
    "since:1h server:github tool:create_issue status:error",
    "since:1h dur:>1s",
    "since:1h size:>4950 client:zed",
    "since:1h code:-32000 -server:docs",
    "since:1h session:none",
    "since:1h trace:4bf92f3577b34da6a3ce929d0e0e4736",
    "since:1h server:none",
)

_TOOLS: Final = {
    "github": ("create_issue", "list_issues", "get_file", "search"),
    "docs": ("search", "fetch"),
    "files": ("read", "write", "list"),
    "db": ("query",),
}
_CLIENTS: Final = ("cursor-vscode 1.0.0", "claude-code 2.1.0", "zed 0.2")
_LINE: Final = (
    b'{"timestamp":"%b","trace_id":"%032x","status":"%b","schema_version":"1.0",'
    b'"event_type":"gateway.tool_call","source":"anyport","metadata":{"span_id":"%016x",'
    b'"profile":"dev","server":"%b","tool":"%b","public_name":"%b__%b","session":"%x",'
    b'"method":"tools/call","client":"%b","principal":"alice","client_revision":"2025-06-18",'
    b'"client_transport":"streamable-http","server_revision":"2025-11-25",'
    b'"server_transport":"stdio","queue_ms":0.1,"server_ms":%.3f,"params_bytes":120,'
    b'"sent_bytes":110,"answer_bytes":900,"params_shape":"{\\"name\\":s,\\"arguments\\":{\\"path\\":s,'
    b'\\"depth\\":n}}","result_shape":"{\\"content\\":[{\\"type\\":s,\\"text\\":s}]}",'
    b'"params_hash":"%016x","result_hash":"%016x","result_bytes":%d%b},"duration_ms":%.3f%b}\n'
)


def exchanges(count: int, begin: float, end: float, chance: random.Random) -> Iterator[bytes]:
    """Lines of the journal, without their places in the chain."""
    servers = [(server.encode(), tool.encode()) for server in _TOOLS for tool in _TOOLS[server]]
    clients = [client.encode() for client in _CLIENTS]
    for n in range(count):
        server, tool = chance.choice(servers)
        failed, took = chance.random() < 0.01, chance.expovariate(1 / 100)
        yield _LINE % (
            format_timestamp(begin + (end - begin) * n / count).encode(),
            chance.getrandbits(128) or 1,
            b"failure" if failed else b"success",
            chance.getrandbits(64) or 1,
            *(server, tool, server, tool),
            n // 200,
            chance.choice(clients),
            took * 0.9,
            *(chance.getrandbits(64), chance.getrandbits(64), chance.randrange(100, 5000)),
            b',"outcome":"server_error"' if failed else b"",
            took,
            b',"error_code":-32000,"error_message":"rate limit"' if failed else b"",
        )


def write_journal(state_dir: Path, count: int, begin: float, end: float) -> None:
    """A journal of so many exchanges, in files as the gateway leaves them."""
    chain, chance = Chain("0badcafe"), random.Random(count)
    number, size, block = 1, 0, []
    for line in exchanges(count, begin, end, chance):
        block.append(line)
        size += len(line) + 80
        if size >= SEGMENT_BYTES_MAX:
            _write_file(state_dir, f"events-{number:04}.jsonl", chain.link(block))
            number, size, block = number + 1, 0, []
    _write_file(state_dir, "events.jsonl", chain.link(block))


def _write_file(state_dir: Path, name: str, lines: list[bytes]) -> None:
    # The folder of the newest month: events never lie in that of a month before their own.
    folder = state_dir / "events" / format_timestamp(time.time())[: len("2026-07")]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("wb") as file:
        file.writelines(lines)


def keep_writing(
    state_dir: Path, stop: "Synchronized[int]", worst: "Synchronized[float]", *, per_second: int
) -> None:
    """Append exchanges through a real journal until told to stop; its worst pause, in seconds."""
    journal = Journal(state_dir, source="anyport", now=time.time, redact=str)
    chance, begun, written = random.Random(1), time.monotonic(), 0
    while not stop.value:
        due = int((time.monotonic() - begun) * per_second) - written
        now = time.time()
        for line in exchanges(due, now, now, chance):
            journal.append_encoded([line])
            before = time.perf_counter()
            journal.flush()
            worst.value = max(worst.value, time.perf_counter() - before)
        written += due
        time.sleep(0.002)
    journal.close()


def resident_bytes() -> int:
    """What of this process lies in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def percentile(times: list[float], percent: int) -> float:
    """The nearest rank."""
    return sorted(times)[-(-len(times) * percent // 100) - 1]


def ask(index: Index, text: str) -> float:
    """Ask as the gateway does; the seconds that it took."""
    before = time.perf_counter()
    index.catch_up()
    index.page(None, parse_filter(text, time.time()), 100)
    return time.perf_counter() - before


@contextmanager
def a_writer(state_dir: Path) -> Iterator["Synchronized[float]"]:
    """Somebody who goes on writing in another process; the longest that one write took."""
    context = multiprocessing.get_context("spawn")
    stop: Synchronized[int] = context.Value("i", 0)
    worst: Synchronized[float] = context.Value("d", 0.0)
    writer = context.Process(
        target=keep_writing, args=(state_dir, stop, worst), kwargs={"per_second": PER_SECOND}
    )
    writer.start()
    try:
        yield worst
    finally:
        stop.value = 1
        writer.join()


def measure(state_dir: Path, seconds: float) -> None:
    """Ask while somebody writes, and print what that took."""
    for path in state_dir.glob(f"{INDEX_FILE}*"):
        path.unlink()
    with closing(Index(state_dir)) as index:
        before = time.perf_counter()
        index.catch_up()
        took = time.perf_counter() - before
        events = sum(stat.counts[status] for stat in index.stats().rows for status in stat.counts)
        size = sum(path.stat().st_size for path in state_dir.glob(f"{INDEX_FILE}*"))
        print(f"caught up with {events} events in {took:.1f} s, {events / took:.0f} a second")
        print(f"the index has {size / events:.0f} bytes for each")
    with a_writer(state_dir) as worst, closing(Index(state_dir)) as index:
        for text in QUESTIONS:  # Whatever is made once is made.
            ask(index, text)
        times: dict[str, list[float]] = {text: [] for text in QUESTIONS}
        memory, until = resident_bytes(), time.monotonic() + seconds
        while time.monotonic() < until:
            for text, taken in times.items():
                taken.append(ask(index, text))
        grown = resident_bytes() - memory
    for text, taken in times.items():
        median, most = percentile(taken, 50) * 1000, percentile(taken, 95) * 1000
        print(f"{median:8.1f} ms median {most:8.1f} ms p95  {text}")
    everything = [time for taken in times.values() for time in taken]
    print(f"{percentile(everything, 95) * 1000:.1f} ms p95 of {len(everything)} questions")
    print(
        f"memory grew by {grown / 1e6:.1f} MB; the writer's worst write: {worst.value * 1e3:.1f} ms"
    )


def main(argv: list[str]) -> None:
    count, hours, seconds = (
        float(argv[at] if len(argv) > at else default) for at, default in enumerate((1e6, 24, 20))
    )
    with tempfile.TemporaryDirectory(prefix="anyport-") as folder:
        end = time.time()
        write_journal(Path(folder), int(count), end - hours * 3600, end)
        measure(Path(folder), seconds)


if __name__ == "__main__":
    main(sys.argv[1:])

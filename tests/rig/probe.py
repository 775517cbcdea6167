"""What must hold for a gateway whatever is done to it, checked around every test here.

- It lives: one process from start to end, no fault of its own on stderr, exit code 0.
- Its neighbours live: calls to a well-behaved server, all the while, are all answered well.
- It forgets: memory, descriptors, processes and idle time return to what they were.
- It answers: each request exactly once, and never one that was not asked.
- It remembers: exactly one ending in the journal for each call, nothing lost.
- It keeps secrets: what the configuration gives to a server is found nowhere else.
"""

import json
import os
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from anyport.record.journal.segments import segments
from tests.harness import LEGACY_DEMO, Message, write_config
from tests.rig.client import Client, key_of
from tests.rig.scale import scaled

HOSTILE: Final = [sys.executable, "-I", "-S", str(Path(__file__).with_name("hostile_server.py"))]

MIB: Final = 1024 * 1024
RSS_GROWTH_BYTES_MAX: Final = 10 * MIB
DESCRIPTORS_GROWTH_MAX: Final = 5
RECOVERY_SECONDS_MAX: Final = scaled(120.0, full=30.0)
"""How long after a test everything may take to be as it was; on a busy machine it takes longer."""
IDLE_SECONDS: Final = 0.25
IDLE_TICKS_MAX: Final = 2
"""Processor time, in hundredths of a second, of an idle gateway in that time; a spin takes 25."""
NEIGHBOUR_PAUSE_SECONDS: Final = 0.05
TICK_SECONDS: Final = 1 / os.sysconf("SC_CLK_TCK")
FAULT_WORDS: Final = (b"internal error", b"Traceback", b"Exception", b"never retrieved")


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """What a gateway takes up, with the processes below it."""

    rss_bytes: int
    """Of the gateway alone."""
    descriptors: int
    processes: int
    zombies: int


class Probe:
    """A gateway under watch."""

    def __init__(self, client: Client, state: Path, canary: str) -> None:
        self.client = client
        self.state = state
        self.canary = canary
        self.pid = client.process.pid
        self.growth_bytes_max = RSS_GROWTH_BYTES_MAX
        self.neighbour_calls = 0
        self.parting = b""
        """A last line, sent without an end."""
        self._grievance: str | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._be_a_neighbour, daemon=True)
        self._baseline = Footprint(rss_bytes=0, descriptors=0, processes=0, zombies=0)

    def begin(self) -> None:
        """Take everything as it is for the measure, and start the neighbour."""
        self._baseline = footprint(self.pid)
        self._thread.start()

    def end(self) -> None:
        """Check all that must hold."""
        self._over.set()
        self._thread.join()
        assert self._grievance is None, f"the neighbour suffered: {self._grievance}"
        assert self.neighbour_calls > 0
        self.client.wait_settled()
        check_recovery(self.pid, self._baseline, self.growth_bytes_max)
        status = self.status()
        assert status["gateway"]["event_monitoring"]["lost"] == 0
        pids = descendants(self.pid)
        if self.parting:
            self.client.account(self.parting)
            self.client.write(self.parting)
        assert self.client.finish() == 0
        assert not [pid for pid in pids if _state(pid) not in ("", "Z")], "processes survived"
        for words in FAULT_WORDS:
            assert words not in self.client.stderr, self.client.stderr
        self._check_answers()
        asked = self.client.owed.total() + self.client.forgotten
        assert len(self.client.calls) <= check_journal(self.state) <= asked
        check_secrets(self.state, self.canary, self.client.stderr, *self.client.lines)

    def status(self) -> Message:
        """What `gateway_status` says."""
        answer = self.client.call("gateway_status")
        report: Message = json.loads(answer["result"]["content"][0]["text"])
        return report

    def backend(self, slug: str = "bad") -> Message:
        """What `gateway_status` says of one server."""
        report: Message = self.status()["backends"][slug]
        return report

    def cpu_seconds(self) -> float:
        """The processor time that the gateway itself has taken so far."""
        return cpu_ticks(self.pid) * TICK_SECONDS

    def peak(self, growth_bytes_max: int) -> AbstractContextManager[None]:
        """Meanwhile the gateway never takes this much more memory than at the start."""
        return peak(self.pid, growth_bytes_max)

    def _be_a_neighbour(self) -> None:
        try:
            while not self._over.is_set():
                text = f"{self.neighbour_calls}"
                answer = self.client.call("neighbour__echo", text=text)
                if "result" not in answer or answer["result"]["content"][0]["text"] != text:
                    self._grievance = f"{answer}"
                    return
                self.neighbour_calls += 1
                self._over.wait(NEIGHBOUR_PAUSE_SECONDS)
        except (AssertionError, KeyError, OSError, ValueError) as error:
            self._grievance = f"{type(error).__name__}: {error}"

    def _check_answers(self) -> None:
        client = self.client
        guessed = 0
        for key, answers in client.answers.items():
            excess = len(answers) - client.owed[key]
            if excess > 0:
                assert key in client.guessable, f"unasked: {answers}"
                assert sum("error" in answer for answer in answers) >= excess, answers
                guessed += excess
        for key, times in client.owed.items():
            if key not in client.cancelled:
                assert len(client.answers[key]) >= times, f"{key} was not answered"
        assert len(client.idless) + guessed <= client.unreadable_count


@contextmanager
def watched(tmp_path: Path, servers: Mapping[str, Any], **rest: Any) -> Iterator[Probe]:
    """A gateway with these servers and a neighbour; at the end all that must hold is checked."""
    canary = f"canary-{uuid4().hex}"
    entries: dict[str, Any] = {}
    for name, entry in {**servers, "neighbour": LEGACY_DEMO}.items():
        whole = {"command": entry[0], "args": entry[1:]} if isinstance(entry, list) else entry
        entries[name] = {**whole, "env": {"CANARY": canary}}
    state = tmp_path / "state"
    config = write_config(tmp_path, entries, **rest)
    argv = [
        sys.executable, "-m", "anyport", "stdio",
        "--config", str(config), "--state-dir", str(state),
    ]  # fmt: skip
    client = Client(argv)
    try:
        client.initialize()
        probe = Probe(client, state, canary)
        probe.status()
        for _ in range(3):
            client.request("tools/list")
            client.call("neighbour__echo", text="warm")
        probe.begin()
        yield probe
        probe.end()
    finally:
        client.kill()


def check_recovery(pid: int, then: Footprint, growth_bytes_max: int) -> None:
    """A gateway takes up what it took up before, and rests."""
    give_up_at = time.monotonic() + RECOVERY_SECONDS_MAX
    while True:
        now = footprint(pid)
        recovered = (
            now.rss_bytes <= then.rss_bytes + growth_bytes_max
            and now.descriptors <= then.descriptors + DESCRIPTORS_GROWTH_MAX
            and now.processes <= then.processes
            and now.zombies == 0
        )
        if recovered and _is_idle(pid):
            return
        assert time.monotonic() < give_up_at, f"{then} became {now}"
        time.sleep(0.02)


def check_journal(state: Path) -> int:
    """Every call that the journal knows of has exactly one ending; how many calls that are."""
    begun: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    for file in segments(state / "events"):
        with file.open("rb") as lines:
            for line in lines:
                event = json.loads(line)
                if event["event_type"] == "gateway.tool_call":
                    which = begun if event["status"] == "pending" else ended
                    which[event["metadata"]["span_id"]] += 1
    assert not [span for span, times in (begun + ended).items() if ended[span] != 1 or times > 2]
    return len(ended)


def check_secrets(state: Path, secret: str, *told: bytes) -> None:
    """A secret stands in nothing that was said, and in no file of the gateway's."""
    raw = secret.encode()
    assert not [words for words in told if raw in words]
    for file in state.rglob("*"):
        assert not file.is_file() or raw not in file.read_bytes(), file


@contextmanager
def peak(pid: int, growth_bytes_max: int) -> Iterator[None]:
    """Meanwhile a process never takes this much more memory than at the start."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    before = memory(pid, "VmRSS")
    yield
    growth = memory(pid, "VmHWM") - before
    assert growth <= growth_bytes_max, f"{growth / MIB:.1f} MiB more than before"


def memory(pid: int, field: str) -> int:
    """What the kernel says of a process's memory, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"the kernel does not tell {field}")


def text_of(answer: Message) -> str:
    """The text of a tool's good answer."""
    assert "result" in answer, answer
    assert not answer["result"].get("isError"), answer
    text: str = answer["result"]["content"][0]["text"]
    return text


def eventually(condition: Callable[[], bool], wanted: str) -> None:
    """Wait for something that no message tells of."""
    give_up_at = time.monotonic() + RECOVERY_SECONDS_MAX
    while not condition():
        assert time.monotonic() < give_up_at, f"never: {wanted}"
        time.sleep(0.02)


def answered_before(client: Client, first: Any, second: Any) -> bool:
    """Whether one request was answered before another one."""
    return client.order.index(key_of(first)) < client.order.index(key_of(second))


def footprint(pid: int) -> Footprint:
    """What a process and those below it take up now."""
    below = descendants(pid)
    return Footprint(
        rss_bytes=memory(pid, "VmRSS"),
        descriptors=sum(_descriptors(each) for each in [pid, *below]),
        processes=len(below),
        zombies=sum(_state(each) == "Z" for each in below),
    )


def descendants(pid: int) -> list[int]:
    """Every process below this one."""
    children: dict[int, list[int]] = defaultdict(list)
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat(int(name))
            if fields:
                children[int(fields[1])].append(int(name))
    found = [pid]
    for each in found:
        found += children[each]
    return found[1:]


def cpu_ticks(pid: int) -> int:
    """User and system time of a process."""
    fields = _stat(pid)
    return int(fields[11]) + int(fields[12])


def _is_idle(pid: int) -> bool:
    before = cpu_ticks(pid)
    time.sleep(IDLE_SECONDS)
    return cpu_ticks(pid) - before <= IDLE_TICKS_MAX


def _descriptors(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def _state(pid: int) -> str:
    fields = _stat(pid)
    return fields[0] if fields else ""


def _stat(pid: int) -> list[str]:
    try:
        # Another process's name, which stands first, may be any bytes.
        return Path(f"/proc/{pid}/stat").read_bytes().decode("latin-1").rpartition(") ")[2].split()
    except OSError:
        return []

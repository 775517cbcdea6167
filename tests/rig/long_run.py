"""A long run: one gateway, twelve servers, steady load, and a fault every few seconds.

`run` does it, and `Outcome.verdicts` says what must hold. `fault_injection` has the faults, and
`fault_accounting` says who may suffer from each. The same seed makes the same calls and the same
faults in the same order; the clock is the machine's own.
"""

import asyncio
import json
import os
import random
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from tests.harness import Message
from tests.real import rig as real
from tests.rig.fault_accounting import GOOD, Call, FaultAccount, Samples
from tests.rig.fault_injection import FAULTS, Fault
from tests.rig.load_clients import (
    BareLoadClient,
    LoadClient,
    ModernLoadClient,
    SessionLoadClient,
    SseLoadClient,
)
from tests.rig.load_gateway import LoadGateway
from tests.rig.load_servers import LoadServer, load_servers
from tests.rig.probe import FAULT_WORDS, MIB, Footprint, check_secrets, footprint
from tests.rig.scale import scaled

ANSWER_SECONDS_MAX: Final = 60.0
"""A call that has no answer by then has none; servers are given five seconds."""
RECOVERY_SECONDS_MAX: Final = 60.0
"""How long a server may take, once it is mended, until its calls are answered again."""
RECOVERED_CALLS: Final = 5
"""So many good answers in a row mean that a server is as it was."""
SETTLE_SECONDS_MAX: Final = 60.0
"""How long everything may take after the run to be as it was before."""
VISITORS: Final = ("py2", "ts1", "py1", "ts2")
"""Clients made with the SDKs."""
VISIT_SECONDS: Final = 20.0
"""Between two of them: each starts an interpreter, which takes a second of a processor."""
VISIT_CALLS: Final = 50
RELOAD_SECONDS_MAX: Final = scaled(60.0, full=10.0)
"""A new configuration is in force by then; new servers are given half of it to get ready."""
SAMPLE_SECONDS: Final = 1.0
DESCRIPTORS_GROWTH_MAX: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be done."""

    seconds: float
    calls_per_second: float
    fault_seconds: float
    """From one fault to the next."""
    seed: int = 1
    warm_seconds: float = 10.0
    """Of load without any fault, before anything is measured."""
    growth_bytes_max: int = 32 * MIB
    p99_seconds_max: float = 0.15
    open_calls_max: int = 1_000_000
    """At servers that no fault has hit. On a machine that has too little time for the load the rest
    of their calls are made later."""


@dataclass(kw_only=True)
class Outcome:
    """What came of it."""

    plan: Plan
    account: FaultAccount
    samples: Samples
    faults: Counter[str]
    before: Footprint
    after: Footprint
    seconds: float
    recoveries: list[float] = field(default_factory=list)
    """How long servers took to be well again, after each fault."""
    lost_events: int = 0
    """While the disk was full."""
    own_faults: Counter[str] = field(default_factory=Counter)
    """What the gateway said of faults of its own, and how often."""
    exit_code: int = 0
    real_servers: bool = False

    @property
    def calls(self) -> int:
        return self.account.calls.total()

    def is_back(self, now: Footprint) -> dict[str, bool]:
        """What must be as it was, and whether it is."""
        then, growth_bytes_max = self.before, self.plan.growth_bytes_max
        return {
            "memory is back": now.rss_bytes <= then.rss_bytes + growth_bytes_max,
            "descriptors are back": now.descriptors <= then.descriptors + DESCRIPTORS_GROWTH_MAX,
            "processes are back": now.processes <= then.processes and now.zombies == 0,
        }

    def verdicts(self) -> dict[str, bool]:
        """What must hold, and whether it does."""
        plan = self.plan
        return {
            "every call was answered exactly once, and no neighbour suffered": (
                self.account.violation_count == 0
            ),
            "calls were made as often as was planned": (
                self.calls >= 0.95 * plan.calls_per_second * plan.seconds
            ),
            "neighbours were answered in time": (
                self.account.percentile(0.99) <= plan.p99_seconds_max
            ),
            **self.is_back(self.after),
            "the gateway itself had no fault, and ended in good order": (
                not self.own_faults and self.exit_code == 0
            ),
        }


class Run:
    """One run under way; the scene of its faults."""

    def __init__(self, plan: Plan, stage: LoadGateway) -> None:
        self.plan = plan
        self.stage = stage
        self.fleet = stage.fleet
        self.port = stage.port
        self.pid = stage.pid
        self.draw = random.Random(plan.seed)
        self.account = FaultAccount()
        self.samples = Samples()
        self.faults: Counter[str] = Counter()
        self.recoveries: list[float] = []
        self.callers: list[LoadClient] = []
        self._probe = ModernLoadClient(self.port, self.add_violation)
        self._number = 0
        self._room = asyncio.Semaphore(plan.open_calls_max)

    def add_violation(self, words: str) -> None:
        self.account.add_violation(words)

    async def backend(self, slug: str) -> Message:
        report = await self._status()
        found: Message = report["backends"][slug]
        return found

    async def _status(self) -> Message:
        answer = await self._probe.call("gateway_status", {})
        report: Message = json.loads(answer["result"]["content"][0]["text"])
        return report

    async def reload(self, *, broken: bool) -> None:
        wanted = self.stage.change(broken=broken)
        give_up_at = time.monotonic() + RELOAD_SECONDS_MAX
        while wanted != set((await self._status())["backends"]):
            if time.monotonic() > give_up_at:
                self.add_violation(f"no reload within {RELOAD_SECONDS_MAX:g} s")
                return
            await asyncio.sleep(0.05)

    # Load.

    async def open(self, group: asyncio.TaskGroup) -> None:
        """Bring the clients."""
        port, add_violation = self.port, self.add_violation
        self.callers = [
            *(ModernLoadClient(port, add_violation) for _ in range(4)),
            SessionLoadClient(port, add_violation),
            SessionLoadClient(port, add_violation, "2025-06-18"),
            SessionLoadClient(port, add_violation, "2025-03-26"),
            *(SseLoadClient(port, add_violation) for _ in range(2)),
            BareLoadClient(port, add_violation),
        ]
        for caller in self.callers:
            await caller.open(group)

    async def load(self, seconds: float) -> None:
        """Calls at a steady rate, whether or not those before them have ended, as far as the plan
        goes."""
        loop = asyncio.get_running_loop()
        pause = 1 / self.plan.calls_per_second
        began = loop.time()
        servers = list(self.fleet.servers.values())
        async with asyncio.TaskGroup() as group:
            for number in range(int(seconds * self.plan.calls_per_second)):
                await asyncio.sleep(began + number * pause - loop.time())
                caller, server = self.draw.choice(self.callers), self.draw.choice(servers)
                group.create_task(self._call(caller, server))

    async def _call(self, caller: LoadClient, server: LoadServer) -> None:
        if self.account.is_hit(server.slug):
            await self._call_at_once(caller, server)
        else:
            async with self._room:
                await self._call_at_once(caller, server)

    async def _call_at_once(self, caller: LoadClient, server: LoadServer) -> None:
        self._number += 1
        nonce = f"n-{self._number}"
        began = time.monotonic()
        outcome, crossed = await outcome_of(caller, server, nonce)
        self.account.note(
            Call(
                server=server.slug,
                client=caller.kind,
                began=began,
                ended=time.monotonic(),
                outcome=outcome,
                crossed=crossed,
            )
        )

    async def visits(self) -> None:
        """Clients that others have made, one after the other, where they are installed."""
        if real.missing():
            return
        for name in cycle(VISITORS):
            await asyncio.sleep(VISIT_SECONDS)
            await self._visit(name)

    async def _visit(self, name: str) -> None:
        nonces = [f"{name}-{self._number}-{turn}" for turn in range(VISIT_CALLS)]
        steps = [{"do": "call", "name": "steady__echo", "arguments": {"text": n}} for n in nonces]
        url = f"http://127.0.0.1:{self.port}/mcp"
        seen = await asyncio.to_thread(real.client, name, steps, [url])
        told = [real.text(each) for each in real.of(seen, "result")]
        if told == nonces:
            self.account.settle(f"SDK ({name})", len(nonces))
        else:
            self.add_violation(f"{name} saw {seen}")

    # Faults.

    async def trouble(self) -> None:
        """One fault after the other; each of the list once before any comes again."""
        left: list[Fault] = []
        async with asyncio.TaskGroup() as group:
            for _ in range(int(self.plan.seconds / self.plan.fault_seconds)):
                left = left or self.draw.sample(FAULTS, len(FAULTS))
                group.create_task(self._do(left.pop()))
                await asyncio.sleep(self.plan.fault_seconds)

    async def _do(self, fault: Fault) -> None:
        if fault.traits is None:
            self.faults[fault.name] += 1
            await fault.act(self, None)
            return
        able = [
            server
            for server in self.fleet.of(*fault.traits)
            if not self.account.is_hit(server.slug)
        ]
        if not able:
            return
        server = self.draw.choice(able)
        self.faults[fault.name] += 1
        hit = self.account.hit(server.slug, time.monotonic())
        try:
            await fault.act(self, server)
            await self.recover(server, fault.name)
        finally:
            hit.ended = time.monotonic()

    async def recover(self, server: LoadServer, why: str) -> None:
        """Wait until a server is as it was."""
        began, good = time.monotonic(), 0
        caller = ModernLoadClient(self.port, self.add_violation)
        while good < RECOVERED_CALLS:
            self._number += 1
            outcome, _ = await outcome_of(caller, server, f"n-{self._number}")
            good = good + 1 if outcome == GOOD else 0
            if time.monotonic() - began > RECOVERY_SECONDS_MAX:
                self.add_violation(f"{server.slug} did not recover from {why}: {outcome}")
                break
            await asyncio.sleep(0.05)
        caller.rest()
        self.recoveries.append(time.monotonic() - began)

    # What it takes up.

    async def watch(self) -> None:
        """Look at the gateway every second."""
        while True:
            now = await asyncio.to_thread(footprint, self.pid)
            pages = Path(f"/proc/{self.pid}/status").read_text()
            threads = int(pages.partition("Threads:")[2].split()[0])
            self.samples.add(
                time.monotonic(),
                rss=now.rss_bytes / MIB,
                descriptors=len(os.listdir(f"/proc/{self.pid}/fd")),
                processes=now.processes,
                threads=threads,
            )
            await asyncio.sleep(SAMPLE_SECONDS)

    def rest(self) -> None:
        """Keep no connection that is not needed."""
        for caller in (*self.callers, self._probe):
            caller.rest()

    async def settle(self, is_settled: Callable[[Footprint], bool]) -> Footprint:
        """What the gateway takes up once nobody asks anything of it."""
        self.rest()
        give_up_at = time.monotonic() + SETTLE_SECONDS_MAX
        while True:
            now = await asyncio.to_thread(footprint, self.pid)
            if is_settled(now) or time.monotonic() > give_up_at:
                return now
            await asyncio.sleep(0.2)


async def outcome_of(caller: LoadClient, server: LoadServer, nonce: str) -> tuple[str, bool]:
    """How a call ends, and whether it was given the answer of another one."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            answer = await caller.call(f"{server.slug}__{server.tool}", server.arguments(nonce))
    except TimeoutError:
        return "no answer at all", True
    except (OSError, EOFError, asyncio.IncompleteReadError) as error:
        return f"no answer: {type(error).__name__}", True
    if "error" in answer:
        return shape(answer["error"]["message"], server.slug), False
    result = answer["result"]
    if result.get("isError"):
        return shape(result["content"][0]["text"], server.slug), False
    if not server.is_right(result, nonce):
        return f"not the answer to {nonce}: {result}", True
    return GOOD, False


def shape(words: str, slug: str) -> str:
    """What was told, without whom it was about."""
    return re.sub(r"\d+", "N", words.replace(slug, "x"))[:120]


@asynccontextmanager
async def beside(work: Any) -> AsyncIterator[None]:
    """Something that goes on for the time of a block."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work)
        try:
            yield
        finally:
            task.cancel()


async def play(plan: Plan, stage: LoadGateway) -> Outcome:
    """The whole run, from the first call to the last look."""
    run = Run(plan, stage)
    async with asyncio.TaskGroup() as streams:
        await run.open(streams)
        for server in run.fleet.servers.values():
            await run.recover(server, "its start")
        await run.load(plan.warm_seconds)
        await asyncio.sleep(1)
        before = await run.settle(lambda _: True)
        run.account, run.recoveries = FaultAccount(), []
        began = time.monotonic()
        async with beside(run.watch()), asyncio.TaskGroup() as group:
            visits = group.create_task(run.visits())
            load = group.create_task(run.load(plan.seconds))
            group.create_task(run.trouble())
            await load
            visits.cancel()
        seconds = time.monotonic() - began
        for server in run.fleet.servers.values():
            await run.recover(server, "the run")
        if run.stage.reloads % 2:
            await run.reload(broken=False)
        outcome = Outcome(
            plan=plan,
            account=run.account,
            samples=run.samples,
            faults=run.faults,
            before=before,
            after=before,
            seconds=seconds,
            recoveries=run.recoveries,
            lost_events=(await run._status())["gateway"]["event_monitoring"]["lost"],
        )
        outcome.after = await run.settle(lambda now: all(outcome.is_back(now).values()))
        for caller in run.callers:
            await caller.close()
    run.rest()
    return outcome


def run(plan: Plan, folder: Path) -> Outcome:
    """Do it.

    Raises:
        AssertionError: the gateway told a secret.
    """
    with load_servers() as servers:
        stage = LoadGateway(folder, servers)
        try:
            outcome = asyncio.run(play(plan, stage))
            outcome.real_servers = bool(servers.of("real"))
            outcome.exit_code = stage.stop()
        finally:
            stage.kill()
        for line in stage.stderr.splitlines():
            if any(words in line for words in FAULT_WORDS):
                outcome.own_faults[line.decode(errors="replace")[:200]] += 1
        check_secrets(stage.state, stage.canary, stage.stderr)
    return outcome

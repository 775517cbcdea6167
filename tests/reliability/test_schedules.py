"""Whole gateways in simulated worlds: hundreds of seeded schedules, and some written by hand.

`python -m tests.rig.simulation.schedule --count 10000` plays ten thousand, on all cores.
"""

import errno
import gc
import itertools
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from anyport.config.model import GatewayConfig, ServerConfig
from anyport.gateway.calls.call_table import CallTable
from anyport.gateway.calls.leases import Leases
from anyport.gateway.elicitation.server_requests import ServerRequests
from anyport.gateway.recording.call_recorder import CallRecorder
from anyport.upstream.connection import Connection
from tests.rig.scale import measured, scaled
from tests.rig.simulation.call_plan import ELICIT, Plan
from tests.rig.simulation.clients import ALL, Persona
from tests.rig.simulation.environment import Environment
from tests.rig.simulation.loop import BEGINNING
from tests.rig.simulation.network import NetworkConditions
from tests.rig.simulation.scenario import Scenario, Step, draw
from tests.rig.simulation.schedule import complaint, perform, play
from tests.rig.simulation.servers import Traits

CHUNKS: Final = 8
CHUNK: Final = scaled(25, full=1_250)
ROOT: Final = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_whatever_goes_wrong_every_promise_is_kept(chunk: int) -> None:
    outcomes = (play(seed) for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK))
    failed = [complaint(outcome) for outcome in outcomes if outcome.faults]
    assert not failed, "\n".join(failed)
    measured(schedules=CHUNK)


def test_a_seed_is_the_same_run_each_time() -> None:
    for seed in (7, 11, 23):
        assert play(seed).digest == play(seed).digest


def test_a_seed_is_the_same_run_whatever_the_real_machine_is_short_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seeds = (7, 11, 23)
    before = [play(seed).digest for seed in seeds]

    def none_left(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    slow = itertools.count()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 64))
    monkeypatch.setattr(socket, "socket", none_left)
    monkeypatch.setattr(time, "thread_time", lambda: float(next(slow)))
    monkeypatch.setattr(gc, "collect", none_left)
    assert [play(seed).digest for seed in seeds] == before


def test_other_threads_of_the_process_live_on_in_the_real_world() -> None:
    world = Environment("1", NetworkConditions())
    told: list[tuple[float, bytes]] = []

    def look() -> None:
        told.append((time.monotonic(), os.urandom(8)))

    began = time.monotonic()
    with closing(world.loop), world.inside():
        other = threading.Thread(target=look)
        other.start()
        other.join()
        look()
    (there, chance), (here, ours) = told
    assert began <= there <= time.monotonic()
    assert here == BEGINNING
    assert ours == world.chance("urandom").randbytes(8) != chance


@pytest.mark.slow
def test_a_seed_is_the_same_run_in_another_process() -> None:
    code = (
        "from tests.rig.simulation.schedule import play;"
        "print([play(seed).digest for seed in range(9)])"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": chance},
            capture_output=True,
            check=True,
        ).stdout
        for chance in ("1", "2")
    ]
    assert told[0] == told[1]


def test_schedules_are_of_every_kind() -> None:
    scripts = [draw(seed) for seed in range(300)]
    assert {script.sole for script in scripts} == {script.calm for script in scripts}
    assert {script.long for script in scripts} == {script.abrupt for script in scripts}
    kinds = {
        (config.url is None, traits.era) for script in scripts for config, traits in script.servers
    }
    assert len(kinds) == 4
    assert {config.scope for script in scripts for config, _ in script.servers} == {
        *("auto", "shared", "principal", "session", "call")
    }


# What the simulation is for: each of these once went wrong in a drawn schedule.

BARE: Final = Persona(modern=True, revision="", capabilities={}, principal="ann")
MODERN: Final = Persona(modern=True, revision="", capabilities=dict(ALL), principal="ann")
LEGACY: Final = Persona(
    modern=False, revision="2025-11-25", capabilities=dict(ALL), principal="bob"
)


def step(what: str, whom: int = 0, pause: float = 0.0, **more: Any) -> Step:
    if what == "call":
        plan = more.pop("plan", Plan())
        more = {"server": "s0", "plan": plan, "manner": "accept", "traced": True, **more}
    return Step(pause=pause, what=what, whom=whom, more=more)


def script(
    traits: Traits,
    clients: tuple[Persona, ...],
    *steps: Step,
    config: dict[str, Any] | None = None,
    **about: bool,
) -> Scenario:
    """A schedule with one server."""

    def server(slug: str) -> ServerConfig:
        return ServerConfig(
            **{"slug": slug, "name": slug, "command": "sim", "args": (slug,), "cwd": "/"}
            | (config or {})
        )

    return Scenario(
        seed=1,
        weather=NetworkConditions(),
        gateway=GatewayConfig(),
        servers=((server("s0"), traits),),
        spare=(server("spare"), traits),
        clients=clients,
        steps=steps,
        **{"sole": False, "calm": False, "abrupt": False, "long": False} | about,
    )


def perfect(script: Scenario) -> None:
    outcome = perform(script)
    assert not outcome.faults, "\n".join(
        [
            *outcome.faults,
            *(f"{at:.3f} {who} {what} {about}" for at, who, what, about in outcome.notes),
        ]
    )


def test_a_gateway_stops_although_a_call_waits_for_a_server_to_start() -> None:
    slow = Traits(start_seconds=50.0)
    steps = step("call"), step("leap", seconds=1.0)
    perfect(script(slow, (LEGACY,), *steps, abrupt=True))


def test_no_process_is_started_for_a_session_that_ended_before_its_server_had_started() -> None:
    slow = Traits(start_seconds=4.0, probe="is silent")
    steps = step("call"), step("leave", pause=1.0), step("leap", seconds=10.0)
    perfect(script(slow, (LEGACY,), *steps, long=True))


def test_a_call_that_times_out_after_its_question_was_answered_is_parked_no_more() -> None:
    plan = Plan(asks=(ELICIT,), delay=30.0)
    late = {"timeout_seconds": 5.0}
    perfect(script(Traits(), (MODERN,), step("call", plan=plan), config=late, long=True))


def test_a_connection_goes_that_nobody_uses_although_its_server_never_answered_the_probe() -> None:
    mute = Traits(probe="is silent")
    perfect(script(mute, (BARE,), step("call"), config={"scope": "principal"}, long=True))


def test_a_session_that_is_used_outlives_the_gateway_however_short_it_may_be_idle() -> None:
    steps = step("call"), step("leap", seconds=130.0), step("call"), step("restart"), step("call")
    brief = script(Traits(), (LEGACY,), *steps, calm=True)
    perfect(replace(brief, gateway=GatewayConfig(session_idle_seconds=60.0)))


def test_a_client_may_hang_up_while_its_answer_waits_for_a_slow_disk() -> None:
    slow = step("disk", how="slow", seconds=0.5)
    for pause in (0.001, 0.003, 0.006, 0.01):
        calls = (step("call", pause=before, traced=False) for before in (0.0, 0.1, 1.0))
        steps = next(calls), slow, *calls, step("vanish", pause=pause)
        perfect(script(Traits(), (BARE,), *steps, abrupt=True))


def test_a_call_that_is_given_up_at_the_end_is_answered_although_the_disk_is_slow() -> None:
    slow = step("disk", how="slow", seconds=1.0)
    asks = step("call", plan=Plan(asks=(ELICIT,)), manner="never", pause=1.0)
    steps = step("call"), slow, step("call"), asks, step("restart", pause=1.0)
    perfect(script(Traits(), (LEGACY,), *steps))


def test_lists_that_are_read_while_the_only_session_ends_do_no_harm() -> None:
    steps = step("call"), step("grow", pause=1.0)
    for pause in (0.0, 0.0005, 0.001, 0.0015, 0.002):
        leave = step("list", pause=pause)
        perfect(script(Traits(), (LEGACY,), *steps, leave, sole=True, abrupt=True))


def test_a_list_whose_answer_is_lost_with_its_connection_is_asked_for_under_another_id() -> None:
    there = ServerConfig(slug="s0", name="s0", cwd="/", url="http://10.0.0.1:9000/mcp")
    for number in range(20):
        steps = step("call"), step("grow", pause=1.0), step("cut", pause=0.001 * number)
        cut = script(Traits(), (LEGACY,), *steps)
        far = NetworkConditions(latency_seconds=0.01)
        perfect(replace(cut, servers=((there, Traits()),), weather=far))


# A simulation that cannot fail proves nothing.


def faults_of(script: Scenario) -> str:
    return "\n".join(perform(script).faults)


def test_an_answer_that_never_comes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CallTable, "sweep", lambda self, now: None)
    called = step("call", plan=Plan(ending="never"))
    assert "c1 never got an answer to" in faults_of(script(Traits(), (MODERN,), called))


def test_an_answer_that_comes_to_the_wrong_caller_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settles = Connection.receive_result

    def cross(self: Connection, raw: bytes, of: Any = None) -> bool:
        numbers = [number for number, call in self._open.items() if call.method == "tools/call"]
        if len(numbers) == 2:
            one, other = numbers
            self._open[one], self._open[other] = self._open[other], self._open[one]
        return settles(self, raw, of)

    monkeypatch.setattr(Connection, "receive_result", cross)
    both = tuple(step("call", whom, plan=Plan(delay=0.5)) for whom in (0, 1))
    told = faults_of(script(Traits(), (BARE, BARE), *both))
    assert "hears what belongs to client" in told


def test_a_question_that_comes_to_the_wrong_client_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def cause(self: ServerRequests, server: Any, key: Any) -> Any:
        exchanges = self._calls.exchanges_at(server)
        return exchanges[-1] if exchanges else None

    monkeypatch.setattr(ServerRequests, "_causing_exchange", cause)
    asks = step("call", 0, plan=Plan(asks=(ELICIT,), pause=1.0, delay=1.0))
    waits = step("call", 1, plan=Plan(delay=5.0))
    told = faults_of(script(Traits(), (LEGACY, LEGACY), asks, waits))
    assert "hears what belongs to client 1" in told


def test_what_is_left_behind_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Leases, "forget", lambda self, session: None)
    told = faults_of(script(Traits(), (LEGACY,), step("call"), long=True))
    assert "keys of sessions are left when everybody has gone" in told


def test_a_call_that_is_noted_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    end = CallRecorder.record_ending

    def twice(self: CallRecorder, *args: Any) -> None:
        end(self, *args)
        end(self, *args)

    monkeypatch.setattr(CallRecorder, "record_ending", twice)
    assert "the journal has 2 endings" in faults_of(script(Traits(), (MODERN,), step("call")))


def test_a_failure_says_how_to_see_it_again() -> None:
    outcome = play(5)
    outcome.faults.append("at 1.000: c1 never got an answer")
    assert "python -m tests.rig.simulation.schedule 5\n" in complaint(outcome)

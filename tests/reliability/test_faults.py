"""Servers that die, hang, flap and refuse to go: what the gateway makes of it.

Every figure is there twice: what a busy machine can prove on every commit, and what is proved in
full on one of its own.
"""

import os
import random
import signal
import time
from collections.abc import Iterator
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Final

import pytest

from anyport.upstream.backoff import DELAY_SECONDS_MAX, Backoff
from tests.harness import gateway, read_events
from tests.journeys.scripts import Scripted, eventually, result, rule, tools
from tests.rig.scale import measured, scaled
from tests.rig.small_servers import (
    ECHO,
    FAMILY,
    FAMILY_SIZE,
    descendants,
    open_descriptors,
    patient,
    python,
    status,
    text_of,
    tool_names,
    wait_for_tools,
)
from tests.upstream.processes import marked, new_mark

CALLS_IN_FLIGHT: Final = 1000
SERVERS: Final = 20
LATER_LISTS: Final = 4
"""A busy machine may be late with one of them by chance, but not with each."""
FAMILIES: Final = 10
GATEWAY_KILLS: Final = scaled(3, full=100)
RESTARTS: Final = scaled(15, full=1_000)
TOLD_SECONDS_MAX: Final = scaled(30.0, full=1.0)
WELL_SECONDS_MAX: Final = scaled(30.0, full=3.0)
GONE_SECONDS_MAX: Final = scaled(30.0, full=5.5)
SURVIVORS_SECONDS_MAX: Final = scaled(30.0, full=3.0)
LIST_SECONDS_MAX: Final = scaled(30.0, full=2.5)
READY_SECONDS_MAX: Final = scaled(30.0, full=5.0)
SPAWNS_MAX: Final = 12
FLAPPING_SECONDS: Final = 300.0
REPAIR_SECONDS_MAX: Final = 60.0


@pytest.mark.slow
def test_every_caller_of_a_killed_server_is_told_and_the_next_call_works(tmp_path: Path) -> None:
    server = Scripted(
        tmp_path / "server",
        tools("hang", "echo"),
        rule("tools/call", where={"name": "hang"}),
        rule("tools/call", result({"content": []})),
    )
    argv = server.command
    victim = {"command": argv[0], "args": argv[1:], "retry": "never"}
    with patient(tmp_path, {"victim": victim}) as client:
        client.initialize()
        assert tool_names(client) == {"victim__hang", "victim__echo"}
        before = status(client)["backends"]["victim"]
        calls = [
            client.start("tools/call", {"name": "victim__hang"}) for _ in range(CALLS_IN_FLIGHT)
        ]
        client.request("ping")  # All of them are in the gateway now.

        os.kill(before["pid"], signal.SIGKILL)

        killed = time.monotonic()
        for call in calls:
            error = client.answer(call)["error"]
            assert error["code"] == -32000
            assert error["message"].startswith("Server 'victim' is not running: killed by SIGKILL")
        told = time.monotonic() - killed
        eventually(lambda: status(client)["backends"]["victim"]["status"] == "running", "respawn")
        assert "result" in client.call("victim__echo")
        well = time.monotonic() - killed
        measured(in_flight=CALLS_IN_FLIGHT, all_told_seconds=told, well_again_seconds=well)
        assert told <= TOLD_SECONDS_MAX
        assert well <= WELL_SECONDS_MAX
        after = status(client)["backends"]["victim"]
        assert after["restarts"] == 1
        assert after["pid"] != before["pid"]
        gateway_pid = client.process.pid
        eventually(lambda: b"Z" not in descendants(gateway_pid).values(), "no zombies")
        assert client.finish() == 0
    answered = [message["id"] for message in client.seen if "id" in message]
    assert len(answered) == len(set(answered))


def test_a_call_that_comes_right_after_the_kill_gets_an_answer(tmp_path: Path) -> None:
    with patient(tmp_path, {"victim": python(ECHO)}) as client:
        client.initialize()
        assert text_of(client.call("victim__echo")) == "here"
        os.kill(status(client)["backends"]["victim"]["pid"], signal.SIGKILL)

        answers = [client.call("victim__echo") for _ in range(50)]

        for answer in answers:
            assert "result" in answer or "killed by SIGKILL" in answer["error"]["message"]


def spawn_times(chances: Iterator[float]) -> Iterator[float]:
    """When a server that exits at once is started, the second start for the probe included."""
    backoff, now = Backoff(), 0.0
    yield now  # The first life takes two processes: one may have died of the probe alone.
    while True:
        yield now
        now += backoff.delay(None, next(chances))


@pytest.mark.parametrize("seed", range(20))
def test_a_server_that_exits_at_once_is_not_started_all_the_time(seed: int) -> None:
    draw = random.Random(seed)
    times = spawn_times(iter(draw.random, None))

    spawns = list(takewhile(lambda at: at < FLAPPING_SECONDS, times))

    assert len(spawns) <= SPAWNS_MAX


def test_a_server_that_exits_at_once_is_never_given_up() -> None:
    draw = random.Random(1)
    times = spawn_times(iter(draw.random, None))
    spawns = [next(times) for _ in range(1000)]

    gaps = [later - sooner for sooner, later in pairwise(spawns)]

    assert max(gaps) <= REPAIR_SECONDS_MAX == DELAY_SECONDS_MAX
    assert max(gaps[10:]) - min(gaps[10:]) >= 0.1 * DELAY_SECONDS_MAX


def test_servers_that_died_together_do_not_return_together() -> None:
    for failures in range(1, 10):
        early, late = Backoff(failures), Backoff(failures)

        assert early.delay(None, 1.0) <= 0.9 * late.delay(None, 0.0)


@pytest.mark.slow
def test_a_flapping_server_is_back_once_it_is_repaired(tmp_path: Path) -> None:
    repaired = tmp_path / "repaired"
    starts = tmp_path / "starts"
    source = (
        f"import os\nwith open({str(starts)!r}, 'a') as file: file.write('.')\n"
        f"if not os.path.exists({str(repaired)!r}): raise SystemExit(7)\n{ECHO}"
    )
    with gateway(tmp_path, {"flapping": python(source), "steady": python(ECHO)}) as client:
        client.initialize()
        wait_for_tools(client, {"steady__echo"})
        # Two for the probe in the first life, then one a life: 1 s, then 3 s.
        eventually(lambda: starts.stat().st_size >= 3, "it is started again")
        down = status(client)["backends"]["flapping"]
        assert down["status"] in ("failed", "starting")
        assert "exit code 7" in down["last_error"]
        assert text_of(client.call("steady__echo")) == "here"

        repaired.touch()

        wait_for_tools(client, {"flapping__echo", "steady__echo"})
        assert text_of(client.call("flapping__echo")) == "here"
        assert starts.stat().st_size <= SPAWNS_MAX


@pytest.mark.slow
def test_a_server_that_will_not_go_is_gone_with_its_whole_family(tmp_path: Path) -> None:
    mark = new_mark()
    command, *args = python(FAMILY, "stubborn")
    family = {"command": command, "args": args, "env": {"MARK": mark}}
    with patient(tmp_path, {"family": family}) as client:
        client.initialize()
        assert text_of(client.call("family__echo")) == "here"
        assert len(marked(mark)) == FAMILY_SIZE

        began = time.monotonic()
        assert client.finish() == 0

        # Four of them are the graces that a server is given.
        assert time.monotonic() - began < GONE_SECONDS_MAX
        measured(seconds=time.monotonic() - began)
        assert marked(mark) == set()


@pytest.mark.slow
def test_nobody_survives_a_killed_gateway(tmp_path: Path) -> None:
    longest = 0.0
    for attempt in range(GATEWAY_KILLS):
        mark = new_mark()
        command, *args = python(FAMILY, "stubborn")
        family = {"command": command, "args": args, "env": {"MARK": mark}}
        servers = {f"family{number}": family for number in range(FAMILIES)}
        with patient(tmp_path / str(attempt), servers) as client:
            client.initialize()
            wait_for_tools(client, {f"{name}__echo" for name in servers})
            eventually(lambda: len(marked(mark)) == FAMILIES * FAMILY_SIZE, "all are there")  # noqa: B023
            below = set(descendants(client.process.pid))

            client.process.send_signal(signal.SIGKILL)

            killed = time.monotonic()
            eventually(lambda: not marked(mark), "no survivors")  # noqa: B023
            longest = max(longest, time.monotonic() - killed)
            eventually(
                lambda: not any(os.path.exists(f"/proc/{pid}") for pid in below),  # noqa: B023
                "no keepers",
            )
    measured(kills=GATEWAY_KILLS, longest_seconds=longest)
    assert longest <= SURVIVORS_SECONDS_MAX


@pytest.mark.slow
def test_servers_that_come_and_go_leave_nothing_behind(tmp_path: Path) -> None:
    mark = new_mark()
    command, *args = python(FAMILY)
    family = {"command": command, "args": args, "env": {"MARK": mark}}
    with patient(tmp_path, {"family": family}) as client:
        pid = client.process.pid

        def start_again() -> None:
            client.initialize()  # A new session has servers of its own; the old ones go.
            assert text_of(client.call("family__echo")) == "here"
            eventually(lambda: len(marked(mark)) == FAMILY_SIZE, "the old ones are gone")

        def settled() -> bool:
            """The family, its keeper and the reaper; a zombie would be one more."""
            return len(descendants(pid)) == FAMILY_SIZE + 2

        start_again()
        eventually(settled, "one family")
        descriptors = open_descriptors(pid)
        for _ in range(RESTARTS):
            start_again()
        measured(restarts=RESTARTS)

        eventually(settled, "one family still")
        eventually(lambda: open_descriptors(pid) <= descriptors, "as many descriptors as before")
        assert client.finish() == 0
    assert marked(mark) == set()


@pytest.mark.slow
def test_a_server_that_hangs_on_its_list_delays_one_list_once(tmp_path: Path) -> None:
    hanging = Scripted(tmp_path / "hanging", rule("tools/list"))
    servers = {f"good{number}": python(ECHO) for number in range(1, SERVERS)}
    with gateway(tmp_path, {"hanging": hanging.command, **servers}) as client:
        client.initialize()
        hanging.wait_heard("tools/list")

        began = time.monotonic()
        tool_names(client)
        waited = time.monotonic() - began
        assert waited <= LIST_SECONDS_MAX
        measured(servers=SERVERS, first_list_seconds=waited)
        wait_for_tools(client, {f"{name}__echo" for name in servers})
        later = []
        for _ in range(LATER_LISTS):
            began = time.monotonic()
            assert tool_names(client) == {f"{name}__echo" for name in servers}
            later.append(time.monotonic() - began)
        assert min(later) < waited / 2, "later lists waited as well"

        report = status(client)["backends"]
        assert report["hanging"]["tool_count"] == 0
        assert report["hanging"]["warnings"] == ["it has not listed its offers yet"]
        assert all("warnings" not in report[name] for name in servers)
        assert text_of(client.call("good1__echo")) == "here"


@pytest.mark.slow
def test_servers_that_are_down_or_slow_at_the_start_hold_up_nobody(tmp_path: Path) -> None:
    missing = {f"missing{number}": ["/nowhere/server"] for number in range(SERVERS // 4)}
    broken = {f"broken{number}": python("raise SystemExit(3)") for number in range(SERVERS // 4)}
    good = {f"good{number}": python(ECHO) for number in range(SERVERS // 2 - 1)}
    gate = tmp_path / "gate"
    wait = f"while not os.path.exists({str(gate)!r}): time.sleep(0.02)"
    slow = python(f"import os, time\n{wait}\n{ECHO}")
    with gateway(tmp_path, {**missing, **broken, "slow": slow, **good}) as client:
        client.initialize()
        assert not [message for message in client.seen if "method" in message]
        began = time.monotonic()
        wait_for_tools(client, {f"{name}__echo" for name in good})
        assert time.monotonic() - began <= READY_SECONDS_MAX
        measured(servers=SERVERS, ready_seconds=time.monotonic() - began)
        report = status(client)["backends"]
        assert report["slow"]["status"] == "starting"
        assert report["slow"]["last_error"] is None
        reasons = {report[name]["last_error"] for name in missing}
        assert reasons == {"command 'server' does not exist"}
        assert {report[name]["last_error"] for name in broken} == {"exit code 3"}

        gate.touch()  # It has taken longer than the probe and a list wait.

        wait_for_tools(client, {"slow__echo", *(f"{name}__echo" for name in good)})
        assert text_of(client.call("slow__echo")) == "here"
        assert client.finish() == 0
    failed = {
        event["metadata"]["server"]
        for event in read_events(tmp_path / "state")
        if event["event_type"] == "gateway.backend_failed"
    }
    assert failed == {*missing, *broken}


def test_a_call_that_waits_for_a_starting_server_is_answered_after_the_input_has_ended(
    tmp_path: Path,
) -> None:
    late = python(f"import time; time.sleep(0.5)\n{ECHO}")
    with patient(tmp_path, {"late": late}) as client:
        call = client.start("tools/call", {"name": "late__echo"})

        assert client.finish() == 0

        assert text_of(client.answer(call)) == "here"


def test_a_call_that_waits_for_a_server_that_never_starts_is_answered_with_the_reason(
    tmp_path: Path,
) -> None:
    with patient(tmp_path, {"gone": python("raise SystemExit(9)")}) as client:
        client.initialize()
        call = client.start("tools/call", {"name": "gone__echo"})
        assert client.finish() == 0

        message = client.answer(call)["error"]["message"]
        assert message == "Server 'gone' is not running: exit code 9"


def test_servers_are_asked_to_go_before_they_are_made_to(tmp_path: Path) -> None:
    farewell = tmp_path / "farewell"
    polite = python(ECHO + f"open({str(farewell)!r}, 'w').write('goodbye')\n")
    with patient(tmp_path, {"polite": polite}) as client:
        client.initialize()
        assert text_of(client.call("polite__echo")) == "here"

        assert client.finish() == 0

    assert farewell.read_text() == "goodbye"
    kinds = [event["event_type"] for event in read_events(tmp_path / "state")]
    assert kinds.count("gateway.backend_stopped") == 1


def test_calls_of_a_session_that_was_replaced_are_answered(tmp_path: Path) -> None:
    server = Scripted(tmp_path / "server", tools("hang"), rule("tools/call"))
    with patient(tmp_path, {"old": server.command}) as client:
        client.initialize()
        assert tool_names(client) == {"old__hang"}
        call = client.start("tools/call", {"name": "old__hang"})
        server.wait_heard("tools/call")

        client.initialize()

        message = client.answer(call)["error"]["message"]
        assert message == "Server 'old' is not running: the session it belonged to has ended"
        assert tool_names(client) == {"old__hang"}
        eventually(lambda: server.starts == 2, "the new session has a server of its own")

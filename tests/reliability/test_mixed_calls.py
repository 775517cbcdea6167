"""Every call, whatever becomes of it, is in the journal once, and in the trace of its client.

The figure in full is on a machine of its own; a busy one proves a part of it on every commit.
"""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from anyport.gateway.calls.call_table import SWEEP_SECONDS
from anyport.gateway.calls.deadline import SLOW_CALL_SECONDS
from tests.harness import LineClient, Message
from tests.journeys.scripts import Scripted, failure, gateway, note, result, rule, text, tools
from tests.rig.scale import scaled
from tests.rig.small_servers import tool_names

CALLS: Final = scaled(2_000, full=100_000)
OPEN_CALLS: Final = 250
TIMEOUT_SECONDS: Final = 3.0
"""Long enough for a start to be noted, even if the machine is late by two seconds."""
SHARES: Final = {
    "ok": 16,
    "again": 16,
    "steps": 4,
    "is-error": 4,
    "refused": 4,
    "unknown": 2,
    "cancelled": 2,
    "timed-out": 1,
    "crashed": 1,
}
"""What happens to calls, and to how many of fifty. Those made `again` name no trace."""
STATUSES: Final = {
    "is-error": "failure",
    "refused": "failure",
    "unknown": "failure",
    "cancelled": "cancelled",
    "timed-out": "timeout",
    "crashed": "failure",
}
"""How their records must end; all others end with success."""
OUTCOMES: Final = {
    "is-error": "tool_error",
    "refused": "server_error",
    "unknown": "gateway_error",
    "cancelled": "cancelled",
    "timed-out": "timeout",
    "crashed": "gateway_error",
}
OWNERS: Final = {"crashed": "frail", "timed-out": "mute", "cancelled": "mute"}
REPORT: Final = '{"progressToken":$token,"progress":%d}'


def servers(path: Path) -> dict[str, Scripted]:
    """One that answers in every way, one that never does, and one that dies of it."""
    reports = [note("notifications/progress", REPORT % step) for step in (1, 2)]
    good = (
        tools("ok", "again", "steps", "is-error", "refused"),
        rule("tools/call", result({**text("no"), "isError": True}), where={"name": "is-error"}),
        rule("tools/call", failure({"code": -5, "message": "no"}), where={"name": "refused"}),
        rule("tools/call", *reports, result(text("ok")), where={"name": "steps"}),
        rule("tools/call", result(text("ok"))),
    )
    mute = (tools("cancelled", "timed-out"), rule("tools/call"))
    frail = (tools("crashed"), rule("tools/call", exit=3))
    return {
        name: Scripted(path, *rules, name=name)
        for name, rules in {"good": good, "mute": mute, "frail": frail}.items()
    }


def traceparent(number: int) -> str:
    """A trace of its own for each number."""
    return f"00-{number:032x}-{number:016x}-01"


def cases() -> Iterator[tuple[int, str]]:
    """What is to happen to each call, in turns."""
    turn = [case for case, share in SHARES.items() for _ in range(share)]
    random.Random(20260728).shuffle(turn)
    return ((number, turn[number % len(turn)]) for number in range(1, CALLS + 1))


def call(client: LineClient, number: int, case: str) -> None:
    """Make a call, and give it up if that is its case."""
    about: Message = {} if case == "again" else {"traceparent": traceparent(number)}
    if case == "steps":
        about["progressToken"] = number
    params: Message = {"name": f"{OWNERS.get(case, 'good')}__{case}", "arguments": {"n": number}}
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call"}
    params |= {"_meta": about} if about else {}
    client.send(json.dumps({**message, "params": params}, separators=(",", ":")).encode() + b"\n")
    if case == "cancelled":
        client.notify("notifications/cancelled", {"requestId": number})


def make_calls(client: LineClient) -> None:
    """Make them all, so many at a time, and see that each has its answer."""
    owed: set[int] = set()
    for number, case in cases():
        call(client, number, case)
        if case != "cancelled":
            owed.add(number)
        while len(owed) >= OPEN_CALLS:
            take_answer(client, owed)
    while owed:
        take_answer(client, owed)


def take_answer(client: LineClient, owed: set[int]) -> None:
    message = client.next()
    if "method" not in message:
        assert message["id"] in owed, message
        owed.remove(message["id"])


class Event(msgspec.Struct, frozen=True):
    """What of an event is looked at here."""

    trace_id: str
    status: str
    event_type: str
    metadata: dict[str, Any]
    duration_ms: float = 0.0


def tool_calls(state: Path) -> Iterator[Event]:
    """The events of calls, one by one: there may be many."""
    for file in sorted((state / "events").glob("*/events*.jsonl")):
        with file.open("rb") as lines:
            for line in lines:
                event = msgspec.json.decode(line, type=Event)
                if event.event_type == "gateway.tool_call":
                    yield event


@pytest.mark.slow
def test_every_call_is_in_the_journal_once_and_in_the_trace_of_its_client(tmp_path: Path) -> None:
    behind = servers(tmp_path / "servers")
    config: Message = {}
    for name, server in behind.items():
        command, *args = server.command
        # What is never answered is called on all the same.
        mute = {"timeout": TIMEOUT_SECONDS, "breaker": False} if name == "mute" else {}
        config[name] = {"command": command, "args": args, **mute}
    with gateway(tmp_path, config, record={"capture": "shape"}) as client:
        client.initialize()
        assert len(tool_names(client)) == 8
        make_calls(client)
        assert client.finish() == 0

    wanted = {f"{number:032x}": case for number, case in cases() if case != "again"}
    traced: dict[str, list[Event]] = defaultdict(list)
    repeated: list[Event] = []
    for event in tool_calls(tmp_path / "state"):
        again = event.metadata.get("public_name") == "good__again"
        (repeated if again else traced[event.trace_id]).append(event)
    assert traced.keys() == wanted.keys()
    spans = {}
    for trace_id, case in wanted.items():
        ended = check_call(traced[trace_id], case)
        assert ended.metadata["parent_span_id"] == trace_id[16:]
        spans[trace_id] = ended.metadata["span_id"]
    assert check_repeated(repeated) == CALLS - len(wanted)
    for name in ("good", "mute"):
        check_heard(behind[name], wanted, spans)


def check_call(events: list[Event], case: str) -> Event:
    """One ending as it must be; and one start if it took long, none if it did not."""
    starts = [event for event in events if event.status == "pending"]
    (ended,) = [event for event in events if event.status != "pending"]
    about = ended.metadata
    assert ended.status == STATUSES.get(case, "success"), case
    assert about.get("outcome", "ok") == OUTCOMES.get(case, "ok"), case
    check_starts(starts, ended)
    assert about["params_shape"] == '{"n":n}'
    assert about.get("queue_ms", 0.0) + about.get("server_ms", 0.0) <= ended.duration_ms + 0.001
    if case == "steps":
        assert len(about["frames"]) == 2
    return ended


def check_starts(starts: list[Event], ended: Event) -> None:
    seconds = ended.duration_ms / 1000
    assert len(starts) <= 1
    assert all(start.metadata["span_id"] == ended.metadata["span_id"] for start in starts)
    assert not starts or seconds >= SLOW_CALL_SECONDS
    # The machine may be late by a turn; of what times out nothing else decides.
    assert starts or seconds < SLOW_CALL_SECONDS + 2 * SWEEP_SECONDS or ended.status != "timeout"


def check_repeated(events: list[Event]) -> int:
    """Calls without a trace of their client's have each one of their own."""
    ended = [event for event in events if event.status != "pending"]
    by_trace = Counter(event.trace_id for event in ended)
    assert set(by_trace.values()) <= {1}
    shapes = {(event.status, event.metadata["params_shape"]) for event in ended}
    assert shapes == {("success", '{"n":n}')}
    assert all("parent_span_id" not in event.metadata for event in ended)
    assert len({event.metadata["params_hash"] for event in ended}) == len(ended)
    return len(ended)


def check_heard(server: Scripted, wanted: dict[str, str], spans: dict[str, str]) -> None:
    """What the server heard of traces is what the journal says."""
    heard: Counter[str] = Counter()
    for message in server.heard("tools/call"):
        about = message["params"].get("_meta", {})
        if "traceparent" not in about:
            assert message["params"]["name"] == "again"
            continue
        _, trace_id, span_id, _ = about["traceparent"].split("-")
        assert wanted[trace_id] == message["params"]["name"]
        assert span_id == spans[trace_id]
        heard[trace_id] += 1
    assert set(heard.values()) == {1}
    missing = [
        case
        for trace_id, case in wanted.items()
        if OWNERS.get(case, "good") == server.log.stem and trace_id not in heard
    ]
    # What was given up at once need not have got there, and what nobody has cannot.
    assert set(missing) <= {"cancelled", "unknown"}

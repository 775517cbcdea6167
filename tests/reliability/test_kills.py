"""Gateways killed at random under load: the journal has all that was answered, and proves it.

Every figure is there twice: what a busy machine can prove on every commit, and what is proved in
full on one of its own.
"""

import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from anyport.record.journal.segments import segments
from anyport.record.tamper.verify import ExternalEvidence, VerificationReport, verify
from tests.harness import LineClient, Message, write_config
from tests.rig.scale import measured, scaled
from tests.rig.small_servers import ECHO, PATIENCE_SECONDS, python, text_of

KILLS: Final = scaled(24, full=200)
ROUND_KILLS: Final = 4
"""Three gateways that share a state directory, and one that comes right after them."""
LOAD_CALLS: Final = scaled(250, full=500)


class Gateways:
    """Gateways that share their servers' configuration and the state directory."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        waits = {"listSeconds": PATIENCE_SECONDS}
        self._config = write_config(folder, {"s": python(ECHO)}, gateway=waits)

    @contextmanager
    def started(self) -> Iterator[LineClient]:
        argv = [sys.executable, "-m", "anyport", "stdio", "--config", str(self._config)]
        client = LineClient([*argv, "--state-dir", str(self.state)])
        try:
            client.initialize()
            yield client
        finally:
            client.kill()

    def verified(self) -> VerificationReport:
        """The journal, which must be good but for what a kill can leave of a line."""
        report = verify(self.state, ExternalEvidence())
        assert report.faults == ()
        return report

    def endings(self) -> dict[str, list[str]]:
        """How each call ended, by trace; a part of a line is none."""
        found = defaultdict(list)
        for path in segments(self.state / "events"):
            for line in path.read_bytes().splitlines():
                event = whole(line)
                if event.get("event_type") == "gateway.tool_call" and event["status"] != "pending":
                    found[event["trace_id"]].append(event["status"])
        return found


def whole(line: bytes) -> Message:
    """The event in a line, which may follow on what a kill left of another; {} if there is none."""
    for start in (0, line.rfind(b'{"timestamp":"')):
        try:
            event: Message = json.loads(line[start:])
        except ValueError:
            continue
        return event
    return {}


def load(client: LineClient, first: int) -> None:
    """Many calls at once, each with a trace of its own."""
    for number in range(first, first + LOAD_CALLS):
        meta = {"traceparent": f"00-{number:032x}-{number:016x}-01"}
        client.start("tools/call", {"name": "s__echo", "_meta": meta}, id=number)


def drain(client: LineClient) -> set[str]:
    """The traces of all calls that a killed gateway has answered."""
    try:
        while True:
            client.next()
    except (EOFError, json.JSONDecodeError):  # A last line may be cut short.
        pass
    return {f"{m['id']:032x}" for m in client.seen if type(m.get("id")) is int and "result" in m}


@pytest.mark.slow
def test_no_event_of_an_answered_call_is_lost_when_gateways_are_killed(tmp_path: Path) -> None:
    draw = random.Random(20260728)
    gateways = Gateways(tmp_path)
    answered: set[str] = set()
    writers = 0
    for kill in range(0, KILLS, ROUND_KILLS):
        with gateways.started() as one, gateways.started() as two, gateways.started() as three:
            clients = [one, two, three]
            for place, client in enumerate(clients):
                load(client, (kill + place) * LOAD_CALLS + 1)
            for client in draw.sample(clients, len(clients)):
                for _ in range(draw.randrange(LOAD_CALLS)):
                    client.next()
                client.kill()
            seen = drain(one) | drain(two) | drain(three)
        answered |= seen
        report = gateways.verified()
        assert report.writers > writers
        writers = report.writers
        # The fourth comes after them, is asked at once, and dies as well.
        with gateways.started() as client:
            if seen:
                trace = min(seen)
                events = json.loads(text_of(client.call("get_events", {"trace_id": trace})))
                assert "success" in {event["status"] for event in events}
            load(client, (kill + 3) * LOAD_CALLS + 1)
            for _ in range(draw.randrange(LOAD_CALLS)):
                client.next()
            client.kill()
            answered |= drain(client)
    report = gateways.verified()
    assert report.writers == -(-KILLS // ROUND_KILLS) * ROUND_KILLS
    endings = gateways.endings()
    assert len(answered) > KILLS
    measured(kills=KILLS, answered=len(answered), lost=0)
    for trace in answered:
        assert endings[trace] == ["success"]

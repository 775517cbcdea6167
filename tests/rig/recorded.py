"""What a gateway has recorded, and what it says of its record."""

import json
import time
from pathlib import Path
from typing import Any

from anyport.record.journal.segments import segments
from tests.harness import WAIT_SECONDS, LineClient
from tests.rig.small_servers import status


def monitoring(client: LineClient) -> dict[str, Any]:
    """What `gateway_status` says of the journal."""
    told: dict[str, Any] = status(client)["gateway"]["event_monitoring"]
    return told


def recovered(client: LineClient) -> float:
    """How long it takes from now until the journal can be written."""
    began = time.monotonic()
    while not monitoring(client)["enabled"]:
        assert time.monotonic() - began < WAIT_SECONDS
        time.sleep(0.05)
    return time.monotonic() - began


def noted(state: Path, kind: str) -> list[dict[str, Any]]:
    """All events of one kind, in every file of the journal."""
    lines = [line for file in segments(state / "events") for line in file.read_bytes().splitlines()]
    events = [json.loads(line) for line in lines if line]
    return [event for event in events if event["event_type"] == kind]


def calls_of(state: Path, tool: str) -> list[dict[str, Any]]:
    """The calls of one tool that are on record, each told once."""
    calls = noted(state, "gateway.tool_call")
    return [
        call for call in calls if call["metadata"]["tool"] == tool and call["status"] != "pending"
    ]

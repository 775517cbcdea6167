"""Made-up traffic, as the gateway records it: events of the journal, and lines of side files."""

import json
from pathlib import Path
from typing import Any, Final

from anyport.record.journal.payloads import PayloadReader
from anyport.record.traffic import Detail, build_detail, row_of
from tests.record.story import ONE

SPAN: Final = "00f067aa0ba902b7"
MOMENT: Final = "2026-07-28T12:00:00.250000+00:00"
PAYLOAD_FILE: Final = "2026-07-28/12-1f3a9c0e-0"


def exchange(**changes: Any) -> dict[str, Any]:
    """A call between the eras, captured in full; members of its metadata by keyword.

    Those of the event itself are given as `event={...}`.
    """
    metadata = {
        "span_id": SPAN,
        "profile": "dev",
        "server": "github",
        "tool": "create_issue",
        "public_name": "github__create_issue",
        "session": "s1",
        "method": "tools/call",
        "client": "cursor-vscode 1.0.0",
        "principal": "alice",
        "client_revision": "2025-06-18",
        "client_transport": "streamable-http",
        "server_revision": "2026-07-28",
        "server_transport": "streamable-http",
        "queue_ms": 2.5,
        "server_ms": 200.0,
        "params_bytes": 61,
        "sent_bytes": 75,
        "answer_bytes": 120,
        "result_bytes": 118,
        "params_shape": '{"name":s,"arguments":{"title":s}}',
        "result_shape": '{"content":[{"type":s,"text":s}]}',
        "params_hash": "0123456789abcdef",
        "result_hash": "fedcba9876543210",
        "frames": ["12.345 server-notification notifications/progress 118"],
        "payload_file": PAYLOAD_FILE,
    }
    event = changes.pop("event", {})
    metadata |= changes
    return {
        "timestamp": MOMENT,
        "trace_id": ONE,
        "status": "success",
        "schema_version": "1.0",
        "event_type": "gateway.tool_call",
        "source": "anyport",
        "metadata": {key: value for key, value in metadata.items() if value is not None},
        "duration_ms": 231.5,
        **event,
    }


def frame(**changes: Any) -> dict[str, Any]:
    """A notification that belongs to no exchange."""
    metadata = {
        "span_id": "00000000000000aa",
        "kind": "server-notification",
        "side": "server",
        "method": "notifications/tools/list_changed",
        "bytes": 2,
        "shape": "{}",
        "hash": "aaaaaaaaaaaaaaaa",
        "server": "github",
        **changes,
    }
    return {
        "timestamp": MOMENT,
        "trace_id": ONE,
        "status": "success",
        "schema_version": "1.0",
        "event_type": "gateway.frame",
        "source": "anyport",
        "metadata": metadata,
    }


def payload_line(span_id: str = SPAN, *, secret: str = "hello", principal: str = "alice") -> bytes:
    """What was said in a call, with something to look for in it."""
    params = {"name": "create_issue", "arguments": {"title": secret}}
    result = {"content": [{"type": "text", "text": f"made {secret}"}]}
    frames = [
        {"kind": "request", "side": "client", "ms": 0.0, "method": "tools/call", "payload": params},
        {"kind": "request", "side": "server", "ms": 3.0, "method": "tools/call", "same": True},
        {
            "kind": "server-notification",
            "side": "server",
            "ms": 12.345,
            "method": "notifications/progress",
            "payload": {"progress": 1},
        },
        {"kind": "response", "side": "server", "ms": 203.0, "payload": result},
        {"kind": "response", "side": "client", "ms": 231.5, "same": True},
    ]
    line = {"span_id": span_id, "timestamp": MOMENT, "principal": principal, "frames": frames}
    return json.dumps(line, separators=(",", ":")).encode()


def write_events(state_dir: Path, *events: dict[str, Any], month: str = "2026-07") -> Path:
    """Append events to the journal, each with its place in a chain."""
    folder = state_dir / "events" / month
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "events.jsonl"
    seq = len(path.read_bytes().splitlines()) if path.exists() else 0
    with path.open("a") as file:
        for at, event in enumerate(events, seq + 1):
            chained = {**event, "writer": "1f3a9c0e", "seq": at, "hash": f"{at:032x}"}
            file.write(json.dumps(chained, separators=(",", ":")) + "\n")
    return path


def write_payloads(state_dir: Path, *lines: bytes, file: str = PAYLOAD_FILE) -> Path:
    """Append lines to a side file."""
    path = state_dir / "payloads" / f"{file}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as opened:
        opened.writelines(line + b"\n" for line in lines)
    return path


def detail_of(state_dir: Path, event: dict[str, Any]) -> Detail:
    """The row of an event, with the payloads that are kept of it."""
    row = row_of(event)
    assert row is not None
    with PayloadReader(state_dir) as payload_reader:
        return build_detail(row, json.dumps(event).encode(), payload_reader)


def find_payload(state_dir: Path, file: str, span_id: str) -> bytes | None:
    """The payload line of one exchange."""
    with PayloadReader(state_dir) as payload_reader:
        return payload_reader.read_line(file, span_id) or None

"""Made-up recordings, as `anyport export` has them."""

from typing import Any

import msgspec

from anyport.record.traffic import Detail

MOMENT = "2026-07-28T12:00:00.250000+00:00"


def said(kind: str, side: str, payload: Any = None, **more: Any) -> dict[str, Any]:
    """A frame; `error=` or `same=True` in place of a payload."""
    frame = {"kind": kind, "side": side, "ms": 0.0, "method": "tools/call", **more}
    return frame if payload is None else {**frame, "payload": payload}


def called(
    name: str = "add", arguments: Any = None, result: Any = None, side: str = "server"
) -> list[dict[str, Any]]:
    """A call and its answer on one side."""
    params = {"name": name, "arguments": arguments or {}}
    return [said("request", side, params), said("response", side, result or {"content": []})]


def detail(*frames: dict[str, Any], **row: Any) -> Detail:
    """An exchange with these frames; members of the row by keyword."""
    made = {
        "id": "00000000000000a1",
        "timestamp": MOMENT,
        "trace_id": "1",
        "kind": "exchange",
        "status": "success",
        "method": "tools/call",
        "server": "tiny",
        "profile": "default",
        "payload_file": "2026-07-28/12-0-0",
        "client": {"session": "s1", "revision": "2025-11-25"},
        "upstream": {"server": "tiny", "revision": "2025-11-25"},
    }
    return msgspec.convert({"row": made | row, "frames": raw(frames)}, Detail)


def raw(frames: Any) -> list[dict[str, Any]]:
    """Frames whose payloads are bytes."""
    return [
        {
            key: msgspec.Raw(msgspec.json.encode(value)) if key in ("payload", "error") else value
            for key, value in frame.items()
        }
        for frame in frames
    ]

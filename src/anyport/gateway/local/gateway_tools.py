"""The gateway's own tools: `gateway_status` and `get_events`, as clients see them listed."""

from typing import Final

import msgspec

from anyport.catalog.catalog import CatalogEntry
from anyport.record.event import FINAL_STATUSES
from anyport.wire import raw_json

EVENTS_LIMIT_DEFAULT: Final = 100
EVENTS_LIMIT_MAX: Final = 1000

_GATEWAY_STATUS: Final = {
    "name": "gateway_status",
    "description": (
        "Shows how the gateway is doing: every server behind it with its status, tool count, "
        "protocol revision, restarts and the reason if it is down."
    ),
    "inputSchema": {"type": "object", "properties": {}, "required": []},
}

_GET_EVENTS: Final = {
    "name": "get_events",
    "description": (
        "Queries the gateway's journal: tool calls, server starts and failures, newest "
        "matching events in time order. A second text tells the trace_id of this very call."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "trace_id": {"type": "string", "description": "Only events of this trace."},
            "event_type": {
                "type": "string",
                "description": "Only events of this type, for example gateway.tool_call.",
            },
            "status": {"type": "string", "enum": ["pending", *sorted(FINAL_STATUSES)]},
            "since": {
                "type": "string",
                "description": "An ISO time, or an age such as 15m, 24h or 7d.",
            },
            "limit": {
                "type": "integer",
                "default": EVENTS_LIMIT_DEFAULT,
                "minimum": 1,
                "maximum": EVENTS_LIMIT_MAX,
            },
            "filter": {
                "type": "string",
                "description": (
                    "Only events that match all terms, for example: server:github tool:*issue* "
                    'status:error dur:>1s since:10m "rate limit". '
                    "type:exchange and type:frame show what is otherwise left out."
                ),
            },
        },
        "required": [],
    },
}

GATEWAY_TOOLS: Final = tuple(
    CatalogEntry(str(tool["name"]), "", str(tool["name"]), msgspec.json.encode(tool))
    for tool in (_GATEWAY_STATUS, _GET_EVENTS)
)
"""They come first in every list, and keep their names whatever servers offer."""


def text_result(*documents: bytes) -> bytes:
    """A tool result with JSON documents as its texts."""
    texts = [
        b'{"type":"text","text":%b}' % raw_json.encode_string(text.decode()) for text in documents
    ]
    return b'{"content":[%b]}' % b",".join(texts)

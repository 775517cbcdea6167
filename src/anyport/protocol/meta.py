"""The `_meta` member: what the protocol itself keeps there, read and restamped.

Every hop strips the protocol's own keys and stamps its own; keys of vendors pass untouched.
"""

from collections.abc import Mapping
from typing import Final

from anyport.wire import members

PREFIX: Final = "io.modelcontextprotocol/"
PROTOCOL_VERSION: Final = PREFIX + "protocolVersion"
CLIENT_CAPABILITIES: Final = PREFIX + "clientCapabilities"
CLIENT_INFO: Final = PREFIX + "clientInfo"
LOG_LEVEL: Final = PREFIX + "logLevel"
SERVER_INFO: Final = PREFIX + "serverInfo"
SUBSCRIPTION_ID: Final = PREFIX + "subscriptionId"
RELATED_TASK: Final = PREFIX + "related-task"
PROGRESS_TOKEN: Final = "progressToken"
TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
BAGGAGE: Final = "baggage"

REQUEST_KEYS: Final = (PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL)
"""What a modern request says of itself, and one hop's business only."""
HOP_KEYS: Final = (*REQUEST_KEYS, SERVER_INFO, SUBSCRIPTION_ID)
"""What modern messages say of themselves."""


def restamp(payload: bytes, changes: Mapping[str, bytes | None]) -> bytes:
    """The payload with these members of its `_meta` set or left out.

    A `_meta` that ends up empty because of that is left out too, and one is made when needed.
    """
    current = members.members(payload).get("_meta")
    if current is None or bytes(current)[:1] != b"{":
        # Some servers write every absent member as null.
        stamped = [(key, value) for key, value in changes.items() if value is not None]
        if not stamped:
            return payload
        return members.edit(payload, {"_meta": members.join(stamped)})
    before = bytes(current)
    after = members.edit(before, changes)
    if after == before:
        return payload
    return members.edit(payload, {"_meta": after if members.members(after) else None})

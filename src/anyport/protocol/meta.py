"""The `_meta` member: keys of the protocol, read and replaced at every hop. Vendor keys pass."""

from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from anyport.wire import raw_json

# Progress passes as it came. "The progress value MUST increase with each notification"
# (basic/utilities/progress) is for the server to obey; if it does not, people still read the
# message.

PROGRESS: Final = "notifications/progress"


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
"""Keys with which a modern request describes itself; valid for one hop."""
HOP_KEYS: Final = (*REQUEST_KEYS, SERVER_INFO, SUBSCRIPTION_ID)
"""Keys with which modern messages describe themselves; valid for one hop."""
KNOWN_KEYS: Final = frozenset(
    (*HOP_KEYS, RELATED_TASK, PROGRESS_TOKEN, TRACEPARENT, TRACESTATE, BAGGAGE)
)
"""Keys that a hop reads, sets or removes."""


def remove_lookalike_keys(payload: bytes, raw_meta: bytes) -> bytes:
    """Remove keys in `_meta` that some parser takes for the protocol's.

    Returns the very same object if there are none.
    """
    if raw_meta[:1] != b"{":
        return payload
    cleaned = raw_json.remove_lookalikes(raw_meta, KNOWN_KEYS)
    if cleaned is raw_meta:
        return payload
    payload_members = raw_json.members(payload)
    if raw_json.members(cleaned):
        payload_members["_meta"] = Raw(cleaned)
    else:
        del payload_members["_meta"]
    return raw_json.encode_object(payload_members.items())


def edit_meta(payload: bytes, changes: Mapping[str, bytes | None]) -> bytes:
    """Set or remove keys in the `_meta` of a payload.

    `_meta` is created when needed, and removed when it ends up empty. Keys that differ in case only
    are removed with the key: some readers do not see the difference.
    """
    current = raw_json.members(payload).get("_meta")
    if current is None or bytes(current)[:1] != b"{":
        # Some servers write absent members as null.
        stamped = [(key, value) for key, value in changes.items() if value is not None]
        if not stamped:
            return payload
        return raw_json.edit(payload, {"_meta": raw_json.encode_object(stamped)})
    before = bytes(current)
    after = raw_json.edit(raw_json.remove_lookalikes(before, frozenset(changes)), changes)
    if after == before:
        return payload
    return raw_json.edit(payload, {"_meta": after if raw_json.members(after) else None})

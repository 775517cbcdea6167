"""What a legacy server says, in the words of the era without a handshake.

Nearly all of it is the same. Left out is what only sessions and their tasks have; changed is what
has another name. Knows payloads; does not know where they came from.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from anyport.protocol import meta
from anyport.protocol.back import INPUT_REQUIRED
from anyport.protocol.downgrade import RESOURCE_NOT_FOUND
from anyport.wire import members
from anyport.wire.frame import INVALID_PARAMS

_SESSION_ONLY: Final = (meta.PROGRESS_TOKEN, meta.RELATED_TASK, *meta.HOP_KEYS)
_ASKED_OF_SESSIONS: Final = ("elicitationId", "task")


def embedded(method: str, params: bytes | None) -> bytes | None:
    """A question's params as one of the `inputRequests` of a result can have them.

    Such a question has neither an id nor progress, and says which kind of elicitation it is.
    """
    if params is None:
        return None
    try:
        params = meta.restamp(params, dict.fromkeys(_SESSION_ONLY))
        found = members.members(params)
        changes: dict[str, bytes | None] = {
            name: None for name in _ASKED_OF_SESSIONS if name in found
        }
        if method == "elicitation/create" and members.string(found.get("mode")) is None:
            changes["mode"] = b'"form"'
        return members.edit(params, changes) if changes else params
    except (msgspec.DecodeError, members.Ambiguous):
        return params


def input_request(method: str, params: bytes | None) -> bytes:
    """One of the `inputRequests` of a result."""
    entry = [("method", members.text(method))]
    return members.join(entry if params is None else [*entry, ("params", params)])


def input_required(requests: Iterable[tuple[str, bytes]], state: bytes) -> bytes:
    """The result that sends a client to fetch answers, and the raw text to come back with."""
    return members.join(
        [
            ("resultType", INPUT_REQUIRED),
            ("inputRequests", members.join(requests)),
            ("requestState", state),
        ]
    )


def upgrade_tool(tool: bytes) -> bytes:
    """A tool without what it says of tasks in a session."""
    if b'"execution"' not in tool:
        return tool
    try:
        return members.edit(tool, {"execution": None})
    except (msgspec.DecodeError, members.Ambiguous):
        return tool


def upgrade_error(error: bytes) -> bytes:
    """The error of a request for a resource: one that is not there makes the params invalid."""
    try:
        if bytes(members.members(error).get("code", b"")) != b"%d" % RESOURCE_NOT_FOUND:
            return error
        return members.edit(error, {"code": b"%d" % INVALID_PARAMS})
    except (msgspec.DecodeError, members.Ambiguous):
        return error

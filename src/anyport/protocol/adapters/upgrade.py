"""Upgrades of legacy servers' questions, tools and errors for modern clients.

Nearly everything is the same. Removed is what only sessions and their tasks have.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from anyport.protocol import meta
from anyport.protocol.adapters.downgrade import RESOURCE_NOT_FOUND
from anyport.protocol.adapters.server import RAW_INPUT_REQUIRED
from anyport.wire import raw_json
from anyport.wire.jsonrpc import INVALID_PARAMS

_SESSION_ONLY: Final = (meta.PROGRESS_TOKEN, meta.RELATED_TASK, *meta.HOP_KEYS)
_SESSION_QUESTION_MEMBERS: Final = ("elicitationId", "task")


def embed_question_params(method: str, params: bytes | None) -> bytes | None:
    """The params of a question as an entry of `inputRequests`.

    Such a question has neither id nor progress, and must name its mode of elicitation.
    """
    if params is None:
        return None
    try:
        params = meta.edit_meta(params, dict.fromkeys(_SESSION_ONLY))
        param_members = raw_json.members(params)
        changes: dict[str, bytes | None] = {
            name: None for name in _SESSION_QUESTION_MEMBERS if name in param_members
        }
        if (
            method == "elicitation/create"
            and raw_json.decode_string(param_members.get("mode")) is None
        ):
            changes["mode"] = b'"form"'
        return raw_json.edit(params, changes) if changes else params
    except (msgspec.DecodeError, raw_json.AmbiguousObject):
        return params


def encode_input_request(method: str, params: bytes | None) -> bytes:
    """Encode an entry of `inputRequests`."""
    entry = [("method", raw_json.encode_string(method))]
    return raw_json.encode_object(entry if params is None else [*entry, ("params", params)])


def encode_input_required(requests: Iterable[tuple[str, bytes]], state: bytes) -> bytes:
    """Encode an `input_required` result; `state` is the raw string that the client returns."""
    return raw_json.encode_object(
        [
            ("resultType", RAW_INPUT_REQUIRED),
            ("inputRequests", raw_json.encode_object(requests)),
            ("requestState", state),
        ]
    )


def upgrade_tool(tool: bytes) -> bytes:
    """Remove what a tool says about tasks in a session."""
    if b'"execution"' not in tool:
        return tool
    try:
        return raw_json.edit(tool, {"execution": None})
    except (msgspec.DecodeError, raw_json.AmbiguousObject):
        return tool


def upgrade_error(error: bytes) -> bytes:
    """Upgrade the error of a resource request: a missing resource is an invalid param."""
    try:
        if bytes(raw_json.members(error).get("code", b"")) != b"%d" % RESOURCE_NOT_FOUND:
            return error
        return raw_json.edit(error, {"code": b"%d" % INVALID_PARAMS})
    except (msgspec.DecodeError, raw_json.AmbiguousObject):
        return error

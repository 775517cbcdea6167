"""JSON-RPC messages, parsed and written."""

from typing import Any, TypeAlias, TypeGuard

import msgspec

from tests.peers.demo.calls import Request
from tests.peers.demo.faults import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, Fault
from tests.peers.demo.headers import Headers
from tests.peers.demo.revisions import Json

Identity: TypeAlias = str | int


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """Something that wants no answer."""

    method: str
    params: Any


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The other side's answer to a question of ours."""

    message: Json


Message: TypeAlias = Request | Notification | Reply


def decode(text: bytes) -> Any:
    """
    Raises:
        Fault: it is not JSON.
    """
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Fault(PARSE_ERROR, "Parse error: not valid JSON") from error


def read_message(decoded: Any, headers: Headers | None = None) -> Message:
    """
    Raises:
        Fault: it is not a JSON-RPC message.
    """
    if not isinstance(decoded, dict) or decoded.get("jsonrpc") != "2.0":
        raise Fault(INVALID_REQUEST, "Not a JSON-RPC 2.0 message")
    method, params, identity = decoded.get("method"), decoded.get("params"), decoded.get("id")
    if isinstance(method, str) and "id" in decoded and is_identity(identity):
        if params is not None and not isinstance(params, dict):
            raise Fault(INVALID_PARAMS, "'params' must be an object")
        return Request(identity=identity, method=method, params=params or {}, headers=headers)
    if isinstance(method, str) and "id" not in decoded:
        return Notification(method=method, params=params)
    if method is None and ("result" in decoded or "error" in decoded):
        return Reply(message=decoded)
    raise Fault(INVALID_REQUEST, "Neither a request, a notification nor a response")


def is_identity(value: Any) -> TypeGuard[Identity]:
    """A request's id is a string or an integer, and never null."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def identity_of(decoded: Any) -> Identity | None:
    """The id by which a bad message can be refused, if it has one."""
    identity = decoded.get("id") if isinstance(decoded, dict) else None
    return identity if is_identity(identity) else None


def result(identity: Identity, value: Json) -> Json:
    return {"jsonrpc": "2.0", "id": identity, "result": value}


def error(identity: Identity | None, fault: Fault, *, null_id: bool = False) -> Json:
    """An answer that says what is wrong; `null_id` has one to nobody carry the id null."""
    if identity is None and not null_id:
        return {"jsonrpc": "2.0", "error": fault.to_json()}
    return {"jsonrpc": "2.0", "id": identity, "error": fault.to_json()}

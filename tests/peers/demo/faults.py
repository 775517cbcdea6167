"""JSON-RPC error codes, and the exception that carries one."""

from typing import Any, Final

from tests.peers.demo.revisions import Json

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
HEADER_MISMATCH: Final = -32020
MISSING_CLIENT_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022

ABSENT: Final = object()
"""Stands for a member that is not there, where null would be a value."""


class Fault(Exception):
    """A request that is answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = ABSENT) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def to_json(self) -> Json:
        error: Json = {"code": self.code, "message": self.message}
        if self.data is not ABSENT:
            error["data"] = self.data
        return error


class NeedsClient(Exception):
    """A tool cannot go on without the client."""


class MissingCapability(NeedsClient):
    """What is to be done takes a client that declares more than this one did."""

    def __init__(self, required: Json) -> None:
        super().__init__(f"The client lacks the capability {_path(required)}, which this needs")
        self.required = required

    def fault(self) -> Fault:
        """The error that says so, in the revisions that have one."""
        facts = {"requiredCapabilities": self.required}
        return Fault(MISSING_CLIENT_CAPABILITY, str(self), facts)


class Unanswered(Exception):
    """The client was asked and gave an error, nonsense, or nothing at all."""


def object_member(params: Json, name: str, *, default: Json | None = None) -> Json:
    """The member `name`, which must be an object. Without a default it must be there."""
    value = params.get(name, default)
    if not isinstance(value, dict):
        raise Fault(INVALID_PARAMS, f"'{name}' must be an object")
    return value


def string_member(params: Json, name: str) -> str:
    """The member `name`, which must be there and be a string."""
    value = params.get(name)
    if not isinstance(value, str):
        raise Fault(INVALID_PARAMS, f"'{name}' must be a string")
    return value


def _path(required: Json) -> str:
    """`{"elicitation": {"url": {}}}` as a person would say it: elicitation.url."""
    names = []
    while required:
        name, required = next(iter(required.items()))
        names.append(name)
    return ".".join(names)

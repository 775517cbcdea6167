"""The four kinds of JSON-RPC frame, payloads kept raw.

Ids stay as the bytes that stood on the wire, so `1`, `"1"` and 10^40 come back as they came.
"""

from typing import Final

import msgspec

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

NULL: Final = b"null"


class Request(msgspec.Struct, frozen=True, gc=False):
    """A method to run, and the id its answer must carry."""

    id: bytes
    method: str
    params: bytes | None = None
    """The raw object or array; None when the member is absent or null."""


class Notification(msgspec.Struct, frozen=True, gc=False):
    """A method nobody answers."""

    method: str
    params: bytes | None = None


class Result(msgspec.Struct, frozen=True, gc=False):
    """A request's good ending."""

    id: bytes
    result: bytes


class Failure(msgspec.Struct, frozen=True, gc=False):
    """A request's bad ending; the raw error object has a code and a message."""

    id: bytes | None
    """None where the peer could not tell which request failed."""
    error: bytes


class BadFrame(msgspec.Struct, frozen=True, gc=False):
    """Something that came in place of a frame."""

    code: int
    message: str
    id: bytes | None = None
    """The id to answer with, where one could be read."""
    answerable: bool = True
    """False for broken responses and notifications: nobody waits for an answer to those."""


Frame = Request | Notification | Result | Failure
"""One JSON-RPC message."""

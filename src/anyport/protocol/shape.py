"""What of a result the gateway itself looks at, read in one go; the rest stays unread."""

import re
from typing import Final

import msgspec
from msgspec import Raw

from anyport.wire import codec
from anyport.wire.frame import Result

ABSENT: Final = Raw()
"""What stands for a member that a result does not have; the same object every time."""


class Shape(
    msgspec.Struct,
    gc=False,
    rename={
        "kind": "resultType",
        "is_error": "isError",
        "about": "_meta",
        "structured": "structuredContent",
        "ttl": "ttlMs",
        "scope": "cacheScope",
    },
):
    """Raw members of a result; empty where it has none of that name."""

    kind: Raw = ABSENT
    is_error: Raw = ABSENT
    about: Raw = ABSENT
    structured: Raw = ABSENT
    ttl: Raw = ABSENT
    scope: Raw = ABSENT

    @property
    def failed(self) -> bool:
        """Whether a tool reports an error."""
        return self.is_error is not ABSENT and bytes(self.is_error) == b"true"


OWN: Final = Shape()
"""Of what the gateway has made itself: there is nothing to look for in it."""

WHOLE: Final = Shape()
"""Of what the gateway has made itself, and which lacks nothing for those whom it is made for."""

_SHAPE: Final = msgspec.json.Decoder(Shape)
read_shape: Final = _SHAPE.decode
"""The shape of a raw result.

Raises:
    msgspec.DecodeError: not an object.
"""


class ShapedResult(Result, frozen=True, gc=False):
    """A result that has been looked at already."""

    shape: Shape


_ID_FIRST: Final = re.compile(rb'\{"jsonrpc":"2\.0","id":([1-9][0-9]{0,17}),"result":(?=\{)')
_RESULT_FIRST: Final = b'{"result":{'
_ID_LAST: Final = re.compile(rb',"jsonrpc":"2\.0","id":([1-9][0-9]{0,17})\}\Z')
_TAIL_BYTES_MAX: Final = 48


def read_result(raw: bytes, bounds: codec.Bounds) -> ShapedResult | None:
    """The result in a message that is written as the SDKs write theirs; None says nothing.

    What stands between the envelope's known beginning and its known end is decoded as one
    object: that it is one proves that nothing else is in the message.
    """
    if not codec.is_modest(raw) and codec.refuse(raw, bounds) is not None:
        return None
    envelope = _ID_FIRST.match(raw)
    if envelope is not None:
        result = raw[envelope.end() : -1]
    elif raw.startswith(_RESULT_FIRST):
        envelope = _ID_LAST.search(raw, max(0, len(raw) - _TAIL_BYTES_MAX))
        if envelope is None:
            return None
        result = raw[len(_RESULT_FIRST) - 1 : envelope.start()]
    else:
        return None
    if not raw.endswith(b"}") or not result.endswith(b"}"):
        return None  # Nothing may follow it, not even white space.
    try:
        return ShapedResult(envelope[1], result, read_shape(result))
    except (msgspec.DecodeError, RecursionError):
        return None

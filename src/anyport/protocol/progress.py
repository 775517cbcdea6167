"""How far a report says that something has come.

Knows numbers. Some servers write something else, which is passed on as it is.
"""

from typing import Any, Final

import msgspec


class _Report(msgspec.Struct, gc=False):
    progress: Any = None


_read: Final = msgspec.json.Decoder(_Report).decode


def reading(params: bytes) -> float | None:
    """The number in the params of `notifications/progress`; None for anything else."""
    try:
        value = _read(params).progress
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if type(value) is float or type(value) is int else None

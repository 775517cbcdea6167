"""How far a report says that something has come.

Knows numbers. Some servers write something else, which is passed on as it is.
"""

from typing import Any, Final, Protocol

import msgspec

PROGRESS: Final = "notifications/progress"


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


class Reached(Protocol):
    """What has come so far."""

    reached: float


def rises(so_far: Reached, params: bytes) -> bool:
    """Whether a report says that something has come further; then that is how far it has come.

    "The progress value MUST increase with each notification" (basic/utilities/progress): also
    where a server is asked again, and begins to count again.
    """
    reached = reading(params)
    if reached is None:
        return True
    if reached <= so_far.reached:
        return False
    so_far.reached = reached
    return True

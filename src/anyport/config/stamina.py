"""How much a server is asked at a time, how long it is waited for, and when it is given up.

From located values to the fields of a `ServerConfig`; each has a default, and none is needed.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, get_args

from anyport.config import expect
from anyport.config.document import Spot
from anyport.config.faults import Faults
from anyport.config.schema import Retry, Start

CALLS_MAX: Final = 100_000
"""More calls at a time no server was seen to bear."""
QUEUE_MAX: Final = 1_000_000
SECONDS_MIN: Final = 0.1
SECONDS_MAX: Final = 3600.0
"""Nobody waits longer than an hour for anything that a server does."""
TOTAL_SECONDS_MAX: Final = 24 * 3600.0
"""The most that a call can take that reports progress all the time."""
IDLE_SECONDS_MAX: Final = 7 * 24 * 3600.0


def stamina(keys: Mapping[str, Spot], faults: Faults) -> dict[str, Any]:
    """What the file says about all this, by the name of the field."""
    found = {
        field: read(keys[key], faults) for key, (field, read) in _READERS.items() if key in keys
    }
    return {field: value for field, value in found.items() if value is not None}


_SECONDS: Final = partial(expect.number, low=SECONDS_MIN, high=SECONDS_MAX)
_READERS: Final[Mapping[str, tuple[str, Callable[[Spot, Faults], Any]]]] = {
    "timeoutMax": (
        "timeout_seconds_max",
        partial(expect.number, low=SECONDS_MIN, high=TOTAL_SECONDS_MAX),
    ),
    "callsMax": ("calls_max", partial(expect.whole, low=1, high=CALLS_MAX)),
    "queueMax": ("queue_max", partial(expect.whole, low=0, high=QUEUE_MAX)),
    "queueSeconds": ("queue_seconds", _SECONDS),
    "connectSeconds": ("connect_seconds", _SECONDS),
    "firstByteSeconds": ("first_byte_seconds", _SECONDS),
    "streamIdleSeconds": ("stream_idle_seconds", _SECONDS),
    "start": ("start", partial(expect.choice, valid=get_args(Start))),
    "idleSeconds": ("idle_seconds", partial(expect.number, low=0, high=IDLE_SECONDS_MAX)),
    "retry": ("retry", partial(expect.choice, valid=get_args(Retry))),
    "breaker": ("breaker", expect.boolean),
}

STAMINA_KEYS: Final = tuple(_READERS)

"""Limits of a server: concurrency, queue, deadlines, idle stop, retries, circuit breaker.

All keys are optional; the defaults are those of `ServerConfig`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, get_args

from anyport.config import values
from anyport.config.document import ConfigNode
from anyport.config.faults import ConfigFaults
from anyport.config.model import Retry, Start

CALLS_MAX: Final = 100_000
"""More concurrent calls than any server handles."""
QUEUE_MAX: Final = 1_000_000
SECONDS_MIN: Final = 0.1
SECONDS_MAX: Final = 3600.0
"""No client waits longer than an hour for a server."""
TOTAL_SECONDS_MAX: Final = 24 * 3600.0
"""Limit for a call that keeps reporting progress."""
IDLE_SECONDS_MAX: Final = 7 * 24 * 3600.0


def read_server_limits(keys: Mapping[str, ConfigNode], faults: ConfigFaults) -> dict[str, Any]:
    """Read the limits that are set, by field of `ServerConfig`."""
    found = {
        field: read(keys[key], faults) for key, (field, read) in _READERS.items() if key in keys
    }
    return {field: value for field, value in found.items() if value is not None}


_SECONDS: Final = partial(values.read_number, low=SECONDS_MIN, high=SECONDS_MAX)
_READERS: Final[Mapping[str, tuple[str, Callable[[ConfigNode, ConfigFaults], Any]]]] = {
    "timeoutMax": (
        "timeout_seconds_max",
        partial(values.read_number, low=SECONDS_MIN, high=TOTAL_SECONDS_MAX),
    ),
    "callsMax": ("calls_max", partial(values.read_integer, low=1, high=CALLS_MAX)),
    "queueMax": ("queue_max", partial(values.read_integer, low=0, high=QUEUE_MAX)),
    "queueSeconds": ("queue_seconds", _SECONDS),
    "connectSeconds": ("connect_seconds", _SECONDS),
    "firstByteSeconds": ("first_byte_seconds", _SECONDS),
    "streamIdleSeconds": ("stream_idle_seconds", _SECONDS),
    "start": ("start", partial(values.read_choice, valid=get_args(Start))),
    "idleSeconds": ("idle_seconds", partial(values.read_number, low=0, high=IDLE_SECONDS_MAX)),
    "retry": ("retry", partial(values.read_choice, valid=get_args(Retry))),
    "breaker": ("breaker", values.read_boolean),
}

SERVER_LIMIT_KEYS: Final = tuple(_READERS)

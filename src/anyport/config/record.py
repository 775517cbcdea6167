"""The section about the record: how much of the traffic is kept, for how long, and what never."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, get_args

from anyport.config import expect
from anyport.config.document import Spot
from anyport.config.faults import Faults
from anyport.config.schema import Capture, OnFailure, RecordConfig

RECORD_KEYS: Final = (
    "capture",
    "keepDays",
    "keepBytes",
    "payloadDays",
    "payloadBytes",
    "redactKeys",
    "anchor",
    "onFailure",
)

KEEP_DAYS_MAX: Final = 3650
"""Who keeps a record for more than ten years keeps it elsewhere."""
KEEP_BYTES_MIN: Final = 1024**2
KEEP_BYTES_MAX: Final = 1024**4
"""More than a terabyte is no journal on a disk, but an archive."""


def record(keys: Mapping[str, Spot], faults: Faults) -> RecordConfig:
    """The section; worthless when it added to the faults."""
    found = {
        field: read(keys[key], faults) for key, (field, read) in _READERS.items() if key in keys
    }
    return replace(
        RecordConfig(), **{field: value for field, value in found.items() if value is not None}
    )


def _path(spot: Spot, faults: Faults) -> str | None:
    """A file, as the configuration means it: `~` is home, and relative is relative to it."""
    path = expect.text(spot, faults)
    if path is None:
        return None
    if not path:
        faults.add(spot.fault(f"{spot.name} must be a path", "leave it out for none"))
        return None
    return os.path.join(spot.document.file.parent, os.path.expanduser(path))


_DAYS: Final = partial(expect.whole, low=1, high=KEEP_DAYS_MAX)
_BYTES: Final = partial(expect.whole, low=KEEP_BYTES_MIN, high=KEEP_BYTES_MAX)
_READERS: Final[Mapping[str, tuple[str, Callable[[Spot, Faults], Any]]]] = {
    "capture": ("capture", partial(expect.choice, valid=get_args(Capture))),
    "keepDays": ("keep_days", _DAYS),
    "keepBytes": ("keep_bytes", _BYTES),
    "payloadDays": ("payload_days", _DAYS),
    "payloadBytes": ("payload_bytes", _BYTES),
    "redactKeys": ("redact_keys", expect.texts),
    "anchor": ("anchor", _path),
    "onFailure": ("on_failure", partial(expect.choice, valid=get_args(OnFailure))),
}

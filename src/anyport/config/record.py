"""The `[record]` section: capture, retention, redaction and durability."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, get_args

from anyport.config import values
from anyport.config.document import ConfigNode
from anyport.config.faults import ConfigFaults
from anyport.config.model import Capture, OnFailure, RecordConfig, Sync

RECORD_KEYS: Final = (
    "capture",
    "keepDays",
    "keepBytes",
    "payloadDays",
    "payloadBytes",
    "redactKeys",
    "anchor",
    "onFailure",
    "sync",
)

KEEP_DAYS_MAX: Final = 3650
"""A record that is kept for more than ten years belongs in an archive."""
KEEP_BYTES_MIN: Final = 1024**2
KEEP_BYTES_MAX: Final = 1024**4
"""More than a terabyte belongs in an archive."""


def read_record(keys: Mapping[str, ConfigNode], faults: ConfigFaults) -> RecordConfig:
    """Read the section. The result is unusable if it adds faults."""
    found = {
        field: read(keys[key], faults) for key, (field, read) in _READERS.items() if key in keys
    }
    return replace(
        RecordConfig(), **{field: value for field, value in found.items() if value is not None}
    )


def _read_path(node: ConfigNode, faults: ConfigFaults) -> str | None:
    """A path, with `~` expanded, relative to the configuration file."""
    path = values.read_text(node, faults)
    if path is None:
        return None
    if not path:
        faults.add(node.fault(f"{node.name} must be a path", "leave it out for none"))
        return None
    return os.path.join(node.document.file.parent, os.path.expanduser(path))


_DAYS: Final = partial(values.read_integer, low=1, high=KEEP_DAYS_MAX)
_BYTES: Final = partial(values.read_integer, low=KEEP_BYTES_MIN, high=KEEP_BYTES_MAX)
_READERS: Final[Mapping[str, tuple[str, Callable[[ConfigNode, ConfigFaults], Any]]]] = {
    "capture": ("capture", partial(values.read_choice, valid=get_args(Capture))),
    "keepDays": ("keep_days", _DAYS),
    "keepBytes": ("keep_bytes", _BYTES),
    "payloadDays": ("payload_days", _DAYS),
    "payloadBytes": ("payload_bytes", _BYTES),
    "redactKeys": ("redact_keys", values.read_texts),
    "anchor": ("anchor", _read_path),
    "onFailure": ("on_failure", partial(values.read_choice, valid=get_args(OnFailure))),
    "sync": ("sync", partial(values.read_choice, valid=get_args(Sync))),
}

"""Typed reading of located values: the value, or a fault and nothing.

Each function says what it wanted and what kind of thing it found, never the value found, save
where the valid values are a short public list.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from anyport.config.document import Spot
from anyport.config.faults import Faults, shown, suggestion


def text(spot: Spot, faults: Faults) -> str | None:
    if isinstance(spot.value, str):
        return spot.value
    quoted = isinstance(spot.value, int | float)
    _wrong(spot, "a string", faults, "put it in quotes" if quoted else "")
    return None


def boolean(spot: Spot, faults: Faults) -> bool | None:
    if isinstance(spot.value, bool):
        return spot.value
    _wrong(spot, "true or false", faults)
    return None


def whole(spot: Spot, faults: Faults, *, low: int, high: int) -> int | None:
    if not isinstance(spot.value, int) or isinstance(spot.value, bool):
        _wrong(spot, "a whole number", faults)
        return None
    return spot.value if _within(spot, low, high, faults) else None


def number(spot: Spot, faults: Faults, *, low: float, high: float) -> float | None:
    """A finite number of seconds, between the bounds."""
    if not isinstance(spot.value, int | float) or isinstance(spot.value, bool):
        _wrong(spot, "a number", faults, "in seconds, such as 60, without quotes and unit")
        return None
    return float(spot.value) if _within(spot, low, high, faults, " seconds") else None


def choice(spot: Spot, faults: Faults, valid: Iterable[str]) -> str | None:
    options = tuple(valid)
    value = text(spot, faults)
    if value is None or value in options:
        return value
    hint = suggestion(value, options) if any(c.isalnum() for c in value) else None
    hint = hint or "valid here: " + ", ".join(f'"{option}"' for option in options)
    faults.add(spot.fault(f"{spot.name} cannot be {shown(value)}", hint))
    return None


def table(spot: Spot, faults: Faults) -> bool:
    """Whether the value is a table; its members are read one by one."""
    if isinstance(spot.value, dict):
        return True
    _wrong(spot, "a table", faults)
    return False


def texts(spot: Spot, faults: Faults) -> tuple[str, ...] | None:
    """The strings of an array; those elements that are none are faults."""
    if not isinstance(spot.value, list):
        _wrong(spot, "an array of strings", faults, 'such as ["one", "two"]')
        return None
    found = [text(element, faults) for element in spot.elements()]
    return tuple(element for element in found if element is not None)


def members(spot: Spot, faults: Faults, valid: Iterable[str]) -> dict[str, Spot]:
    """The members of a table whose keys are valid; the others are faults."""
    if not table(spot, faults):
        return {}
    options = tuple(valid)
    found: dict[str, Spot] = {}
    for key, member in spot.items():
        if key in options:
            found[key] = member
        else:
            unknown(key, member, faults, options)
    return found


def unknown(key: str, spot: Spot, faults: Faults, valid: Iterable[str]) -> None:
    if not faults.full:
        faults.add(spot.key_fault(f"unknown key {shown(key)}", suggestion(key, valid)))


def _within(spot: Spot, low: float, high: float, faults: Faults, unit: str = "") -> bool:
    if math.isfinite(spot.value) and low <= spot.value <= high:
        return True
    message = f"{spot.name} must be between {low:,.10g} and {high:,.10g}{unit}"
    faults.add(spot.fault(message))
    return False


def _wrong(spot: Spot, wanted: str, faults: Faults, hint: str = "") -> None:
    faults.add(spot.fault(f"{spot.name} must be {wanted}, not {_kind(spot.value)}", hint))


def _kind(value: Any) -> str:
    kinds = (
        (bool, "true or false"),
        (int, "a number"),
        (float, "a decimal number"),
        (str, "a string"),
        (list, "an array"),
        (dict, "a table"),
        (type(None), "null"),
    )
    return next((name for kind, name in kinds if isinstance(value, kind)), "a date or time")

"""Typed readers of values: each returns the value, or reports a fault and returns None.

A fault names the expected and the actual type. It quotes the value only for `read_choice`, whose
valid values are public.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from anyport.config.document import ConfigNode
from anyport.config.faults import ConfigFaults, quote_name, suggest


def read_text(node: ConfigNode, faults: ConfigFaults) -> str | None:
    if isinstance(node.value, str):
        return node.value
    quoted = isinstance(node.value, int | float)
    _report_wrong_type(node, "a string", faults, "put it in quotes" if quoted else "")
    return None


def read_boolean(node: ConfigNode, faults: ConfigFaults) -> bool | None:
    if isinstance(node.value, bool):
        return node.value
    _report_wrong_type(node, "true or false", faults)
    return None


def read_integer(node: ConfigNode, faults: ConfigFaults, *, low: int, high: int) -> int | None:
    if not isinstance(node.value, int) or isinstance(node.value, bool):
        _report_wrong_type(node, "a whole number", faults)
        return None
    return node.value if _check_range(node, low, high, faults) else None


def read_number(node: ConfigNode, faults: ConfigFaults, *, low: float, high: float) -> float | None:
    """Read a finite number of seconds within the bounds."""
    if not isinstance(node.value, int | float) or isinstance(node.value, bool):
        _report_wrong_type(
            node, "a number", faults, "in seconds, such as 60, without quotes and unit"
        )
        return None
    return float(node.value) if _check_range(node, low, high, faults, " seconds") else None


def read_choice(node: ConfigNode, faults: ConfigFaults, valid: Iterable[str]) -> str | None:
    options = tuple(valid)
    value = read_text(node, faults)
    if value is None or value in options:
        return value
    hint = suggest(value, options) if any(c.isalnum() for c in value) else None
    hint = hint or "valid here: " + ", ".join(f'"{option}"' for option in options)
    faults.add(node.fault(f"{node.name} cannot be {quote_name(value)}", hint))
    return None


def check_table(node: ConfigNode, faults: ConfigFaults) -> bool:
    """Whether the value is a table; reports a fault if not."""
    if isinstance(node.value, dict):
        return True
    _report_wrong_type(node, "a table", faults)
    return False


def read_texts(node: ConfigNode, faults: ConfigFaults) -> tuple[str, ...] | None:
    """Read an array of strings; other elements are faults."""
    if not isinstance(node.value, list):
        _report_wrong_type(node, "an array of strings", faults, 'such as ["one", "two"]')
        return None
    found = [read_text(element, faults) for element in node.elements()]
    return tuple(element for element in found if element is not None)


def read_members(
    node: ConfigNode, faults: ConfigFaults, valid: Iterable[str]
) -> dict[str, ConfigNode]:
    """The members of a table with valid keys; other keys are faults."""
    if not check_table(node, faults):
        return {}
    options = tuple(valid)
    found: dict[str, ConfigNode] = {}
    for key, member in node.items():
        if key in options:
            found[key] = member
        else:
            report_unknown_key(key, member, faults, options)
    return found


def report_unknown_key(
    key: str, node: ConfigNode, faults: ConfigFaults, valid: Iterable[str]
) -> None:
    if not faults.is_full:
        faults.add(node.key_fault(f"unknown key {quote_name(key)}", suggest(key, valid)))


def _check_range(
    node: ConfigNode, low: float, high: float, faults: ConfigFaults, unit: str = ""
) -> bool:
    if math.isfinite(node.value) and low <= node.value <= high:
        return True
    message = f"{node.name} must be between {low:,.10g} and {high:,.10g}{unit}"
    faults.add(node.fault(message))
    return False


def _report_wrong_type(node: ConfigNode, wanted: str, faults: ConfigFaults, hint: str = "") -> None:
    faults.add(node.fault(f"{node.name} must be {wanted}, not {_kind_name(node.value)}", hint))


def _kind_name(value: Any) -> str:
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

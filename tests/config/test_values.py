"""Typed reading: the value, or a fault that says what was wanted and what kind was found."""

from pathlib import Path
from typing import Any

import pytest

from anyport.config import values
from anyport.config.document import ConfigNode, Document
from anyport.config.faults import ConfigError, ConfigFaults
from anyport.config.positions import ParsedText


def spot(value: Any) -> ConfigNode:
    parsed = ParsedText(value={"k": value}, keys={}, values={("k",): (2, 5)})
    document = Document(file=Path("f.toml"), parsed=parsed)
    return ConfigNode(document=document, path=("k",), value=value)


def told(faults: ConfigFaults) -> list[str]:
    try:
        faults.raise_any()
    except ConfigError as error:
        return [str(fault) for fault in error.faults]
    return []


def test_what_fits_is_returned() -> None:
    faults = ConfigFaults()
    assert values.read_text(spot("x"), faults) == "x"
    assert values.read_boolean(spot(False), faults) is False
    assert values.read_integer(spot(3), faults, low=1, high=3) == 3
    assert values.read_number(spot(3), faults, low=1, high=3) == 3.0
    assert values.read_texts(spot(["a", "b"]), faults) == ("a", "b")
    assert values.read_choice(spot("a"), faults, ("a", "b")) == "a"
    assert values.check_table(spot({}), faults)
    assert list(values.read_members(spot({"a": 1}), faults, ("a", "b"))) == ["a"]
    assert told(faults) == []


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, "true or false"),
        (1, "a number"),
        (1.5, "a decimal number"),
        ([], "an array"),
        ({}, "a table"),
        (object(), "a date or time"),
    ],
)
def test_a_wrong_type_is_named(value: Any, kind: str) -> None:
    faults = ConfigFaults()
    assert values.read_text(spot(value), faults) is None
    hint = " (put it in quotes)" if isinstance(value, int | float) else ""
    assert told(faults) == [f"f.toml:2:5: k must be a string, not {kind}{hint}"]


def test_true_is_no_number() -> None:
    faults = ConfigFaults()
    assert values.read_integer(spot(True), faults, low=0, high=3) is None
    assert values.read_number(spot(True), faults, low=0, high=3) is None
    assert told(faults)


@pytest.mark.parametrize("value", [0, 4, float("nan"), float("inf")])
def test_a_number_out_of_bounds_is_refused(value: float) -> None:
    faults = ConfigFaults()
    assert values.read_number(spot(value), faults, low=0.1, high=3) is None
    assert told(faults) == ["f.toml:2:5: k must be between 0.1 and 3 seconds"]


def test_a_choice_suggests_the_nearest_or_lists_all() -> None:
    faults = ConfigFaults()
    values.read_choice(spot("alwys"), faults, ("always", "never"))
    values.read_choice(spot("++"), faults, ("__", "-"))
    assert told(faults) == [
        "f.toml:2:5: k cannot be 'alwys' (did you mean always?)",
        'f.toml:2:5: k cannot be \'++\' (valid here: "__", "-")',
    ]

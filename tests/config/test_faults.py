"""Faults read well, come in order, and stay finite."""

import pytest

from anyport.config.faults import (
    FAULTS_MAX,
    ConfigError,
    ConfigFault,
    ConfigFaults,
    find_nearest,
    quote_name,
    suggest,
)


def fault(file: str = "a.toml", line: int = 1, column: int = 1, hint: str = "") -> ConfigFault:
    return ConfigFault(file=file, line=line, column=column, path="x", message="wrong", hint=hint)


def test_a_fault_reads_like_a_compiler_message() -> None:
    assert str(fault(line=3, column=7, hint="try y")) == "a.toml:3:7: wrong (try y)"
    assert str(fault(line=3, column=7)) == "a.toml:3:7: wrong"


def test_nothing_found_raises_nothing() -> None:
    ConfigFaults().raise_any()


def test_faults_come_in_the_order_of_files_and_lines_and_once() -> None:
    faults = ConfigFaults()
    for one in (fault("b", 9), fault("a", 2), fault("b", 1), fault("b", 1)):
        faults.add(one)
    with pytest.raises(ConfigError) as caught:
        faults.raise_any()
    assert [(one.file, one.line) for one in caught.value.faults] == [("b", 1), ("b", 9), ("a", 2)]
    assert str(caught.value) == "b:1:1: wrong\nb:9:1: wrong\na:2:1: wrong"


def test_the_collection_stops_where_nobody_reads_on() -> None:
    faults = ConfigFaults()
    for line in range(FAULTS_MAX + 50):
        faults.add(fault(line=line))
    with pytest.raises(ConfigError) as caught:
        faults.raise_any()
    assert len(caught.value.faults) == FAULTS_MAX


@pytest.mark.parametrize(
    ("word", "meant"),
    [("comand", "command"), ("Command", "command"), ("permit_env", "permitEnv"), ("zzz", None)],
)
def test_the_nearest_key_ignores_case_and_underscores(word: str, meant: str | None) -> None:
    assert find_nearest(word, ("command", "permitEnv")) == meant


def test_a_hint_lists_what_is_valid_when_nothing_is_near() -> None:
    assert suggest("zzz", ("allow", "deny")) == "valid here: allow, deny"


def test_a_name_is_shown_on_one_line_and_cut() -> None:
    assert quote_name("a\nb") == "'a\\nb'"
    assert len(quote_name("x" * 1_000_000)) < 100


def test_a_warning_is_no_fault() -> None:
    faults = ConfigFaults()
    faults.warn(fault(line=2))
    faults.raise_any()
    assert faults.warnings == (fault(line=2),)


def test_warnings_stop_where_nobody_reads_on() -> None:
    faults = ConfigFaults()
    for line in range(FAULTS_MAX + 5):
        faults.warn(fault(line=line))
    assert len(faults.warnings) == FAULTS_MAX

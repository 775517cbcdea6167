"""Telemetry: off until somebody asks for it, and never a reason for the gateway to stay down."""

from pathlib import Path

import pytest

from anyport.config import Config, ConfigError, load
from anyport.config.model import TelemetryConfig

SECRET = "c2VjcmV0LXRva2VuLTAxMjM0NTY3ODk="
ENVIRON = {"TOKEN": SECRET, "WHERE": "https://otlp.example.com", "EMPTY": "", "BAD": "ftp://x"}


def loaded(folder: Path, section: str) -> Config:
    file = folder / "anyport.toml"
    file.write_text(section)
    return load([file], ENVIRON)


def telemetry(folder: Path, lines: str) -> TelemetryConfig:
    return loaded(folder, f"[telemetry]\n{lines}\n").telemetry


def refusals(folder: Path, lines: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        telemetry(folder, lines)
    assert SECRET not in str(caught.value)
    return [fault.message for fault in caught.value.faults]


def test_without_the_section_there_is_none(tmp_path: Path) -> None:
    assert loaded(tmp_path, "").telemetry == TelemetryConfig()
    assert not TelemetryConfig().enabled


def test_everything_can_be_said(tmp_path: Path) -> None:
    found = telemetry(
        tmp_path,
        'enabled = true\nendpoint = "${env:WHERE}"\nserviceName = "mine"\nsample = 0.25\n'
        'headers = { Authorization = "Bearer ${env:TOKEN}" }',
    )
    assert found.enabled
    assert found.endpoint == "https://otlp.example.com"
    assert found.headers == {"Authorization": f"Bearer {SECRET}"}
    assert (found.name, found.sample) == ("mine", 0.25)
    assert found.secrets >= {SECRET, f"Bearer {SECRET}"}
    assert SECRET not in repr(found)


@pytest.mark.parametrize(
    ("lines", "enabled"),
    [
        ("", False),
        ("enabled = true", True),
        ("enabled = false\nsample = 1", False),
        ('endpoint = "http://localhost:4318"', True),
        ("sample = 0", True),
    ],
)
def test_who_says_anything_about_it_wants_it_unless_he_says_no(
    tmp_path: Path, lines: str, enabled: bool
) -> None:
    assert telemetry(tmp_path, lines).enabled is enabled


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('endpoint = "${env:NONE}"', "needs the environment variable NONE, which is not set"),
        ('headers = { a = "${env:EMPTY}" }', "needs the environment variable EMPTY"),
        ('endpoint = "${env:BAD}"', "must be the address of a collector"),
    ],
)
def test_what_the_environment_lacks_switches_it_off_with_a_warning(
    tmp_path: Path, lines: str, words: str
) -> None:
    config = loaded(tmp_path, f"[telemetry]\nenabled = true\n{lines}\n")
    assert not config.telemetry.enabled
    [warning] = config.warnings
    assert words in warning.message
    assert "telemetry is off" in warning.hint


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("enabled = 1", "telemetry.enabled must be true or false, not a number"),
        ('endpoint = "localhost:4318"', "telemetry.endpoint must be the address of a collector"),
        ('endpoint = "http://"', "telemetry.endpoint must be the address of a collector"),
        ('endpoint = "http://h:99999"', "telemetry.endpoint must be the address of a collector"),
        ('endpoint = "http://u:p@h"', "telemetry.endpoint must be the address of a collector"),
        ('endpoint = "http://h/?key=x"', "telemetry.endpoint must be the address of a collector"),
        ('headers = "x"', "telemetry.headers must be a table, not a string"),
        ('headers = { "a b" = "x" }', "'a b' cannot be the name of a header"),
        ('headers = { a = "x\\ny" }', "telemetry.headers.a has a character no header can carry"),
        ("serviceName = 7", "telemetry.serviceName must be a string, not a number"),
        ("sample = 1.5", "telemetry.sample must be a number from 0 to 1"),
        ("sample = nan", "telemetry.sample must be a number from 0 to 1"),
        ("sample = true", "telemetry.sample must be a number from 0 to 1"),
        ("samples = 1", "unknown key 'samples'"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, lines: str, message: str) -> None:
    assert refusals(tmp_path, lines) == [message]


def test_a_clients_own_telemetry_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"mcpServers": {"a": {"command": "x"}}, "telemetry": {"target": "gcp"}}')
    config = load([file], {})
    assert list(config.servers) == ["a"]
    assert config.telemetry == TelemetryConfig()

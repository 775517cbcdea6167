"""The section about the record."""

from pathlib import Path

import pytest

from anyport.config.faults import ConfigError
from anyport.config.load import load
from anyport.config.model import Config, RecordConfig


def read(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "anyport.toml"
    path.write_text(text)
    return load([path], {"HOME": str(tmp_path)})


def test_without_a_word_shapes_are_recorded(tmp_path: Path) -> None:
    config = read(tmp_path, "")
    assert config.record == RecordConfig()
    assert config.record.capture == "shape"


def test_every_key_is_read(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        """
        [record]
        capture = "full"
        keepDays = 30
        keepBytes = 10_000_000
        payloadDays = 1
        payloadBytes = 5_000_000
        redactKeys = ["iban"]
        anchor = "heads/anchor.jsonl"
        onFailure = "block"
        sync = "always"
        """,
    )
    assert config.record == RecordConfig(
        capture="full",
        keep_days=30,
        keep_bytes=10_000_000,
        payload_days=1,
        payload_bytes=5_000_000,
        redact_keys=("iban",),
        anchor=str(tmp_path / "heads/anchor.jsonl"),
        on_failure="block",
        sync="always",
    )


def test_the_most_specific_word_counts(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        """
        [record]
        capture = "off"
        [mcpServers.a]
        command = "a"
        [mcpServers.b]
        command = "b"
        capture = "shape"
        [profiles.p]
        capture = "full"
        [profiles.q]
        """,
    )
    assert config.capture("q", "a") == "off"
    assert config.capture("p", "a") == "full"
    assert config.capture("p", "b") == "shape"
    assert config.capture(None, None) == "off"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('capture = "shapes"', "record.capture cannot be 'shapes'"),
        ("keepDays = 0", "record.keepDays must be between 1 and 3,650"),
        ("keepBytes = 10", "record.keepBytes must be between 1,048,576"),
        ('anchor = ""', "record.anchor must be a path"),
        ("keepdays = 3", "unknown key 'keepdays'"),
        ('sync = "sometimes"', "record.sync cannot be 'sometimes'"),
        ("redactKeys = [1]", "must be a string"),
    ],
)
def test_a_fault_says_what_is_wrong(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, f"[record]\n{line}\n")
    assert words in str(raised.value)

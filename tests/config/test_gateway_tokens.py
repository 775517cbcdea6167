"""Tokens: three ways to write one, and none to show one or to run without it."""

import hashlib
import json
from pathlib import Path

import pytest

from anyport.cli.commands.check import describe
from anyport.config import Config, ConfigError, Token, load

SECRET = "c2VjcmV0LXRva2VuLTAxMjM0NTY3ODk="
SHORT = "hunter2"
BAD = "bad token!"
ENVIRON = {
    "TOKEN": SECRET,
    "SHORT": SHORT,
    "EMPTY": "",
    "BAD": BAD,
    "HASH": f"sha256:{hashlib.sha256(SECRET.encode()).hexdigest()}",
}
SAME = Token(name="alice", digest=hashlib.sha256(SECRET.encode()).digest())


def loaded(folder: Path, table: str) -> Config:
    file = folder / "anyport.toml"
    file.write_text(f"[gateway]\ntokens = {table}\n")
    return load([file], ENVIRON)


def refusals(folder: Path, table: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loaded(folder, table)
    for secret in (SECRET, SHORT, BAD):
        assert secret not in str(caught.value)
    prefix = f"{folder}/anyport.toml:"
    return [str(fault).removeprefix(prefix) for fault in caught.value.faults]


def warnings(folder: Path, table: str) -> list[str]:
    found = loaded(folder, table).warnings
    for secret in (SECRET, SHORT):
        assert secret not in str(found)
    return [str(warning).removeprefix(f"{folder}/anyport.toml:") for warning in found]


@pytest.mark.parametrize(
    "written",
    [
        "${env:TOKEN}",
        "${TOKEN}",
        "${env:NONE | env:TOKEN}",
        SECRET,
        ENVIRON["HASH"],
        "sha256:" + ENVIRON["HASH"].removeprefix("sha256:").upper(),
        "${env:HASH}",
        "sha256:${env:REST | value:" + ENVIRON["HASH"].removeprefix("sha256:") + "}",
    ],
)
def test_the_same_token_can_be_written_in_several_ways(tmp_path: Path, written: str) -> None:
    assert loaded(tmp_path, f'{{ alice = "{written}" }}').gateway.tokens == (SAME,)


def test_tokens_come_in_the_order_of_the_file(tmp_path: Path) -> None:
    tokens = loaded(tmp_path, '{ "b@x.example" = "${TOKEN}", a-1 = "${SHORT}" }').gateway.tokens
    assert [token.name for token in tokens] == ["b@x.example", "a-1"]


def test_without_the_key_there_are_none(tmp_path: Path) -> None:
    file = tmp_path / "anyport.toml"
    file.write_text("[gateway]\n")
    assert load([file], {}).gateway.tokens == ()


def test_a_later_file_replaces_all_tokens(tmp_path: Path) -> None:
    first, second = tmp_path / "anyport.toml", tmp_path / "later.json"
    first.write_text('[gateway]\ntokens = { alice = "${TOKEN}" }')
    second.write_text('{"gateway": {"tokens": {"bob": "${SHORT}"}}}')
    tokens = load([first, second], ENVIRON).gateway.tokens
    assert [token.name for token in tokens] == ["bob"]


def test_neither_a_token_nor_its_hash_is_ever_shown(tmp_path: Path) -> None:
    config = loaded(tmp_path, f'{{ alice = "{SECRET}", bob = "${{SHORT}}" }}')
    shown = f"{config!r} {config} {config.gateway.tokens} {json.dumps(describe(config, ENVIRON))}"
    for token in config.gateway.tokens:
        assert token.digest.hex() not in shown
        assert repr(token.digest) not in shown
    assert SECRET not in shown
    assert SHORT not in shown
    assert "alice" in repr(config)


def test_a_token_that_stands_in_the_file_is_warned_about(tmp_path: Path) -> None:
    message = (
        "2:20: gateway.tokens.alice is in the file as plain text "
        "(prefer ${env:NAME}, or sha256: and the token's SHA-256 in hexadecimal)"
    )
    assert warnings(tmp_path, f'{{ alice = "{SECRET}" }}') == [message]
    assert warnings(tmp_path, f'{{ alice = "${{env:NONE | value:{SECRET}}}" }}') == [message]


def test_a_short_token_is_warned_about(tmp_path: Path) -> None:
    assert warnings(tmp_path, '{ alice = "${SHORT}" }') == [
        "2:20: gateway.tokens.alice is short enough to be guessed "
        "(use at least 16 random characters)"
    ]


@pytest.mark.parametrize("written", ["${env:TOKEN}", ENVIRON["HASH"]])
def test_a_reference_and_a_hash_need_no_warning(tmp_path: Path, written: str) -> None:
    assert warnings(tmp_path, f'{{ alice = "{written}" }}') == []


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            '{ a = "${env:NONE}" }',
            "2:16: gateway.tokens.a needs the environment variable NONE, which is not set "
            "(the gateway does not start without it)",
        ),
        (
            '{ a = "${EMPTY}" }',
            "2:16: gateway.tokens.a needs the environment variable EMPTY, which is empty "
            "(the gateway does not start without it)",
        ),
        (
            '{ a = "${input:x}" }',
            "2:16: gateway.tokens.a asks for an input, which only an editor can ask for; "
            "write ${env:NAME} instead (the gateway does not start without it)",
        ),
        (
            '{ a = "${env:BAD}" }',
            "2:16: gateway.tokens.a is empty or has a character no token can have "
            "(use letters, digits and - . _ ~ + /)",
        ),
        (
            '{ a = "" }',
            "2:16: gateway.tokens.a is empty or has a character no token can have "
            "(use letters, digits and - . _ ~ + /)",
        ),
        (
            '{ a = "sha256:abc" }',
            "2:16: gateway.tokens.a must have 64 hexadecimal digits after sha256: "
            "(such as the output of: printf %s TOKEN | sha256sum)",
        ),
        (
            "{ a = 12345678 }",
            "2:16: gateway.tokens.a must be a string, not a number (put it in quotes)",
        ),
        (
            '{ a = "${TOKEN}", b = "${HASH}" }',
            "2:32: the tokens a and b are the same (give each its own, or keep one)",
        ),
        (
            '{ "a b" = "${TOKEN}" }',
            "2:12: 'a b' cannot be the name of a token (use letters, digits and . _ @ -)",
        ),
        ("{}", "2:10: gateway.tokens has no token (add one, or remove the key)"),
        (
            '"hunter2"',
            "2:10: gateway.tokens must be a table, not a string",
        ),
        (
            '["hunter2"]',
            "2:10: gateway.tokens must be a table, not an array",
        ),
    ],
)
def test_a_token_that_cannot_be_had_is_a_fault(tmp_path: Path, table: str, message: str) -> None:
    assert refusals(tmp_path, table) == [message]


def test_a_null_does_not_open_the_door(tmp_path: Path) -> None:
    file = tmp_path / "anyport.json"
    file.write_text('{"gateway": {"tokens": {"alice": null}}}')
    with pytest.raises(ConfigError, match=r"gateway\.tokens has no token"):
        load([file], {})


def test_one_bad_token_among_good_ones_is_enough(tmp_path: Path) -> None:
    assert len(refusals(tmp_path, '{ a = "${TOKEN}", b = "${NONE}", c = "${EMPTY}" }')) == 2

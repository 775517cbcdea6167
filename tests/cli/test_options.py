"""The options that every command understands, read without a parser."""

from pathlib import Path

import click
import pytest

from anyport.cli.main import commands
from anyport.cli.options import (
    REMOTE_OPTIONS,
    SHARED_OPTIONS,
    ListenOptions,
    SharedOptions,
    parse_plain,
    parse_plain_serve,
)


@pytest.mark.parametrize(
    ("argv", "given"),
    [
        ([], SharedOptions()),
        (["--json"], SharedOptions(json=True)),
        (["--profile", "dev"], SharedOptions(profile="dev")),
        (["--transparent"], SharedOptions(transparent=True)),
        (
            ["--transparent", "--", "server", "--config", "its own", "--"],
            SharedOptions(transparent=True, command=("server", "--config", "its own", "--")),
        ),
        (["--profile=a", "--profile=b=c"], SharedOptions(profile="b=c")),
        (
            ["--config", "a.toml", "--state-dir=/s", "--config=b.json"],
            SharedOptions(config=(Path("a.toml"), Path("b.json")), state_dir=Path("/s")),
        ),
    ],
)
def test_what_is_plainly_spelt_is_read(argv: list[str], given: SharedOptions) -> None:
    assert parse_plain(argv) == given


def test_anything_else_is_left_to_the_parser() -> None:
    command_lines = [
        ["--help"],
        ["-h"],
        ["--conf", "x"],
        ["--config"],
        ["--json=1"],
        ["x"],
        ["--"],
        ["--json", "--"],
    ]
    assert [argv for argv in command_lines if parse_plain(argv) is not None] == []


def test_every_command_has_all_of_them() -> None:
    shared = {option.name for option in SHARED_OPTIONS}
    for name in set(commands.commands) - {"demo-server"}:
        parameters = commands.commands[name].params
        flags = {
            flag for each in parameters if isinstance(each, click.Option) for flag in each.opts
        }
        assert shared <= flags, name


@pytest.mark.parametrize(
    "argv", [["--config", "a", "--config=b"], ["--json", "--profile", "-x"], ["--state-dir", "s"]]
)
def test_the_parser_reads_them_the_same_way(
    argv: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[SharedOptions] = []
    monkeypatch.setattr("anyport.cli.commands.check.check", seen.append)

    commands.main(["check", *argv], standalone_mode=False)

    assert seen == [parse_plain(argv)]


@pytest.mark.parametrize(
    ("argv", "listening"),
    [
        ([], ListenOptions()),
        (["--port", "0"], ListenOptions(port=0)),
        (["--host=::1", "--port=81", "--port", "82"], ListenOptions(host="::1", port=82)),
        (["--upgrade"], ListenOptions(upgrade=True)),
    ],
)
def test_serve_has_three_more(argv: list[str], listening: ListenOptions) -> None:
    assert parse_plain_serve([*argv, "--json"]) == (SharedOptions(json=True), listening)


def test_a_port_that_is_none_is_left_to_the_parser() -> None:
    for argv in (["--port", "x"], ["--port=70000"], ["--port", "-1"], ["--help"]):
        assert parse_plain_serve(argv) is None, argv


def test_commands_that_can_ask_a_running_gateway_have_the_options_for_it() -> None:
    able = {
        name
        for name, command in commands.commands.items()
        if {option.name for option in REMOTE_OPTIONS}
        <= {flag for parameter in command.params for flag in parameter.opts}
    }
    assert able == {
        *("tools", "call", "status", "events", "trace", "stats"),
        *("traffic", "show", "export", "lint", "replay", "why"),
        *("check", "reload"),
    }


def test_a_token_is_in_no_text_by_accident() -> None:
    assert "s3cret" not in repr(SharedOptions(url="http://x", token="s3cret"))

"""The options that every command understands, read without a parser."""

from pathlib import Path

import click
import pytest

from anyport.cli.main import commands
from anyport.cli.options import REMOTE, SHARED, Given, Listening, read_plain, read_plain_serve


@pytest.mark.parametrize(
    ("argv", "given"),
    [
        ([], Given()),
        (["--json"], Given(json=True)),
        (["--profile", "dev"], Given(profile="dev")),
        (["--profile=a", "--profile=b=c"], Given(profile="b=c")),
        (
            ["--config", "a.toml", "--state-dir=/s", "--config=b.json"],
            Given(config=(Path("a.toml"), Path("b.json")), state_dir=Path("/s")),
        ),
    ],
)
def test_what_is_plainly_spelt_is_read(argv: list[str], given: Given) -> None:
    assert read_plain(argv) == given


@pytest.mark.parametrize(
    "argv", [["--help"], ["-h"], ["--conf", "x"], ["--config"], ["--json=1"], ["x"], ["--"]]
)
def test_anything_else_is_left_to_the_parser(argv: list[str]) -> None:
    assert read_plain(argv) is None


@pytest.mark.parametrize("name", sorted(set(commands.commands) - {"demo-server"}))
def test_every_command_has_all_of_them(name: str) -> None:
    parameters = commands.commands[name].params
    options = {flag for each in parameters if isinstance(each, click.Option) for flag in each.opts}
    assert {option.name for option in SHARED} <= options


@pytest.mark.parametrize(
    "argv", [["--config", "a", "--config=b"], ["--json", "--profile", "-x"], ["--state-dir", "s"]]
)
def test_the_parser_reads_them_the_same_way(
    argv: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Given] = []
    monkeypatch.setattr("anyport.cli.check.check", seen.append)

    commands.main(["check", *argv], standalone_mode=False)

    assert seen == [read_plain(argv)]


@pytest.mark.parametrize(
    ("argv", "listening"),
    [
        ([], Listening()),
        (["--port", "0"], Listening(port=0)),
        (["--host=::1", "--port=81", "--port", "82"], Listening(host="::1", port=82)),
        (["--upgrade"], Listening(upgrade=True)),
    ],
)
def test_serve_has_three_more(argv: list[str], listening: Listening) -> None:
    assert read_plain_serve([*argv, "--json"]) == (Given(json=True), listening)


@pytest.mark.parametrize("argv", [["--port", "x"], ["--port=70000"], ["--port", "-1"], ["--help"]])
def test_a_port_that_is_none_is_left_to_the_parser(argv: list[str]) -> None:
    assert read_plain_serve(argv) is None


def test_commands_that_can_ask_a_running_gateway_have_the_options_for_it() -> None:
    able = {
        name
        for name, command in commands.commands.items()
        if {option.name for option in REMOTE}
        <= {flag for parameter in command.params for flag in parameter.opts}
    }
    assert able == {
        *("tools", "call", "status", "events", "trace", "stats"),
        *("traffic", "show", "export", "lint", "replay", "why"),
        *("check", "reload"),
    }


def test_a_token_is_in_no_text_by_accident() -> None:
    assert "s3cret" not in repr(Given(url="http://x", token="s3cret"))

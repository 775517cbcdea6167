"""The options that every command understands, read without a parser."""

from pathlib import Path

import click
import pytest

from anyport.cli.main import commands
from anyport.cli.options import SHARED, Given, read_plain


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

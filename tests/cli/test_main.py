"""The command line as a whole: help, slips, and the pages about it."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from anyport import __version__
from anyport.cli.events import STATUSES
from anyport.cli.main import commands
from anyport.cli.pages import NEXT_STEPS
from tests.cli.stage import Stage

PAGES = Path(__file__).parents[2] / "docs" / "commands"
NAMES = sorted(commands.commands)
PARSED = sorted(set(NAMES) - {"demo-server"})
"""Commands whose options are ours; the demo server reads its own."""


def parse(argv: list[str]) -> None:
    """Read a command line without running it.

    Raises:
        click.UsageError: it is wrong.
    """
    commands.commands[argv[0]].make_context(argv[0], argv[1:])


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"]])
def test_alone_it_says_what_there_is_and_what_to_do_next(stage: Stage, argv: list[str]) -> None:
    ran = stage.run(*argv)

    assert (ran.code, ran.err) == (0, "")
    for name in NAMES:
        assert re.search(rf"^  {name} ", ran.out, re.MULTILINE)
    for step, _ in NEXT_STEPS:
        assert f"  {step}  " in ran.out


@pytest.mark.parametrize("words", [[], ["help"], ["--help"], ["tools"], ["call"], ["stdio"]])
def test_help_is_a_word_as_well_as_an_option(stage: Stage, words: list[str]) -> None:
    about = [word for word in words if word in NAMES]
    ran = stage.run("help", *words)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == stage.run(*about, "--help").out


def test_help_tells_where_a_configuration_is_looked_for(stage: Stage) -> None:
    told = " ".join(stage.run("tools", "--help").out.split())
    assert "Without --config: anyport.toml or anyport.json here or in" in told
    assert str(stage.folder / "config" / "anyport") in told.replace(" ", "")


def test_help_lists_every_status(stage: Stage) -> None:
    told = stage.run("events", "--help").out
    assert all(status in told for status in STATUSES)


@pytest.mark.parametrize("name", NAMES)
def test_help_begins_with_an_example_that_parses(stage: Stage, name: str) -> None:
    ran = stage.run(name, "--help")

    assert ran.code == 0
    example = ran.out.splitlines()[0].removeprefix("Example: ")
    program, *argv = shlex.split(example)
    assert (program, argv[0]) == ("anyport", name)
    if name in PARSED:
        parse(argv)


@pytest.mark.parametrize("name", PARSED)
def test_every_option_is_explained_in_one_line(name: str) -> None:
    for option in commands.commands[name].params:
        if isinstance(option, click.Option):
            assert option.help
            assert len(option.help) <= 62, option.help


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_a_page_that_names_all_its_options(name: str) -> None:
    page = (PAGES / f"{name}.md").read_text("utf-8")

    assert page.startswith(f"# `anyport {name}`\n")
    if name in PARSED:
        flags = [flag for each in commands.commands[name].params for flag in each.opts]
        for flag in flags:
            assert not flag.startswith("-") or re.search(rf"`{flag}[` ]", page), flag
        shown = set(re.findall(r"`(--[a-z-]+)", page)) - {"--help"}
        assert shown <= set(flags), "the page has options that do not exist"


def test_there_is_no_page_about_a_command_that_is_not_there() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} == set(NAMES)


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_what_a_page_tells_to_type_parses(page: Path) -> None:
    shell = "".join(re.findall(r"^```sh\n(.*?)^```", page.read_text("utf-8"), re.M | re.S))
    lines = [line.partition(" #")[0] for line in shell.splitlines() if line.startswith("anyport ")]

    assert lines
    for line in lines:
        argv = shlex.split(re.split(r" [|<>] ?", line)[0])[1:]
        if argv[0] in PARSED and "--help" not in argv:
            parse(argv)


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["tool"], "There is no command 'tool'. Did you mean 'tools'?"),
        (["zzz"], "There is no command 'zzz'. 'anyport --help' lists the commands."),
        (["serv"], "There is no command 'serv'. Did you mean 'serve'?"),
        (["serve", "--port", "70000"], "70000 is not in the range"),
        (["serve", "--port", "x"], "'x' is not a valid integer"),
        (["serve", "--url", "x"], "No such option"),
        (["help", "tool"], "There is no command 'tool'. Did you mean 'tools'?"),
        (["--nonsense"], "No such option"),
        (["--config", "x", "tools"], "--config goes after the command"),
        (["--json"], "--json goes after the command"),
        (["tools", "--nonsense"], "No such option"),
        (["tools", "--config"], "requires an argument"),
        (["stdio", "--nonsense"], "No such option"),
        (["stdio", "word"], "unexpected extra argument"),
        (["call"], "Missing argument 'NAME'"),
    ],
)
def test_wrong_usage_is_explained_on_stderr(stage: Stage, argv: list[str], told: str) -> None:
    ran = stage.run(*argv)

    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err


def test_the_version_is_told(stage: Stage) -> None:
    assert stage.run("--version").out == f"anyport {__version__}\n"


def test_a_reader_that_had_enough_is_no_error(stage: Stage) -> None:
    stage.configure()
    command = [sys.executable, "-m", "anyport", "tools", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait() == 0

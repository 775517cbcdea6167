"""The command line as a whole: help, slips, and the pages about it."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from anyport import __version__
from anyport.cli.commands.events import STATUSES
from anyport.cli.help_pages import NEXT_STEPS, FilterCommand
from anyport.cli.main import commands
from tests.cli.stage import Stage

PAGES = Path(__file__).parents[2] / "docs" / "reference" / "commands"
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


def test_help_begins_with_an_example_that_parses(stage: Stage) -> None:
    for name in NAMES:
        ran = stage.run(name, "--help")
        assert ran.code == 0, name
        example = ran.out.splitlines()[0].removeprefix("Example: ")
        program, *argv = shlex.split(example)
        assert (program, argv[0]) == ("anyport", name)
        if name in PARSED:
            parse(argv)


def test_every_option_is_explained_in_one_line() -> None:
    options = [option for name in PARSED for option in commands.commands[name].params]
    texts = [(each.name, each.help or "") for each in options if isinstance(each, click.Option)]
    assert [row for row in texts if not 0 < len(row[1]) <= 62] == []


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
        (["zzz"], "There is no command 'zzz'. 'anyport --help' lists all commands."),
        (["serv"], "There is no command 'serv'. Did you mean 'serve'?"),
        (["serve", "--port", "70000"], "70000 is not in the range"),
        (["serve", "--port", "x"], "'x' is not a valid integer"),
        (["serve", "--url", "x"], "No such option"),
        (["help", "tool"], "There is no command 'tool'. Did you mean 'tools'?"),
        (["--nonsense"], "No such option"),
        (["--config", "x", "tools"], "--config must follow the command"),
        (["--json"], "--json must follow the command"),
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


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_works_without_standard_descriptors(stage: Stage, closed: str) -> None:
    stage.configure()
    line = f'exec "$0" -m anyport call tiny__add a=2 b=3 --state-dir "$1" {closed}'

    ran = subprocess.run(
        ["sh", "-c", line, sys.executable, stage.state], capture_output=True, text=True, check=False
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout or "null") == (None if " >" in f" {closed}" else {"sum": 5})


def parsed(*argv: str) -> dict[str, Any]:
    """What a command with a filter and two options is told."""
    told: dict[str, Any] = {}

    @click.command(cls=FilterCommand, example="x")
    @click.argument("words", nargs=-1)
    @click.option("-f", "--follow", is_flag=True)
    @click.option("-n", "--limit", default=7)
    def command(**said: Any) -> None:
        told.update(said)

    command.main(list(argv), standalone_mode=False)
    return told


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], ()),
        (["server:github"], ("server:github",)),
        (["-server:github"], ("-server:github",)),
        (["-f", "a", "-name:x", "-n", "3", "b"], ("a", "b", "-name:x")),
        (["a", "--", "-f", "-kind:x"], ("a", "-f", "-kind:x")),
    ],
)
def test_a_negated_term_is_no_option(argv: list[str], words: tuple[str, ...]) -> None:
    assert parsed(*argv)["words"] == words


def test_options_are_understood_beside_negated_terms() -> None:
    told = parsed("-fail:x", "-f", "-n", "3")
    assert (told["follow"], told["limit"], told["words"]) == (True, 3, ("-fail:x",))


def test_an_option_that_does_not_exist_is_still_wrong() -> None:
    with pytest.raises(click.NoSuchOption):
        parsed("-x")


COMMAND = [sys.executable, "-m", "anyport", "demo-server"]


def test_it_is_the_demo_server(stage: Stage) -> None:
    request = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    ended = subprocess.run(COMMAND, input=request, capture_output=True, check=True)
    assert ended.stdout == b'{"jsonrpc":"2.0","id":1,"result":{}}\n'


def test_its_help_begins_with_an_example(stage: Stage) -> None:
    ran = stage.run("demo-server", "--help")
    assert ran.code == 0
    assert ran.out.startswith("Example: anyport demo-server --http 8000\n\nusage: anyport demo")


def test_its_exit_code_is_ours(stage: Stage) -> None:
    assert stage.run("demo-server", "--nonsense").code == 2

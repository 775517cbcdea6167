"""Filters as arguments of a command; the rest of the pages is tested with the command line."""

from typing import Any

import click
import pytest

from anyport.cli.pages import FilterPage


def parsed(*argv: str) -> dict[str, Any]:
    """What a command with a filter and two options is told."""
    told: dict[str, Any] = {}

    @click.command(cls=FilterPage, example="x")
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

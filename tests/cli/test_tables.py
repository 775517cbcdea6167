"""Tables on terminals of every width."""

import io
import re
from collections.abc import Sequence

import pytest
from rich.console import Console

from anyport.cli.commands import stats
from anyport.cli.connect import journal
from anyport.cli.tables import out_grid

NUMBERS = ("121600", "1216", "12", "1234.5 ms", "999.9 ms", "1000.00 s")
STATS = [
    ("every-thing-server", "tool_call", "a_tool_with_a_long_name", *NUMBERS),
    ("(gateway)", "resource_read", "file:///a/b/c/d", "1", "0", "0", "1.0 ms", "", ""),
]
MESSAGE = "the server said that something went wrong (error -7)"
EVENTS = [
    ("07-28 12:00:00.250", "tool_call", "failure", "demo", "echo", "1.5 ms", "4bf92f35", MESSAGE),
    ("07-28 12:00:01.250", "tool_call", "success", "demo", "echo", "1.5 ms", "4bf92f36", ""),
]


def shown(width: int, titles: tuple[str, ...], rows: Sequence[Sequence[str]], *whole: str) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, highlight=False)
    out_grid(console, titles, rows, no_wrap=whole, styles={})
    return file.getvalue()


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 200])
def test_numbers_and_units_are_whole_at_every_width(width: int) -> None:
    text = shown(width, stats.TITLES, STATS, *stats.NUMBERS)

    for number in NUMBERS:
        assert re.search(rf"(?<!\S){re.escape(number)}(?!\S)", text), number
    if width >= 60:
        assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_messages_times_and_traces_are_there_at_every_width(width: int) -> None:
    text = shown(width, journal.TITLES, EVENTS, *journal.NO_WRAP)

    assert MESSAGE in " ".join(text.split())
    for whole in ("07-28 12:00:00.250", "1.5 ms", "4bf92f35", "failure"):
        assert whole in text
    if width >= 80:
        assert max(map(len, text.splitlines())) <= width


def test_a_sentence_with_room_folds_in_its_column() -> None:
    text = shown(50, ("NAME", "WORDS"), [("x", "many words " * 8)])
    assert len(text.splitlines()) == 3
    assert text.splitlines()[1].startswith("x     many words")
    assert text.splitlines()[2].startswith("      many words")


def test_a_table_without_rows_is_its_titles() -> None:
    assert shown(80, ("NAME", "WORDS"), []) == "NAME  WORDS\n"


def test_in_a_list_only_the_titles_are_bold() -> None:
    file = io.StringIO()
    console = Console(file=file, width=12, highlight=False, force_terminal=True, no_color=False)
    out_grid(console, ("NAME", "NUMBER"), [("x", "1234567890")], no_wrap=("NUMBER",), styles={})
    assert "NUMBER\x1b[0m  1234567890\n" in file.getvalue()

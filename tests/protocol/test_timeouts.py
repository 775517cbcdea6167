"""Every time that can be over has one name."""

import re
from pathlib import Path

import anyport
from anyport.protocol.timeouts import Timeout

PAGE = Path(anyport.__file__).parents[2] / "docs" / "timeouts.md"


def test_the_names_are_words_that_fit_a_label() -> None:
    names = [timeout.value for timeout in Timeout]

    assert len(set(names)) == len(names) == 14
    assert all(re.fullmatch("[a-z]+(-[a-z]+)?", name) for name in names)


def test_the_page_of_timeouts_has_a_row_for_each_and_no_other() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)

    assert rows == [timeout.value for timeout in Timeout]

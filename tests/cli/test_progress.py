"""Progress on stderr."""

from typing import Any

import pytest

from anyport.cli.progress import ProgressLine, words


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"progress": 1, "total": 3}, "33 %"),
        ({"progress": 5, "total": 3, "message": "done"}, "100 %  done"),
        ({"progress": 2.5}, "2.5"),
        ({"progress": 2, "total": 0}, "2"),
        ({"progress": "x", "message": "\x1b[2Jhm\n"}, "working  hm↵"),
        ({}, "working"),
    ],
)
def test_progress_is_a_share_where_the_whole_is_known(params: dict[str, Any], told: str) -> None:
    assert words(params) == told


def test_a_terminal_has_one_line_that_changes_and_goes() -> None:
    written: list[str] = []
    line = ProgressLine(written.append, terminal=True, verbose=False)

    line.tell({"progress": 1, "total": 2})
    line.tell({"progress": 2, "total": 2, "message": "x" * 200})
    line.clear()
    line.clear()

    assert written[0] == "\r\x1b[K50 %"
    assert len(written[1].removeprefix("\r\x1b[K")) == 79
    assert written[2:] == ["\r\x1b[K"]


def test_elsewhere_nothing_is_told_unless_it_is_asked_for() -> None:
    written: list[str] = []
    ProgressLine(written.append, terminal=False, verbose=False).tell({"progress": 1})
    assert written == []
    ProgressLine(written.append, terminal=False, verbose=True).tell({"progress": 1})
    assert written == ["1\n"]

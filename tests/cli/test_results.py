"""A tool's result for people."""

from typing import Any

import pytest

from anyport.cli.results import (
    ProgressLine,
    first_binary,
    format_bytes,
    progress_text,
    render_result,
)

PICTURE = {"type": "image", "mimeType": "image/png", "data": "AAEC"}
FILE = {"type": "resource", "resource": {"uri": "f://x", "mimeType": "a/b", "blob": "AAEC"}}


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ({"type": "text", "text": "one\r\ntwo\x1b[31m"}, "one\ntwo"),
        (PICTURE, "[image/png 3 B]"),
        ({"type": "audio", "mimeType": "audio/wav", "data": "AA=="}, "[audio/wav 1 B]"),
        ({"type": "image", "data": "not base64"}, "[binary 0 B]"),
        (FILE, "[a/b 3 B f://x]"),
        ({"type": "resource", "resource": {"uri": "f://x", "text": "inside"}}, "inside"),
        ({"type": "resource_link", "name": "n", "uri": "f://x"}, "[link: n f://x]"),
        ({"type": "smell\x1b[2J"}, "[content of type smell]"),
    ],
)
def test_text_is_text_and_everything_else_is_described(block: dict[str, Any], told: str) -> None:
    assert list(render_result({"content": [block]})) == [told]


def test_structured_content_is_json_and_not_said_twice() -> None:
    words = {"type": "text", "text": "The sum:"}
    again = {"type": "text", "text": '{"sum":5}'}

    result = {"content": [words, again], "structuredContent": {"sum": 5}}

    assert list(render_result(result)) == ["The sum:", '{\n  "sum": 5\n}']


def test_an_empty_or_odd_result_shows_nothing() -> None:
    assert list(render_result({})) == []
    assert list(render_result({"content": ["odd"]})) == []


def test_the_first_binary_content_is_found() -> None:
    words = {"type": "text", "text": "x"}
    assert first_binary({"content": [words, FILE, PICTURE]}) == b"\x00\x01\x02"
    assert first_binary({"content": [words, "odd"]}) is None


@pytest.mark.parametrize(("count", "told"), [(999, "999 B"), (1234, "1.2 kB"), (5e6, "5.0 MB")])
def test_sizes_are_short(count: int, told: str) -> None:
    assert format_bytes(count) == told


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
    assert progress_text(params) == told


def test_a_terminal_has_one_line_that_changes_and_goes() -> None:
    written: list[str] = []
    line = ProgressLine(written.append, terminal=True, verbose=False)

    line.update({"progress": 1, "total": 2})
    line.update({"progress": 2, "total": 2, "message": "x" * 200})
    line.clear()
    line.clear()

    assert written[0] == "\r\x1b[K50 %"
    assert len(written[1].removeprefix("\r\x1b[K")) == 79
    assert written[2:] == ["\r\x1b[K"]


def test_elsewhere_nothing_is_told_unless_it_is_asked_for() -> None:
    written: list[str] = []
    ProgressLine(written.append, terminal=False, verbose=False).update({"progress": 1})
    assert written == []
    ProgressLine(written.append, terminal=False, verbose=True).update({"progress": 1})
    assert written == ["1\n"]

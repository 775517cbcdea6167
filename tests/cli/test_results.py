"""A tool's result for people."""

from typing import Any

import pytest

from anyport.cli.results import first_binary, shown, size

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
        ({"type": "smell\x1b[2J"}, "[content of the type smell]"),
    ],
)
def test_text_is_text_and_everything_else_is_described(block: dict[str, Any], told: str) -> None:
    assert list(shown({"content": [block]})) == [told]


def test_structured_content_is_json_and_not_said_twice() -> None:
    words = {"type": "text", "text": "The sum:"}
    again = {"type": "text", "text": '{"sum":5}'}

    result = {"content": [words, again], "structuredContent": {"sum": 5}}

    assert list(shown(result)) == ["The sum:", '{\n  "sum": 5\n}']


def test_an_empty_or_odd_result_shows_nothing() -> None:
    assert list(shown({})) == []
    assert list(shown({"content": ["odd"]})) == []


def test_the_first_binary_content_is_found() -> None:
    words = {"type": "text", "text": "x"}
    assert first_binary({"content": [words, FILE, PICTURE]}) == b"\x00\x01\x02"
    assert first_binary({"content": [words, "odd"]}) is None


@pytest.mark.parametrize(("count", "told"), [(999, "999 B"), (1234, "1.2 kB"), (5e6, "5.0 MB")])
def test_sizes_are_short(count: int, told: str) -> None:
    assert size(count) == told

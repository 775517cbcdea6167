"""Whether a payload may hold a kind of content that a revision does not have."""

import json
from typing import Any

import pytest

from anyport.protocol.kinds import BRACES_MAX, LONG_BYTES, may_be_strange
from anyport.protocol.revision import REVISIONS

OLDEST, NEWEST = REVISIONS["2024-11-05"], REVISIONS["2025-11-25"]
LONG = "x" * LONG_BYTES


def raw(*content: Any, **more: Any) -> bytes:
    return json.dumps({"content": content, **more}, separators=(",", ":")).encode()


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


@pytest.mark.parametrize("words", ["", LONG, LONG + "a{b}" * 3, LONG + "{" * (BRACES_MAX + 5)])
def test_text_is_known_to_everybody(words: str) -> None:
    assert not may_be_strange(raw(text(words)), OLDEST)


@pytest.mark.parametrize("words", ["", LONG, LONG + " {", LONG + ' "type": "audio"'])
@pytest.mark.parametrize("before", [True, False])
def test_what_came_later_is_found_beside_any_text(words: str, before: bool) -> None:
    for kind, revision in (("audio", OLDEST), ("unheard-of", NEWEST)):
        other = {"type": kind, "data": "x"}
        blocks = (other, text(words)) if before else (text(words), other)
        assert may_be_strange(raw(*blocks), revision)
        assert may_be_strange(json.dumps({"content": blocks}).encode(), revision)


def test_a_long_result_that_is_written_otherwise_is_read() -> None:
    late = b'{"content":[{"text":"%b","type":"unheard-of"}]}' % LONG.encode()

    assert may_be_strange(late, NEWEST)
    assert not may_be_strange(late.replace(b"unheard-of", b"text"), NEWEST)

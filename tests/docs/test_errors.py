"""The messages on the page of errors are those of the code."""

import re
from functools import cache
from typing import Final

import pytest

from tests.docs.test_docs import PACKAGE, text_of

FILLED_IN: Final = re.compile(
    r"<[^>]*>|'x'|\benv\.TOKEN\b|\bNAME\b(?:, which is not set)?|\(HTTP \d+\)|\d+|"
    r"\b(?:uri|x)$|…|[:;,(] |^The server "
)
"""What differs from message to message, and where one sentence is joined to another."""
FRAGMENT_CHARS_MIN: Final = 8


def messages() -> list[str]:
    page = text_of("docs/reference/errors.md")
    rows = re.findall(r"^\| (`[A-Z].+?`) \| ", page, re.MULTILINE)
    return sorted({message for row in rows for message in re.findall(r"`([^`]+)`", row)})


@cache
def wording() -> str:
    """The texts of the package; what is written in several pieces is joined."""
    text = "".join(file.read_text("utf-8") for file in sorted(PACKAGE.rglob("*.py")))
    return re.sub(r'"\s*f?"', "", text)


def test_the_page_has_many_messages() -> None:
    assert len(messages()) > 40


@pytest.mark.parametrize("message", messages())
def test_a_message_on_the_page_is_in_the_code(message: str) -> None:
    parts = [part.strip(" ()") for part in FILLED_IN.split(message)]
    said = [part for part in parts if len(part) >= FRAGMENT_CHARS_MIN]
    assert said
    for part in said:
        assert part in wording(), part

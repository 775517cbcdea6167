"""Whether a payload may hold a kind of content that a revision does not have; a quick look.

It decides only where a second look is needed, so it may say yes too often, and never no wrongly.
"""

import re
from typing import Final

from anyport.protocol.revision import Revision

LONG_BYTES: Final = 4096
"""From here on it pays not to read everything."""
BRACES_MAX: Final = 64
"""Looked at one by one; a text with more of them is read like any other."""

_ONE_TEXT: Final = re.compile(rb'\{(?:"resultType":"complete",)?"content":\[(?=\{"type":"text",)')
_BEFORE_OBJECTS: Final = b",:[ \t\r\n"


def may_be_strange(result: bytes, revision: Revision) -> bool:
    """Whether something in it may be of a kind that came later, or that nobody knows."""
    if len(result) >= LONG_BYTES and _is_one_text(result):
        return False
    return revision.strange.search(result) is not None


def _is_one_text(result: bytes) -> bool:
    """Whether a long result is one text, written as most are, and holds no other object.

    What opens an object stands behind a bracket, a comma, a colon or white space. No brace in the
    text does, if this is to say yes: to look for single bytes is many times faster than to search.
    """
    head = _ONE_TEXT.match(result)
    at = -1 if head is None else head.end()
    for _ in range(BRACES_MAX if head is not None else 0):
        at = result.find(b"{", at + 1)
        if at < 0:
            return True
        if result[at - 1] in _BEFORE_OBJECTS:
            return False
    return False

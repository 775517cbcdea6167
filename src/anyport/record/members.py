"""Rewrites the strings of a JSON payload, and hides members that are secret by name.

Works on the bytes, token by token: whatever is not rewritten stays as it was, numbers, spaces and
keys that come twice included, and depth costs no recursion. The payload must be valid JSON. What
a secret looks like is not known here.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from anyport.record.names import NAME_CHARS_MAX, Names, Weight

PART_CHARS_MIN: Final = 4
"""Nothing shorter is a secret."""

KEYS_REMEMBERED_MAX: Final = 4096
"""Keys whose redaction is remembered; then all are forgotten at once."""

_TOKEN: Final = re.compile(
    rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")(\s*+:)?'  # a string; a key if a colon follows
    rb"|[{}\[\]]"
    rb'|[^\s{}\[\]:,"]++'  # a number, or one of the literals
)
_LITERALS: Final = (b"true", b"false", b"null")
_LABELS: Final = frozenset(("name", "key", "header", "field", "variable"))
_DESCRIBING: Final = frozenset(
    ("type", "title", "description", "format", "$ref", "$schema", "pattern", "required", "name")
)
"""Members of a schema. A form that asks for a password is an object under that name, and what it
says of the password is no secret."""


@dataclass(slots=True)
class _Place:
    """The object or list that is being read."""

    inherited: Weight = Weight.NOTHING
    """Of the name that this object or list is the value of."""

    key: str = ""
    weight: Weight = Weight.NOTHING
    labelled: bool = False
    """A member such as `"name":"API_KEY"` says that the member `value` is a secret."""

    value: tuple[int, int] | None = None

    def passed_on(self) -> Weight:
        """What the name of the next value, or of all this, hides in it."""
        if self.weight or self.key not in _DESCRIBING:
            return self.weight or self.inherited
        return Weight.NOTHING


class Rewriting:
    """How the payloads of one gateway are rewritten."""

    def __init__(self, *, names: Names, redact: Callable[[str], str], mark: str) -> None:
        self._names = names
        self._redact = redact
        self._hidden = json.dumps(mark).encode()
        self._keys: dict[str, str] = {}

    def __call__(self, raw: bytes) -> bytes:
        """The payload without what may not be stored."""
        edits: list[tuple[int, int, bytes]] = []
        above: list[_Place] = []
        here = _Place()
        for token in _TOKEN.finditer(raw):
            quoted, colon = token.groups()
            if quoted:
                span = token.span(1)
                old = quoted
                new = self._key(here, quoted) if colon else self._string(here, quoted, span)
            elif token[0] in b"{[":
                above.append(here)
                here = _Place(inherited=here.passed_on())
                continue
            elif token[0] in b"}]":
                if here.labelled and here.value:
                    edits.append((*here.value, self._hidden))
                here = above.pop()
                continue
            else:
                span = token.span()
                old = token[0]
                new = self._scalar(here, old)
            if new != old:
                edits.append((*span, new))
        return _edited(raw, edits)

    def _key(self, here: _Place, quoted: bytes) -> bytes:
        here.key = text = _text(quoted)
        here.weight = self._names.weigh(text)
        redacted = self._keys.get(text)
        if redacted is None:
            redacted = self._redact(text)
            if len(self._keys) >= KEYS_REMEMBERED_MAX:
                self._keys.clear()
            if len(text) <= NAME_CHARS_MAX:
                self._keys[text] = redacted
        return quoted if redacted == text else json.dumps(redacted).encode()

    def _string(self, here: _Place, quoted: bytes, span: tuple[int, int]) -> bytes:
        text = _text(quoted)
        if text and here.passed_on():
            return self._hidden
        if here.key in _LABELS and self._names.weigh(text):
            here.labelled = True
        elif here.key == "value" and text:
            here.value = span
        if len(text) < PART_CHARS_MIN:
            return quoted
        redacted = self._redact(text)
        return quoted if redacted == text else json.dumps(redacted).encode()

    def _scalar(self, here: _Place, word: bytes) -> bytes:
        if word in _LITERALS:
            return word
        if here.weight is Weight.ALL:
            return self._hidden
        text = word.decode()
        if len(text) < PART_CHARS_MIN or self._redact(text) == text:
            return word
        return self._hidden


def _text(quoted: bytes) -> str:
    text: str = json.loads(quoted) if b"\\" in quoted else quoted[1:-1].decode()
    return text


def _edited(raw: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    parts: list[bytes] = []
    done = 0
    for start, end, new in sorted(edits):
        if start >= done:
            parts += (raw[done:start], new)
            done = end
    return b"".join((*parts, raw[done:]))

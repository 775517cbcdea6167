"""Redacts a JSON payload: its strings, and members with secret names.

It edits the bytes token by token. Everything else stays as it was, including numbers, spaces and
duplicate keys, and depth needs no recursion. The payload must be valid JSON.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from anyport.record.redact.budget import RedactionBudget
from anyport.record.redact.patterns import NAME_CHARS_MAX, Secrecy, SecretNames

SECRET_PART_CHARS_MIN: Final = 4
"""No shorter text is a secret."""

KEYS_REMEMBERED_MAX: Final = 4096
"""Cached keys; a full cache is cleared."""

REGION_BYTES: Final = 1024
"""A region is searched as a whole: if nothing in it is suspicious, its strings need no search."""

_REGION_STEPS: Final = 8
"""In steps of `RedactionBudget`. A token costs one."""
_STRING_STEPS: Final = 2
_KEY_STEPS: Final = 2

_TOKEN: Final = re.compile(
    rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")(\s*+:)?'  # a string; a key if a colon follows
    rb"|[{}\[\]]"
    rb'|[^\s{}\[\]:,"]++'  # a number or a literal
)
_LITERALS: Final = (b"true", b"false", b"null")
_NAME_KEYS: Final = frozenset(("name", "key", "header", "field", "variable"))
_SCHEMA_KEYS: Final = frozenset(
    ("type", "title", "description", "format", "$ref", "$schema", "pattern", "required", "name")
)
"""Members of a JSON Schema. A form that asks for a password is an object of that name, and the
description of the password is not secret."""


@dataclass(slots=True)
class _Container:
    """The object or list being read."""

    inherited_secrecy: Secrecy = Secrecy.NOTHING
    """Secrecy of the name whose value this is."""

    key: str = ""
    secrecy: Secrecy = Secrecy.NOTHING
    labelled: bool = False
    """A member such as `"name":"API_KEY"` makes the member `value` a secret."""

    value: tuple[int, int] | None = None

    def nested_secrecy(self) -> Secrecy:
        """Secrecy that the next value inherits, from its name or from outside."""
        if self.secrecy or self.key not in _SCHEMA_KEYS:
            return self.secrecy or self.inherited_secrecy
        return Secrecy.NOTHING


class JsonRedactor:
    """Redacts the payloads of one gateway."""

    def __init__(
        self,
        *,
        names: SecretNames,
        redact: Callable[[str, RedactionBudget], str],
        is_suspicious: Callable[[bytes, RedactionBudget], bool],
        mark: str,
    ) -> None:
        self._names = names
        self._redact = redact
        self._is_suspicious = is_suspicious
        self._mark_json = json.dumps(mark).encode()
        self._redacted_keys: dict[str, str] = {}

    def __call__(self, raw: bytes, budget: RedactionBudget) -> bytes:
        """The payload with a mark in place of every secret."""
        edits: list[tuple[int, int, bytes]] = []
        outer: list[_Container] = []
        container = _Container()
        regions = _Regions(raw, self._is_suspicious, budget)
        for token in _TOKEN.finditer(raw):
            budget.spend(1)
            quoted, colon = token.groups()
            if quoted:
                span = token.span(1)
                old = quoted
                if colon:
                    new = self._redact_key(container, quoted, budget)
                else:
                    new = self._redact_string(container, quoted, span, regions)
            elif token[0] in b"{[":
                outer.append(container)
                container = _Container(inherited_secrecy=container.nested_secrecy())
                continue
            elif token[0] in b"}]":
                if container.labelled and container.value:
                    edits.append((*container.value, self._mark_json))
                container = outer.pop()
                continue
            else:
                span = token.span()
                old = token[0]
                new = self._redact_scalar(container, old, span, regions)
            if new != old:
                edits.append((*span, new))
        return _apply_edits(raw, edits)

    def _redact_key(self, container: _Container, quoted: bytes, budget: RedactionBudget) -> bytes:
        container.key = text = _unquote(quoted)
        container.secrecy = self._names.secrecy_of(text)
        redacted = self._redacted_keys.get(text)
        if redacted is None:
            budget.spend(_KEY_STEPS)
            redacted = self._redact(text, budget)
            if len(self._redacted_keys) >= KEYS_REMEMBERED_MAX:
                self._redacted_keys.clear()
            if len(text) <= NAME_CHARS_MAX:
                self._redacted_keys[text] = redacted
        return quoted if redacted == text else json.dumps(redacted).encode()

    def _redact_string(
        self, container: _Container, quoted: bytes, span: tuple[int, int], regions: "_Regions"
    ) -> bytes:
        if container.nested_secrecy() and len(quoted) > len('""'):
            return self._mark_json
        if container.key in _NAME_KEYS and self._names.secrecy_of(_unquote(quoted)):
            container.labelled = True
        elif container.key == "value" and len(quoted) > len('""'):
            container.value = span
        # The search of a region sees escapes undecoded, so strings with escapes are searched alone.
        if len(quoted) < SECRET_PART_CHARS_MIN or (b"\\" not in quoted and regions.is_clear(span)):
            return quoted
        text = _unquote(quoted)
        redacted = self._redact(text, regions.budget)
        return quoted if redacted == text else json.dumps(redacted).encode()

    def _redact_scalar(
        self, container: _Container, word: bytes, span: tuple[int, int], regions: "_Regions"
    ) -> bytes:
        if word in _LITERALS:
            return word
        if container.secrecy is Secrecy.ALL:
            return self._mark_json
        if len(word) < SECRET_PART_CHARS_MIN or regions.is_clear(span):
            return word
        text = word.decode()
        return word if self._redact(text, regions.budget) == text else self._mark_json


class _Regions:
    """The regions of a payload, and which of them are free of secrets."""

    def __init__(
        self,
        raw: bytes,
        is_suspicious: Callable[[bytes, RedactionBudget], bool],
        budget: RedactionBudget,
    ) -> None:
        self.budget = budget
        self._raw = raw
        self._is_suspicious = is_suspicious
        self._checked_until = 0
        """Offset up to which regions were searched."""
        self._is_region_clear = False

    def is_clear(self, span: tuple[int, int]) -> bool:
        """Whether a token is in a region without secrets; otherwise it has to be searched alone."""
        start, end = span
        if start >= self._checked_until:
            self.budget.spend(_REGION_STEPS)
            self._checked_until = max(end, start + REGION_BYTES)
            self._is_region_clear = not self._is_suspicious(
                self._raw[start : self._checked_until], self.budget
            )
        if self._is_region_clear and end <= self._checked_until:
            return True
        self.budget.spend(_STRING_STEPS)
        return False


def _unquote(quoted: bytes) -> str:
    text: str = json.loads(quoted) if b"\\" in quoted else quoted[1:-1].decode()
    return text


def _apply_edits(raw: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    parts: list[bytes] = []
    done = 0
    for start, end, new in sorted(edits):
        if start >= done:
            parts += (raw[done:start], new)
            done = end
    return b"".join((*parts, raw[done:]))

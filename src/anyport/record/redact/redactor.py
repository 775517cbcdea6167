"""Redacts what must not be stored or shown: configured secrets, and whatever looks like a secret.

Known values are found in any encoding; tokens, phrases and member names reveal secrets that nobody
configured. Nearly every text is clean, so quick searches for short strings come first, and only
suspicious texts are read closely. All of it takes linear time, and close reading stays within a
budget, because texts come from strangers: what exceeds the budget is withheld as a whole.
"""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus

import msgspec

from anyport.record.redact.budget import BudgetExceeded, RedactionBudget
from anyport.record.redact.json import JsonRedactor
from anyport.record.redact.patterns import (
    LONG_RUN,
    NAME_SEPARATORS,
    SecretNames,
    TextSpan,
    TokenPattern,
    find_phrases,
    mark_runs,
    may_have_phrase,
    suspected_patterns,
)

MARK: Final = "[redacted]"

WITHHELD: Final = f"{MARK} (too much to look through)"
"""In place of a whole text or payload that exceeds the budget."""

SECRET_CHARS_MIN: Final = 4
"""A shorter value would be redacted all over every text, and protect nothing."""

FRAGMENT_CHARS_MIN: Final = 8
"""Of base64 that begins or ends within something longer; less would match by chance."""

KEY_LINES_MAX: Final = 400
"""More lines than any key has; a beginning without an end must not hide everything after it."""

# Costs in steps of `RedactionBudget`.
_TEXT_STEPS: Final = 8
"""Per text."""

_JSON_STEPS: Final = 16
"""Per text that may be JSON."""

_JSON_CHARS_PER_STEP: Final = 48
"""Of such a text."""

_PAYLOAD_BYTES_PER_STEP: Final = 256
"""Of a payload without suspicions."""

_TEXT_CHARS_PER_STEP: Final = 128
"""Of a text that is read closely."""

_SEARCHED_CHARS_PER_STEP: Final = 512
"""Per pattern."""

_LOWER: Final = bytes(range(256)).lower()

_CAPITAL_DOTTED_I: Final = "\u0130"
"""The one letter whose lower case has two characters."""

_ESCAPED: Final = re.compile(r"\\u([0-9a-fA-F]{4})|\\(/)")
_RUN: Final = re.compile("[A-Za-z0-9_-]+")
_decode: Final = msgspec.json.Decoder().decode


class Redactor:
    """Replaces every secret in a text or a payload with a mark."""

    def __init__(self, secrets: Iterable[str], keys: Iterable[str] = ()) -> None:
        self._secrets: frozenset[str] = frozenset()
        self._keys: frozenset[str] = frozenset()
        self.add_secrets(secrets, keys)

    def add_secrets(self, secrets: Iterable[str], keys: Iterable[str] = ()) -> None:
        """Add secrets and names of secrets.

        None is ever removed: an old secret may still be on its way.
        """
        self._secrets |= {secret for secret in secrets if len(secret) >= SECRET_CHARS_MIN}
        self._keys |= frozenset(keys)
        known, keys = self._secrets, sorted(self._keys)
        needles = {needle for secret in known for needle in _encodings(secret)}
        self._needles = sorted(needles, key=lambda needle: (-len(needle), needle))
        self._names = SecretNames(keys)
        # Only ASCII is lower-cased in bytes. For other names the hint is empty, which is in every
        # text, so that every key is read.
        self._hints = tuple(name if name.isascii() else "" for name in self._names.custom_names)
        self._has_non_ascii = not all(map(str.isascii, known))
        cores = _minimal_cores({_core(needle) for needle in needles})
        self._long_cores = tuple(
            core for core in cores if LONG_RUN in mark_runs(core.encode("latin-1"))
        )
        self._cores = tuple(cores.difference(self._long_cores))
        self._json_redactor = JsonRedactor(
            names=self._names,
            redact=self._redact_string,
            is_suspicious=self._is_suspicious,
            mark=MARK,
        )
        self._structural = tuple(needle for needle in self._needles if not needle.isalnum())

    def __call__(self, text: str) -> str:
        """The text with a mark in place of every secret."""
        try:
            return self._redact_text(text, RedactionBudget())
        except BudgetExceeded:
            return WITHHELD

    def redact_payload(self, raw: bytes, budget: RedactionBudget | None = None) -> bytes:
        """A JSON payload without secrets; the same bytes if it has none.

        What is not JSON comes back as a JSON string.
        """
        try:
            return self._redact_payload(raw, budget or RedactionBudget())
        except BudgetExceeded:
            return json.dumps(WITHHELD).encode()

    def _redact_payload(self, raw: bytes, budget: RedactionBudget) -> bytes:
        if len(raw) >= _PAYLOAD_BYTES_PER_STEP:
            steps = len(raw) // _PAYLOAD_BYTES_PER_STEP
            if steps > budget.steps_left:
                raise BudgetExceeded  # Not even begun.
            budget.spend(steps)
        try:
            _decode(raw)
        except RecursionError:
            return json.dumps(MARK).encode()
        except ValueError:
            if not _is_json(raw):
                return json.dumps(
                    self._redact_text(raw.decode("utf-8", "replace"), budget)
                ).encode()
        if not self._is_suspicious(raw, budget):
            return raw
        redacted = self._json_redactor(raw, budget)
        shown = redacted.decode("utf-8", "replace")
        if any(needle in shown for needle in self._structural if needle not in MARK):
            # The secret is JSON itself, and spans several values.
            return json.dumps(MARK).encode()
        return redacted

    def _is_suspicious(self, raw: bytes, budget: RedactionBudget) -> bool:
        """Whether there may be a secret; never False if there is one."""
        return self._has_known_secret(raw) or bool(suspected_patterns(raw, budget))

    def _has_known_secret(self, raw: bytes) -> bool:
        """The same for known secrets, and for phrases."""
        low = raw.translate(_LOWER, NAME_SEPARATORS).decode("latin-1")
        if may_have_phrase(low, raw) or ("\\" in low and self._has_escapes(low)):
            return True
        plain = raw.decode("latin-1")
        for hint in self._hints:
            if hint in low:
                return True
        for core in self._cores:
            if core in plain:
                return True
        if self._long_cores and LONG_RUN in mark_runs(raw):
            for core in self._long_cores:
                if core in plain:
                    return True
        return False

    def _has_escapes(self, low: str) -> bool:
        """Whether characters that matter may be written as escapes."""
        return "\\u00" in low or "\\/" in low or (self._has_non_ascii and "\\u" in low)

    def _redact_string(self, text: str, budget: RedactionBudget) -> str:
        """Redact a string of a payload, which may contain JSON itself."""
        if text.lstrip()[:1] in ("{", "["):
            budget.spend(_JSON_STEPS + len(text) // _JSON_CHARS_PER_STEP)
            raw = text.encode("utf-8", "surrogatepass")
            if not self._is_suspicious(raw, budget):
                return text
            known = self._mask_known(text)
            if known != text:
                raw = known.encode("utf-8", "surrogatepass")
            if _is_json(raw):
                budget.enter_nested()
                redacted = self._json_redactor(raw, budget).decode("utf-8", "surrogatepass")
                budget.depth -= 1
                return redacted
        return self._redact_text(text, budget)

    def _redact_text(self, text: str, budget: RedactionBudget) -> str:
        raw = text.encode("utf-8", "surrogatepass")
        kinds = suspected_patterns(raw, budget)
        if not kinds and not self._has_known_secret(raw):
            return text
        redacted = self._redact_closely(text, kinds, budget)
        if "\\" in redacted:
            # JSON that was cut or quoted: secrets may be hidden behind escapes.
            budget.spend(redacted.count("\\"))
            plain = _ESCAPED.sub(_unescape, redacted)
            if plain != redacted:
                kinds = suspected_patterns(plain.encode("utf-8", "surrogatepass"), budget)
                shown = self._redact_closely(plain, kinds, budget)
                if shown != plain:
                    return shown
        return redacted

    def _redact_closely(self, text: str, kinds: list[TokenPattern], budget: RedactionBudget) -> str:
        """Redact a suspicious text, in which there may be these kinds of tokens."""
        budget.spend(_TEXT_STEPS + len(text) // _TEXT_CHARS_PER_STEP)
        known = self._mask_known(text)
        if known != text:  # What surrounds a secret may look different without it.
            text = known
            kinds = suspected_patterns(text.encode("utf-8", "surrogatepass"), budget)
        low = text.lower()
        if len(low) != len(text):
            low = text.replace(_CAPITAL_DOTTED_I, "i").lower()
        spans: list[TextSpan] = []
        for _, expression in kinds:
            budget.spend(len(text) // _SEARCHED_CHARS_PER_STEP)
            for found in expression.finditer(text):
                budget.spend(1)
                spans.append(found.span(expression.groups))
        spans += find_phrases(text, low, self._names, budget)
        return _mark_spans(text, spans) if spans else text

    def _mask_known(self, text: str) -> str:
        for needle in self._needles:  # Longest first: a secret may be part of another.
            if needle in text:
                text = text.replace(needle, MARK)
        return text


class PemBlockRedactor:
    """Redacts private keys in a stream of lines, where no single line reveals that it is part of
    one."""

    def __init__(self) -> None:
        self._lines_left = 0
        """Lines that may still belong to a key."""

    @property
    def is_inside_key(self) -> bool:
        """Whether the next line belongs to a key."""
        return self._lines_left > 0

    def __call__(self, line: str) -> str:
        """The line, or a mark in its place."""
        if "-----" in line:
            label = line.rpartition("-----BEGIN ")[2]
            if "PRIVATE KEY" in label and "-----END " not in label:
                self._lines_left = KEY_LINES_MAX
                return line
        if not self._lines_left:
            return line
        self._lines_left = 0 if "-----END " in line else self._lines_left - 1
        return MARK


def _mark_spans(text: str, spans: list[TextSpan]) -> str:
    parts: list[str] = []
    done = 0
    for start, end in sorted(spans):
        if start >= done:
            parts += (text[done:start], MARK)
        done = max(done, end)
    return "".join((*parts, text[done:]))


def _unescape(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else "/"


def _is_json(raw: bytes) -> bool:
    """Whether a lenient parser accepts it: with any number, and with lone surrogates."""
    try:
        json.loads(raw.decode(), parse_constant=_refuse, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _core(needle: str) -> str:
    """The longest part of a needle that no encoding of JSON changes."""
    plain = needle.encode("utf-8", "surrogatepass").decode("latin-1")
    core = max(_RUN.findall(plain), key=len, default="")
    return core if len(core) >= SECRET_CHARS_MIN else plain


def _minimal_cores(cores: set[str]) -> set[str]:
    """Without the cores that contain others: where the shorter is absent, the longer is, too."""
    kept: list[str] = []
    for core in sorted(cores, key=len):
        if not any(shorter in core for shorter in kept):
            kept.append(core)
    return set(kept)


def _encodings(secret: str) -> Iterator[str]:
    """The forms of a secret in texts: plain, in JSON, in URLs, in base64."""
    yield secret
    for quoted in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        yield quoted
        yield json.dumps(quoted)[1:-1]
    for url_encoded in (
        quote(secret, safe="", errors="replace"),
        quote_plus(secret, errors="replace"),
    ):
        yield url_encoded
        yield re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), url_encoded)
    raw = secret.encode("utf-8", "replace")
    for encode in (b64encode, urlsafe_b64encode):
        yield encode(raw).decode()
        # Inside something longer, such as `user:secret`, the base64 of a secret depends on its
        # offset modulo three. The digits that it shares with its neighbours are left out.
        for shift in range(3):
            digits = encode(bytes(shift) + raw).decode().rstrip("=")
            inner = digits[-(-shift * 8 // 6) : (shift + len(raw)) * 8 // 6]
            if len(inner) >= FRAGMENT_CHARS_MIN:
                yield inner

"""What may not be stored or shown: the secrets of the configuration, and what looks like one.

Known values are found wherever they stand, also encoded; shapes of tokens, telling words and
names of members catch secrets that nobody told us. Nearly every text is clean, so a few searches
for short strings come first, and only what they leave in doubt is read closely. All of it takes
linear time: texts come from strangers.
"""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus

import msgspec

from anyport.record.members import Rewriting
from anyport.record.names import Names
from anyport.record.phrases import JOINTS, Span, hinted, phrases
from anyport.record.secrets import LONG_RUN, runs_of, suspects

MARK: Final = "[redacted]"

SECRET_CHARS_MIN: Final = 4
"""A shorter value would blot out half of every text and hide nothing."""

FRAGMENT_CHARS_MIN: Final = 8
"""The base64 of a secret inside something longer, where less would match by chance."""

_LOWER: Final = bytes(range(256)).lower()
_ESCAPED: Final = re.compile(r"\\u([0-9a-fA-F]{4})|\\(/)")
_RUN: Final = re.compile("[A-Za-z0-9_-]+")
_decode: Final = msgspec.json.Decoder().decode


class Redactor:
    """Replaces every secret in a text or a payload by a mark."""

    def __init__(self, secrets: Iterable[str], keys: Iterable[str] = ()) -> None:
        self._secrets: frozenset[str] = frozenset()
        self._keys: frozenset[str] = frozenset()
        self.learn(secrets, keys)

    def learn(self, secrets: Iterable[str], keys: Iterable[str] = ()) -> None:
        """Know these, too. Nothing is forgotten: what was secret once may still be on its way."""
        self._secrets |= {secret for secret in secrets if len(secret) >= SECRET_CHARS_MIN}
        self._keys |= frozenset(keys)
        known, keys = self._secrets, sorted(self._keys)
        needles = {needle for secret in known for needle in _forms(secret)}
        self._needles = sorted(needles, key=lambda needle: (-len(needle), needle))
        self._names = Names(keys)
        # Only the letters of ASCII are made small; other names would have to be looked for by
        # reading every key, which an empty hint does: it is in every text.
        self._hints = tuple(name if name.isascii() else "" for name in self._names.further)
        self._beyond_ascii = not all(map(str.isascii, known))
        cores = _shortest({_core(needle) for needle in needles})
        self._long_cores = tuple(
            core for core in cores if LONG_RUN in runs_of(core.encode("latin-1"))
        )
        self._cores = tuple(cores.difference(self._long_cores))
        self._rewrite = Rewriting(names=self._names, redact=self._inner, mark=MARK)
        self._structural = tuple(needle for needle in self._needles if not needle.isalnum())

    def __call__(self, text: str) -> str:
        """The text with a mark in place of every secret."""
        if not self._doubtful(text.encode("utf-8", "surrogatepass")):
            return text
        redacted = self._shown(text)
        if "\\" in redacted:
            # JSON that was cut, or quoted: a letter may stand there by its number.
            plain = _ESCAPED.sub(_unescaped, redacted)
            shown = self._shown(plain)
            if shown != plain:
                return shown
        return redacted

    def payload(self, raw: bytes) -> bytes:
        """A JSON payload without secrets: the same bytes where there are none, else still JSON.

        What is no JSON comes back as a JSON string.
        """
        try:
            _decode(raw)
        except RecursionError:
            return json.dumps(MARK).encode()
        except ValueError:
            if not _is_json(raw):
                return json.dumps(self(raw.decode("utf-8", "replace"))).encode()
        if not self._doubtful(raw):
            return raw
        redacted = self._rewrite(raw)
        shown = redacted.decode("utf-8", "replace")
        if any(needle in shown for needle in self._structural if needle not in MARK):
            # A secret that is JSON itself, and lies across several values.
            return json.dumps(MARK).encode()
        return redacted

    def _doubtful(self, raw: bytes) -> bool:
        """Whether a secret could be there: never False where one is."""
        low = raw.translate(_LOWER, JOINTS).decode("latin-1")
        if hinted(low, raw) or ("\\" in low and self._escaped(low)):
            return True
        plain = raw.decode("latin-1")
        for hint in self._hints:
            if hint in low:
                return True
        for core in self._cores:
            if core in plain:
                return True
        if LONG_RUN not in runs_of(raw):
            return False
        for core in self._long_cores:
            if core in plain:
                return True
        return bool(suspects(raw))

    def _escaped(self, low: str) -> bool:
        """Whether letters that matter could be written by their numbers."""
        return "\\u00" in low or "\\/" in low or (self._beyond_ascii and "\\u" in low)

    def _inner(self, text: str) -> str:
        """A string of a payload, which may be JSON itself."""
        if not self._doubtful(text.encode("utf-8", "surrogatepass")):
            return text
        known = self._without_known(text)
        if known.lstrip()[:1] in ("{", "["):
            raw = known.encode("utf-8", "surrogatepass")
            if _is_json(raw):
                return self._rewrite(raw).decode("utf-8", "surrogatepass")
        return self(known)

    def _without_known(self, text: str) -> str:
        for needle in self._needles:  # Longest first: a secret may be part of another.
            if needle in text:
                text = text.replace(needle, MARK)
        return text

    def _shown(self, text: str) -> str:
        text = self._without_known(text)
        low = text.lower()
        if len(low) != len(text):  # A few letters become two.
            low = "".join(map(_small, text))
        spans = [
            found.span(expression.groups)
            for _, expression in suspects(text.encode("utf-8", "surrogatepass"))
            for found in expression.finditer(text)
        ]
        spans += phrases(text, low, self._names)
        return _marked(text, spans) if spans else text


def _marked(text: str, spans: list[Span]) -> str:
    parts: list[str] = []
    done = 0
    for start, end in sorted(spans):
        if start >= done:
            parts += (text[done:start], MARK)
        done = max(done, end)
    return "".join((*parts, text[done:]))


def _small(character: str) -> str:
    lower = character.lower()
    return lower if len(lower) == 1 else character


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else "/"


def _is_json(raw: bytes) -> bool:
    """Whether it is, to a reader that takes any number and half a character too."""
    try:
        json.loads(raw.decode(), parse_constant=_refuse, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _core(needle: str) -> str:
    """The longest part of a needle that stands in every payload as it is."""
    plain = needle.encode("utf-8", "surrogatepass").decode("latin-1")
    core = max(_RUN.findall(plain), key=len, default="")
    return core if len(core) >= SECRET_CHARS_MIN else plain


def _shortest(cores: set[str]) -> set[str]:
    """Those that have no other in them: where one is not, what contains it is not either."""
    kept: list[str] = []
    for core in sorted(cores, key=len):
        if not any(shorter in core for shorter in kept):
            kept.append(core)
    return set(kept)


def _forms(secret: str) -> Iterator[str]:
    """The secret as it may stand in a text: plain, in JSON, in an address, in base64."""
    yield secret
    for quoted in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        yield quoted
        yield json.dumps(quoted)[1:-1]
    for in_address in (
        quote(secret, safe="", errors="replace"),
        quote_plus(secret, errors="replace"),
    ):
        yield in_address
        yield re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), in_address)
    raw = secret.encode("utf-8", "replace")
    for encode in (b64encode, urlsafe_b64encode):
        yield encode(raw).decode()
        # Inside something longer, such as `user:secret`, what base64 makes of it depends on
        # where it begins, modulo three; the digits it shares with its neighbours are left out.
        for shift in range(3):
            digits = encode(bytes(shift) + raw).decode().rstrip("=")
            inner = digits[-(-shift * 8 // 6) : (shift + len(raw)) * 8 // 6]
            if len(inner) >= FRAGMENT_CHARS_MIN:
                yield inner

"""What may not be stored or shown: the secrets of the configuration, and what looks like one.

Known values are found wherever they stand, also encoded. Shapes of well-known tokens catch
secrets that nobody told us. Every pattern runs in linear time: texts come from strangers.
"""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus

MARK: Final = "[redacted]"

SECRET_CHARS_MIN: Final = 4
"""A shorter value would blot out half of every text and hide nothing."""

FRAGMENT_CHARS_MIN: Final = 8
"""The base64 of a secret inside something longer, where less would match by chance."""

# A word boundary that also holds inside JSON text and after a dash.
_START: Final = r"(?<![A-Za-z0-9])"
_TOKEN_SHAPES: Final = re.compile(
    "|".join(
        (
            # With a digit, or long: "Bearer authentication required" is no secret.
            r"(?i:\bbearer[ \t]{1,8})"
            r"(?:(?=[A-Za-z._~+/=-]*[0-9])[A-Za-z0-9._~+/=-]{8,}|[A-Za-z._~+/=-]{24,})",
            r"(?i:\bauthorization[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?basic[ \t]{1,8})"
            r"[A-Za-z0-9+/=_-]{4,}",
            _START + r"gh[pousr]_[A-Za-z0-9]{16,}",
            _START + r"github_pat_[A-Za-z0-9_]{16,}",
            _START + r"glpat-[A-Za-z0-9_-]{16,}",
            _START + r"sk-[A-Za-z0-9_-]{16,}",
            _START + r"[sr]k_(?:live|test)_[A-Za-z0-9]{10,}",
            _START + r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
            _START + r"(?:AKIA|ASIA)[0-9A-Z]{16}(?![A-Za-z0-9])",
            _START + r"AIza[A-Za-z0-9_-]{35}",
            # A JSON Web Token. The boundary keeps two attempts from reading the same run.
            r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
            # To its end, or to the end of the text where the rest was cut off.
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----[^-]*(?:-(?!----)[^-]*)*"
            r"(?:-----END [A-Z0-9 ]{0,40}-----)?",
            r"(?<=://)[^\s/:@]{0,64}:[^\s/@]{1,256}(?=@)",  # The password in an address.
        )
    )
)


class Redactor:
    """Replaces every secret in a text by a mark."""

    def __init__(self, secrets: Iterable[str]) -> None:
        needles = {needle for secret in secrets for needle in _forms(secret)}
        self._needles = sorted(needles, key=lambda needle: (-len(needle), needle))

    def __call__(self, text: str) -> str:
        for needle in self._needles:  # Longest first: a secret may be part of another.
            if needle in text:
                text = text.replace(needle, MARK)
        return _TOKEN_SHAPES.sub(MARK, text)


def _forms(secret: str) -> Iterator[str]:
    """The secret as it may stand in a text: plain, in JSON, in an address, in base64."""
    if len(secret) < SECRET_CHARS_MIN:
        return
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
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

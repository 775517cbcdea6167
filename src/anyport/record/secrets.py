"""What tokens look like: the letters that their vendors begin them with, and what follows.

A token has many letters and digits in a row, which hardly any other text has; only such runs are
read. Every pattern begins with a literal, which makes the search quick, and repeats only what is
bounded or cannot be tried twice, which keeps it linear: texts come from strangers. Words such as
`password=` are not known here.
"""

import re
import string
from typing import Final, NamedTuple

RUN_CHARS_MIN: Final = 16
"""Every token has that many letters, digits, `-` and `_` in a row."""

BLOB_CHARS_MIN: Final = 2048
"""So much base64 in a row is a picture or a file, not a token."""

LONG_RUN: Final = "a" * RUN_CHARS_MIN

_BEFORE_CHARS: Final = 12
"""What of a token may stand before its run: `123456789:`."""

_HEX_SIGNS: Final = "0123456789abcdef-"
_WORD_SIGNS: Final = string.ascii_lowercase + "-_"
_BLOB: Final = "a" * BLOB_CHARS_MIN


def _table(signs: str) -> bytes:
    return bytes(ord("a" if chr(byte) in signs else " ") for byte in range(256))


_RUNS: Final = _table(string.ascii_letters + string.digits + "-_")
_BLOBS: Final = _table(string.ascii_letters + string.digits + "+/=")


class Pattern(NamedTuple):
    """One kind of token."""

    prefix: str
    expression: re.Pattern[str]
    """Matches the prefix and the rest. If there is a group, only that is the secret."""


def runs_of(raw: bytes) -> str:
    """As many characters: `a` for each that belongs to a run, else a space."""
    return raw.translate(_RUNS).decode("latin-1")


def suspects(raw: bytes) -> list[Pattern]:
    """The kinds of tokens that could be in a text."""
    plain = raw.decode("latin-1")
    windows = _windows(plain, _without_blobs(runs_of(raw), raw))
    if not windows:
        return []
    prefixes = {found[0] for found in _PREFIXES.finditer(windows)}
    found = [pattern for pattern in TOKENS if pattern.prefix in prefixes] if prefixes else []
    found += [
        pattern
        for pattern in _UNBOUND
        if pattern.prefix in plain and pattern.expression.search(plain)
    ]
    return found


def _without_blobs(runs: str, raw: bytes) -> str:
    if len(raw) < BLOB_CHARS_MIN:
        return runs
    blobs = raw.translate(_BLOBS).decode("latin-1")
    parts = []
    done = 0
    at = blobs.find(_BLOB)
    while at >= 0:
        end = _end(blobs, at)
        parts += [runs[done:at], " " * (end - at)]
        done = end
        at = blobs.find(_BLOB, end)
    return "".join((*parts, runs[done:]))


def _windows(plain: str, runs: str) -> str:
    """The long runs of a text that could be tokens, each with what stands before it."""
    windows = []
    at = runs.find(LONG_RUN)
    while at >= 0:
        end = _end(runs, at)
        run = plain[at:end]
        # Nearly all are hashes, identifiers, and words that are joined.
        if run.strip(_HEX_SIGNS) and run.strip(_WORD_SIGNS):
            windows.append(plain[max(0, at - _BEFORE_CHARS) : end])
        at = runs.find(LONG_RUN, end)
    return "\n".join(windows)


def _end(runs: str, at: int) -> int:
    end = runs.find(" ", at)
    return end if end >= 0 else len(runs)


def _token(prefix: str, rest: str) -> Pattern:
    # The look-behind comes after the prefix, so that the search can begin with a literal.
    start = re.escape(prefix)
    return Pattern(prefix, re.compile(rf"{start}(?<![A-Za-z0-9]{start}){rest}"))


_WORD: Final = "[A-Za-z0-9]"
_DASHED: Final = "[A-Za-z0-9_-]"
_HEX: Final = "[0-9a-fA-F]"

TOKENS: Final = (
    # Code hosts and package registries
    *(_token(f"gh{letter}_", _WORD + "{16,}") for letter in "pousr"),
    _token("github_pat_", r"\w{16,}"),
    *(
        _token(f"gl{kind}-", "[A-Za-z0-9_.-]{16,}")
        for kind in ("pat", "dt", "rt", "ptt", "cbt", "ft", "soat", "agent", "oas", "ffct", "imt")
    ),
    _token("GR1348941", _DASHED + "{16,}"),
    _token("ATATT3", "[A-Za-z0-9_=-]{16,}"),
    _token("ATBB", _WORD + "{24,}"),
    _token("npm_", _WORD + "{30,}"),
    _token("pypi-AgE", _DASHED + "{16,}"),
    _token("rubygems_", _HEX + "{32,}"),
    _token("cio", _WORD + "{32}(?![A-Za-z0-9])"),
    _token("dckr_pat_", _DASHED + "{16,}"),
    _token("hf_", _WORD + "{16,}"),
    _token("r8_", _WORD + "{24,}"),
    # Clouds
    *(_token(kind, "[0-9A-Z]{16}(?![A-Za-z0-9])") for kind in ("AKIA", "ASIA", "ABIA", "ACCA")),
    _token("AIza", _DASHED + "{35}"),
    _token("ya29.", _DASHED + "{16,}"),
    _token("GOCSPX-", _DASHED + "{16,}"),
    _token("1//0", _DASHED + "{32,}"),
    *(_token(f"do{kind}_v1_", _HEX + "{32,}") for kind in "opr"),
    _token("dapi", _HEX + r"{32}(?:-\d)?"),
    _token("dp.pt.", _WORD + "{32,}"),
    _token("dp.st.", r"(?:[a-z0-9_-]{1,35}\.)?" + _WORD + "{32,}"),
    _token("hvs.", _DASHED + "{20,}"),
    _token("hvb.", _DASHED + "{20,}"),
    _token("glsa_", r"\w{20,}"),
    _token("glc_", "[A-Za-z0-9+/=]{20,}"),
    _token("eyJrIjoi", "[A-Za-z0-9+/=]{24,}"),
    _token("NRAK-", _WORD + "{20,}"),
    _token("fo1_", _DASHED + "{32,}"),
    _token("FlyV1 fm", "[A-Za-z0-9_+/=,-]{20,}"),
    _token("HRKU-", _DASHED + "{30,}"),
    _token("pul-", _HEX + "{32,}"),
    _token("vercel_", _WORD + "{20,}"),
    _token("sbp_", _HEX + "{32,}"),
    _token("sb_secret_", _DASHED + "{16,}"),
    _token("tskey-", "[A-Za-z0-9-]{16,}"),
    _token("PMAK-", "[A-Za-z0-9-]{24,}"),
    _token("lin_api_", _WORD + "{24,}"),
    _token("figd_", _DASHED + "{20,}"),
    _token("secret_", _WORD + "{32,}"),
    _token("ntn_", _WORD + "{32,}"),
    _token("pat", _WORD + r"{14}\." + _HEX + "{64}"),
    # Models
    _token("sk-", "(?=[a-z_-]{0,40}[A-Z0-9])" + _DASHED + "{16,}"),
    _token("sess-", _WORD + "{24,}"),
    _token("gsk_", _WORD + "{24,}"),
    _token("xai-", _WORD + "{24,}"),
    _token("pplx-", _WORD + "{24,}"),
    _token("nvapi-", _DASHED + "{24,}"),
    _token("lsv2_", r"\w{24,}"),
    _token("tvly-", _DASHED + "{16,}"),
    # Chat and mail
    *(_token(f"xox{letter}-", "[A-Za-z0-9-]{11,}") for letter in "abeoprs"),
    _token("xapp-", "[A-Za-z0-9-]{16,}"),
    _token("SG.", r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    _token("xkeysib-", "[A-Za-z0-9-]{32,}"),
    _token("key-", _HEX + "{32}(?![A-Za-z0-9])"),
    _token("SK", _HEX + "{32}(?![A-Za-z0-9])"),
    # Money and shops
    *(
        _token(f"{kind}_{mode}_", _WORD + "{10,}")
        for kind in ("sk", "rk")
        for mode in ("live", "test")
    ),
    _token("whsec_", "[A-Za-z0-9+/=]{16,}"),
    *(_token(f"shp{kind}_", _HEX + "{32,}") for kind in ("at", "ca", "pa", "ss")),
    _token("sq0", "(?:atp|csp|idp)-" + _DASHED + "{22,}"),
    _token("EAAA", _DASHED + "{56,}"),
    # Keys
    _token("AGE-SECRET-KEY-1", "[0-9A-Z]{50,}"),
    # A JSON Web Token, signed or encrypted.
    Pattern(
        "eyJ",
        re.compile(
            r"eyJ(?<![A-Za-z0-9_-]eyJ)[A-Za-z0-9_-]{8,}+\.(?:eyJ)?[A-Za-z0-9_-]{8,}+"
            r"(?:\.[A-Za-z0-9_-]*+){1,3}"
        ),
    ),
)
_UNBOUND: Final = (
    Pattern(":AA", re.compile(r":AA(?<=[0-9]{8}:AA)[A-Za-z0-9_-]{31,}")),  # A bot of Telegram.
    Pattern(".", re.compile(r"\.(?<=[\w-]{24}\.)[\w-]{6}\.[\w-]{27,}")),  # A bot of Discord.
    Pattern(
        "hooks.slack",
        re.compile(r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/]{16,})"),
    ),
    Pattern("webhooks/", re.compile(r"webhooks/([0-9]{8,20}/[A-Za-z0-9_-]{16,})")),  # Discord.
    Pattern("webhookb2/", re.compile(r"webhookb2/([A-Za-z0-9/@-]{16,})")),  # Teams.
)
"""Tokens that begin with who they belong to, or where they are sent."""

_PREFIXES: Final = re.compile(
    f"(?<![A-Za-z0-9])(?:{'|'.join(re.escape(pattern.prefix) for pattern in TOKENS)})"
)

"""Patterns of secrets: names of secret values, vendors' tokens, and phrases such as `password=...`.

Texts come from strangers, so every search takes linear time: a pattern begins with a literal, which
makes the search quick, and repeats only what is bounded or cannot be matched in two ways.
"""

import re
import string
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from anyport.record.redact.budget import RedactionBudget

# Names of secrets: keys of JSON, variables, header fields. They are compared in lower case and
# without separators: `API-Key`, `api_key` and `apiKey` are one name.

NAME_CHARS_MAX: Final = 128
"""A longer key is not a name."""

REMEMBERED_MAX: Final = 4096
"""Cached names; a full cache is cleared."""

_PASSWORD_SUFFIXES: Final = ("password", "passwd", "passphrase", "passcode", "pwd")
_SECRET_SUFFIXES: Final = (
    "secret",
    "secrets",
    "token",
    "tokens",
    "credential",
    "credentials",
    "authorization",
    "apikey",
    "accesskey",
    "privatekey",
    "secretkey",
    "accountkey",
    "signingkey",
    "encryptionkey",
    "masterkey",
    "authkey",
    "cookie",
    "cookies",
    "sessionid",
    "connectionstring",
)
"""Endings of names whose text is secret."""

_SECRET_NAMES: Final = frozenset(("pass", "auth"))
_HARMLESS_SUFFIXES: Final = (
    "progresstoken",
    "pagetoken",
    "nexttoken",
    "continuationtoken",
    "synctoken",
    "stoptoken",
    "maxtokens",
    "totaltokens",
    "inputtokens",
    "outputtokens",
    "prompttokens",
    "completiontokens",
)
"""Endings of names that belong to paging, progress and token counts."""

_WITHOUT_SEPARATORS: Final = str.maketrans("", "", "-_ .")


class Secrecy(IntEnum):
    """What a name makes secret about its value."""

    NOTHING = 0
    TEXT = 1
    ALL = 2
    """Numbers too: a password may be one, while `tokens` and `secrets` may be counts."""


class SecretNames:
    """The names of secrets, built in and configured."""

    def __init__(self, custom_names: Iterable[str] = ()) -> None:
        self.custom_names = frozenset(normalise_name(name) for name in custom_names)
        self._known_secrecy: dict[str, Secrecy] = {}

    def secrecy_of(self, name: str) -> Secrecy:
        """Secrecy of the value of a member with this name."""
        secrecy = self._known_secrecy.get(name)
        if secrecy is None:
            secrecy = (
                self._find_secrecy(normalise_name(name))
                if len(name) <= NAME_CHARS_MAX
                else Secrecy.NOTHING
            )
            if len(self._known_secrecy) >= REMEMBERED_MAX:
                self._known_secrecy.clear()
            if len(name) <= NAME_CHARS_MAX:
                self._known_secrecy[name] = secrecy
        return secrecy

    def _find_secrecy(self, name: str) -> Secrecy:
        if name in self.custom_names or name.endswith(_PASSWORD_SUFFIXES):
            return Secrecy.ALL
        if (name in _SECRET_NAMES or name.endswith(_SECRET_SUFFIXES)) and not name.endswith(
            _HARMLESS_SUFFIXES
        ):
            return Secrecy.TEXT
        return Secrecy.NOTHING


def normalise_name(name: str) -> str:
    """The form in which names are compared."""
    return name.lower().translate(_WITHOUT_SEPARATORS)


# Tokens: the prefixes that their vendors give them, and what follows. A token is a long run of
# letters and digits, which hardly any other text has, so only such runs are searched.

RUN_CHARS_MIN: Final = 16
"""Every token has this many letters, digits, `-` and `_` in a row."""

BLOB_CHARS_MIN: Final = 2048
"""This much base64 in a row is an image or a file."""

LONG_RUN: Final = "a" * RUN_CHARS_MIN

_WINDOW_CHARS_PER_STEP: Final = 64
"""Searched for prefixes per step of `RedactionBudget`."""

_BEFORE_CHARS: Final = 12
"""Characters of a token that may precede its run: `123456789:`."""

_HEX_CHARS: Final = "0123456789abcdef-"
_LOWER_WORD_CHARS: Final = string.ascii_lowercase + "-_"
_BLOB: Final = "a" * BLOB_CHARS_MIN


def _translation_table(chars: str) -> bytes:
    return bytes(ord("a" if chr(byte) in chars else " ") for byte in range(256))


_RUN_TABLE: Final = _translation_table(string.ascii_letters + string.digits + "-_")
_BLOB_TABLE: Final = _translation_table(string.ascii_letters + string.digits + "+/=")


class TokenPattern(NamedTuple):
    """A kind of token."""

    prefix: str
    expression: re.Pattern[str]
    """Matches the prefix and the rest. If there is a group, only that is the secret."""


def mark_runs(raw: bytes) -> str:
    """The text with `a` for each character of a run, and a space for every other."""
    return raw.translate(_RUN_TABLE).decode("latin-1")


def suspected_patterns(raw: bytes, budget: RedactionBudget) -> list[TokenPattern]:
    """The kinds of tokens that may be in a text."""
    runs = mark_runs(raw)
    if LONG_RUN not in runs:
        return []
    plain = raw.decode("latin-1")
    windows = _windows(plain, _without_blobs(runs, raw), budget)
    if not windows:
        return []
    budget.spend(len(windows) // _WINDOW_CHARS_PER_STEP)
    prefixes = set(_PREFIX_PATTERN.findall("\n" + windows))
    found = [pattern for pattern in TOKENS if pattern.prefix in prefixes] if prefixes else []
    found += [
        pattern
        for pattern in _CONTEXT_PATTERNS
        if pattern.prefix in plain and pattern.expression.search(plain)
    ]
    return found


def _without_blobs(runs: str, raw: bytes) -> str:
    if len(raw) < BLOB_CHARS_MIN:
        return runs
    blobs = raw.translate(_BLOB_TABLE).decode("latin-1")
    parts = []
    done = 0
    at = blobs.find(_BLOB)
    while at >= 0:
        end = _run_end(blobs, at)
        parts += [runs[done:at], " " * (end - at)]
        done = end
        at = blobs.find(_BLOB, end)
    return "".join((*parts, runs[done:]))


def _windows(plain: str, runs: str, budget: RedactionBudget) -> str:
    """The long runs that may be tokens, each with the characters before it."""
    windows = []
    at = runs.find(LONG_RUN)
    while at >= 0:
        budget.spend(1)
        end = _run_end(runs, at)
        run = plain[at:end]
        # Most runs are hashes, identifiers, or joined words.
        if run.strip(_HEX_CHARS) and run.strip(_LOWER_WORD_CHARS):
            windows.append(plain[max(0, at - _BEFORE_CHARS) : end])
        at = runs.find(LONG_RUN, end)
    return "\n".join(windows)


def _run_end(runs: str, at: int) -> int:
    end = runs.find(" ", at)
    return end if end >= 0 else len(runs)


def _token_pattern(prefix: str, rest: str) -> TokenPattern:
    # The look-behind comes after the prefix, because a search that begins with a literal is quick.
    start = re.escape(prefix)
    return TokenPattern(prefix, re.compile(rf"{start}(?<![A-Za-z0-9]{start}){rest}"))


_WORD: Final = "[A-Za-z0-9]"
_WORD_OR_DASH: Final = "[A-Za-z0-9_-]"
_HEX: Final = "[0-9a-fA-F]"

TOKENS: Final = (
    # Code hosts and package registries
    *(_token_pattern(f"gh{letter}_", _WORD + "{16,}") for letter in "pousr"),
    _token_pattern("github_pat_", r"\w{16,}"),
    *(
        _token_pattern(f"gl{kind}-", "[A-Za-z0-9_.-]{16,}")
        for kind in ("pat", "dt", "rt", "ptt", "cbt", "ft", "soat", "agent", "oas", "ffct", "imt")
    ),
    _token_pattern("GR1348941", _WORD_OR_DASH + "{16,}"),
    _token_pattern("ATATT3", "[A-Za-z0-9_=-]{16,}"),
    _token_pattern("ATBB", _WORD + "{24,}"),
    _token_pattern("npm_", _WORD + "{30,}"),
    _token_pattern("pypi-AgE", _WORD_OR_DASH + "{16,}"),
    _token_pattern("rubygems_", _HEX + "{32,}"),
    _token_pattern("cio", _WORD + "{32}(?![A-Za-z0-9])"),
    _token_pattern("dckr_pat_", _WORD_OR_DASH + "{16,}"),
    _token_pattern("hf_", _WORD + "{16,}"),
    _token_pattern("r8_", _WORD + "{24,}"),
    # Clouds
    *(
        _token_pattern(kind, "[0-9A-Z]{16}(?![A-Za-z0-9])")
        for kind in ("AKIA", "ASIA", "ABIA", "ACCA")
    ),
    _token_pattern("AIza", _WORD_OR_DASH + "{35}"),
    _token_pattern("ya29.", _WORD_OR_DASH + "{16,}"),
    _token_pattern("GOCSPX-", _WORD_OR_DASH + "{16,}"),
    _token_pattern("1//0", _WORD_OR_DASH + "{32,}"),
    *(_token_pattern(f"do{kind}_v1_", _HEX + "{32,}") for kind in "opr"),
    _token_pattern("dapi", _HEX + r"{32}(?:-\d)?"),
    _token_pattern("dp.pt.", _WORD + "{32,}"),
    _token_pattern("dp.st.", r"(?:[a-z0-9_-]{1,35}\.)?" + _WORD + "{32,}"),
    _token_pattern("hvs.", _WORD_OR_DASH + "{20,}"),
    _token_pattern("hvb.", _WORD_OR_DASH + "{20,}"),
    _token_pattern("glsa_", r"\w{20,}"),
    _token_pattern("glc_", "[A-Za-z0-9+/=]{20,}"),
    _token_pattern("eyJrIjoi", "[A-Za-z0-9+/=]{24,}"),
    _token_pattern("NRAK-", _WORD + "{20,}"),
    _token_pattern("fo1_", _WORD_OR_DASH + "{32,}"),
    _token_pattern("FlyV1 fm", "[A-Za-z0-9_+/=,-]{20,}"),
    _token_pattern("HRKU-", _WORD_OR_DASH + "{30,}"),
    _token_pattern("pul-", _HEX + "{32,}"),
    _token_pattern("vercel_", _WORD + "{20,}"),
    _token_pattern("sbp_", _HEX + "{32,}"),
    _token_pattern("sb_secret_", _WORD_OR_DASH + "{16,}"),
    _token_pattern("tskey-", "[A-Za-z0-9-]{16,}"),
    _token_pattern("PMAK-", "[A-Za-z0-9-]{24,}"),
    _token_pattern("lin_api_", _WORD + "{24,}"),
    _token_pattern("figd_", _WORD_OR_DASH + "{20,}"),
    _token_pattern("secret_", _WORD + "{32,}"),
    _token_pattern("ntn_", _WORD + "{32,}"),
    _token_pattern("pat", _WORD + r"{14}\." + _HEX + "{64}"),
    # Models
    _token_pattern("sk-", "(?=[a-z_-]{0,40}[A-Z0-9])" + _WORD_OR_DASH + "{16,}"),
    _token_pattern("sess-", _WORD + "{24,}"),
    _token_pattern("gsk_", _WORD + "{24,}"),
    _token_pattern("xai-", _WORD + "{24,}"),
    _token_pattern("pplx-", _WORD + "{24,}"),
    _token_pattern("nvapi-", _WORD_OR_DASH + "{24,}"),
    _token_pattern("lsv2_", r"\w{24,}"),
    _token_pattern("tvly-", _WORD_OR_DASH + "{16,}"),
    # Chat and mail
    *(_token_pattern(f"xox{letter}-", "[A-Za-z0-9-]{11,}") for letter in "abeoprs"),
    _token_pattern("xapp-", "[A-Za-z0-9-]{16,}"),
    _token_pattern("SG.", r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    _token_pattern("xkeysib-", "[A-Za-z0-9-]{32,}"),
    _token_pattern("key-", _HEX + "{32}(?![A-Za-z0-9])"),
    _token_pattern("SK", _HEX + "{32}(?![A-Za-z0-9])"),
    # Payments and shops
    *(
        _token_pattern(f"{kind}_{mode}_", _WORD + "{10,}")
        for kind in ("sk", "rk")
        for mode in ("live", "test")
    ),
    _token_pattern("whsec_", "[A-Za-z0-9+/=]{16,}"),
    *(_token_pattern(f"shp{kind}_", _HEX + "{32,}") for kind in ("at", "ca", "pa", "ss")),
    _token_pattern("sq0", "(?:atp|csp|idp)-" + _WORD_OR_DASH + "{22,}"),
    _token_pattern("EAAA", _WORD_OR_DASH + "{56,}"),
    # Encryption keys
    _token_pattern("AGE-SECRET-KEY-1", "[0-9A-Z]{50,}"),
    # JSON Web Tokens, signed or encrypted
    TokenPattern(
        "eyJ",
        re.compile(
            r"eyJ(?<![A-Za-z0-9_-]eyJ)[A-Za-z0-9_-]{8,}+\.(?:eyJ)?[A-Za-z0-9_-]{8,}+"
            r"(?:\.[A-Za-z0-9_-]*+){1,3}"
        ),
    ),
)
_CONTEXT_PATTERNS: Final = (
    TokenPattern(":AA", re.compile(r":AA(?<=[0-9]{8}:AA)[A-Za-z0-9_-]{31,}")),  # Telegram bot
    TokenPattern(".", re.compile(r"\.(?<=[\w-]{24}\.)[\w-]{6}\.[\w-]{27,}")),  # Discord bot
    TokenPattern(
        "hooks.slack",
        re.compile(r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/]{16,})"),
    ),
    TokenPattern("webhooks/", re.compile(r"webhooks/([0-9]{8,20}/[A-Za-z0-9_-]{16,})")),  # Discord
    TokenPattern("webhookb2/", re.compile(r"webhookb2/([A-Za-z0-9/@-]{16,})")),  # Teams
)
"""Tokens that are recognised by what precedes them: the id of a bot, or the address of a
webhook."""


def _prefix_expression() -> str:
    """Alternatives of all prefixes, grouped by their first letter, which makes the search quick."""
    rests: dict[str, list[str]] = {}
    for pattern in TOKENS:
        rests.setdefault(pattern.prefix[0], []).append(re.escape(pattern.prefix[1:]))
    return "|".join(f"{first}(?:{'|'.join(others)})" for first, others in rests.items())


_PREFIX_PATTERN: Final = re.compile(
    f"[^A-Za-z0-9](?=[{''.join({pattern.prefix[0] for pattern in TOKENS})}])"
    f"(?=({_prefix_expression()}))"
)
"""A prefix after a character that cannot belong to the token."""


# Phrases: words before a value that call it a secret, such as `password=`, header fields, and
# addresses with a password.

TextSpan = tuple[int, int]

VALUE_CHARS_MAX: Final = 4096
"""How far to look for the end of a value."""

VALUE_CHARS_READ: Final = 64
"""How much of a value to read to decide whether it is one."""

VALUE_CHARS_MIN: Final = 4
"""A shorter value is a placeholder or a flag."""

# Costs in steps of `RedactionBudget`.
_PHRASE_CHARS_PER_STEP: Final = 512
"""Per pattern."""
_WORD_STEPS: Final = 4
_FOUND_STEPS: Final = 2

_SECRET_WORDS: Final = tuple(
    (hint, re.compile(rf"{word}[\w-]{{0,24}}"))
    for hint, word in (
        ("passw", "passw(?:or)?d"),
        ("pass", "pass(?=[=:\"'\\\\])"),
        ("passphrase", "passphrase"),
        ("passcode", "passcode"),
        ("pwd", "pwd"),
        ("secret", "secret"),
        ("token", "token"),
        ("api", "api[-_ ]?key"),
        ("access", "access[-_ ]?key"),
        ("private", "private[-_ ]?key"),
        ("account", "account[-_]?key"),
        ("signing", "signing[-_]?key"),
        ("encryption", "encryption[-_]?key"),
        ("master", "master[-_]?key"),
        ("auth", "auth(?:[-_]?key|orization|(?=[=:\"'\\\\]))"),
        ("credential", "credentials?"),
        ("cookie", "cookies?"),
        ("session", "session[-_]?id"),
        ("connection", "connection[-_ ]?string"),
    )
)
_NAME_START: Final = re.compile(r"(?s:.*[^\w-])?([\w-]*)")
"""The beginning of a name that ends here."""

_ASSIGNMENT: Final = re.compile(
    r"""\\{0,64}["'`]?(?P<gap>[ \t]{0,4})(?P<sign>=>|:=|[:=]|%3[ad]|>|(?=[ \t]|$))"""
    r"""[ \t]{0,4}(?P<opening>\\{0,64}["'`]?)"""
)
_UNQUOTED_VALUE: Final = re.compile(r"""[^\s"'`\\,;&<>(){}\[\]|]*""")
_SCHEME: Final = re.compile(
    r"(?:basic|bearer|token|digest|negotiate|apikey|api-key|bot|aws4-hmac-sha256|hawk|ntlm|oauth)"
    r"[ \t]{1,8}\S"
)
_PLACEHOLDER: Final = re.compile(
    r"(?:none|null|nil|true|false|undefined|string|str|int|integer|number|bool|boolean|object|array"
    r"|bytes|text|any|optional|required|self|this|env|your|example|changeme|empty|unset|secretstr"
    r"|\*+|x+|\.+|…|-+|#[0-9a-f]{6}|\$[a-z_]\w*|%\w+%"
    r"|(?:self|cls|this|os|process|args|options|config|settings|env|req|request|ctx)\.[\w.]+"
    r")[?;!]?\Z"
    r"|\$[{(]|[<{]|%[(s]"
)
"""Stands for a value, or for its type."""

_BEARER: Final = re.compile(
    r"bearer[ \t]{1,8}((?=[a-z._~+/=-]{0,512}[0-9])[a-z0-9._~+/=-]{8,}|[a-z._~+/=-]{24,})"
)
_BASIC: Final = re.compile(r"basic[ \t]{1,8}([a-z0-9+/_-]{8,}={0,2})")
_ADDRESS: Final = re.compile(
    r"""://([^\s/:@"'<>]{0,64}:[^\s/@"<>]{1,512}|[^\s/:@"'<>]{20,512})(?=@)"""
)
_DIGIT: Final = re.compile("[0-9]")
_URL_SAFE: Final = str.maketrans("-_", "+/")
_NETRC: Final = re.compile(r"login\s{1,4}\S{1,64}\s{1,4}password\s{1,4}(\S{1,256})")
_USER: Final = re.compile(r"-u(?:ser)?[ \t=]{1,4}[\"']?([^\s:\"']{1,64}:[^\s\"']{1,256})")
_SIGNATURE: Final = re.compile(r"sig(?:nature)?=([a-z0-9%+/_=-]{16,})")
_PRIVATE: Final = re.compile(
    r"-----begin [a-z0-9 ]{0,40}private key(?: block)?-----[^-]*+(?:-(?!----)[^-]*+)*+"
    r"(?:-----end [a-z0-9 ]{0,40}-----)?"
)
"""Up to the end marker, or to the end of a text that was cut."""

NAME_SEPARATORS: Final = b"-_. \t\r\n"
"""Characters that join the words of a name or surround it; removed before hints are searched."""

_ASSIGNED_TAIL: Final = r"""[a-z0-9]{0,28}+["'`\\t]{0,64}+(?:[=:>]|%3[ad])"""
_NAME_PATTERNS: Final = tuple(
    (hint, re.compile(hint + _ASSIGNED_TAIL))
    for hint in (
        "pass",
        "pwd",
        "secret",
        "token",
        "key",
        "auth",
        "credential",
        "cookie",
        "sessionid",
        "connectionstring",
    )
)


def may_have_phrase(low: str, raw: bytes) -> bool:
    """Whether a text may contain a phrase; never False if it does.

    `raw` is the text, `low` the same in lower case without `NAME_SEPARATORS`.
    """
    if (
        "pass" in low
        or "token" in low
        or "key" in low
        or "auth" in low
        or "secret" in low
        or "pwd" in low
        or "cookie" in low
        or "credential" in low
        or "sessionid" in low
        or "connectionstring" in low
    ) and _has_named_value(low, raw):
        return True
    return (
        ("@" in low and "://" in low)
        or ("=" in low and ("sig=" in low or "signature=" in low))
        or "bearer" in low
        or ("basic" in low and _BASIC.search(raw.decode("latin-1").lower()) is not None)
        or ("curl" in low and b"-u" in raw)
    )


def _has_named_value(low: str, raw: bytes) -> bool:
    """Whether the name of a secret is there, with something that may be its value."""
    if b"--" in raw or '"value' in low or "login" in low:
        return True
    return any(
        hint in low and search.search(low)
        for hint, search in _NAME_PATTERNS
        if hint != "token" or low.count("token") > low.count("progresstoken")
    )


def find_phrases(
    text: str, low: str, names: SecretNames, budget: RedactionBudget
) -> Iterator[TextSpan]:
    """Where values of phrases are in a text.

    A word alone is not enough: `Password: required` and `token = next(tokens)` have no secret.
    `low` is the text in lower case, of the same length.
    """
    for hint, search in _SECRET_WORDS:
        if hint in low:
            budget.spend(len(low) // _PHRASE_CHARS_PER_STEP)
            yield from _find_assigned(text, low, (search, names), budget)
    for hint, find in _FINDERS:
        if hint in low:
            budget.spend(len(low) // _PHRASE_CHARS_PER_STEP)
            for span in find(text, low):
                budget.spend(_FOUND_STEPS)
                yield span


def _find_assigned(
    text: str,
    low: str,
    pattern_and_names: tuple[re.Pattern[str], SecretNames],
    budget: RedactionBudget,
) -> Iterator[TextSpan]:
    search, names = pattern_and_names
    done = 0
    for word in search.finditer(low):
        budget.spend(_WORD_STEPS)
        span = _assigned_value(text, low, word.span(), names) if word.start() >= done else None
        if span:
            yield span
            done = span[1]


def _assigned_value(text: str, low: str, word: TextSpan, names: SecretNames) -> TextSpan | None:
    """The value assigned to a name, if it looks like a secret."""
    start, end = word
    left = _NAME_START.match(low, max(0, start - 24), start)
    name = (left[1] if left else "") + low[start:end]
    secrecy = names.secrecy_of(name.lstrip("-"))
    assignment = _ASSIGNMENT.match(low, end)
    if secrecy is Secrecy.NOTHING or assignment is None:
        return None
    sign, opening, at = assignment["sign"], assignment["opening"], assignment.end()
    if not sign and not name.startswith("--"):  # `--password hunter2` needs no sign.
        return None
    if opening.strip("\\"):
        stop = _quoted_end(low, opening, at)
        return (at, stop) if _is_secret_value(low[at:stop], secrecy, sure=True) else None
    if name.endswith(("authorization", "cookie", "cookies")):
        return _header_value(low, at, name)
    stop = _unquoted_end(low, at, VALUE_CHARS_READ)
    after = low[stop : stop + 1]
    if after == "(" or (sign == ">" and after != "<"):  # A call or a type in source code.
        return None
    if sign:
        is_certain = sign != ":" and not assignment["gap"] and low[at - 1] not in " \t"
    else:
        is_certain = not _is_word(text[at:stop])
    if not _is_secret_value(low[at:stop], secrecy, sure=is_certain):
        return None
    return at, _unquoted_end(low, at, VALUE_CHARS_MAX)


def _unquoted_end(low: str, at: int, chars_max: int) -> int:
    unquoted = _UNQUOTED_VALUE.match(low, at, at + chars_max)
    return unquoted.end() if unquoted else at


def _quoted_end(low: str, opening: str, at: int) -> int:
    """Where a quoted value ends: at its quote, or at the end of the line if the quote is
    missing."""
    limit = at + VALUE_CHARS_MAX
    end = low.find(opening, at, limit)
    while end > at and low[end - 1] == "\\" and opening[0] != "\\":
        end = low.find(opening, end + 1, limit)
    if end < 0:
        end = low.find("\n", at, limit)
    return end if end >= 0 else min(len(low), limit)


def _is_word(value: str) -> bool:
    return value.isalpha() and (value.islower() or value.isupper())


def _is_secret_value(value: str, secrecy: Secrecy, *, sure: bool) -> bool:
    if len(value) < VALUE_CHARS_MIN or _PLACEHOLDER.match(value):
        return False
    if secrecy is Secrecy.TEXT and value.isdigit():
        return False
    return sure or _DIGIT.search(value) is not None


def _header_value(low: str, at: int, name: str) -> TextSpan | None:
    """The value of a header field, up to the end of the line or of the quotes around it."""
    stop = min(len(low), at + VALUE_CHARS_MAX)
    for end in "\n\r\"'`\\":
        found = low.find(end, at, stop)
        if found >= 0:
            stop = found
    if not name.endswith("authorization"):
        return (at, stop) if low.find("=", at, stop) >= 0 else None
    if _SCHEME.match(low, at, stop):
        return at, stop
    value_start = low[at : min(stop, at + VALUE_CHARS_READ)]
    return (
        (at, stop)
        if " " not in value_start and _is_secret_value(value_start, Secrecy.ALL, sure=False)
        else None
    )


def _pattern_finder(
    search: re.Pattern[str], group: int = 1
) -> Callable[[str, str], Iterator[TextSpan]]:
    return lambda _, low: (found.span(group) for found in search.finditer(low))


def _find_basic_auth(text: str, low: str) -> Iterator[TextSpan]:
    for found in _BASIC.finditer(low):
        start, end = found.span(1)
        digits = text[start:end].rstrip("=").translate(_URL_SAFE)
        if b":" in b64decode(digits[: len(digits) // 4 * 4]):
            yield start, end


def _find_curl_users(text: str, low: str) -> Iterator[TextSpan]:
    if "curl" in low:
        yield from (found.span(1) for found in _USER.finditer(low))


_FINDERS: Final = (
    ("bearer", _pattern_finder(_BEARER)),
    ("basic", _find_basic_auth),
    ("://", _pattern_finder(_ADDRESS)),
    ("login", _pattern_finder(_NETRC)),
    ("-u", _find_curl_users),
    ("sig", _pattern_finder(_SIGNATURE)),
    ("-----begin", _pattern_finder(_PRIVATE, 0)),
)

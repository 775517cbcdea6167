"""Finds the values that a text itself calls secret: `password=...`, header fields, addresses.

Shapes of tokens are elsewhere; here the words before a value tell. A word alone is not enough:
`Password: required` and `token = next(tokens)` hide nothing. Every search begins with a literal
and looks a bounded way ahead, so that any text takes linear time.
"""

import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Final

from anyport.record.names import Names, Weight

Span = tuple[int, int]

VALUE_CHARS_MAX: Final = 4096
"""How far the end of a value is looked for."""

VALUE_CHARS_READ: Final = 64
"""How much of a value is read to tell whether it is one."""

VALUE_CHARS_MIN: Final = 4
"""A shorter value is a placeholder or a flag."""

_WORDS: Final = tuple(
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
_LEFT: Final = re.compile(r"(?s:.*[^\w-])?([\w-]*)")
"""The beginning of a name that ends here."""

_JOINT: Final = re.compile(
    r"""\\{0,64}["'`]?(?P<gap>[ \t]{0,4})(?P<sign>=>|:=|[:=]|%3[ad]|>|(?=[ \t]|$))"""
    r"""[ \t]{0,4}(?P<opening>\\{0,64}["'`]?)"""
)
_BARE: Final = re.compile(r"""[^\s"'`\\,;&<>(){}\[\]|]*""")
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
"""What stands for a value, or for its type."""

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
"""To its end, or to the end of the text where the rest was cut off."""

JOINTS: Final = b"-_. \t\r\n"
"""What joins the words of a name or surrounds it, left out where hints are looked for."""

_VALUED: Final = r"""[a-z0-9]{0,28}["'`\\t]{0,64}(?:[=:>]|%3[ad])"""
_NAMED: Final = tuple(
    (hint, re.compile(hint + _VALUED))
    for hint in (
        *("pass", "pwd", "secret", "token", "key", "auth", "credential", "cookie", "sessionid"),
        "connectionstring",
    )
)


def hinted(low: str, raw: bytes) -> bool:
    """Whether a text could have a phrase: never False where one is.

    `raw` is the text, `low` the same in small letters and without what joins words.
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
    ) and _named(low, raw):
        return True
    return (
        ("@" in low and "://" in low)
        or ("=" in low and ("sig=" in low or "signature=" in low))
        or "bearer" in low
        or ("basic" in low and _BASIC.search(raw.decode("latin-1").lower()) is not None)
        or ("curl" in low and b"-u" in raw)
    )


def _named(low: str, raw: bytes) -> bool:
    """Whether the name of a secret is there with something that may be its value."""
    if b"--" in raw or '"value' in low or "login" in low:
        return True
    return any(
        hint in low and search.search(low)
        for hint, search in _NAMED
        if hint != "token" or low.count("token") > low.count("progresstoken")
    )


def phrases(text: str, low: str, names: Names) -> Iterator[Span]:
    """Where secrets stand in a text. `low` is the same text in small letters, as long as it."""
    for hint, search in _WORDS:
        if hint in low:
            yield from _all_assigned(text, low, search, names)
    for hint, find in _FINDERS:
        if hint in low:
            yield from find(text, low)


def _all_assigned(text: str, low: str, search: re.Pattern[str], names: Names) -> Iterator[Span]:
    done = 0
    for word in search.finditer(low):
        span = _assigned(text, low, word.span(), names) if word.start() >= done else None
        if span:
            yield span
            done = span[1]


def _assigned(text: str, low: str, word: Span, names: Names) -> Span | None:
    """The value that the word is given, if that is one."""
    start, end = word
    left = _LEFT.match(low, max(0, start - 24), start)
    name = (left[1] if left else "") + low[start:end]
    weight = names.weigh(name.lstrip("-"))
    joint = _JOINT.match(low, end)
    if weight is Weight.NOTHING or joint is None:
        return None
    sign, opening, at = joint["sign"], joint["opening"], joint.end()
    if not sign and not name.startswith("--"):  # `--password hunter2` needs none.
        return None
    if opening.strip("\\"):
        stop = _closing(low, opening, at)
        return (at, stop) if _hides(low[at:stop], weight, sure=True) else None
    if name.endswith(("authorization", "cookie", "cookies")):
        return _field(low, at, name)
    stop = _bare_end(low, at, VALUE_CHARS_READ)
    after = low[stop : stop + 1]
    if after == "(" or (sign == ">" and after != "<"):  # A call or a type in a program.
        return None
    if sign:
        sure = sign != ":" and not joint["gap"] and low[at - 1] not in " \t"
    else:
        sure = not _is_word(text[at:stop])
    if not _hides(low[at:stop], weight, sure=sure):
        return None
    return at, _bare_end(low, at, VALUE_CHARS_MAX)


def _bare_end(low: str, at: int, chars_max: int) -> int:
    bare = _BARE.match(low, at, at + chars_max)
    return bare.end() if bare else at


def _closing(low: str, opening: str, at: int) -> int:
    """Where a quoted value ends: at its quote, or with its line where that is cut off."""
    limit = at + VALUE_CHARS_MAX
    stop = low.find(opening, at, limit)
    while stop > at and low[stop - 1] == "\\" and opening[0] != "\\":
        stop = low.find(opening, stop + 1, limit)
    if stop < 0:
        stop = low.find("\n", at, limit)
    return stop if stop >= 0 else min(len(low), limit)


def _is_word(value: str) -> bool:
    return value.isalpha() and (value.islower() or value.isupper())


def _hides(value: str, weight: Weight, *, sure: bool) -> bool:
    if len(value) < VALUE_CHARS_MIN or _PLACEHOLDER.match(value):
        return False
    if weight is Weight.TEXT and value.isdigit():
        return False
    return sure or _DIGIT.search(value) is not None


def _field(low: str, at: int, name: str) -> Span | None:
    """The value of a header field, to the end of its line or of the quotes it stands in."""
    stop = min(len(low), at + VALUE_CHARS_MAX)
    for end in "\n\r\"'`\\":
        found = low.find(end, at, stop)
        if found >= 0:
            stop = found
    if not name.endswith("authorization"):
        return (at, stop) if low.find("=", at, stop) >= 0 else None
    if _SCHEME.match(low, at, stop):
        return at, stop
    word = low[at : min(stop, at + VALUE_CHARS_READ)]
    return (at, stop) if " " not in word and _hides(word, Weight.ALL, sure=False) else None


def _each(search: re.Pattern[str], group: int = 1) -> Callable[[str, str], Iterator[Span]]:
    return lambda _, low: (found.span(group) for found in search.finditer(low))


def _basic(text: str, low: str) -> Iterator[Span]:
    for found in _BASIC.finditer(low):
        start, end = found.span(1)
        digits = text[start:end].rstrip("=").translate(_URL_SAFE)
        if b":" in b64decode(digits[: len(digits) // 4 * 4]):
            yield start, end


def _users(text: str, low: str) -> Iterator[Span]:
    if "curl" in low:
        yield from (found.span(1) for found in _USER.finditer(low))


_FINDERS: Final = (
    ("bearer", _each(_BEARER)),
    ("basic", _basic),
    ("://", _each(_ADDRESS)),
    ("login", _each(_NETRC)),
    ("-u", _users),
    ("sig", _each(_SIGNATURE)),
    ("-----begin", _each(_PRIVATE, 0)),
)

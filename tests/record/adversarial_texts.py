"""Texts full of what looks like secrets: what costs most to tell apart from them."""

import base64
import json
from collections.abc import Callable
from random import Random
from typing import Final

from tests.record.planted_secrets import BASE64, HEX, LETTERS, UPPER

PROSE: Final = "The quick brown fox jumps over the lazy dog, and then it sleeps again. "


def _of(alphabet: str, count: int) -> Callable[[Random], str]:
    return lambda chance: "".join(chance.choices(alphabet, k=count))


_word: Final = _of(LETTERS, 20)
_hex: Final = _of(HEX, 40)
_base64: Final = _of(BASE64, 60)

PIECES: Final[dict[str, Callable[[Random], str]]] = {
    "web tokens": lambda chance: f"eyJ{_word(chance)}.eyJ{_word(chance)}.{_word(chance)} ",
    "halves of web tokens": lambda chance: f"eyJ{_word(chance)} ",
    "beginnings of web tokens": lambda chance: "eyJaaaaaaaa.",
    "base64": lambda chance: f"{_base64(chance)} ",
    "basic": lambda chance: f"basic {base64.b64encode(chance.randbytes(20)).decode()} ",
    "assignments": lambda chance: f"password={_word(chance)} ",
    "short assignments": lambda chance: "token=ab ",
    "placeholders": lambda chance: "password=none ",
    "quoted assignments": lambda chance: f'"api_key": "{_word(chance)}", ',
    "open quotes": lambda chance: 'password="',
    "quotes within quotes": lambda chance: "token='\\",
    "names": lambda chance: "password ",
    "joined names": lambda chance: "passwordtokensecretapikey",
    "dashed names": lambda chance: "pass-",
    "long names": lambda chance: f"{'a' * 24}password{'a' * 24}=",
    "names with many signs": lambda chance: f"pass{'t' * 90}",
    "private keys": lambda chance: (
        f"-----BEGIN RSA PRIVATE KEY-----\nMII{_base64(chance)}\n-----END RSA PRIVATE KEY-----\n"
    ),
    "beginnings of private keys": lambda chance: "-----BEGIN PRIVATE KEY-----",
    "hashes": lambda chance: f"{_hex(chance)} ",
    "long hexadecimals": lambda chance: f"{_hex(chance) * 100} ",
    "addresses with passwords": lambda chance: f"postgres://u:{_word(chance)}@h/x ",
    "addresses without an end": lambda chance: f"://a:{'b' * 500} ",
    "beginnings of addresses": lambda chance: f"://{'a' * 64}:",
    "cards": lambda chance: "4111 1111 1111 1111, 4111111111111111, ",
    "keys of models": lambda chance: f"sk-{_word(chance)} ",
    "keys of code hosts": lambda chance: f"ghp_{_word(chance)}{_word(chance)} ",
    "keys of clouds": lambda chance: f"AKIA{_of(UPPER, 16)(chance)} ",
    "prefixes of keys": lambda chance: f"sk-ghp_AKIAeyJ{_of(LETTERS, 4)(chance)}-",
    "webhooks": lambda chance: f"https://hooks.slack.com/services/{_word(chance)} ",
    "bots": lambda chance: f"12345678:AA{_word(chance)}{_word(chance)} ",
    "words with dots": lambda chance: f"{_word(chance)}{_word(chance)}.",
    "bearers": lambda chance: f"bearer {_word(chance)} ",
    "authorizations": lambda chance: f"Authorization: Bearer {_word(chance)}\n",
    "cookies": lambda chance: "cookie: ",
    "logins": lambda chance: "login aaaa password ",
    "users": lambda chance: "curl -u=-u=-u=-u=-u=",
    "signatures": lambda chance: f"sig={_word(chance)} ",
    "escapes": lambda chance: "\\u0070assword=",
    "a letter that is two when small": lambda chance: "\u0130password=hunter2 ",
}
"""A piece of each kind."""


def filled(size: int, piece: Callable[[Random], str], seed: str = "") -> str:
    """As much of these pieces."""
    chance, parts, length = Random(seed), list[str](), 0
    while length < size:
        parts.append(piece(chance))
        length += len(parts[-1])
    return "".join(parts)[:size]


def as_text(text: str) -> bytes:
    """The result of a tool that says it."""
    return json.dumps({"content": [{"type": "text", "text": text}]}).encode()


def as_lines(text: str) -> bytes:
    """The same, a string for each line."""
    return json.dumps([text[at : at + 200] for at in range(0, len(text), 200)]).encode()


def nested(depth: int) -> str:
    """JSON in strings of JSON; each quote takes a few letters more in the next."""
    text = '{"password":"x"}'
    for _ in range(depth):
        text = '{"t":"' + text.replace("\\", "\\u005c").replace('"', "\\u0022") + '"}'
    return text


def _members(piece: str) -> Callable[[int], bytes]:
    return lambda size: f"[{','.join([piece] * (size // (len(piece) + 1)))}]".encode()


STRUCTURES: Final[dict[str, Callable[[int], bytes]]] = {
    "members": _members('{"password":"x"}'),
    "numbers": lambda size: b'[{"password":1},' + _members("12345")(size)[1:],
    "labels": _members('{"name":"API_KEY","value":"x"}'),
    "tokens": _members('"ghp_0123456789abcdefABCD"'),
    "strings": _members('"password=hunter2"'),
    "JSON in strings": _members('"{\\"password\\":\\"abcd\\"}"'),
    "names": lambda size: json.dumps({f"key{n}_token": "x" for n in range(size // 20)}).encode(),
    "JSON in JSON": lambda size: nested(int((size / 10) ** 0.5)).encode(),
}
"""A payload of each kind, of about a size."""

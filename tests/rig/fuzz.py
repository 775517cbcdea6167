"""Malformed frames without end, made from sound ones. The same seed gives the same frames.

Knows how JSON-RPC looks on a line, and how people and programs get it wrong; it does not know
what a gateway should say to it.
"""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any, Final

REQUESTS: Final[tuple[tuple[str, Any], ...]] = (
    ("ping", None),
    ("ping", {}),
    ("tools/list", {}),
    ("tools/call", {"name": "neighbour__echo", "arguments": {"text": "a"}}),
    ("tools/call", {"name": "neighbour__echo", "arguments": {"text": 'ü\u2028\\"'}, "_meta": {}}),
    ("tools/call", {"name": "nobody__knows", "arguments": {}}),
    ("tools/call", {"name": "gateway_status"}),
    ("resources/list", {"cursor": "x"}),
    ("resources/read", {"uri": "demo://nothing"}),
    ("prompts/get", {"name": "neighbour__nothing", "arguments": {"a": "b"}}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {}}),
    ("logging/setLevel", {"level": "debug"}),
    ("no/such/method", [1, 2]),
)
ODD_VALUES: Final = (
    b"null", b"true", b"false", b"0", b"-1", b"1.5", b"1e3", b'""', b'"x"', b"[]", b"{}", b"[[]]",
    b'{"a":{"a":{}}}', b"9" * 40, b"-0", b"NaN", b"Infinity", b"'x'", b"undefined", b"0x10", b"01",
    b"1.", b".5", b"+1", b"", b'"\\ud800"', b'"\\x"', b'"\\u12"', b'"\\u0000"', b"\x00", b'"\t"',
    b"[" * 60 + b"]" * 60, b"[" * 40, b"}" * 40, b"-", b'"', b"nul", b"\xef\xbb\xbf", b"/* */",
)  # fmt: skip
ODD_NAMES: Final = (
    b'"id"', b'"ID"', b'"Id"', b'"method"', b'"Method"', b'"params"', b'"jsonrpc"', b'"result"',
    b'"error"', b'"id\\u0000"', b'"\\u0069d"', b'"name"', b'"Name"', b'"_meta"', b'"arguments"',
    b'""', b'"__proto__"', b"id", b"'id'", b"1",
)  # fmt: skip

Mutation = Callable[[random.Random, bytes], bytes]


def frames(seed: int, count: int) -> Iterator[bytes]:
    """Lines, each without its end, few of them sound; ids are unique as far as they survive."""
    chance = random.Random(seed)
    for number in range(count):
        frame = _sound(chance, number)
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            frame = chance.choice(MUTATIONS)(chance, frame)
        yield frame.replace(b"\n", b" ").replace(b"\r", b" ")


def _sound(chance: random.Random, number: int) -> bytes:
    method, params = chance.choice(REQUESTS)
    message: list[tuple[str, Any]] = [("jsonrpc", "2.0"), ("method", method)]
    if params is not None:
        message.append(("params", params))
    id = number if chance.random() < 0.5 else f"fuzz-{number}"
    message.insert(chance.randint(0, len(message)), ("id", id))
    spaced = chance.random() < 0.3
    separators = (", ", ": ") if spaced else (",", ":")
    return json.dumps(dict(message), separators=separators, ensure_ascii=spaced).encode()


def _truncate(chance: random.Random, frame: bytes) -> bytes:
    cut = chance.randrange(len(frame) + 1)
    return frame[:cut] if chance.random() < 0.8 else frame[cut:]


def _flip(chance: random.Random, frame: bytes) -> bytes:
    mutable = bytearray(frame)
    for _ in range(chance.randint(1, 4)):
        if mutable:
            mutable[chance.randrange(len(mutable))] ^= 1 << chance.randrange(8)
    return bytes(mutable)


def _binary(chance: random.Random, frame: bytes) -> bytes:
    at = chance.randrange(len(frame) + 1)
    return frame[:at] + chance.randbytes(chance.randint(1, 40)) + frame[at:]


def _drop(chance: random.Random, frame: bytes) -> bytes:
    at = chance.randrange(len(frame) + 1)
    return frame[:at] + frame[at + chance.randint(1, 12) :]


def _repeat(chance: random.Random, frame: bytes) -> bytes:
    at = chance.randrange(len(frame) + 1)
    piece = frame[at : at + chance.randint(1, 30)]
    return frame[:at] + piece * chance.randint(2, 5) + frame[at:]


def _swap_value(chance: random.Random, frame: bytes) -> bytes:
    """Another value in place of one, at the top or one level below."""
    names = (b"jsonrpc", b"id", b"method", b"params", b"name", b"arguments")
    name = b'"%b"' % chance.choice(names)
    at = frame.find(name)
    colon = frame.find(b":", at)
    if at < 0 or colon < 0:
        return frame
    end = _end_of_value(frame, colon + 1)
    return frame[: colon + 1] + chance.choice(ODD_VALUES) + frame[end:]


def _add_member(chance: random.Random, frame: bytes) -> bytes:
    """One more member, often with a name that is there already."""
    braces = [at for at, byte in enumerate(frame) if byte == ord("{")]
    if not braces:
        return frame
    at = chance.choice(braces) + 1
    member = chance.choice(ODD_NAMES) + b":" + chance.choice(ODD_VALUES)
    return frame[:at] + member + b"," + frame[at:]


def _rename(chance: random.Random, frame: bytes) -> bytes:
    old = chance.choice((b'"id"', b'"method"', b'"params"', b'"jsonrpc"', b'"name"'))
    return frame.replace(old, chance.choice(ODD_NAMES), 1)


def _insert(chance: random.Random, frame: bytes) -> bytes:
    at = chance.randrange(len(frame) + 1)
    return frame[:at] + chance.choice(ODD_VALUES) + frame[at:]


def _wrap(chance: random.Random, frame: bytes) -> bytes:
    before, after = chance.choice(
        ((b"[", b"]"), (b"[[", b"]]"), (b'{"a":', b"}"), (b"", b","), (b"", b"{}"), (b" ", b" \t"))
    )
    return before + frame + after


def _encode_otherwise(chance: random.Random, frame: bytes) -> bytes:
    codec = chance.choice(("utf-16-le", "utf-16-be", "utf-32-le", "utf-16", "utf-8-sig", "utf-7"))
    return frame.decode("latin-1").encode(codec)


def _end_of_value(frame: bytes, start: int) -> int:
    """Where a JSON value ends, roughly: brackets are counted, strings are looked through."""
    depth, quoted, at = 0, False, start
    while at < len(frame):
        byte = frame[at : at + 1]
        if quoted:
            at += byte == b"\\"
            quoted = byte != b'"'
        elif byte == b'"':
            quoted = True
        elif byte in (b"[", b"{"):
            depth += 1
        elif byte in (b"]", b"}", b","):
            if depth == 0:
                return at
            depth -= byte != b","
        at += 1
    return len(frame)


MUTATIONS: Final[tuple[Mutation, ...]] = (
    _truncate, _flip, _binary, _drop, _repeat, _swap_value, _swap_value, _add_member, _add_member,
    _rename, _insert, _wrap, _encode_otherwise,
)  # fmt: skip

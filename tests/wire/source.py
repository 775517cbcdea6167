"""JSON objects as people and programs write them: any whitespace, any spelling of a name."""

import json
from dataclasses import dataclass
from random import Random
from typing import Any

from hypothesis import strategies as st

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT
VALUES = st.recursive(
    SCALARS.filter(lambda value: value not in (float("inf"), float("-inf"))),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["a", "b", "id", "_meta", "io.example/key", "é", "a b", "", '"', "\n"])
SCALAR_SAMPLES = (None, True, 0, -1, 10**40, 1.5, "", "}", '","a":1}', "\\", '\\"', "é", "\0")
NESTED_SAMPLES: tuple[Any, ...] = (
    [],
    {},
    [[]],
    {"a": {}},
    {"a": 1, "b": [2]},
    [1, {"c": None}],
    {"": {"id": 7}},
)
SAMPLES = st.sampled_from([*SCALAR_SAMPLES, *NESTED_SAMPLES])
"""Values that mislead a reader who does not track brackets and quotes."""
BLANKS = ("", "", " ", "\n", "\t", "\r\n", "  ")
STYLES = ("compact", "python", "wild")


@dataclass(frozen=True, kw_only=True)
class Source:
    """The bytes of an object, and the pieces they consist of."""

    head: bytes
    """Up to and including the opening brace."""
    members: tuple[tuple[str, bytes, bytes, bytes], ...]
    """Name; everything up to its value; its value; whitespace after it."""
    tail: bytes
    """From the closing brace on."""

    @property
    def raw(self) -> bytes:
        inner = b",".join(lead + value + after for _, lead, value, after in self.members)
        return self.head + inner + self.tail

    @property
    def values(self) -> dict[str, bytes]:
        return {name: value for name, _, value, _ in self.members}


@st.composite
def sources(draw: st.DrawFn, values: st.SearchStrategy[Any] = SAMPLES) -> Source:
    named = draw(st.dictionaries(NAMES, values, max_size=5))
    style = draw(st.sampled_from(STYLES))
    return written(list(named.items()), style, Random(draw(st.integers(0, 2**32))))


def written(named: list[tuple[str, Any]], style: str, random: Random) -> Source:
    """Write these members in this order, in some style."""

    def blank() -> bytes:
        return random.choice(BLANKS).encode() if style == "wild" else b""

    gap = b" " if style == "python" else b""
    written = []
    for index, (name, value) in enumerate(named):
        lead = (gap if index else b"") + blank() + _name(name, style, random) + blank() + b":" + gap
        separators = (", ", ": ") if style != "compact" else (",", ":")
        dumped = json.dumps(value, separators=separators, ensure_ascii=random.random() < 0.5)
        written.append((name, lead + blank(), dumped.encode(), blank()))
    return Source(head=blank() + b"{" + blank(), members=tuple(written), tail=b"}" + blank())


def _name(name: str, style: str, random: Random) -> bytes:
    if style == "compact":
        return json.dumps(name, ensure_ascii=False).encode()
    if style == "python":
        return json.dumps(name).encode()
    return b'"%b"' % b"".join(_letter(letter, random) for letter in name)


def _letter(letter: str, random: Random) -> bytes:
    if letter == "/" and random.random() < 0.5:
        return rb"\/"
    if letter < "\u0080" and random.random() < 0.2:
        return rb"\u%04x" % ord(letter)
    return json.dumps(letter, ensure_ascii=False).encode()[1:-1]

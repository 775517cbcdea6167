"""The outline of payloads that look alike is that of each, and made once."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.record.likeness import MOULDED_BYTES_MAX, MOULDS_MAX, Likeness, Looks
from anyport.record.outline import Outlines, outline


class Counted(Outlines):
    """Counts how often an outline had to be made."""

    def __init__(self) -> None:
        super().__init__(str)
        self.made = 0

    def of(self, raw: bytes) -> bytes:
        self.made += 1
        return super().of(raw)


def text(escaped: bytes) -> str:
    shown: str = json.loads(b'"%b"' % escaped)
    return shown


def test_what_came_twice_is_known_the_third_time() -> None:
    outlines = Counted()
    likeness = Likeness(Looks(outlines))
    for number in range(10):
        raw = json.dumps({"text": f"call {number}", "count": number, "all": True}).encode()
        assert text(likeness.of(raw)) == '{"text":s,"count":n,"all":b}'

    assert outlines.made == 2


@pytest.mark.parametrize(
    "other",
    [
        {"text": "x"},
        {"text": "x", "count": 1, "more": 1},
        {"text": 1, "count": 1},
        {"text": "x", "count": "1"},
        {"text": None, "count": 1},
        ["x", 1],
        {},
    ],
)
def test_what_is_different_is_told_as_it_is(other: Any) -> None:
    likeness = Likeness(Looks(Outlines(str)))
    for _ in range(3):
        likeness.of(b'{"text":"x","count":1}')
    raw = json.dumps(other).encode()

    assert text(likeness.of(raw)) == outline(raw)


def test_lists_are_alike_only_in_the_same_length() -> None:
    likeness = Likeness(Looks(Outlines(str)))
    for _ in range(3):
        assert text(likeness.of(b'{"a":[1,2]}')) == '{"a":[n x2]}'

    assert text(likeness.of(b'{"a":[1,2,3]}')) == '{"a":[n x3]}'
    assert text(likeness.of(b'{"a":[]}')) == '{"a":[]}'


def test_one_that_is_different_now_and_then_does_not_unlearn_the_usual() -> None:
    outlines = Counted()
    likeness = Likeness(Looks(outlines))
    for _ in range(3):
        likeness.of(b'{"a":1}')
    made = outlines.made
    for _ in range(5):
        likeness.of(b'{"a":"x"}')
        likeness.of(b'{"a":1}')
        likeness.of(b'{"b":"x"}')
        likeness.of(b'{"a":1}')

    assert outlines.made == made + 10


def test_large_payloads_and_too_many_kinds_are_outlined_one_by_one() -> None:
    outlines = Counted()
    looks = Looks(outlines)
    likeness, large = Likeness(looks), json.dumps({"a": "x" * MOULDED_BYTES_MAX}).encode()
    for _ in range(4):
        likeness.of(large)
    assert outlines.made == 4

    for number in range(MOULDS_MAX):
        looks.mould(b"%d" % number, b"{}")
    with pytest.raises(ValueError, match="nothing"):
        looks.mould(b"one more", b"{}")(b"{}")


def test_what_is_no_json_stays_so() -> None:
    likeness = Likeness(Looks(Outlines(str)))
    assert [likeness.of(b"\xff{") for _ in range(4)] == [b"?"] * 4


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(_JSON, min_size=1, max_size=5))
def test_it_never_differs_from_the_outline(payloads: list[Any]) -> None:
    outlines = Outlines(str)
    likeness = Likeness(Looks(outlines))
    for payload in payloads:
        raw = json.dumps(payload).encode()
        for _ in range(3):
            assert likeness.of(raw) == outlines.of(raw)

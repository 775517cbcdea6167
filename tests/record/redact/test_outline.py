import json
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.record.redact.outline import (
    DECODED_BYTES_MAX,
    DECODER_PAYLOAD_BYTES_MAX,
    DECODERS_MAX,
    ITEMS_MAX,
    MEMBERS_MAX,
    OUTLINE_CHARS_MAX,
    REMEMBERED_MAX,
    SCANNED_BYTES_MAX,
    OutlineBuilder,
    OutlineCache,
    OutlineDecoders,
    PayloadDigests,
)
from anyport.record.redact.redactor import MARK, Redactor
from tests.record.story import CPU_SECONDS_MAX, cpu_seconds

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=30,
)


def outline_text(raw: bytes) -> str:
    text: str = json.loads(b'"%b"' % OutlineBuilder(str).outline(raw))
    return text


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (
            {"name": "find", "arguments": {"path": "/x", "depth": 3, "all": True}},
            '{"name":s,"arguments":{"path":s,"depth":n,"all":b}}',
        ),
        (
            {"content": [{"type": "text", "text": "a"}], "isError": False},
            '{"content":[{"type":s,"text":s}],"isError":b}',
        ),
        (
            {"content": [{"type": "text", "text": str(n)} for n in range(3)]},
            '{"content":[{"type":s,"text":s} x3]}',
        ),
        ([1, 2.5, "a", None, None, True, {}], "[n x2,s,z x2,b,{}]"),
        ({"a": {"b": 1}, "c": {"d": [[]]}, "e": 2}, '{"a":{"b":n},"c":{"d":[[]]},"e":n}'),
        ({}, "{}"),
        ([], "[]"),
        ("text", "s"),
        (None, "z"),
    ],
)
def test_an_outline_has_keys_and_types_and_no_values(payload: Any, expected: str) -> None:
    assert outline_text(json.dumps(payload).encode()) == expected


@pytest.mark.parametrize("raw", [b"", b"{", b"nonsense", b'"\xff"', b"[" * 5000, b"1e999"])
def test_what_is_no_json_has_no_outline(raw: bytes) -> None:
    assert outline_text(raw) == "?"
    assert outline_text(b"{" + b" " * DECODED_BYTES_MAX + raw) == "?"


@given(st.binary(max_size=200))
def test_no_bytes_raise(raw: bytes) -> None:
    assert outline_text(raw)


@given(st.lists(JSON, min_size=1, max_size=4))
def test_what_is_remembered_changes_no_outline(payloads: list[Any]) -> None:
    outlines = OutlineBuilder(str)
    for payload in payloads * 2:
        raw = json.dumps(payload).encode()
        escaped = outlines.outline(raw)
        assert json.loads(b'"%b"' % escaped) == outline_text(raw)
        assert len(outline_text(raw)) <= OUTLINE_CHARS_MAX


def test_depth_members_and_items_are_bounded() -> None:
    assert outline_text(b'{"a":' * 9 + b"1" + b"}" * 9) == '{"a":{"a":{"a":{"a":{"a":{...}}}}}}'
    assert outline_text(b"[" * 9 + b"1" + b"]" * 9) == "[[[[[[...]]]]]]"
    many = outline_text(json.dumps({f"k{n}": n for n in range(MEMBERS_MAX + 5)}).encode())
    assert many.endswith(f'"k{MEMBERS_MAX - 1}":n,... x5}}')
    assert outline_text(json.dumps([0] * (ITEMS_MAX + 7)).encode()) == f"[n x{ITEMS_MAX},... x7]"
    wide = {f"key number {n}": {f"inner {m} of {n}": m for m in range(15)} for n in range(20)}
    cut = outline_text(json.dumps(wide).encode())
    assert len(cut) == OUTLINE_CHARS_MAX
    assert cut.endswith("...")


def test_a_large_payload_shows_its_top_levels() -> None:
    large = "x" * DECODED_BYTES_MAX
    content = [{"type": "text", "text": large}, {"type": "text", "text": "small"}]
    assert (
        outline_text(json.dumps({"content": content, "isError": False}).encode())
        == '{"content":[{"type":s,"text":s} x2],"isError":b}'
    )
    deep = {"a": {"b": {"c": {"d": large}}}, "n": 1}
    assert outline_text(json.dumps(deep).encode()) == '{"a":{"b":{"c":{...}}},"n":n}'
    rows = [{"id": n, "name": f"row {n}"} for n in range(400)]
    assert (
        outline_text(json.dumps(rows).encode())
        == f'[{{"id":n,"name":s}} x{ITEMS_MAX},... x{400 - ITEMS_MAX}]'
    )
    many = {f"key {n}": [n] for n in range(900)}
    assert outline_text(json.dumps(many).encode()).endswith(f",... x{900 - MEMBERS_MAX}}}")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'{"a":"%b"}', "{...}"),
        (b'  ["%b"]', "[...]"),
        (b'"%b"', "s"),
        (b"oh %b", "?"),
    ],
)
def test_of_a_huge_payload_only_the_first_byte_is_read(raw: bytes, expected: str) -> None:
    assert outline_text(raw % (b"x" * SCANNED_BYTES_MAX)) == expected


def test_keys_are_redacted_escaped_and_cut() -> None:
    outlines = OutlineBuilder(Redactor(["hunter2-hunter2"]))

    def shown(key: str) -> str:
        escaped = outlines.outline(json.dumps({key: 1}).encode())
        text: str = msgspec.json.decode(b'"%b"' % escaped)
        return text

    assert shown("hunter2-hunter2") == f'{{"{MARK}":n}}'
    assert shown("use ghp_0123456789abcdefABCD0123456789abcdef") == f'{{"use {MARK}":n}}'
    assert shown('a"\n\x1b\u202e\x9b') == r'{"a\"\n\u001b\u202e\u009b":n}'
    assert shown("k" * 100) == '{"' + "k" * 63 + '…":n}'
    assert shown("k" * 1020 + "hunter2-hunter2") == '{"...":n}'


def test_the_memory_of_outlines_is_bounded() -> None:
    outlines = OutlineBuilder(str)
    for n in range(REMEMBERED_MAX * 2 + 10):
        outlines.outline(b'{"key %d":1}' % n)
    assert len(outlines._plans) <= REMEMBERED_MAX
    before = len(outlines._plans)
    outlines.outline(json.dumps({"k" * 2000: 1}).encode())
    outlines.outline(json.dumps({f"k{n}": n for n in range(MEMBERS_MAX + 1)}).encode())
    assert len(outlines._plans) == before


def test_no_payload_makes_an_outline_slow() -> None:
    worst = [
        b"[" + b"{}," * 20_000 + b"{}]",
        b"[" + b'{"a":[1,{}]},' * 4_000 + b"0]",
        b'{"a":[' + b'{"a":[1,{}]},' * 75_000 + b"0]}",
        b"[" * 60_000,
    ]
    assert cpu_seconds(lambda: [outline_text(raw) for raw in worst]) < CPU_SECONDS_MAX


def test_digests_are_equal_for_equal_bytes_under_one_key_only() -> None:
    digests = PayloadDigests(b"key")
    assert (
        digests.digest(b"payload")
        == digests.digest(b"payload")
        == PayloadDigests(b"key").digest(b"payload")
    )
    assert len(digests.digest(b"")) == 16
    assert int(digests.digest(b""), 16) >= 0
    others = {
        digests.digest(b"payloae"),
        PayloadDigests(b"kez").digest(b"payload"),
        PayloadDigests(b"").digest(b"keypayload"),
        sha256(b"payload").hexdigest()[:16].encode(),
        sha256(b"keypayload").hexdigest()[:16].encode(),
    }
    assert len(others) == 5
    assert digests.digest(b"payload") not in others


# Outlines that are cached


class Counted(OutlineBuilder):
    """Counts how often an outline had to be made."""

    def __init__(self) -> None:
        super().__init__(str)
        self.made = 0

    def outline(self, raw: bytes) -> bytes:
        self.made += 1
        return super().outline(raw)


def text(escaped: bytes) -> str:
    shown: str = json.loads(b'"%b"' % escaped)
    return shown


def test_what_came_twice_is_known_the_third_time() -> None:
    outlines = Counted()
    cache = OutlineCache(OutlineDecoders(outlines))
    for number in range(10):
        raw = json.dumps({"text": f"call {number}", "count": number, "all": True}).encode()
        assert text(cache.outline(raw)) == '{"text":s,"count":n,"all":b}'

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
    cache = OutlineCache(OutlineDecoders(OutlineBuilder(str)))
    for _ in range(3):
        cache.outline(b'{"text":"x","count":1}')
    raw = json.dumps(other).encode()

    assert text(cache.outline(raw)) == text(OutlineBuilder(str).outline(raw))


def test_lists_are_alike_only_in_the_same_length() -> None:
    cache = OutlineCache(OutlineDecoders(OutlineBuilder(str)))
    for _ in range(3):
        assert text(cache.outline(b'{"a":[1,2]}')) == '{"a":[n x2]}'

    assert text(cache.outline(b'{"a":[1,2,3]}')) == '{"a":[n x3]}'
    assert text(cache.outline(b'{"a":[]}')) == '{"a":[]}'


def test_one_that_is_different_now_and_then_does_not_unlearn_the_usual() -> None:
    outlines = Counted()
    cache = OutlineCache(OutlineDecoders(outlines))
    for _ in range(3):
        cache.outline(b'{"a":1}')
    made = outlines.made
    for _ in range(5):
        cache.outline(b'{"a":"x"}')
        cache.outline(b'{"a":1}')
        cache.outline(b'{"b":"x"}')
        cache.outline(b'{"a":1}')

    assert outlines.made == made + 10


def test_large_payloads_and_too_many_kinds_are_outlined_one_by_one() -> None:
    outlines = Counted()
    looks = OutlineDecoders(outlines)
    cache, large = (
        OutlineCache(looks),
        json.dumps({"a": "x" * DECODER_PAYLOAD_BYTES_MAX}).encode(),
    )
    for _ in range(4):
        cache.outline(large)
    assert outlines.made == 4

    for number in range(DECODERS_MAX):
        looks.decoder_for(b"%d" % number, b"{}")
    with pytest.raises(ValueError, match="nothing"):
        looks.decoder_for(b"one more", b"{}")(b"{}")


def test_what_is_no_json_stays_so() -> None:
    cache = OutlineCache(OutlineDecoders(OutlineBuilder(str)))
    assert [cache.outline(b"\xff{") for _ in range(4)] == [b"?"] * 4


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(_JSON, min_size=1, max_size=5))
def test_it_never_differs_from_the_outline(payloads: list[Any]) -> None:
    outlines = OutlineBuilder(str)
    cache = OutlineCache(OutlineDecoders(outlines))
    for payload in payloads:
        raw = json.dumps(payload).encode()
        for _ in range(3):
            assert cache.outline(raw) == outlines.outline(raw)

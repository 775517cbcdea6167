import json
import time
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.record.outline import (
    DECODED_BYTES_MAX,
    ITEMS_MAX,
    MEMBERS_MAX,
    OUTLINE_CHARS_MAX,
    REMEMBERED_MAX,
    SCANNED_BYTES_MAX,
    Digests,
    Outlines,
    outline,
)
from anyport.record.redact import MARK, Redactor

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=30,
)


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
    assert outline(json.dumps(payload).encode()) == expected


@pytest.mark.parametrize("raw", [b"", b"{", b"nonsense", b'"\xff"', b"[" * 5000, b"1e999"])
def test_what_is_no_json_has_no_outline(raw: bytes) -> None:
    assert outline(raw) == "?"
    assert outline(b"{" + b" " * DECODED_BYTES_MAX + raw) == "?"


@given(st.binary(max_size=200))
def test_no_bytes_raise(raw: bytes) -> None:
    assert outline(raw)


@given(st.lists(JSON, min_size=1, max_size=4))
def test_what_is_remembered_changes_no_outline(payloads: list[Any]) -> None:
    outlines = Outlines(str)
    for payload in payloads * 2:
        raw = json.dumps(payload).encode()
        escaped = outlines.of(raw)
        assert json.loads(b'"%b"' % escaped) == outline(raw)
        assert len(outline(raw)) <= OUTLINE_CHARS_MAX


def test_depth_members_and_items_are_bounded() -> None:
    assert outline(b'{"a":' * 9 + b"1" + b"}" * 9) == '{"a":{"a":{"a":{"a":{"a":{...}}}}}}'
    assert outline(b"[" * 9 + b"1" + b"]" * 9) == "[[[[[[...]]]]]]"
    many = outline(json.dumps({f"k{n}": n for n in range(MEMBERS_MAX + 5)}).encode())
    assert many.endswith(f'"k{MEMBERS_MAX - 1}":n,... x5}}')
    assert outline(json.dumps([0] * (ITEMS_MAX + 7)).encode()) == f"[n x{ITEMS_MAX},... x7]"
    wide = {f"key number {n}": {f"inner {m} of {n}": m for m in range(15)} for n in range(20)}
    cut = outline(json.dumps(wide).encode())
    assert len(cut) == OUTLINE_CHARS_MAX
    assert cut.endswith("...")


def test_a_large_payload_shows_its_top_levels() -> None:
    large = "x" * DECODED_BYTES_MAX
    content = [{"type": "text", "text": large}, {"type": "text", "text": "small"}]
    assert (
        outline(json.dumps({"content": content, "isError": False}).encode())
        == '{"content":[{"type":s,"text":s} x2],"isError":b}'
    )
    deep = {"a": {"b": {"c": {"d": large}}}, "n": 1}
    assert outline(json.dumps(deep).encode()) == '{"a":{"b":{"c":{...}}},"n":n}'
    rows = [{"id": n, "name": f"row {n}"} for n in range(400)]
    assert (
        outline(json.dumps(rows).encode())
        == f'[{{"id":n,"name":s}} x{ITEMS_MAX},... x{400 - ITEMS_MAX}]'
    )
    many = {f"key {n}": [n] for n in range(900)}
    assert outline(json.dumps(many).encode()).endswith(f",... x{900 - MEMBERS_MAX}}}")


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
    assert outline(raw % (b"x" * SCANNED_BYTES_MAX)) == expected


def test_keys_are_redacted_escaped_and_cut() -> None:
    outlines = Outlines(Redactor(["hunter2-hunter2"]))

    def shown(key: str) -> str:
        escaped = outlines.of(json.dumps({key: 1}).encode())
        text: str = msgspec.json.decode(b'"%b"' % escaped)
        return text

    assert shown("hunter2-hunter2") == f'{{"{MARK}":n}}'
    assert shown("use ghp_0123456789abcdefABCD0123456789abcdef") == f'{{"use {MARK}":n}}'
    assert shown('a"\n\x1b\u202e\x9b') == r'{"a\"\n\u001b\u202e\u009b":n}'
    assert shown("k" * 100) == '{"' + "k" * 63 + '…":n}'
    assert shown("k" * 1020 + "hunter2-hunter2") == '{"...":n}'


def test_the_memory_of_outlines_is_bounded() -> None:
    outlines = Outlines(str)
    for n in range(REMEMBERED_MAX * 2 + 10):
        outlines.of(b'{"key %d":1}' % n)
    assert len(outlines._remembered) <= REMEMBERED_MAX
    before = len(outlines._remembered)
    outlines.of(json.dumps({"k" * 2000: 1}).encode())
    outlines.of(json.dumps({f"k{n}": n for n in range(MEMBERS_MAX + 1)}).encode())
    assert len(outlines._remembered) == before


def test_no_payload_makes_an_outline_slow() -> None:
    worst = [
        b"[" + b"{}," * 20_000 + b"{}]",
        b"[" + b'{"a":[1,{}]},' * 4_000 + b"0]",
        b'{"a":[' + b'{"a":[1,{}]},' * 75_000 + b"0]}",
        b"[" * 60_000,
    ]
    before = time.process_time()
    for raw in worst:
        outline(raw)
    assert time.process_time() - before < 5


def test_digests_are_equal_for_equal_bytes_under_one_key_only() -> None:
    digests = Digests(b"key")
    assert digests.of(b"payload") == digests.of(b"payload") == Digests(b"key").of(b"payload")
    assert len(digests.of(b"")) == 16
    assert int(digests.of(b""), 16) >= 0
    others = {
        digests.of(b"payloae"),
        Digests(b"kez").of(b"payload"),
        Digests(b"").of(b"keypayload"),
        sha256(b"payload").hexdigest()[:16].encode(),
        sha256(b"keypayload").hexdigest()[:16].encode(),
    }
    assert len(others) == 5
    assert digests.of(b"payload") not in others

"""Results: content kinds, shape, lookalike members."""

import json
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anyport.protocol.result import (
    BRACES_CHECKED_MAX,
    LONG_RESULT_BYTES,
    clean_result,
    may_hold_unknown_content,
    read_result,
    read_shape,
)
from anyport.protocol.revisions import REVISIONS
from anyport.wire.jsonrpc import OUTBOUND, Result, decode
from tests.wire.source import SAMPLES, STYLES, written

OLDEST, NEWEST = REVISIONS["2024-11-05"], REVISIONS["2025-11-25"]
LONG = "x" * LONG_RESULT_BYTES


def raw(*content: Any, **more: Any) -> bytes:
    return json.dumps({"content": content, **more}, separators=(",", ":")).encode()


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


@pytest.mark.parametrize(
    "words", ["", LONG, LONG + "a{b}" * 3, LONG + "{" * (BRACES_CHECKED_MAX + 5)]
)
def test_text_is_known_to_everybody(words: str) -> None:
    assert not may_hold_unknown_content(raw(text(words)), OLDEST)


@pytest.mark.parametrize("words", ["", LONG, LONG + " {", LONG + ' "type": "audio"'])
@pytest.mark.parametrize("before", [True, False])
def test_what_came_later_is_found_beside_any_text(words: str, before: bool) -> None:
    for kind, revision in (("audio", OLDEST), ("unheard-of", NEWEST)):
        other = {"type": kind, "data": "x"}
        blocks = (other, text(words)) if before else (text(words), other)
        assert may_hold_unknown_content(raw(*blocks), revision)
        assert may_hold_unknown_content(json.dumps({"content": blocks}).encode(), revision)


def test_a_long_result_that_is_written_otherwise_is_read() -> None:
    late = b'{"content":[{"text":"%b","type":"unheard-of"}]}' % LONG.encode()

    assert may_hold_unknown_content(late, NEWEST)
    assert not may_hold_unknown_content(late.replace(b"unheard-of", b"text"), NEWEST)


# The shape of a result.


def test_the_members_that_matter_are_found_wherever_they_stand() -> None:
    shape = read_shape(
        b'{"content":[{"isError":true}],"ttlMs":5,"_meta":{"a":1.0},"structuredContent":[1],'
        b'"cacheScope":"public","resultType":"complete","isError":false,"x":{"ttlMs":7}}'
    )

    assert bytes(shape.result_type) == b'"complete"'
    assert bytes(shape.is_error) == b"false"
    assert bytes(shape.raw_meta) == b'{"a":1.0}'
    assert bytes(shape.structured) == b"[1]"
    assert bytes(shape.ttl) == b"5"
    assert bytes(shape.scope) == b'"public"'


def test_what_is_not_there_is_empty() -> None:
    shape = read_shape(b'{"content":[]}')

    members = (
        shape.result_type,
        shape.is_error,
        shape.raw_meta,
        shape.structured,
        shape.ttl,
        shape.scope,
    )
    assert not any(map(len, members))
    assert not shape.is_tool_error


@pytest.mark.parametrize(
    ("raw", "failed"),
    [
        (b'{"isError":true}', True),
        (b'{"isError": true }', True),
        (b'{"isError":false}', False),
        (b'{"isError":"true"}', False),
        (b'{"isError":null}', False),
        (b'{"isError":1}', False),
        (b'{"is_error":true}', False),
        (b'{"content":[{"isError":true}]}', False),
        (b"{}", False),
    ],
)
def test_only_a_plain_true_is_an_error_of_the_tool(raw: bytes, failed: bool) -> None:
    assert read_shape(raw).is_tool_error is failed


@pytest.mark.parametrize("raw", [b"[]", b"1", b"null", b'"x"', b"", b"{", b'{"a":}'])
def test_what_is_no_object_has_no_shape(raw: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        read_shape(raw)


IDS: list[Any] = [0, 1, 7, -1, 10**17, 10**30, "a", 1.5, None]
FORMS = [
    b'{"jsonrpc":"2.0","id":%(id)b,"result":%(result)b}',
    b'{"result":%(result)b,"jsonrpc":"2.0","id":%(id)b}',
    b'{"jsonrpc":"2.0","id":%(id)b,"result":%(result)b }',
    b'{"jsonrpc":"2.0","id":%(id)b,"result":%(result)b ',
    b'{"jsonrpc":"2.0","id":%(id)b,"result":%(result)b]',
    b'{"jsonrpc":"2.0","id":%(id)b,"result":%(result)b,"result":{}}',
    b'{"jsonrpc":"2.0","id":%(id)b,"result":%(result)b,"error":null}',
    b'{"result":%(result)b ,"jsonrpc":"2.0","id":%(id)b}',
    b'{"result":%(result)b,"id":2,"jsonrpc":"2.0","id":%(id)b}',
    b'{"result":%(result)b,"jsonrpc":"2.0","id":%(id)b}\n',
    b'{"result": %(result)b,"jsonrpc":"2.0","id":%(id)b}',
]


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    names = st.sampled_from(["content", "isError", "resultType", "x", "jsonrpc", "id", "result"])
    inner = draw(st.lists(st.tuples(names, SAMPLES), max_size=4))
    style = draw(st.sampled_from(["compact", *STYLES]))
    result = written(inner, style, Random(draw(st.integers(0, 2**32)))).raw.strip()
    id = json.dumps(draw(st.sampled_from(IDS))).encode()
    return bytes(draw(st.sampled_from(FORMS)) % {b"id": id, b"result": result})


@given(answers())
@settings(max_examples=400)
@example(b'{"jsonrpc":"2.0","id":01,"result":{}}')
@example(b'{"jsonrpc":"2.0","id":1,"result":{} }')
@example(b'{"jsonrpc":"2.0","id":1,"result":{"a":1}}}')
@example(b'{"jsonrpc":"2.0","id":1,"result":{"a":1}},')
@example(b'{"result":{},"a":{},"jsonrpc":"2.0","id":1}')
@example(b'{"result":{"a":"\\"},\\"jsonrpc\\":\\"2.0\\",\\"id\\":1}"},"jsonrpc":"2.0","id":1}')
def test_a_result_that_is_read_in_one_go_is_read_like_any_other(raw: bytes) -> None:
    shaped = read_result(raw, OUTBOUND)
    if shaped is None:
        return

    frame = decode(raw, OUTBOUND)
    assert isinstance(frame, Result)
    assert (shaped.id, shaped.result) == (frame.id, frame.result)
    assert (shaped.result, shaped.shape) == clean_result(frame.result)
    assert shaped.shape.is_error == read_shape(frame.result).is_error


@pytest.mark.parametrize("form", FORMS[:2])
def test_the_results_of_official_servers_are_read_in_one_go(form: bytes) -> None:
    shaped = read_result(form % {b"id": b"7", b"result": b'{"isError":true}'}, OUTBOUND)

    assert shaped is not None
    assert (shaped.id, shaped.result) == (b"7", b'{"isError":true}')
    assert shaped.shape.is_tool_error

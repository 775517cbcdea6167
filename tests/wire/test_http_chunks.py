"""Chunked bodies: cut anywhere they are the same, and every line of them has a limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.wire.http import (
    CHUNK_LINE_BYTES_MAX,
    LAST_CHUNK,
    TRAILER_BYTES_MAX,
    BadMessage,
    Chunks,
    chunk,
)


def test_chunks_can_be_written_and_read_back() -> None:
    raw = chunk(b"hello ") + chunk(b"x" * 300) + LAST_CHUNK

    chunks = Chunks()

    assert b"".join(chunks.feed(raw)) == b"hello " + b"x" * 300
    assert chunks.done
    assert chunks.rest == b""


BODY = b"5\r\nhello\r\n1;name=value\r\n,\r\n0006 \r\n world\r\n0\r\nTrailer: x\r\n\r\nGET /"


@pytest.mark.parametrize("first", range(len(BODY) + 1))
def test_a_chunked_body_split_anywhere_is_the_same_body(first: int) -> None:
    for second in range(first, len(BODY) + 1):
        chunks = Chunks()
        pieces = [
            piece
            for portion in (BODY[:first], BODY[first:second], BODY[second:])
            if not chunks.done
            for piece in chunks.feed(portion)
        ]

        assert b"".join(pieces) == b"hello, world"
        assert chunks.done
        assert b"GET /".startswith(chunks.rest)


def test_a_chunked_body_byte_by_byte_is_the_same_body() -> None:
    chunks = Chunks()
    end = BODY.index(b"GET")
    pieces = [piece for at in range(end) for piece in chunks.feed(BODY[at : at + 1])]

    assert b"".join(pieces) == b"hello, world"
    assert chunks.done


@pytest.mark.parametrize(
    "raw",
    [
        b"\r\n",
        b"g\r\n",
        b"-5\r\nhello\r\n",
        b"+5\r\nhello\r\n",
        b"0x5\r\nhello\r\n",
        b"5_0\r\n",
        b"\xb2\r\n",
        b"5 5\r\nhello\r\n",
        b"123456789\r\n",
        b";name=value\r\n",
        b"5\r\nhello!\r\n",
        b"5\r\nhello\n0\r\n\r\n",
        b"5\r\nhelloX\n",
        b"5\r\nhello\rX",
        b"5\r\nhello0\r\n\r\n",
        b"5\nhello\r\n0\n\n",
        b"0" * (CHUNK_LINE_BYTES_MAX + 1),
        b"5;" + b"x" * CHUNK_LINE_BYTES_MAX,
        b"0\r\n" + b"x" * (TRAILER_BYTES_MAX + 1),
    ],
)
@pytest.mark.parametrize("step", [1, 3, 100_000])
def test_what_is_no_chunked_body_is_refused(raw: bytes, step: int) -> None:
    chunks = Chunks()

    with pytest.raises(BadMessage):
        for at in range(0, len(raw), step):
            chunks.feed(raw[at : at + step])
            assert not chunks.done


@pytest.mark.parametrize("step", [100, 100_000])
def test_trailers_are_bounded_however_they_come(step: int) -> None:
    raw = b"0\r\n" + b"X: y\r\n" * TRAILER_BYTES_MAX + b"\r\n"
    chunks = Chunks()

    with pytest.raises(BadMessage):
        for at in range(0, len(raw), step):
            chunks.feed(raw[at : at + step])


@pytest.mark.parametrize("length", [b"5", b"5;" + b"x" * 2 * CHUNK_LINE_BYTES_MAX])
def test_extensions_are_bounded_even_when_they_come_with_the_chunk(length: bytes) -> None:
    raw = length + b"\r\nhello\r\n0\r\n\r\n"
    chunks = Chunks()

    if len(length) == 1:
        assert chunks.feed(raw) == [b"hello"]
        return
    with pytest.raises(BadMessage):
        chunks.feed(raw)


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.data())
def test_any_body_survives_any_cut(pieces: list[bytes], data: st.DataObject) -> None:
    raw = b"".join(map(chunk, pieces)) + LAST_CHUNK + b"rest"
    chunks, got = Chunks(), b""
    while not chunks.done:
        size = data.draw(st.integers(1, len(raw)))
        portion, raw = raw[:size], raw[size:]
        got += b"".join(chunks.feed(portion))

    assert got == b"".join(pieces)
    assert chunks.rest + raw == b"rest"

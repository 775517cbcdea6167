"""Compressed bodies come out whole, within bounds, or not at all."""

import gzip
import zlib

import pytest

from anyport.upstream.http.connection import (
    INFLATED_BYTES,
    BadCompression,
    Decompressor,
    decompressor_for,
)
from anyport.wire.http1 import BadMessage, read_response_head

PLAIN = b'{"text":"%b"}' % (b"abc" * 500)


def for_coding(coding: str) -> Decompressor | None:
    raw = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: 1".encode()
    return decompressor_for(read_response_head(raw))


@pytest.mark.parametrize(
    ("coding", "squeezed"),
    [
        ("gzip", gzip.compress(PLAIN, mtime=0)),
        ("x-gzip", gzip.compress(PLAIN, mtime=0)),
        ("GZIP ", gzip.compress(PLAIN, mtime=0)),
        ("deflate", zlib.compress(PLAIN)),
    ],
)
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_a_body_is_the_same_in_whatever_pieces_it_comes(
    coding: str, squeezed: bytes, step: int
) -> None:
    inflate = for_coding(coding)
    assert inflate is not None

    fed = [squeezed[at : at + step] for at in range(0, len(squeezed), step)]
    pieces = [piece for portion in fed for piece in inflate.feed(portion)]

    assert b"".join(pieces) == PLAIN
    assert not inflate.is_incomplete


def test_what_is_not_compressed_needs_nothing() -> None:
    assert for_coding("identity") is None
    assert decompressor_for(read_response_head(b"HTTP/1.1 200 OK")) is None


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "compress"])
def test_a_coding_that_nobody_asked_for_is_refused(coding: str) -> None:
    with pytest.raises(BadMessage):
        for_coding(coding)


def test_a_piece_that_grows_enormously_comes_out_a_little_at_a_time() -> None:
    inflate = Decompressor()

    sizes = [len(piece) for piece in inflate.feed(gzip.compress(bytes(10_000_000), mtime=0))]

    assert sum(sizes) == 10_000_000
    assert max(sizes) == INFLATED_BYTES
    assert not inflate.is_incomplete


@pytest.mark.parametrize("raw", [b"plain text", b"\x1f\x8b\x08" + b"x" * 50])
def test_what_is_no_compression_is_refused(raw: bytes) -> None:
    with pytest.raises(BadCompression):
        list(Decompressor().feed(raw))


@pytest.mark.parametrize("together", [True, False])
def test_nothing_may_follow_the_end_and_none_of_it_is_kept(together: bool) -> None:
    inflate, squeezed = Decompressor(), gzip.compress(b"{}", mtime=0)
    if not together:
        assert b"".join(inflate.feed(squeezed)) == b"{}"
        squeezed = b""

    with pytest.raises(BadCompression):
        list(inflate.feed(squeezed + b"more"))


def test_a_body_that_stops_early_is_cut_off_and_one_that_never_began_is_not() -> None:
    empty, short = Decompressor(), Decompressor()

    list(empty.feed(b""))
    list(short.feed(gzip.compress(PLAIN, mtime=0)[:-9]))

    assert not empty.is_incomplete
    assert short.is_incomplete

"""Lines are complete whatever the portions, and memory is bounded."""

import tracemalloc
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyport.wire.lines import LineSplitter, Overlong, encode_line, encode_lines, truncate_message

EDGE = 4096
LIMIT = 20
LETTERS = b"abcdefghijklmnopqrstuvwxyz"


def split(stream: bytes, cuts: list[int], bytes_max: int = LIMIT) -> list[bytes | Overlong]:
    """The lines of a stream that is fed in portions."""
    splitter = LineSplitter(bytes_max)
    places = sorted({cut % (len(stream) + 1) for cut in cuts} | {0, len(stream)})
    lines: list[bytes | Overlong] = []
    for start, end in pairwise(places):
        lines += splitter.feed(stream[start:end])
    return lines + splitter.finish()


def expected(stream: bytes, bytes_max: int = LIMIT) -> list[bytes | Overlong]:
    """The same, simple and without regard for memory."""
    lines: list[bytes | Overlong] = []
    for whole in stream.split(b"\n"):
        if len(whole) > bytes_max:
            lines.append(Overlong(len(whole), whole[:EDGE] + whole[-EDGE:]))
        elif whole.strip():
            lines.append(whole.removesuffix(b"\r"))
    return lines


def sizes_told(lines: list[bytes | Overlong]) -> list[bytes | int]:
    """Lines, and the sizes of overlong ones."""
    return [found.size if isinstance(found, Overlong) else found for found in lines]


@given(
    st.lists(st.sampled_from([b"{}", b"\n", b"\r\n", b"\r", b" ", b"x" * 9, b"y" * 30])),
    st.lists(st.integers(0, 400)),
)
def test_any_portions_give_the_lines_of_the_stream(pieces: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(pieces)

    assert sizes_told(split(stream, cuts)) == sizes_told(expected(stream))


@given(st.lists(st.integers(0, 30_000), max_size=4), st.lists(st.integers(0, 90_000), max_size=6))
@settings(max_examples=50)
def test_long_lines_keep_their_edges_whatever_the_portions(
    sizes: list[int], cuts: list[int]
) -> None:
    stream = b"\n".join((LETTERS * (size // 26 + 1))[:size] for size in sizes)

    assert split(stream, cuts, 2 * EDGE) == expected(stream, 2 * EDGE)


def test_one_byte_at_a_time_makes_the_same_lines() -> None:
    stream = b'{"a":1}\r\n\n{"b":2}\n' * 3

    assert split(stream, list(range(len(stream)))) == [b'{"a":1}', b'{"b":2}'] * 3


def test_two_messages_in_one_portion_are_two_lines() -> None:
    assert LineSplitter(LIMIT).feed(b"{}\n[]\n") == [b"{}", b"[]"]


def test_the_last_line_needs_no_end() -> None:
    splitter = LineSplitter(LIMIT)

    assert splitter.feed(b"{}\n[]") == [b"{}"]
    assert splitter.pending_bytes == 2
    assert splitter.finish() == [b"[]"]
    assert splitter.pending_bytes == 0
    assert splitter.finish() == []


def test_a_line_of_exactly_the_limit_is_kept_and_one_byte_more_is_not() -> None:
    assert LineSplitter(LIMIT).feed(b"x" * LIMIT + b"\n") == [b"x" * LIMIT]
    assert LineSplitter(LIMIT).feed(b"x" * (LIMIT + 1) + b"\n") == [
        Overlong(LIMIT + 1, b"x" * (LIMIT + 1) * 2)
    ]


def test_after_an_overlong_line_the_next_is_read_as_ever() -> None:
    splitter = LineSplitter(EDGE)
    for _ in range(100):
        assert splitter.feed(b"x" * 1000) == []

    over, following = splitter.feed(b"end\n{}\n")

    assert over == Overlong(100_003, b"x" * EDGE + b"x" * (EDGE - 3) + b"end")
    assert following == b"{}"


class Scarce(bytearray):
    """Bytes that do not fit in memory; a smaller copy does."""

    copies = True
    grows = True

    def __iadd__(self, more: Any) -> Any:  # type: ignore[misc]
        if not self.grows:
            raise MemoryError
        return super().__iadd__(more)

    def __bytes__(self) -> bytes:
        if not self.copies:
            self.copies = True
            raise MemoryError
        return b"".join([self])


@pytest.mark.parametrize("lacks", ["copies", "grows"])
def test_a_line_that_does_not_fit_in_memory_is_overlong_and_the_next_is_read(
    lacks: str,
) -> None:
    splitter = LineSplitter(100)
    splitter.feed(b"abc")
    splitter._buffer = Scarce(splitter._buffer)
    setattr(splitter._buffer, lacks, False)

    first = splitter.feed(b"def\nnext\n")

    assert [one.size if isinstance(one, Overlong) else one for one in first] == [6, b"next"]
    assert isinstance(first[0], Overlong)
    assert first[0].edges.startswith(b"abc")
    assert first[0].edges.endswith(b"def")


def test_a_message_that_is_given_up_keeps_its_edges() -> None:
    assert (
        truncate_message(b"a" + b"-" * 3 * EDGE + b"z").edges == b"a" + b"-" * (2 * EDGE - 2) + b"z"
    )
    assert truncate_message(Overlong(7, b"e")) == Overlong(7, b"e")


def test_an_overlong_line_without_an_end_is_returned_when_the_stream_ends() -> None:
    splitter = LineSplitter(LIMIT)
    splitter.feed(b"y" * 50)

    assert splitter.finish() == [Overlong(50, b"y" * 100)]


def test_a_line_that_is_dropped_leaves_its_edges_and_the_next_is_read_as_ever() -> None:
    splitter = LineSplitter(1000 * EDGE)
    splitter.feed(b"a" * 10 * EDGE)
    assert splitter.buffered_bytes == splitter.pending_bytes == 10 * EDGE

    splitter.truncate()
    splitter.truncate()
    splitter.feed(b"b" * 10 * EDGE)
    assert (splitter.buffered_bytes, splitter.pending_bytes) == (2 * EDGE, 20 * EDGE)
    dropped, following = splitter.feed(b"\n{}\n")

    assert dropped == Overlong(20 * EDGE, b"a" * EDGE + b"b" * EDGE)
    assert following == b"{}"
    assert splitter.buffered_bytes == 0


def test_where_no_line_has_begun_there_is_nothing_to_drop() -> None:
    splitter = LineSplitter(LIMIT)
    splitter.truncate()

    assert splitter.feed(b"{}\n") == [b"{}"]


@pytest.mark.parametrize("portion", [2, 16_384])
def test_memory_is_bounded_by_the_limit_whatever_is_fed(portion: int) -> None:
    limit = 32 * 1024
    splitter = LineSplitter(limit)
    pieces = [bytes([65 + at % 26]) * portion for at in range(26)]
    tracemalloc.start()
    try:
        for at in range(2 * limit // portion):
            splitter.feed(pieces[at % 26])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 4 * limit
    assert splitter.pending_bytes == 2 * limit


def test_a_frame_is_written_as_one_line() -> None:
    assert encode_line(b'{"a":1}') == b'{"a":1}\n'
    assert encode_line(b'{\r\n "a": 1\n}') == b'{   "a": 1 }\n'


def test_frames_are_written_as_lines() -> None:
    assert encode_lines([]) == b""
    assert encode_lines([b"1"]) == b"1\n"
    assert encode_lines([b"1", b"2"]) == b"1\n2\n"
    assert encode_lines([b"{\n}", b"2", b"[\r]"]) == b"{ }\n2\n[ ]\n"

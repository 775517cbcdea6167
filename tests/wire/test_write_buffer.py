"""The write buffer of a slow peer."""

from hypothesis import given
from hypothesis import strategies as st

from anyport.wire.write_buffer import WRITEV_BUFFERS_MAX, WriteBuffer


@given(st.lists(st.binary(min_size=1, max_size=50)), st.integers(1, 20))
def test_everything_is_written_once_and_in_order_however_little_is_taken(
    pieces: list[bytes], taken: int
) -> None:
    backlog, written = WriteBuffer(), b""
    for piece in pieces:
        backlog.add(piece)
    assert backlog.size == sum(map(len, pieces))

    while backlog.size:
        offered = b"".join(backlog.next_buffers())
        backlog.consume(min(taken, len(offered)))
        written += offered[:taken]

    assert written == b"".join(pieces)
    assert backlog.next_buffers() == []


def test_one_system_call_gets_no_more_than_it_can_take() -> None:
    backlog = WriteBuffer()
    for _ in range(WRITEV_BUFFERS_MAX + 1):
        backlog.add(b"x")

    assert len(backlog.next_buffers()) == WRITEV_BUFFERS_MAX
    backlog.consume(WRITEV_BUFFERS_MAX)
    assert (backlog.size, backlog.next_buffers()) == (1, [b"x"])


def test_what_is_left_of_a_large_piece_is_not_copied() -> None:
    backlog, large = WriteBuffer(), bytes(1 << 20)
    backlog.add(large)

    backlog.consume(10)
    backlog.consume(10)

    (rest,) = backlog.next_buffers()
    assert isinstance(rest, memoryview)
    assert rest.obj is large
    assert len(rest) == backlog.size == (1 << 20) - 20


def test_cleared_bytes_are_gone() -> None:
    backlog = WriteBuffer()
    backlog.add(b"x")
    backlog.clear()

    assert (backlog.size, backlog.next_buffers()) == (0, [])


def test_remaining_bytes_tell_whether_a_buffer_was_written_in_part() -> None:
    backlog = WriteBuffer()
    backlog.add(b"ab")
    backlog.add(b"cd")
    assert backlog.remaining() == (b"abcd", False)

    backlog.consume(1)
    assert backlog.remaining() == (b"bcd", True)
    backlog.consume(1)
    assert backlog.remaining() == (b"cd", False)
    backlog.clear()
    assert backlog.remaining() == (b"", False)

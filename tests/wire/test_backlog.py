"""Bytes that wait for a slow peer."""

from hypothesis import given
from hypothesis import strategies as st

from anyport.wire.backlog import PIECES_MAX, Backlog


@given(st.lists(st.binary(min_size=1, max_size=50)), st.integers(1, 20))
def test_everything_is_written_once_and_in_order_however_little_is_taken(
    pieces: list[bytes], taken: int
) -> None:
    backlog, written = Backlog(), b""
    for piece in pieces:
        backlog.add(piece)
    assert backlog.size == sum(map(len, pieces))

    while backlog.size:
        offered = b"".join(backlog.next())
        backlog.taken(min(taken, len(offered)))
        written += offered[:taken]

    assert written == b"".join(pieces)
    assert backlog.next() == []


def test_one_system_call_gets_no_more_than_it_can_take() -> None:
    backlog = Backlog()
    for _ in range(PIECES_MAX + 1):
        backlog.add(b"x")

    assert len(backlog.next()) == PIECES_MAX
    backlog.taken(PIECES_MAX)
    assert (backlog.size, backlog.next()) == (1, [b"x"])


def test_what_is_left_of_a_large_piece_is_not_copied() -> None:
    backlog, large = Backlog(), bytes(1 << 20)
    backlog.add(large)

    backlog.taken(10)
    backlog.taken(10)

    (rest,) = backlog.next()
    assert isinstance(rest, memoryview)
    assert rest.obj is large
    assert len(rest) == backlog.size == (1 << 20) - 20


def test_what_nobody_wants_is_forgotten() -> None:
    backlog = Backlog()
    backlog.add(b"x")
    backlog.clear()

    assert (backlog.size, backlog.next()) == (0, [])


def test_what_is_left_says_whether_its_beginning_has_gone_out() -> None:
    backlog = Backlog()
    backlog.add(b"ab")
    backlog.add(b"cd")
    assert backlog.rest() == (b"abcd", False)

    backlog.taken(1)
    assert backlog.rest() == (b"bcd", True)
    backlog.taken(1)
    assert backlog.rest() == (b"cd", False)
    backlog.clear()
    assert backlog.rest() == (b"", False)

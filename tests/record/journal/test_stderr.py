from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from anyport.record.journal.stderr import (
    KEPT_BYTES_MAX,
    KEPT_LINES_MAX,
    LINE_BYTES_MAX,
    StderrRing,
)


def ring() -> StderrRing:
    return StderrRing(redact=lambda text: text.replace("hunter2", "[redacted]"))


def test_lines_come_out_as_they_are_completed() -> None:
    words = ring()
    assert words.feed(b"star") == []
    assert words.last_line == "star"
    assert words.feed(b"ting\r\nready\nlisten") == ["starting", "ready"]
    assert words.lines() == ["starting", "ready"]
    assert words.last_line == "listen"
    assert words.end() == ["listen"]
    assert words.end() == []
    assert (words.line_count, words.byte_count, words.cut_count) == (3, 22, 0)


def test_before_the_first_word_there_is_no_last_line() -> None:
    assert ring().last_line is None


def test_blank_lines_are_counted_and_do_not_hide_the_last_words() -> None:
    words = ring()
    words.feed(b"fatal: no token\n\n  \n")
    assert words.last_line == "fatal: no token"
    assert words.lines() == ["fatal: no token"]
    assert words.line_count == 3


def test_a_character_split_between_two_reads_is_whole() -> None:
    words = ring()
    words.feed("ü".encode()[:1])
    assert words.feed("ü".encode()[1:] + b"\n") == ["ü"]


def test_bytes_that_are_no_text_do_no_harm() -> None:
    assert ring().feed(b"\xff\xfe\x00\n") == ["���"]


def test_colours_and_progress_bars_are_shown_as_a_terminal_would() -> None:
    assert ring().feed(b"\x1b[31merror\x1b[0m\n10%\r50%\r100%\r\n") == ["error", "100%"]


def test_secrets_are_redacted_before_anything_is_kept() -> None:
    words = ring()
    words.feed(b"password hunter2\nagain hunter2")
    assert words.lines() == ["password [redacted]"]
    assert words.last_line == "again [redacted]"


def test_a_long_line_is_cut_into_pieces() -> None:
    words = ring()
    lines = words.feed(b"x" * (2 * LINE_BYTES_MAX + 5) + b"\n")
    assert list(map(len, lines)) == [LINE_BYTES_MAX, LINE_BYTES_MAX, 5]
    assert words.cut_count == 2


def test_a_server_that_never_ends_a_line_is_heard_and_bounded() -> None:
    words = ring()
    for _ in range(1000):
        words.feed(b"x" * 1000)
    assert words.last_line is not None
    assert set(words.last_line) == {"x"}
    assert words.byte_count == 1_000_000
    assert sum(map(len, words.lines())) <= KEPT_BYTES_MAX


@given(st.lists(st.binary(max_size=20_000), max_size=30))
def test_whatever_is_fed_memory_is_bounded(chunks: list[bytes]) -> None:
    words = ring()
    for chunk in chunks:
        words.feed(chunk)
        assert len(words._partial) <= LINE_BYTES_MAX
        assert sum(len(line.encode()) for line in words.lines()) <= KEPT_BYTES_MAX


def test_very_short_lines_are_bounded_by_their_number() -> None:
    words = ring()
    words.feed(b"x\n" * 100_000)
    assert len(words.lines()) == KEPT_LINES_MAX
    assert words.line_count == 100_000


@given(st.lists(st.integers(0, 200)), st.lists(st.text("ab \n", max_size=50)))
def test_how_the_bytes_are_cut_into_reads_makes_no_difference(
    cuts: list[int], texts: list[str]
) -> None:
    whole = "\n".join(texts).encode()
    at_once, by_pieces = ring(), ring()
    lines = at_once.feed(whole) + at_once.end()
    edges = sorted({0, len(whole), *(edge for edge in cuts if edge < len(whole))})
    pieces = [line for start, end in pairwise(edges) for line in by_pieces.feed(whole[start:end])]
    assert pieces + by_pieces.end() == lines
    assert by_pieces.lines() == at_once.lines()


def test_a_private_key_is_not_shown_line_by_line() -> None:
    words = ring()
    shown = words.feed(b"start\n-----BEGIN PRIVATE KEY-----\nMIIEsecret\nMIIF")
    assert words.last_line == "[redacted]"
    shown += words.feed(b"secret\n-----END PRIVATE KEY-----\ndone\n")
    assert "secret" not in "\n".join((*shown, *words.lines()))
    assert shown[-1] == words.last_line == "done"

"""Offsets become the lines and columns that an editor shows."""

from anyport.config.positions import LineIndex


def test_lines_and_columns_count_from_one() -> None:
    lines = LineIndex("ab\n\ncd")
    assert [lines.position(offset) for offset in (0, 1, 2, 3, 4, 5, 6)] == [
        (1, 1),
        (1, 2),
        (1, 3),
        (2, 1),
        (3, 1),
        (3, 2),
        (3, 3),
    ]


def test_columns_count_characters_not_bytes() -> None:
    assert LineIndex("äöü x").position(4) == (1, 5)

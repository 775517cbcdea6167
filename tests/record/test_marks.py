"""Ids side by side."""

import pytest

from anyport.record.marks import NO_ID, SESSION, SPAN, TRACE, Field, is_plain, numbers
from anyport.record.marks import session_digits as digits_of

ONE, TWO = "4bf92f3577b34da6a3ce929d0e0e4736", "4bf92f3577b34da6a3ce929d0e0e4737"
BLOCK = bytes.fromhex(
    "".join(
        [
            ONE + "00f067aa0ba902b7" + digits_of("s-1"),
            TWO + "10f067aa0ba902b7" + digits_of("s-2"),
            # Its span is what the trace of another begins with.
            "f" * 32 + ONE[:16] + NO_ID,
            NO_ID * 2 + NO_ID + digits_of("s-1"),
        ]
    )
)


@pytest.mark.parametrize(
    ("field", "beginning", "found"),
    [
        (TRACE, ONE, [0]),
        (TRACE, ONE[:31], [0, 1]),
        (TRACE, ONE[:4], [0, 1]),
        (TRACE, ONE[:5], [0, 1]),
        (TRACE, "4bf93", []),
        (TRACE, "ffff", [2]),
        (SPAN, "4bf9", [2]),
        (SPAN, "00f067aa0ba902b7", [0]),
        (SPAN, "f067", []),
        (SESSION, digits_of("s-1"), [0, 3]),
        (SESSION, digits_of("s-3"), []),
        (TRACE, "0000", []),
        (TRACE, ONE + "0", []),
        (TRACE, "no such id", []),
        (TRACE, ONE.upper(), []),
    ],
)
def test_an_id_is_found_by_its_beginning_and_in_its_own_field_alone(
    field: Field, beginning: str, found: list[int]
) -> None:
    assert list(numbers(BLOCK, field, beginning)) == found


def test_a_session_of_any_name_has_digits_of_its_own() -> None:
    names = ["", "s", "S", "s" * 5000, "ö", "\ud800"]
    assert len({digits_of(name) for name in names}) == len(names)
    assert all(is_plain(digits_of(name), SESSION) for name in names)


@pytest.mark.parametrize(
    ("text", "plain"), [(ONE, True), (ONE.upper(), False), (ONE[:-1], False), ("g" * 32, False)]
)
def test_only_small_hexadecimal_digits_of_the_right_number_are_plain(
    text: str, plain: bool
) -> None:
    assert is_plain(text, TRACE) is plain

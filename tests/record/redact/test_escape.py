import json

import pytest

from anyport.record.redact.escape import cut, escape_line, make_printable

INVISIBLE = (
    "\u00ad\u034f\u115f\u180e\u200b\u200c\u200d\u2060\u2064\u206f\u3164\ufe00\ufeff\uffa0\ufff9"
    "\U0001d173\U000e0001\U000e0041\U000e0100"
)


@pytest.mark.parametrize("character", "\x7f\x80\x85\x9b\u061c\u200e\u2028\u2029\u202e\u2066\u2069")
def test_a_character_that_json_leaves_bare_is_escaped(character: str) -> None:
    assert escape_line(f'"a{character}b"'.encode()) == f'"a\\u{ord(character):04x}b"'.encode()


@pytest.mark.parametrize("character", INVISIBLE)
def test_what_cannot_be_seen_is_escaped_in_json_and_nothing_is_lost(character: str) -> None:
    escaped = escape_line(f'"a{character}b"'.encode())

    assert escaped.isascii()
    assert json.loads(escaped) == f"a{character}b"


def test_bytes_that_are_no_utf_8_stay_what_they_are() -> None:
    assert escape_line(b'"\xff\xe2\x80\x8b"') == b'"\xff\\u200b"'


def test_harmless_text_of_any_language_stays_readable() -> None:
    assert escape_line('"é ü 漢字 🙂"'.encode()) == '"é ü 漢字 🙂"'.encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a\tb", "a\tb"),
        ("\x1b[31;1mred\x1b[0m alert", "red alert"),
        ("\x1b]0;title\x07shown", "shown"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bMup", "up"),
        ("forged\r\nline", "forged↵line"),
        ("one\ntwo\rthree\n\n", "one↵two↵three↵↵"),
        ("nul\x00 csi\x9b31m", "nul� csi�31m"),
        ("para\u2029graph", "para�graph"),
        ("漢字", "漢字"),
    ],
)
def test_what_a_person_is_shown_cannot_steer_a_terminal(text: str, shown: str) -> None:
    assert make_printable(text) == shown


@pytest.mark.parametrize("character", INVISIBLE)
def test_a_person_sees_that_there_is_something_that_cannot_be_seen(character: str) -> None:
    assert make_printable(f"pay{character}pal") == "pay\N{REPLACEMENT CHARACTER}pal"


@pytest.mark.parametrize(
    "text",
    [
        "بی\u200cتو",
        "क\u094d\u200dष",
        "👩\u200d👩\u200d👧",
        "❤\ufe0f",
        "❤\ufe0f\u200d🔥",
        "☎\ufe0e",
    ],
)
def test_joiners_and_selectors_that_are_part_of_writing_stay(text: str) -> None:
    assert make_printable(text) == text


def test_selectors_in_a_row_are_no_writing() -> None:
    assert make_printable("❤\ufe0f\ufe0e\ufe0f") == "❤\ufe0f\ufffd\ufffd"


def test_a_long_text_is_cut_and_says_so() -> None:
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdefg", 6) == "abcde…"


def test_a_half_character_is_replaced() -> None:
    assert cut("a\ud800b", 10) == "a�b"
    assert cut("\ufeffa", 10) == "\ufeffa"

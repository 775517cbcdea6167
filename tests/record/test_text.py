import pytest

from anyport.record.text import cut, escape_line, printable


@pytest.mark.parametrize("character", "\x7f\x80\x85\x9b\u061c\u200e\u2028\u2029\u202e\u2066\u2069")
def test_a_character_that_json_leaves_bare_is_escaped(character: str) -> None:
    assert escape_line(f'"a{character}b"'.encode()) == f'"a\\u{ord(character):04x}b"'.encode()


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
    assert printable(text) == shown


def test_a_long_text_is_cut_and_says_so() -> None:
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdefg", 6) == "abcde…"


def test_a_half_character_is_replaced() -> None:
    assert cut("a\ud800b", 10) == "a�b"
    assert cut("\ufeffa", 10) == "\ufeffa"

import re
from pathlib import Path

import pytest

from anyport.record.event import EVENT_DESCRIPTIONS
from anyport.record.filter.keys import (
    EXCHANGE_TYPES,
    IMPLIED_VALUES,
    KEYS,
    OUTCOME_BY_STATUS,
    OUTCOMES,
    TYPE_PREFIX,
    VALUE_ALIASES,
)
from anyport.record.filter.parser import (
    FILTER_CHARS_MAX,
    TERMS_MAX,
    VALUES_MAX,
    BadFilter,
    parse_filter,
)
from tests.record.filters import NOON

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "filters.md"


def rows() -> dict[str, tuple[str, str]]:
    """Meaning and values of each key on the page."""
    found = re.findall(r"^\| `(\w+):` \| (.+?) \| (.+?) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    return {key: (meaning, values) for key, meaning, values in found}


def test_the_page_has_every_key_in_order_and_no_other() -> None:
    assert list(rows()) == list(KEYS)


@pytest.mark.parametrize("key", KEYS)
def test_the_page_tells_what_a_key_means(key: str) -> None:
    meaning, values = rows()[key]
    assert meaning == KEYS[key].meaning
    kind = re.search(r"\[(\w+)\]\(#values\)", values)
    assert kind is not None
    assert kind[1] == KEYS[key].kind


@pytest.mark.parametrize("key", [name for name, key in KEYS.items() if key.kind == "word"])
def test_the_page_names_the_words_of_a_key(key: str) -> None:
    _, values = rows()[key]
    if key == "type":
        assert "(events.md#types)" in values
    else:
        named = re.findall(r"`([\w-]+)`", values)
        assert named == [*KEYS[key].words, *VALUE_ALIASES.get(key, ())]


def test_the_examples_of_the_page_can_be_read() -> None:
    text = PAGE.read_text("utf-8")
    examples = text[text.index("## Examples") : text.index("## Mistakes")]
    filters = re.findall(r"\| `([^`]+)` \|$", examples, re.MULTILINE)
    filters += re.findall(r"^```\n(server:.*)\n```$", text, re.MULTILINE)
    assert len(filters) > 10
    for written in filters:
        assert parse_filter(written, NOON).terms


def test_the_mistake_of_the_page_is_told_as_it_says() -> None:
    shown = re.search(
        r"^```\n(Unknown key.*\n(.*)\n *\^+)\n```$", PAGE.read_text("utf-8"), re.MULTILINE
    )
    assert shown is not None
    with pytest.raises(BadFilter) as caught:
        parse_filter(shown[2], NOON)
    assert str(caught.value) == shown[1]


def test_the_page_has_the_limits() -> None:
    text = PAGE.read_text("utf-8")
    limits = re.search(r"at most (\d+) characters, (\d+) terms, and (\d+) values", text)
    assert limits is not None
    assert [int(limit) for limit in limits.groups()] == [FILTER_CHARS_MAX, TERMS_MAX, VALUES_MAX]


def test_only_words_are_chosen_from_a_list() -> None:
    assert all((key.kind == "word") == bool(key.words) for key in KEYS.values())


def test_every_type_of_event_has_the_prefix_that_may_be_left_out() -> None:
    assert all(name.startswith(TYPE_PREFIX) for name in EVENT_DESCRIPTIONS)


def test_words_are_in_small_letters_as_filters_are_read() -> None:
    words = [word for key in KEYS.values() for word in key.words]
    assert words == [word.lower() for word in words]


def test_words_that_stand_for_others_stand_for_valid_ones() -> None:
    for key, meanings in VALUE_ALIASES.items():
        assert {word for words in meanings.values() for word in words} <= {*KEYS[key].words}


def test_what_is_implied_is_a_word_of_its_key() -> None:
    for key in ("kind", "side"):
        assert {*IMPLIED_VALUES[key].values()} <= {*KEYS[key].words}
    assert {*OUTCOME_BY_STATUS.values()} <= {*OUTCOMES}
    assert IMPLIED_VALUES["method"].keys() < EXCHANGE_TYPES


def test_a_request_is_an_exchange_and_no_kind_of_its_own() -> None:
    assert "request" not in KEYS["kind"].words
    assert {"exchange", "response", "server-request"} <= set(KEYS["kind"].words)

"""What of the journal each follower gets."""

import json
from typing import Any

import pytest

from anyport.gateway.api import hearing as module
from anyport.gateway.api.hearing import Hearing
from anyport.record.filter import parse_filter
from anyport.record.row import row_of
from tests.record.recorded import SPAN, exchange, frame


def line(event: dict[str, Any]) -> bytes:
    return json.dumps(event).encode()


def test_events_that_match_pass_as_they_are() -> None:
    choose = Hearing().events(parse_filter("server:github", 0.0))
    wanted = line(exchange())

    assert choose(wanted) is wanted
    assert choose(line(exchange(server="docs"))) is None


def test_rows_are_made_of_what_matches() -> None:
    choose = Hearing().rows(parse_filter("server:github", 0.0))

    made = choose(line(exchange()))
    assert made is not None
    assert json.loads(made)["id"] == SPAN
    assert choose(line(exchange(server="docs"))) is None
    assert choose(line(exchange(event={"status": "pending"}))) is None


def test_a_row_cannot_break_a_line_nor_confuse_a_terminal() -> None:
    made = Hearing().rows(parse_filter("", 0.0))(line(exchange(tool="a\n\u2028\u202eb")))
    assert made is not None
    assert made.isascii()
    assert b"\n" not in made


def test_however_many_follow_a_line_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hearing, made = Hearing(), 0

    def counted(event: Any) -> Any:
        nonlocal made
        made += 1
        return row_of(event)

    monkeypatch.setattr(module, "row_of", counted)
    choices = [hearing.rows(parse_filter(text, 0.0)) for text in ("", "server:github", "id:00")]
    for event in (exchange(), frame()):
        heard = line(event)
        assert all(choose(heard) for choose in choices)

    assert made == 2

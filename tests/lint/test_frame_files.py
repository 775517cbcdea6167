"""Legs from files of messages."""

from typing import Any

import msgspec
import pytest

from anyport.lint.frame_files import legs_of_frames
from anyport.lint.model import Depth, Leg
from tests.lint.conversations import ask, fail, give, hello, note, reports, stamped


def read(*lines: Any) -> list[Leg]:
    return legs_of_frames(
        line if isinstance(line, bytes) else msgspec.json.encode(line) for line in lines
    )


def test_an_answer_is_joined_to_its_request() -> None:
    [first, second] = read(ask("ping", id=1), ask("ping", id="1"), give({}, "1"), fail(7, id=1))

    assert (first.id, first.depth, first.error_code) == ("line 1", Depth.FRAMES, 7)
    assert second.answer is not None
    assert second.answer.payload == {}


def test_the_handshake_says_the_revision_of_what_follows() -> None:
    legs = read(*hello("2025-06-18"), ask("ping"), give({}))
    assert [leg.revision.name if leg.revision else None for leg in legs] == ["2025-06-18"] * 3


def test_a_request_may_say_its_revision_itself() -> None:
    [leg] = read(ask("tools/list", stamped()), give({}))
    assert leg.modern


def test_progress_belongs_to_the_request_with_its_token() -> None:
    *_, leg = read(*reports({"progress": 1}, {"progress": 2}))
    assert [frame.fields["progress"] for frame in leg.between] == [1, 2]


@pytest.mark.parametrize("number", [1, 2])
def test_a_question_belongs_to_the_open_request_and_so_does_its_answer(number: int) -> None:
    question = ask("roots/list", id=number)
    [leg] = read(ask("tools/call", id=1), question, give({"roots": []}, number), give({"x": 1}, 1))

    assert [frame.kind for frame in leg.frames] == [
        *("request", "server-request", "client-response", "response")
    ]
    assert leg.result == {"x": 1}


def test_who_said_something_may_be_told() -> None:
    [leg] = read(
        {"from": "server", "frame": ask("ping", id=3)}, {"from": "client", "frame": give({}, 3)}
    )
    assert [frame.kind for frame in leg.frames] == ["server-request", "client-response"]


def test_what_is_no_message_is_kept_as_such() -> None:
    legs = read(b"Listening on \x1b[31mport 3", b"[1]", b'{"a":1}', b"\xff")

    assert [[frame.kind for frame in leg.frames] for leg in legs] == [
        *(["not-json-rpc"], ["batch"], ["not-json-rpc"], ["not-json-rpc"], ["not-json-rpc"])
    ]
    assert legs[0].frames[0].text == "Listening on port 3"


def test_empty_lines_are_nothing() -> None:
    assert read(b"", b"  ", ask("ping"))[0].id == "line 3"


def test_a_log_message_belongs_to_the_request_under_way() -> None:
    [leg] = read(ask("tools/call"), note("notifications/message", {}), give({}))
    assert [frame.method for frame in leg.between] == ["notifications/message"]

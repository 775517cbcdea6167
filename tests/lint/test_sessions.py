"""Rules about what belongs together."""

from typing import Any

import pytest

from tests.lint.checking import broken, messages
from tests.lint.conversations import ask, give, hello, note, reports


@pytest.mark.parametrize("progress", [{"percentage": 50}, "50", None, True])
def test_progress_that_is_no_number(progress: Any) -> None:
    assert "progress-number" in broken(*reports({"progress": progress}))


def test_progress_without_a_number_or_with_a_strange_total() -> None:
    assert messages("progress-number", *reports({})) == ["params.progress is missing"]
    assert messages("progress-number", *reports({"progress": 1, "total": "2"})) == [
        'params.total must be a number, not "2"'
    ]


def test_progress_that_falls() -> None:
    assert messages("progress-rises", *reports({"progress": 2.5}, {"progress": 1})) == [
        "progress is 1 after 2.5"
    ]


def test_progress_that_nobody_asked_for() -> None:
    told = note("notifications/progress", {"progressToken": 5, "progress": 1})
    assert messages("progress-token", *hello(), ask("ping"), told, give({})) == [
        "no open request has the token 5"
    ]


def test_where_tasks_are_cancelled_otherwise_a_cancellation_may_lack_its_request() -> None:
    assert "cancelled-request" not in broken(*hello(), note("notifications/cancelled", {}))


def test_a_request_between_handshake_and_initialized() -> None:
    first, answer, said = hello()
    early = [first, answer, ask("tools/list"), give({"tools": []}), said]

    assert messages("initialized", *early) == ["notifications/initialized: it comes too late"]
    assert "initialized" not in broken(first, answer, ask("ping"), give({}), said)


def test_a_file_without_a_handshake_may_begin_anywhere() -> None:
    found = broken(ask("tools/list"), give({"tools": []}))
    assert not found & {"handshake-first", "initialized", "offer-declared", "question-declared"}


def test_completion_needs_no_declaration_in_the_first_revision() -> None:
    said = [ask("completion/complete", {}), give({"completion": {"values": []}})]

    assert "offer-declared" not in broken(*hello("2024-11-05", server={"tools": {}}), *said)
    assert "offer-declared" in broken(*hello("2025-03-26", server={"tools": {}}), *said)

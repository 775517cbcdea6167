"""Rows of the traffic for people."""

from datetime import UTC
from typing import Any

import pytest

from anyport.cli.rows import (
    TITLES,
    TYPICAL,
    brief,
    brief_typical,
    cells,
    is_outgoing,
    moment,
    shortened,
    way,
)
from anyport.record.row import Row, row_of
from tests.record.recorded import exchange, frame


def row(event: dict[str, Any]) -> Row:
    made = row_of(event)
    assert made is not None
    return made


def shown(event: dict[str, Any]) -> dict[str, str]:
    return dict(zip(TITLES, cells(row(event), UTC), strict=True))


def test_an_exchange_is_one_line() -> None:
    assert shown(exchange()) == {
        "TIME": "07-28 12:00:00.250",
        "CLIENT → SERVER": "cursor-vscode → github",
        "METHOD": "tools/call",
        "TARGET": "create_issue",
        "OUTCOME": "ok",
        "TOOK": "231.5 ms",
        "OF WHICH": "g 29.0 q 2.5 s 200.0",
        "SIZES": "61 B → 118 B",
        "ID": "00f067aa",
        "MESSAGE": "",
    }


@pytest.mark.parametrize("outcome", ["tool_error", "server_error", "gateway_error"])
def test_whose_error_it_was_can_be_told(outcome: str) -> None:
    failed = {"status": "failure", "error_code": -32602, "error_message": "no"}
    told = shown(exchange(outcome=outcome, event=failed))
    assert (told["OUTCOME"], told["MESSAGE"]) == (outcome, "no (error -32602)")


def test_a_result_that_is_an_error_has_no_code() -> None:
    failed = {"status": "failure", "error_message": "the tool reported an error"}
    told = shown(exchange(outcome="tool_error", event=failed))
    assert told["MESSAGE"] == "the tool reported an error"


def test_without_capture_what_is_known_is_shown() -> None:
    event = exchange(event={"status": "failure", "error_code": -32000, "error_message": "gone"})
    event["metadata"] = {"span_id": "ab", "server": "s", "tool": "t", "params_bytes": 5}
    told = shown(event)

    assert (told["OUTCOME"], told["OF WHICH"], told["SIZES"]) == ("failure", "", "5 B → ?")
    assert told["CLIENT → SERVER"] == "gateway → s"


def test_a_frame_tells_its_kind_and_size() -> None:
    told = shown(frame())
    assert told["CLIENT → SERVER"] == "github → gateway"
    assert (told["OUTCOME"], told["SIZES"]) == ("server-notification", "2 B")
    assert (told["TOOK"], told["OF WHICH"]) == ("", "")


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (exchange(client=None), "- → github"),
        (exchange(server=None), "cursor-vscode → gateway"),
        (exchange(profile=None, client=None), "gateway → github"),
        (frame(side="client", client="cursor 1", kind="client-notification"), "cursor → gateway"),
        (frame(side="client", client="cursor 1"), "gateway → cursor"),
        (frame(kind="client-notification"), "gateway → github"),
        (frame(kind="not-json-rpc", server="x"), "x → gateway"),
        (frame(kind="not-json-rpc", side="client", server=None), "- → gateway"),
    ],
)
def test_who_spoke_to_whom(event: dict[str, Any], expected: str) -> None:
    assert way(row(event)) == expected


@pytest.mark.parametrize(
    ("side", "kind", "outgoing"),
    [
        ("client", "request", False),
        ("client", "response", True),
        ("client", "server-request", True),
        ("client", "client-response", False),
        ("server", "request", True),
        ("server", "response", False),
        ("server", "server-request", False),
        ("server", "client-response", True),
        ("server", "stderr", False),
    ],
)
def test_which_way_a_frame_went(side: str, kind: str, outgoing: bool) -> None:
    assert is_outgoing(side, kind) is outgoing


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [("2026-07-28T12:00:00", "2026-07-28 12:00:00.000"), ("soon", "soon")],
)
def test_times_of_other_writers_are_shown_as_far_as_they_are_understood(
    timestamp: str, expected: str
) -> None:
    assert moment(row(exchange(event={"timestamp": timestamp})), UTC) == expected


def test_nothing_in_a_row_can_confuse_a_terminal() -> None:
    told = shown(exchange(tool="\x1b[31mred", client="a\x07b", event={"error_message": "x\ny"}))
    assert all(cell.isprintable() for cell in told.values())


def test_there_is_room_for_a_typical_row() -> None:
    assert len(TYPICAL) == len(TITLES) - 1


def test_a_narrow_terminal_is_shown_what_matters_most() -> None:
    assert brief(cells(row(exchange()), UTC)) == (
        *("12:00:00", "cursor-vscode → github", "tools/call create_issue"),
        *("ok", "231.5 ms", "00f067aa", ""),
    )


@pytest.mark.parametrize("width", [70, 80, 120])
def test_brief_rows_are_as_wide_as_the_terminal(width: int) -> None:
    assert len("  ".join(brief_typical(width))) == width


def test_ends_of_lines_and_tabs_in_a_message_stay_readable() -> None:
    failed = {"status": "failure", "error_message": "one\ntwo\tthree"}
    assert shown(exchange(event=failed))["MESSAGE"] == "one↵two three"


@pytest.mark.parametrize(
    ("way", "chars_max", "told"),
    [
        ("cursor-vscode → github", 22, "cursor-vscode → github"),
        ("cursor-vscode → github", 15, "curso… → github"),
        ("cursor-vscode → github", 12, "cur… → gith…"),
        ("gateway → a-very-long-server", 19, "gateway → a-very-l…"),
    ],
)
def test_who_asked_whom_is_told_in_few_characters(way: str, chars_max: int, told: str) -> None:
    assert shortened(way, chars_max) == told

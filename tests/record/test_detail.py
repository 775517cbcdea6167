"""Rows with what was said."""

import json
from pathlib import Path

import pytest
from msgspec import UNSET, Raw

from anyport.record.detail import detail_of, read_captured, unfolded
from anyport.record.shelf import Shelf
from tests.record.recorded import SPAN, exchange, frame, payload_line, write_payloads

LINE = json.dumps(exchange()).encode()


def test_what_was_said_is_found_beside_the_row(tmp_path: Path) -> None:
    write_payloads(tmp_path, payload_line("0" * 16), payload_line())
    detail = detail_of(LINE, Shelf(tmp_path))

    assert detail is not None
    assert detail.row.id == SPAN
    assert detail.event == Raw(LINE)
    assert [(each.side, each.kind) for each in detail.frames] == [
        ("client", "request"),
        ("server", "request"),
        ("server", "server-notification"),
        ("server", "response"),
        ("client", "response"),
    ]


def test_a_row_stands_alone_where_nothing_is_kept(tmp_path: Path) -> None:
    detail = detail_of(LINE, Shelf(tmp_path))
    assert detail is not None
    assert detail.frames == ()

    write_payloads(tmp_path, b" " * 40, payload_line("0" * 16))
    detail = detail_of(LINE, Shelf(tmp_path))
    assert detail is not None
    assert detail.frames == ()


def test_an_event_that_is_no_row_has_no_detail(tmp_path: Path) -> None:
    assert detail_of(json.dumps(frame(kind=None)).encode(), Shelf(tmp_path)) is None


def test_a_payload_that_is_the_same_on_the_other_side_is_filled_in() -> None:
    captured = read_captured(payload_line())
    assert captured is not None
    assert captured.frames[1].payload is UNSET

    whole = unfolded(captured.frames)
    assert whole[1].payload == whole[0].payload
    assert whole[4].payload == whole[3].payload
    assert whole[1].side == "server"


def test_a_frame_that_is_the_same_as_none_stays_as_it_is() -> None:
    captured = read_captured(payload_line())
    assert captured is not None
    [alone] = unfolded(captured.frames[1:2])
    assert alone.payload is UNSET


@pytest.mark.parametrize("line", [b"", b"   ", b'{"span_id":7}', b'{"span_id":"x","frames":['])
def test_a_line_that_is_erased_or_torn_holds_nothing(line: bytes) -> None:
    assert read_captured(line) is None

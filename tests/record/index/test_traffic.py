"""Which events are traffic, and what an id means."""

import json
from typing import Any

import pytest

from anyport.record.filter.ast import Filter
from anyport.record.filter.match import compile_filter
from anyport.record.filter.parser import parse_filter
from anyport.record.index.traffic import NoSuchId, find_by_id, limit_to_traffic
from tests.record.recorded import SPAN, exchange, frame
from tests.record.story import ONE, TWO

OTHER = "00f0" + "b" * 12


class Recorded:
    """Events in memory, asked as the index is."""

    def __init__(self, *events: dict[str, Any]) -> None:
        self._events = events

    def __call__(self, filter: Filter, limit: int) -> list[bytes]:
        found = list(filter_events(filter, self._events))
        return [json.dumps(event).encode() for event in found[-limit:]]


def filter_events(filter: Filter, events: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
    return [event for event in events if compile_filter(filter)(event)]


RECORDED = Recorded(
    exchange(event={"status": "pending"}),
    exchange(),
    exchange(span_id=OTHER, event={"trace_id": TWO}),
    frame(),
    exchange(event={"event_type": "gateway.started"}),
)


@pytest.mark.parametrize(
    ("event", "is_row"),
    [
        (exchange(), True),
        (exchange(event={"event_type": "gateway.exchange"}), True),
        (exchange(event={"status": "pending"}), False),
        (frame(), True),
        (frame() | {"event_type": "gateway.stderr"}, True),
        (exchange(event={"event_type": "gateway.backend_started"}), False),
    ],
)
def test_rows_are_exchanges_that_ended_and_frames(event: dict[str, Any], is_row: bool) -> None:
    assert compile_filter(limit_to_traffic(Filter()))(event) is is_row
    assert compile_filter(limit_to_traffic(parse_filter("server:nobody", 0.0)))(event) is False


@pytest.mark.parametrize("asked", [SPAN, SPAN[:5], SPAN.upper(), f" {SPAN}\n"])
def test_an_id_means_one_exchange(asked: str) -> None:
    [(row, line)] = find_by_id(RECORDED, asked)
    assert row.id == SPAN
    assert json.loads(line)["metadata"]["span_id"] == SPAN


@pytest.mark.parametrize("asked", [ONE, ONE[:4], "11111111-1111-1111-1111-111111111111"])
def test_the_id_of_a_trace_means_all_of_it(asked: str) -> None:
    assert [row.kind for row, _ in find_by_id(RECORDED, asked)] == [
        "exchange",
        "server-notification",
    ]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (
            "00f0",
            "Several ids begin with 00f0: 00f067aa0ba902b7, 00f0bbbbbbbbbbbb. Give more digits",
        ),
        ("9", "Nothing in the record has the id 9"),
        ("", "An id has only the digits"),
        ("*", "An id has only the digits"),
        ("a" * 33, "An id has only the digits"),
    ],
)
def test_an_id_that_means_nothing_or_too_much_is_explained(asked: str, told: str) -> None:
    with pytest.raises(NoSuchId, match=told.replace("*", r"\*")):
        find_by_id(RECORDED, asked)


def test_several_traces_that_begin_alike_are_named() -> None:
    traces = [exchange(span_id=f"{n:016x}", event={"trace_id": f"ab{n:030x}"}) for n in (1, 2)]
    with pytest.raises(NoSuchId, match="Several ids begin with ab"):
        find_by_id(Recorded(*traces), "ab")

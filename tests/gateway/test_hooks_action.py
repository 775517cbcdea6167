"""The pace of further attempts, and what an attempt is given."""

import json

import pytest

from anyport.gateway.hooks_action import PAUSE_SECONDS_MAX, Occasion, pause_seconds


@pytest.mark.parametrize(
    ("attempts", "least", "most"), [(1, 0.5, 1.0), (2, 1.0, 2.0), (5, 8.0, 16.0)]
)
def test_each_pause_is_twice_the_last_and_half_of_it_is_chance(
    attempts: int, least: float, most: float
) -> None:
    assert pause_seconds(attempts, 0.0) == least
    assert pause_seconds(attempts, 1.0) == most


@pytest.mark.parametrize("attempts", [20, 10_000])
def test_a_pause_never_grows_beyond_its_limit(attempts: int) -> None:
    assert pause_seconds(attempts, 1.0) == PAUSE_SECONDS_MAX


def test_what_follows_from_an_event_is_part_of_its_trace() -> None:
    line = json.dumps({"trace_id": "a" * 32}).encode()

    assert Occasion(line, "key", "b" * 16).traceparent == f"00-{'a' * 32}-{'b' * 16}-01"

"""Which calls may be made once more, and how many."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.gateway.retries import (
    BUDGET_CALLS_MIN,
    BUDGET_SHARE,
    COUNT_SECONDS,
    PAUSE_SECONDS_MAX,
    Budget,
    is_safe,
    may_repeat,
    pause,
)
from anyport.protocol.method import Kind
from anyport.routing.offers import Listing, Offer
from anyport.upstream.call import Lost
from anyport.upstream.sign import Again


def tool(**annotations: Any) -> Listing:
    """A list with one tool that has these annotations."""
    raw = json.dumps({"name": "t", "annotations": annotations}).encode()
    return Listing(offers=(Offer("other", b"{}"), Offer("t", raw)))


@pytest.mark.parametrize(
    ("annotations", "safe"),
    [
        ({}, False),
        ({"readOnlyHint": True}, True),
        ({"idempotentHint": True}, True),
        ({"readOnlyHint": False, "idempotentHint": True}, True),
        ({"destructiveHint": True, "idempotentHint": True}, True),
        ({"destructiveHint": True}, False),
        ({"destructiveHint": False}, False),
        ({"destructiveHint": True, "readOnlyHint": True}, False),
        ({"readOnlyHint": "true"}, False),
        ({"readOnlyHint": 1}, False),
        ({"openWorldHint": True, "title": "readOnlyHint"}, False),
    ],
)
def test_a_tool_is_called_twice_only_if_its_server_says_that_does_no_harm(
    annotations: dict[str, Any], safe: bool
) -> None:
    assert is_safe("tools/call", "t", tool(**annotations)) is safe


@pytest.mark.parametrize(
    "raw", [b"{}", b'{"annotations":[]}', b'{"annotations":null}', b'{"annotations":', b"[]"]
)
def test_what_cannot_be_read_is_not_safe(raw: bytes) -> None:
    listing = Listing(offers=(Offer("t", raw),))

    assert not is_safe("tools/call", "t", listing)
    assert not is_safe("tools/call", "unknown", listing)
    assert not is_safe("tools/call", "t", None)


@pytest.mark.parametrize(
    ("method", "safe"),
    [
        ("resources/read", True),
        ("prompts/get", True),
        ("completion/complete", True),
        ("resources/subscribe", False),
        ("tasks/cancel", False),
    ],
)
def test_reads_are_safe_whoever_is_asked(method: str, safe: bool) -> None:
    assert is_safe(method, "x:1", None) is safe


@pytest.mark.parametrize(
    ("again", "annotations", "may"),
    [
        (Again.ALWAYS, {}, True),
        (Again.IF_SAFE, {}, False),
        (Again.IF_SAFE, {"readOnlyHint": True}, True),
        (Again.NEVER, {"readOnlyHint": True}, False),
    ],
)
def test_what_its_server_never_saw_may_be_repeated_whatever_it_does(
    again: Again, annotations: dict[str, Any], may: bool
) -> None:
    lost = Lost("gone", again=again)

    assert may_repeat(lost, "tools/call", "t", {Kind.TOOLS: tool(**annotations)}) is may


def test_a_few_calls_may_always_be_repeated() -> None:
    budget = Budget()

    granted = [budget.take(lambda: 1, 0.0) for _ in range(BUDGET_CALLS_MIN + 2)]

    assert granted == [True] * BUDGET_CALLS_MIN + [False] * 2


@given(st.integers(0, 10_000))
def test_of_many_a_fifth(active: int) -> None:
    budget = Budget()

    while budget.take(lambda: active, 0.0):
        pass

    assert budget.open == max(BUDGET_CALLS_MIN, int(active * BUDGET_SHARE))


def test_who_has_ended_makes_room_for_the_next() -> None:
    budget = Budget()
    while budget.take(lambda: 0, 0.0):
        pass

    budget.give_back()

    assert budget.take(lambda: 0, 0.0)
    assert not budget.take(lambda: 0, 0.0)


def test_calls_that_were_lost_together_are_counted_together() -> None:
    """When the second is looked at, the first is over: the share would shrink from one to the
    next."""
    open_calls = list(range(1000))
    budget = Budget()

    granted = 0
    while open_calls:
        granted += budget.take(lambda: len(open_calls), 0.0)
        open_calls.pop()

    assert granted == 200
    assert not budget.take(lambda: 0, COUNT_SECONDS), "later, there are others"


@given(st.floats(0.0, 1.0))
def test_a_pause_is_anything_up_to_its_longest(chance: float) -> None:
    assert 0.0 <= pause(chance) <= PAUSE_SECONDS_MAX

"""Which calls may be made once more, and how many."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.catalog.offers import Listing, Offer
from anyport.gateway.calls.retry import (
    BUDGET_CALLS_MIN,
    BUDGET_SHARE,
    OPEN_CALLS_COUNT_SECONDS,
    RETRY_DELAY_SECONDS_MAX,
    RetryBudget,
    is_safe_to_repeat,
    may_repeat,
    retry_delay,
)
from anyport.protocol.methods import OfferKind
from anyport.upstream.pending_call import NoAnswer, Retryable


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
    assert is_safe_to_repeat("tools/call", "t", tool(**annotations)) is safe


@pytest.mark.parametrize(
    "raw", [b"{}", b'{"annotations":[]}', b'{"annotations":null}', b'{"annotations":', b"[]"]
)
def test_what_cannot_be_read_is_not_safe(raw: bytes) -> None:
    listing = Listing(offers=(Offer("t", raw),))

    assert not is_safe_to_repeat("tools/call", "t", listing)
    assert not is_safe_to_repeat("tools/call", "unknown", listing)
    assert not is_safe_to_repeat("tools/call", "t", None)


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
    assert is_safe_to_repeat(method, "x:1", None) is safe


@pytest.mark.parametrize(
    ("again", "annotations", "may"),
    [
        (Retryable.ALWAYS, {}, True),
        (Retryable.IF_SAFE, {}, False),
        (Retryable.IF_SAFE, {"readOnlyHint": True}, True),
        (Retryable.NEVER, {"readOnlyHint": True}, False),
    ],
)
def test_what_its_server_never_saw_may_be_repeated_whatever_it_does(
    again: Retryable, annotations: dict[str, Any], may: bool
) -> None:
    lost = NoAnswer("gone", retryable=again)

    assert may_repeat(lost, "tools/call", "t", {OfferKind.TOOLS: tool(**annotations)}) is may


def test_a_few_calls_may_always_be_repeated() -> None:
    budget = RetryBudget()

    granted = [budget.acquire(lambda: 1, 0.0) for _ in range(BUDGET_CALLS_MIN + 2)]

    assert granted == [True] * BUDGET_CALLS_MIN + [False] * 2


@given(st.integers(0, 10_000))
def test_of_many_a_fifth(active: int) -> None:
    budget = RetryBudget()

    while budget.acquire(lambda: active, 0.0):
        pass

    assert budget.open_count == max(BUDGET_CALLS_MIN, int(active * BUDGET_SHARE))


def test_who_has_ended_makes_room_for_the_next() -> None:
    budget = RetryBudget()
    while budget.acquire(lambda: 0, 0.0):
        pass

    budget.release()

    assert budget.acquire(lambda: 0, 0.0)
    assert not budget.acquire(lambda: 0, 0.0)


def test_calls_that_were_lost_together_are_counted_together() -> None:
    """When the second is looked at, the first is over: the share would shrink from one to the
    next."""
    open_calls = list(range(1000))
    budget = RetryBudget()

    granted = 0
    while open_calls:
        granted += budget.acquire(lambda: len(open_calls), 0.0)
        open_calls.pop()

    assert granted == 200
    assert not budget.acquire(lambda: 0, OPEN_CALLS_COUNT_SECONDS), "later, there are others"


@given(st.floats(0.0, 1.0))
def test_a_pause_is_anything_up_to_its_longest(chance: float) -> None:
    assert 0.0 <= retry_delay(chance) <= RETRY_DELAY_SECONDS_MAX

"""Limits of one client's open requests, and of all large messages."""

from collections.abc import Hashable

import pytest

from anyport.protocol import memory_budget
from anyport.protocol.exchange import OpenRequest
from anyport.protocol.memory_budget import (
    LARGE_BYTES,
    OPEN_REQUESTS_MAX,
    RETRY_SECONDS_MAX,
    RETRY_SECONDS_MIN,
    MemoryBudget,
    MemoryReservation,
    check_open_requests,
)
from tests.gateway.fakes import Asked

OPEN: dict[Hashable, OpenRequest] = {1: Asked(params={"text": "x" * LARGE_BYTES}).exchange}


def test_there_is_room_for_another() -> None:
    assert check_open_requests(OPEN, 2, LARGE_BYTES + 1) is None


def test_an_id_is_open_once() -> None:
    refusal = check_open_requests(OPEN, 1, 1)
    assert refusal is not None
    assert refusal.message == "Invalid Request: a request with this id is still open"


def test_there_are_so_many_and_no_more() -> None:
    many: dict[Hashable, OpenRequest] = dict.fromkeys(range(OPEN_REQUESTS_MAX), OPEN[1])
    refusal = check_open_requests(many, "new", 1)
    assert refusal is not None
    assert refusal.message == f"Too many open requests: the limit is {OPEN_REQUESTS_MAX}"
    assert refusal.retry_after is not None and refusal.retry_after.status == 429


def test_large_ones_share_a_limit_and_small_ones_do_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_budget, "OPEN_BYTES_MAX", 2 * LARGE_BYTES)
    refusal = check_open_requests(OPEN, 2, 2 * LARGE_BYTES)
    assert refusal is not None
    assert refusal.message.startswith("Too many bytes in open requests")
    assert check_open_requests(OPEN, 2, LARGE_BYTES) is None


def test_all_reservations_share_one_budget() -> None:
    shared = MemoryBudget(100)
    first, second = MemoryReservation(shared), MemoryReservation(shared)

    assert first.resize(60)
    assert second.resize(40)
    assert shared.is_full
    assert not second.resize(41)
    assert second.resize(30)
    first.release()
    first.release()

    assert shared.used_bytes == 30
    second.resize(0)
    assert shared.used_bytes == 0


def test_only_what_is_large_can_be_too_much() -> None:
    full = MemoryBudget(LARGE_BYTES)
    full.used_bytes = LARGE_BYTES

    assert full.would_exceed(LARGE_BYTES + 1)
    assert not full.would_exceed(LARGE_BYTES)
    full.used_bytes = 0
    assert full.would_exceed(LARGE_BYTES + 1)


def test_retry_times_of_refusals_differ() -> None:
    chances = iter((0.0, 0.5, 1.0))
    crowded = MemoryBudget(0, lambda: next(chances))

    seconds = [crowded.refuse(why) for why in ("bytes", "calls", "bytes")]

    assert seconds == [RETRY_SECONDS_MIN, 3, RETRY_SECONDS_MAX]
    assert crowded.refusals == {"bytes": 2, "calls": 1}

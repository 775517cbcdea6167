"""How much one client may have open, and all together may hold."""

from collections.abc import Hashable

import pytest

from anyport.protocol import room
from anyport.protocol.exchange import Pending
from anyport.protocol.room import (
    LARGE_BYTES,
    OPEN_REQUESTS_MAX,
    RETRY_SECONDS_MAX,
    RETRY_SECONDS_MIN,
    Held,
    Room,
    no_room,
)
from tests.gateway.fakes import Asked

OPEN: dict[Hashable, Pending] = {1: Asked(params={"text": "x" * LARGE_BYTES}).exchange}


def test_there_is_room_for_another() -> None:
    assert no_room(OPEN, 2, LARGE_BYTES + 1) is None


def test_an_id_is_open_once() -> None:
    refusal = no_room(OPEN, 1, 1)
    assert refusal is not None
    assert refusal.message == "Invalid Request: a request with this id is still open"


def test_there_are_so_many_and_no_more() -> None:
    many: dict[Hashable, Pending] = dict.fromkeys(range(OPEN_REQUESTS_MAX), OPEN[1])
    refusal = no_room(many, "new", 1)
    assert refusal is not None
    assert refusal.message == f"Too many open requests: the limit is {OPEN_REQUESTS_MAX}"
    assert refusal.pause is not None and refusal.pause.status == 429


def test_large_ones_share_a_limit_and_small_ones_do_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "OPEN_BYTES_MAX", 2 * LARGE_BYTES)
    refusal = no_room(OPEN, 2, 2 * LARGE_BYTES)
    assert refusal is not None
    assert refusal.message.startswith("Too many bytes in open requests")
    assert no_room(OPEN, 2, LARGE_BYTES) is None


def test_all_who_hold_something_share_one_room() -> None:
    shared = Room(100)
    first, second = Held(shared), Held(shared)

    assert first.keep(60)
    assert second.keep(40)
    assert shared.full
    assert not second.keep(41)
    assert second.keep(30)
    first.let_go()
    first.let_go()

    assert shared.taken_bytes == 30
    second.keep(0)
    assert shared.taken_bytes == 0


def test_only_what_is_large_can_be_too_much() -> None:
    full = Room(LARGE_BYTES)
    full.taken_bytes = LARGE_BYTES

    assert full.lacks(LARGE_BYTES + 1)
    assert not full.lacks(LARGE_BYTES)
    full.taken_bytes = 0
    assert full.lacks(LARGE_BYTES + 1)


def test_whoever_is_turned_away_is_told_another_time_to_come_back() -> None:
    chances = iter((0.0, 0.5, 1.0))
    crowded = Room(0, lambda: next(chances))

    seconds = [crowded.turn_away(why) for why in ("bytes", "calls", "bytes")]

    assert seconds == [RETRY_SECONDS_MIN, 3, RETRY_SECONDS_MAX]
    assert crowded.refused == {"bytes": 2, "calls": 1}

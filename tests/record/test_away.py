import threading
from collections.abc import Callable

import pytest

from anyport.record.away import Away


class Loop:
    """What is called back waits for the test."""

    def __init__(self) -> None:
        self.asked: list[Callable[[], None]] = []
        self.came = threading.Event()

    def back(self, act: Callable[[], None]) -> None:
        self.asked.append(act)
        self.came.set()

    def turn(self) -> None:
        assert self.came.wait(60)
        self.came.clear()
        while self.asked:
            self.asked.pop(0)()


def test_work_is_done_in_a_thread_and_its_end_is_told_where_it_was_given_out() -> None:
    loop = Loop()
    told: list[str] = []
    away: Away[str] = Away(loop.back)
    away.begin(lambda: threading.current_thread().name, told.append)
    assert away.busy
    assert told == []
    loop.turn()
    assert told == ["record"]
    assert not away.busy


def test_there_is_one_piece_of_work_at_a_time() -> None:
    loop, go_on = Loop(), threading.Event()
    away: Away[bool] = Away(loop.back)
    away.begin(lambda: go_on.wait(60), lambda _: None)
    with pytest.raises(RuntimeError):
        away.begin(lambda: True, lambda _: None)
    go_on.set()
    loop.turn()
    away.begin(lambda: True, lambda _: None)
    loop.turn()


def test_who_waits_gets_the_end_and_it_is_told_once() -> None:
    loop = Loop()
    told: list[int] = []
    away: Away[int] = Away(loop.back)
    assert away.wait(0)  # There is nothing to wait for.
    away.begin(lambda: 7, told.append)
    assert away.wait(60)
    assert told == [7]
    loop.turn()
    assert told == [7]


def test_work_that_never_ends_is_not_waited_for() -> None:
    loop, go_on = Loop(), threading.Event()
    away: Away[bool] = Away(loop.back)
    away.begin(lambda: go_on.wait(60), lambda _: None)
    assert not away.wait(0.01)
    assert away.busy
    go_on.set()


def test_a_loop_that_has_ended_does_no_harm() -> None:
    def gone(act: Callable[[], None]) -> None:
        raise RuntimeError("the loop is closed")

    told: list[int] = []
    away: Away[int] = Away(gone)
    for number in range(2):
        away.begin(lambda number=number: number, told.append)  # type: ignore[misc]
        assert away.wait(60)
    assert told == [0, 1]

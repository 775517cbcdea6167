"""Who is alive, and for how long."""

import itertools

import pytest

from anyport.demo.http import sessions as module
from anyport.demo.http.sessions import Sessions


class Noted:
    def __init__(self, name: str) -> None:
        self.name = name
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def sessions_of(requests_max: int | None = None) -> Sessions[Noted]:
    numbers = itertools.count()
    return Sessions(lambda: f"s{next(numbers)}", requests_max)


def test_a_session_is_found_until_it_ends() -> None:
    sessions = sessions_of()
    session = sessions.add(Noted)
    assert sessions.find("s0") is session

    sessions.end("s0")
    sessions.end("s0")

    assert (sessions.find("s0"), session.closed) == (None, 1)


def test_the_oldest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SESSIONS_MAX", 2)
    sessions = sessions_of()
    first, second, third = (sessions.add(Noted) for _ in range(3))

    assert [each.closed for each in (first, second, third)] == [1, 0, 0]
    sessions.end_all()
    assert [each.closed for each in (first, second, third)] == [1, 1, 1]


@pytest.mark.parametrize(("requests_max", "alive"), [(None, True), (3, True), (2, False)])
def test_a_session_is_lost_after_so_many_requests(requests_max: int | None, alive: bool) -> None:
    sessions = sessions_of(requests_max)
    sessions.add(Noted)
    for name in ("s0", "s0", "s0", "nobody"):
        sessions.count(name)

    assert (sessions.find("s0") is not None) is alive

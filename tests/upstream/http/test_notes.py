"""What is not answered leaves room for what is."""

import asyncio
from collections.abc import Callable

import pytest

from anyport.upstream.http.line import Trouble, TroubleKind
from anyport.upstream.http.notes import Notes
from tests.upstream.http.asked import FakeClient, head

HERE = "anyport.upstream.http.notes"
CUT = Trouble(TroubleKind.CUT, "it closed the connection")


class Bench:
    """Notes to a client that sends nothing; the test is the server."""

    def __init__(self) -> None:
        self.client = FakeClient()
        self.troubles: list[Trouble] = []
        self.notes = Notes(self.client.client, self.troubles.append)

    def send(self, *frames: bytes) -> None:
        for frame in frames:
            self.notes.send(b"POST / HTTP/1.1\r\n", frame)

    @property
    def sent(self) -> list[bytes | None]:
        return [asked.body for asked in self.client.asked]


def play(scene: Callable[[Bench], None]) -> None:
    async def bench() -> None:
        scene(Bench())

    asyncio.run(bench())


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{HERE}.NOTES_MAX", 2)
    monkeypatch.setattr(f"{HERE}.NOTES_WAITING_MAX", 2)


def test_so_many_are_under_way_and_the_others_follow_in_order() -> None:
    def scene(bench: Bench) -> None:
        bench.send(b"1", b"2", b"3", b"4")
        assert bench.sent == [b"1", b"2"]

        bench.client.asked[1].taker.answered(head(202), b"")
        assert bench.sent == [b"1", b"2", b"3"]

        bench.client.asked[0].taker.closed(None)
        bench.client.asked[2].taker.answered(head(202), b"")
        bench.send(b"5")
        assert bench.sent == [b"1", b"2", b"3", b"4", b"5"]
        assert not bench.troubles

    play(scene)


def test_of_too_many_that_wait_the_oldest_makes_room() -> None:
    def scene(bench: Bench) -> None:
        bench.send(b"1", b"2", b"3", b"4", b"5")
        for asked in bench.client.asked[:2]:
            asked.taker.answered(head(202), b"")

        assert bench.sent == [b"1", b"2", b"4", b"5"]

    play(scene)


def test_one_that_did_not_arrive_is_told_of_and_makes_room() -> None:
    def scene(bench: Bench) -> None:
        bench.send(b"1", b"2", b"3")
        bench.client.asked[0].taker.failed(CUT)

        assert bench.troubles == [CUT]
        assert bench.sent == [b"1", b"2", b"3"]

    play(scene)


def test_what_is_not_taken_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{HERE}.NOTE_SECONDS_MAX", 0.0)

    async def scene() -> None:
        bench = Bench()
        bench.send(b"1", b"2")
        first, second = bench.client.asked
        first.taker.answered(head(202), b"")
        while not second.given_up:
            await asyncio.sleep(0)

        assert not first.given_up
        assert not bench.troubles

    asyncio.run(scene())


def test_what_waits_for_too_long_is_never_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        bench = Bench()
        bench.send(b"1", b"2")
        monkeypatch.setattr(f"{HERE}.NOTE_SECONDS_MAX", 0.0)
        bench.send(b"3")
        for _ in range(3):
            await asyncio.sleep(0)
        bench.client.asked[0].taker.answered(head(202), b"")

        assert bench.sent == [b"1", b"2"]

    asyncio.run(scene())

"""What is not answered leaves room for what is."""

import asyncio
from collections.abc import Callable

import pytest

from anyport.upstream.http.channel import OneWayPosts
from anyport.upstream.http.connection import HttpFailure, HttpFailureKind
from tests.upstream.http.fake_client import FakeClient, head

HERE = "anyport.upstream.http.channel"
CUT = HttpFailure(HttpFailureKind.CUT_OFF, "it closed the connection")


class ChannelScene:
    """Notes to a client that sends nothing; the test is the server."""

    def __init__(self) -> None:
        self.client = FakeClient()
        self.troubles: list[HttpFailure] = []
        self.notes = OneWayPosts(self.client.client, self.troubles.append)

    def send(self, *frames: bytes) -> None:
        for frame in frames:
            self.notes.send(b"POST / HTTP/1.1\r\n", frame)

    @property
    def sent(self) -> list[bytes | None]:
        return [asked.body for asked in self.client.asked]


def play(scene: Callable[[ChannelScene], None]) -> None:
    async def play() -> None:
        scene(ChannelScene())

    asyncio.run(play())


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{HERE}.ONE_WAY_POSTS_MAX", 2)
    monkeypatch.setattr(f"{HERE}.ONE_WAY_POSTS_WAITING_MAX", 2)


def test_so_many_are_under_way_and_the_others_follow_in_order() -> None:
    def scene(at: ChannelScene) -> None:
        at.send(b"1", b"2", b"3", b"4")
        assert at.sent == [b"1", b"2"]

        at.client.asked[1].handler.on_response(head(202), b"")
        assert at.sent == [b"1", b"2", b"3"]

        at.client.asked[0].handler.on_stream_closed(None)
        at.client.asked[2].handler.on_response(head(202), b"")
        at.send(b"5")
        assert at.sent == [b"1", b"2", b"3", b"4", b"5"]
        assert not at.troubles

    play(scene)


def test_of_too_many_that_wait_the_oldest_makes_room() -> None:
    def scene(at: ChannelScene) -> None:
        at.send(b"1", b"2", b"3", b"4", b"5")
        for asked in at.client.asked[:2]:
            asked.handler.on_response(head(202), b"")

        assert at.sent == [b"1", b"2", b"4", b"5"]

    play(scene)


def test_one_that_did_not_arrive_is_told_of_and_makes_room() -> None:
    def scene(at: ChannelScene) -> None:
        at.send(b"1", b"2", b"3")
        at.client.asked[0].handler.on_failure(CUT)

        assert at.troubles == [CUT]
        assert at.sent == [b"1", b"2", b"3"]

    play(scene)


def test_what_is_not_taken_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{HERE}.ONE_WAY_SECONDS_MAX", 0.0)

    async def scene() -> None:
        at = ChannelScene()
        at.send(b"1", b"2")
        first, second = at.client.asked
        first.handler.on_response(head(202), b"")
        while not second.cancelled:
            await asyncio.sleep(0)

        assert not first.cancelled
        assert not at.troubles

    asyncio.run(scene())


def test_what_waits_for_too_long_is_never_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        at = ChannelScene()
        at.send(b"1", b"2")
        monkeypatch.setattr(f"{HERE}.ONE_WAY_SECONDS_MAX", 0.0)
        at.send(b"3")
        for _ in range(3):
            await asyncio.sleep(0)
        at.client.asked[0].handler.on_response(head(202), b"")

        assert at.sent == [b"1", b"2"]

    asyncio.run(scene())

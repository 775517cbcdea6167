"""Listening sockets handed from one process to the next; here both are the same process."""

import asyncio
import os
import socket
import stat
import struct
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from anyport.ingress.http import handover
from anyport.ingress.http.handover import (
    MESSAGE_BYTES_MAX,
    PATH_BYTES_MAX,
    HandoverChannel,
    HandoverMessage,
    HandoverOffer,
    HandoverRefused,
    Predecessor,
)
from tests.upstream.fakes import until

PLACE = ("127.0.0.1", 8640)


class Side:
    """What one side has received, and which channels it has lost."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.lines: list[HandoverChannel] = []
        self.notes: list[HandoverMessage] = []
        self.gone: list[HandoverChannel] = []

    def take(self, line: HandoverChannel, pid: int) -> None:
        self.lines.append(line)
        self.taken.append(pid)

    def hear(self, line: HandoverChannel, note: HandoverMessage) -> None:
        self.notes.append(note)

    def lose(self, line: HandoverChannel) -> None:
        self.gone.append(line)


class Scene:
    """A gateway that offers a listening socket."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "serve-8640.sock"
        self.legacy_sse, self.newer = Side(), Side()
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.offer = HandoverOffer(
            self.path, PLACE, lambda: [self.listening.fileno()], self.legacy_sse.take
        )
        self.offer.on_message = self.legacy_sse.hear

    async def find(self) -> Predecessor:
        found = await asyncio.to_thread(Predecessor.find, self.path)
        assert found is not None
        return found

    async def hand_over(self) -> tuple[Predecessor, list[socket.socket], HandoverChannel]:
        found = await self.find()
        taken = await asyncio.to_thread(found.take_sockets)
        line = await found.confirm_accepting(self.newer.hear, self.newer.lose)
        await until(lambda: bool(self.legacy_sse.taken))
        return found, taken, line


@pytest.fixture
def play(tmp_path: Path) -> Callable[[Callable[[Scene], Coroutine[Any, Any, None]]], None]:
    def playing(scene: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            stage = Scene(tmp_path / "state")
            await stage.offer.open()
            try:
                await scene(stage)
            finally:
                await _quiet()  # A new channel is still being greeted.
                stage.offer.close()
                stage.listening.close()
                await _quiet()

        asyncio.run(whole())

    return playing


async def _quiet() -> None:
    """Let the event loop run until nothing is left to do."""
    for _ in range(10):
        await asyncio.sleep(0)
    await until(lambda: len(asyncio.all_tasks()) == 1)


Play = Callable[[Callable[[Scene], Coroutine[Any, Any, None]]], None]


def test_sockets_are_handed_over_and_go_on_listening(play: Play) -> None:
    async def scene(stage: Scene) -> None:
        found, (taken,), line = await stage.hand_over()

        assert (found.pid, found.listens) == (os.getpid(), PLACE)
        assert stage.legacy_sse.taken == [os.getpid()]
        address = stage.listening.getsockname()
        assert taken.getsockname() == address
        assert not taken.get_inheritable()
        stage.listening.close()
        with socket.create_connection(address) as client:
            accepted, _ = taken.accept()
            assert accepted.getpeername() == client.getsockname()
            accepted.close()
        taken.close()
        line.close()

    play(scene)


def test_the_two_stay_in_touch_until_one_has_gone(play: Play) -> None:
    async def scene(stage: Scene) -> None:
        _, (taken,), line = await stage.hand_over()
        response = [
            HandoverMessage(session="s"),
            HandoverMessage(session="s", frame='{"a":"\\u2028\\n"}'),
        ]
        for note in response:
            line.send(note)
            stage.legacy_sse.lines[0].send(note)
        await until(lambda: len(stage.legacy_sse.notes) == len(stage.newer.notes) == 2)

        assert stage.legacy_sse.notes == stage.newer.notes == response
        stage.legacy_sse.lines[0].close()
        await until(lambda: bool(stage.newer.gone))
        line.send(response[0])  # Nothing breaks without a peer.
        taken.close()

    play(scene)


def test_the_socket_is_private(play: Play) -> None:
    async def scene(stage: Scene) -> None:
        assert stat.S_IMODE(stage.path.stat().st_mode) == 0o600
        assert list(stage.path.parent.iterdir()) == [stage.path]

    play(scene)


def test_a_process_of_another_user_is_disconnected(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(stage: Scene) -> None:
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(str(stage.path))
            stranger.settimeout(10)
            received = await asyncio.to_thread(stranger.recv, 100)
        assert received == b""
        assert stage.legacy_sse.taken == []

    raw = struct.pack("3i", 1, os.geteuid() + 1, 1)
    monkeypatch.setattr(socket.socket, "getsockopt", lambda *_: raw)
    play(scene)


def test_another_user_s_gateway_is_not_taken_over_from(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(stage: Scene) -> None:
        monkeypatch.setattr(handover, "_is_own_user", lambda line: False)
        with pytest.raises(HandoverRefused, match="another user"):
            await stage.find()

    play(scene)


def test_no_predecessor_is_found_without_a_socket(tmp_path: Path) -> None:
    assert Predecessor.find(tmp_path / "x.sock") is None
    (tmp_path / "file").write_text("")
    assert Predecessor.find(tmp_path / "file" / "x.sock") is None


def test_no_predecessor_is_found_at_the_socket_of_a_dead_process(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "x.sock"))
    assert Predecessor.find(tmp_path / "x.sock") is None


def test_who_does_not_answer_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "ANSWER_SECONDS_MAX", 0.05)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "x.sock"))
        silent.listen()
        with pytest.raises(HandoverRefused, match="does not answer"):
            Predecessor.find(tmp_path / "x.sock")


def test_who_dies_before_it_accepts_leaves_room_for_another(play: Play) -> None:
    async def scene(stage: Scene) -> None:
        first = await stage.find()
        (taken,) = await asyncio.to_thread(first.take_sockets)
        taken.close()
        first.close()
        await until(lambda: stage.offer._successor is None)

        _, (taken,), line = await stage.hand_over()
        assert len(stage.legacy_sse.taken) == 1
        taken.close()
        line.close()

    play(scene)


def test_there_is_one_successor(play: Play) -> None:
    async def scene(stage: Scene) -> None:
        second = await stage.find()
        _, (taken,), line = await stage.hand_over()

        assert await asyncio.to_thread(second.take_sockets) == []
        assert len(stage.legacy_sse.taken) == 1
        second.close()
        taken.close()
        line.close()

    play(scene)


def test_who_has_gone_meanwhile_gives_nothing(tmp_path: Path) -> None:
    here, there = socket.socketpair()
    found = Predecessor(here)
    there.close()
    assert found.take_sockets() == []
    found.close()


def test_a_new_offer_takes_the_place_of_the_one_before(play: Play) -> None:
    async def scene(stage: Scene) -> None:
        other = HandoverOffer(stage.path, ("127.0.0.2", 8640), list, stage.legacy_sse.take)
        await other.open()
        stage.offer.close()  # The socket of another process stays.

        found = await stage.find()
        assert found.listens == ("127.0.0.2", 8640)
        found.close()
        other.close()
        assert not stage.path.exists()

    play(scene)


def test_a_folder_that_is_deep_in_others_will_do(tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 100) / ("e" * 100)
    assert len(os.fsencode(folder)) > PATH_BYTES_MAX

    async def whole() -> None:
        stage = Scene(folder)
        await stage.offer.open()
        _, (taken,), line = await stage.hand_over()
        for each in (taken, stage.listening):
            each.close()
        line.close()
        stage.offer.close()
        await asyncio.sleep(0.01)

    asyncio.run(whole())
    assert list(folder.iterdir()) == []


def test_a_socket_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")

    async def whole() -> None:
        stage = Scene(tmp_path / "state")
        stage.listening.close()
        with pytest.raises(OSError):
            await stage.offer.open()
        stage.offer.close()

    asyncio.run(whole())


def test_what_makes_no_sense_is_ignored_and_what_never_ends_is_cut_off(play: Play) -> None:
    async def scene(stage: Scene) -> None:
        _, (taken,), line = await stage.hand_over()
        legacy_sse = stage.legacy_sse.lines[0]
        legacy_sse.data_received(b'nonsense\n{"pid":"x"}\n{"session":"s","newer":1}\n{"ses')
        legacy_sse.data_received(b'sion":"t"}\n')
        assert [note.session for note in stage.legacy_sse.notes] == ["s", "t"]

        legacy_sse.data_received(b"x" * (MESSAGE_BYTES_MAX + 1))
        await until(lambda: bool(stage.newer.gone))
        taken.close()
        line.close()

    play(scene)

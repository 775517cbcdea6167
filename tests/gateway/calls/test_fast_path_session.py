"""A session keeps its calls on the beaten track like any others, and no longer."""

from pathlib import Path

import pytest

from anyport.gateway.calls.deadline import SLOW_CALL_SECONDS
from anyport.protocol.conversation import Conversation
from tests.gateway.scene import Scene
from tests.protocol.fakes import FakeClient, FakeRequestHandler


class Inside(FakeRequestHandler):
    """The relay as a conversation knows it."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self.begin = scene.relay.begin  # type: ignore[method-assign]
        self.prepare_fast_call = scene.relay.prepare_fast_call  # type: ignore[method-assign]


class Talking(FakeClient):
    """A session whose calls of one tool have a track."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self.scene = scene
        self.conversation = Conversation(
            profile="default",
            handler=Inside(scene),
            writer=self.writer,
            transport="stdio",
            new_session_id=lambda: "mine",
        )
        self.handshake()
        self.call(1)
        self.answer(1)
        self.writer.take()

    def call(self, id: int) -> None:
        params = b'{"name":"s__echo","arguments":{}}'
        frame = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%b}' % (id, params)
        self.conversation.receive(frame)

    def answer(self, number: int) -> None:
        frame = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}' % number
        self.scene.server.connection.receive(frame)


def test_a_session_keeps_a_call_on_the_track_until_it_is_answered(tmp_path: Path) -> None:
    talk = Talking(Scene(tmp_path))
    talk.call(7)
    assert talk.conversation.open_requests == 1

    talk.answer(2)

    assert talk.writer.take_one() == {"jsonrpc": "2.0", "id": 7, "result": {"content": []}}
    assert talk.conversation.open_requests == 0


@pytest.mark.parametrize("lingers", [False, True])
def test_a_session_keeps_nothing_of_a_call_that_was_cancelled(
    tmp_path: Path, lingers: bool
) -> None:
    talk = Talking(Scene(tmp_path))
    talk.call(7)
    if lingers:
        talk.scene.calls.sweep(SLOW_CALL_SECONDS)

    talk.notify("notifications/cancelled", {"requestId": 7})

    assert talk.conversation.open_requests == 0
    assert talk.scene.at_rest()
    talk.call(7)
    talk.answer(3)
    assert talk.writer.take_one()["id"] == 7


def test_a_session_that_ends_cancels_its_calls_on_the_track(tmp_path: Path) -> None:
    talk = Talking(Scene(tmp_path))
    talk.call(7)

    talk.conversation.cancel_all()

    assert talk.conversation.open_requests == 0
    assert talk.scene.at_rest()
    assert talk.writer.take() == []


def test_an_id_that_is_open_is_refused_on_the_track_too(tmp_path: Path) -> None:
    talk = Talking(Scene(tmp_path))
    talk.call(7)
    talk.call(7)

    assert talk.writer.take_one()["error"]["code"] == -32600


def test_after_another_handshake_calls_are_those_of_the_new_session(tmp_path: Path) -> None:
    talk = Talking(Scene(tmp_path))
    talk.handshake()

    talk.call(7)

    (exchange,) = talk.scene.calls.exchanges_at(talk.scene.server)
    assert exchange.caller.session is talk.conversation.session

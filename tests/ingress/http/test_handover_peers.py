"""A session in two processes at once, each kept up to date by the other."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

from anyport.ingress.http.handover import HandoverChannel, HandoverMessage, HandoverPeers
from anyport.ingress.http.sessions import HttpSession
from anyport.protocol.exchange import Answered, NeedInput, Question
from tests.ingress.http.stage import Clock, Stage, delete, get, post, settle
from tests.protocol.fakes import request

REVISION = "2025-11-25"


class FakeChannel:
    """A channel whose other end is in the same process."""

    def __init__(self) -> None:
        self.response: list[HandoverMessage] = []
        self.to: tuple[HandoverPeers, FakeChannel] | None = None

    def send(self, message: HandoverMessage) -> None:
        self.response.append(message)
        if self.to is not None:
            kin, line = self.to
            kin.on_message(cast(HandoverChannel, line), message)


class Pair:
    """A process and its successor."""

    def __init__(self, state: Path) -> None:
        self.legacy_sse, self.newer = Stage(state=state), Stage(state=state)
        self.kin_of_older = HandoverPeers(self.legacy_sse.sessions)
        self.kin_of_newer = HandoverPeers(self.newer.sessions)
        self.down, self.up = FakeChannel(), FakeChannel()
        self.down.to = (self.kin_of_older, self.up)
        self.up.to = (self.kin_of_newer, self.down)
        self.kin_of_newer.set_older(cast(HandoverChannel, self.down))
        self.kin_of_older.set_newer(cast(HandoverChannel, self.up))

    @staticmethod
    def session(stage: Stage) -> HttpSession:
        (session,) = stage.sessions
        return session


def play(state: Path, scene: Callable[[Pair], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=Clock) as runner:

        async def whole() -> None:
            pair = Pair(state)
            await scene(pair)
            for stage in (pair.legacy_sse, pair.newer):
                await stage.ingress.close()
            await settle()

        runner.run(whole())


def test_an_answer_reaches_the_process_that_asked(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        id = await pair.legacy_sse.open_session(REVISION)
        answers: list[Any] = []
        pair.legacy_sse.client().send(post(request("tools/call", {"name": "t"}), mcp_session_id=id))
        exchange = pair.legacy_sse.last
        exchange.deliver(exchange, NeedInput(Question("roots/list", None, answers.append)))
        received: list[Any] = [{"result": {"roots": []}}, {"error": {"code": 1, "message": "no"}}]
        for answer in received:
            response = {"jsonrpc": "2.0", "id": 1, **answer}
            assert (await pair.newer.client().ask(post(response, mcp_session_id=id))).status == 202

        assert len(answers) == 1
        assert answers[0].result == b'{"roots": []}'

    play(tmp_path, scene)


def test_a_cancellation_reaches_the_process_that_works(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        id = await pair.legacy_sse.open_session(REVISION)
        pair.legacy_sse.client().send(post(request("tools/call", {"name": "t"}), mcp_session_id=id))
        note = {"method": "notifications/cancelled", "params": {"requestId": 1}}
        response = post({"jsonrpc": "2.0", **note}, mcp_session_id=id)
        await pair.newer.client().ask(response)

        assert pair.legacy_sse.last.ended

    play(tmp_path, scene)


def test_other_notifications_stay_where_they_arrive(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        id = await pair.legacy_sse.open_session(REVISION)
        note = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
        await pair.newer.client().ask(post(note, mcp_session_id=id))

        assert pair.down.response == []
        assert len(pair.newer.handler.notifications) == 1
        assert pair.legacy_sse.handler.notifications == []

    play(tmp_path, scene)


def test_what_is_wished_in_one_is_known_in_the_other(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        id = await pair.legacy_sse.open_session(REVISION)
        pair.newer.client().send(get(mcp_session_id=id))
        received: list[Any] = []
        pair.newer.sessions.on_resumed = received.append
        here = pair.session(pair.legacy_sse).conversation.session
        there = pair.session(pair.newer).conversation.session
        assert here is not None and there is not None
        client = pair.legacy_sse.client()
        client.send(post(request("resources/subscribe", {"uri": "a:1"}), mcp_session_id=id))
        here.subscriptions.add("a:1")
        pair.legacy_sse.last.end(Answered(b"{}"))
        await settle()

        assert there.subscriptions == {"a:1"}
        assert received == [there]
        assert pair.up.response == [HandoverMessage(session=id)] * 2  # Its start, and now.
        assert pair.down.response == []

    play(tmp_path, scene)


def test_what_is_ended_in_one_is_ended_in_the_other(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        id = await pair.legacy_sse.open_session(REVISION)
        pair.legacy_sse.client().send(post(request("tools/call", {"name": "t"}), mcp_session_id=id))

        assert (await pair.newer.client().ask(delete(mcp_session_id=id))).status == 200

        assert list(pair.legacy_sse.sessions) == []
        assert pair.legacy_sse.last.ended

    play(tmp_path, scene)


def test_who_stands_between_two_passes_it_on(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        oldest = FakeChannel()
        pair.kin_of_older.set_older(cast(HandoverChannel, oldest))
        frame, look = HandoverMessage(session="s", frame="{}"), HandoverMessage(session="s")
        pair.down.send(frame)
        pair.down.send(look)
        assert oldest.response == [frame, look]

        pair.kin_of_older.on_message(cast(HandoverChannel, oldest), look)
        assert pair.up.response == [look]

    play(tmp_path, scene)


def test_a_disconnected_client_gets_nothing(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        pair.kin_of_newer.on_lost(cast(HandoverChannel, pair.down))
        pair.kin_of_older.on_lost(cast(HandoverChannel, pair.up))
        id = await pair.legacy_sse.open_session(REVISION)
        response = {"jsonrpc": "2.0", "id": 1, "result": {}}
        await pair.newer.client().ask(post(response, mcp_session_id=id))
        await pair.legacy_sse.client().ask(delete(mcp_session_id=id))

        assert pair.down.response == pair.up.response == []
        assert len(list(pair.newer.sessions)) == 1

    play(tmp_path, scene)

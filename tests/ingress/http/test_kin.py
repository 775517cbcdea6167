"""A session in two processes at once: each of them knows what it must."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

from anyport.ingress.http.handover import Line, Note
from anyport.ingress.http.kin import Kin
from anyport.ingress.http.sessions import HttpSession
from anyport.protocol.exchange import Answered, NeedInput, Question
from tests.ingress.http.stage import Clock, Stage, delete, get, post, settle
from tests.protocol.fakes import request

REVISION = "2025-11-25"


class Wire:
    """A line whose other end is in the same process."""

    def __init__(self) -> None:
        self.said: list[Note] = []
        self.to: tuple[Kin, Wire] | None = None

    def say(self, note: Note) -> None:
        self.said.append(note)
        if self.to is not None:
            kin, line = self.to
            kin.heard(cast(Line, line), note)


class Pair:
    """A process and its successor."""

    def __init__(self, state: Path) -> None:
        self.older, self.newer = Stage(state=state), Stage(state=state)
        self.kin_of_older = Kin(self.older.sessions)
        self.kin_of_newer = Kin(self.newer.sessions)
        self.down, self.up = Wire(), Wire()
        self.down.to = (self.kin_of_older, self.up)
        self.up.to = (self.kin_of_newer, self.down)
        self.kin_of_newer.follow(cast(Line, self.down))
        self.kin_of_older.precede(cast(Line, self.up))

    @staticmethod
    def session(stage: Stage) -> HttpSession:
        (session,) = stage.sessions
        return session


def play(state: Path, scene: Callable[[Pair], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=Clock) as runner:

        async def whole() -> None:
            pair = Pair(state)
            await scene(pair)
            for stage in (pair.older, pair.newer):
                await stage.ingress.close()
            await settle()

        runner.run(whole())


def test_an_answer_reaches_the_process_that_asked(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        id = await pair.older.open_session(REVISION)
        answers: list[Any] = []
        pair.older.visitor().send(post(request("tools/call", {"name": "t"}), mcp_session_id=id))
        exchange = pair.older.last
        exchange.tell(exchange, NeedInput(Question("roots/list", None, answers.append)))
        told: list[Any] = [{"result": {"roots": []}}, {"error": {"code": 1, "message": "no"}}]
        for answer in told:
            said = {"jsonrpc": "2.0", "id": 1, **answer}
            assert (await pair.newer.visitor().ask(post(said, mcp_session_id=id))).status == 202

        assert len(answers) == 1
        assert answers[0].result == b'{"roots": []}'

    play(tmp_path, scene)


def test_a_cancellation_reaches_the_process_that_works(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        id = await pair.older.open_session(REVISION)
        pair.older.visitor().send(post(request("tools/call", {"name": "t"}), mcp_session_id=id))
        note = {"method": "notifications/cancelled", "params": {"requestId": 1}}
        said = post({"jsonrpc": "2.0", **note}, mcp_session_id=id)
        await pair.newer.visitor().ask(said)

        assert pair.older.last.ended

    play(tmp_path, scene)


def test_other_notifications_stay_where_they_arrive(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        id = await pair.older.open_session(REVISION)
        note = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
        await pair.newer.visitor().ask(post(note, mcp_session_id=id))

        assert pair.down.said == []
        assert len(pair.newer.relay.notifications) == 1
        assert pair.older.relay.notifications == []

    play(tmp_path, scene)


def test_what_is_wished_in_one_is_known_in_the_other(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        id = await pair.older.open_session(REVISION)
        pair.newer.visitor().send(get(mcp_session_id=id))
        told: list[Any] = []
        pair.newer.sessions.on_resumed = told.append
        here = pair.session(pair.older).conversation.session
        there = pair.session(pair.newer).conversation.session
        assert here is not None and there is not None
        visitor = pair.older.visitor()
        visitor.send(post(request("resources/subscribe", {"uri": "a:1"}), mcp_session_id=id))
        here.subscriptions.add("a:1")
        pair.older.last.end(Answered(b"{}"))
        await settle()

        assert there.subscriptions == {"a:1"}
        assert told == [there]
        assert pair.up.said == [Note(session=id)] * 2  # When it began, and now.
        assert pair.down.said == []

    play(tmp_path, scene)


def test_what_is_ended_in_one_is_ended_in_the_other(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        id = await pair.older.open_session(REVISION)
        pair.older.visitor().send(post(request("tools/call", {"name": "t"}), mcp_session_id=id))

        assert (await pair.newer.visitor().ask(delete(mcp_session_id=id))).status == 200

        assert list(pair.older.sessions) == []
        assert pair.older.last.ended

    play(tmp_path, scene)


def test_who_stands_between_two_passes_it_on(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        oldest = Wire()
        pair.kin_of_older.follow(cast(Line, oldest))
        frame, look = Note(session="s", frame="{}"), Note(session="s")
        pair.down.say(frame)
        pair.down.say(look)
        assert oldest.said == [frame, look]

        pair.kin_of_older.heard(cast(Line, oldest), look)
        assert pair.up.said == [look]

    play(tmp_path, scene)


def test_who_has_gone_is_told_nothing(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        pair.kin_of_newer.lost(cast(Line, pair.down))
        pair.kin_of_older.lost(cast(Line, pair.up))
        id = await pair.older.open_session(REVISION)
        said = {"jsonrpc": "2.0", "id": 1, "result": {}}
        await pair.newer.visitor().ask(post(said, mcp_session_id=id))
        await pair.older.visitor().ask(delete(mcp_session_id=id))

        assert pair.down.said == pair.up.said == []
        assert len(list(pair.newer.sessions)) == 1

    play(tmp_path, scene)

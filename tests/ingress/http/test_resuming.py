"""Sessions that go on in another process: what they keep, and what is lost."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from anyport.ingress.http.register import FOLDER
from anyport.ingress.http.resuming import entry_of, lost_answer, session_of, wish
from anyport.protocol.exchange import Answered, NeedInput, Question, Session
from anyport.protocol.principal import LOCAL, Principal
from anyport.protocol.session import State
from tests.ingress.http.stage import (
    Stage,
    Visitor,
    delete,
    get,
    hello,
    pass_by,
    play,
    post,
    settle,
)
from tests.protocol.fakes import Wire, request

REVISION = "2025-11-25"
MINUTE = 60.0


class Before:
    """What a process leaves behind: the folder, and the ids that its clients have."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.id = ""

    def play(self, scene: Any = None, **settings: Any) -> None:
        """A process that opens a session, and dies."""

        async def whole(stage: Stage) -> None:
            self.id = await stage.open_session(REVISION)
            if scene is not None:
                await scene(stage, self.id)
            stage.sessions.known.clear()  # A process that is killed says nothing more.

        play(whole, state=self.state, **settings)

    def then(self, scene: Any, **settings: Any) -> None:
        """The process after it."""

        async def whole(stage: Stage) -> None:
            await scene(stage, self.id)

        play(whole, state=self.state, **settings)


@pytest.fixture
def before(tmp_path: Path) -> Before:
    return Before(tmp_path)


def ask(id: str, method: str = "ping", params: Any = None, **fields: str) -> bytes:
    return post(request(method, params, 7), mcp_session_id=id, **fields)


def session_at(stage: Stage) -> Session:
    return next(session for what, session in stage.relay.sessions if what == "opened")


def test_a_session_goes_on_in_another_process(before: Before) -> None:
    before.play()

    async def scene(stage: Stage, id: str) -> None:
        stage.answer_at_once()
        resumed: list[Session] = []
        stage.sessions.on_resumed = resumed.append

        said = await stage.visitor().ask(ask(id))
        again = await stage.visitor().ask(ask(id))

        assert (said.status, again.status) == (200, 200)
        session = session_at(stage)
        assert resumed == [session]
        assert session.resumed
        assert session.revision.name == REVISION
        assert [what for what, _ in stage.relay.sessions] == ["opened"]

    before.then(scene)


def test_what_the_record_calls_it_stays_the_same(before: Before) -> None:
    words = []

    async def first(stage: Stage, id: str) -> None:
        words.append(session_at(stage).id)

    async def scene(stage: Stage, id: str) -> None:
        stage.answer_at_once()
        await stage.visitor().ask(ask(id))
        assert [session_at(stage).id] == words

    before.play(first)
    before.then(scene)


@pytest.mark.parametrize(
    ("who", "where", "status"),
    [("alice", "/mcp/default", 404), ("bob", "/mcp/dev", 404), ("bob", "/mcp/default", 200)],
)
def test_it_goes_on_for_its_own_principal_in_its_own_profile(
    tmp_path: Path, who: str, where: str, status: int
) -> None:
    ids = []

    async def first(stage: Stage) -> None:
        bob = Principal("token", "bob")
        session = stage.sessions.begin("default", bob, 0.0)
        session.conversation.receive(json.dumps(hello(REVISION)).encode())
        stage.sessions.add(session)
        ids.append(session.id)
        stage.sessions.known.clear()

    async def second(stage: Stage) -> None:
        found = stage.sessions.resume(
            ids[0], where.rpartition("/")[2], Principal("token", who), 0.0
        )
        assert (found is not None) == (status == 200)

    play(first, state=tmp_path)
    play(second, state=tmp_path)


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_an_ended_session_stays_ended(before: Before, method: str) -> None:
    async def end(stage: Stage, id: str) -> None:
        assert (await stage.visitor().ask(delete(mcp_session_id=id))).status == 200

    async def scene(stage: Stage, id: str) -> None:
        asked = {
            "GET": get(mcp_session_id=id),
            "POST": ask(id),
            "DELETE": delete(mcp_session_id=id),
        }
        assert (await stage.visitor().ask(asked[method])).status == 404
        assert stage.relay.sessions == []

    before.play(end)
    before.then(scene)


def test_a_session_that_was_idle_for_too_long_stays_over(before: Before) -> None:
    async def wait(stage: Stage, id: str) -> None:
        await pass_by(6 * MINUTE)
        assert list(stage.sessions) == []

    async def scene(stage: Stage, id: str) -> None:
        assert (await stage.visitor().ask(ask(id))).status == 404

    before.play(wait, idle_seconds=5 * MINUTE)
    before.then(scene, idle_seconds=5 * MINUTE)
    assert list((before.state / FOLDER).iterdir()) == []


def test_the_register_is_told_of_those_who_are_still_there(before: Before) -> None:
    async def stay(stage: Stage, id: str) -> None:
        stage.answer_at_once()
        for _ in range(4):
            await pass_by(3 * MINUTE)
            assert (await stage.visitor().ask(ask(id))).status == 200
        stage.visitor().send(get(mcp_session_id=id))
        await pass_by(12 * MINUTE)
        (file,) = (before.state / FOLDER).iterdir()
        assert stage.ingress.now - file.stat().st_mtime < 2 * MINUTE

    before.play(stay, idle_seconds=5 * MINUTE)


def test_a_gateway_that_stops_leaves_its_sessions_to_the_next(before: Before) -> None:
    async def stop(stage: Stage, id: str) -> None:
        await stage.ingress.drain(0, 0)
        assert [what for what, _ in stage.relay.sessions] == ["opened", "closed"]

    async def scene(stage: Stage, id: str) -> None:
        stage.answer_at_once()
        assert (await stage.visitor().ask(ask(id))).status == 200

    before.play(stop)
    before.then(scene)


def test_what_it_wished_for_is_known_before_the_answer_goes_out(before: Before) -> None:
    async def follow(stage: Stage, id: str) -> None:
        visitor = stage.visitor()
        for method, params in (
            ("resources/subscribe", {"uri": "a:1"}),
            ("logging/setLevel", {"level": "error"}),
        ):
            visitor.send(ask(id, method, params))
            session = session_at(stage)
            session.subscriptions.add("a:1")
            session.log_level = "error"
            stage.last.end(Answered(b"{}"))
        await settle()
        assert [reply.status for reply in visitor.replies] == [200, 200]

    async def scene(stage: Stage, id: str) -> None:
        stage.answer_at_once()
        await stage.visitor().ask(ask(id))
        session = session_at(stage)
        assert (session.subscriptions, session.log_level) == ({"a:1"}, "error")

    before.play(follow)
    before.then(scene)


def test_wishes_in_a_batch_count_too(tmp_path: Path) -> None:
    ids = []

    async def first(stage: Stage) -> None:
        ids.append(await stage.open_session("2025-03-26"))
        batch = [request("resources/subscribe", {"uri": "a:1"}, 1), request("ping", None, 2)]
        stage.relay.on_begin = lambda exchange: exchange.end(Answered(b"{}"))
        session_at(stage).subscriptions.add("a:1")
        body = json.dumps(batch).encode()
        assert (await stage.visitor().ask(post(body, mcp_session_id=ids[0]))).status == 200
        stage.sessions.known.clear()

    async def second(stage: Stage) -> None:
        stage.answer_at_once()
        await stage.visitor().ask(ask(ids[0]))
        assert session_at(stage).subscriptions == {"a:1"}

    play(first, state=tmp_path)
    play(second, state=tmp_path)


# What was under way.


def streaming(stage: Stage, id: str, request_id: Any) -> Visitor:
    """A call that has become a stream."""
    visitor = stage.visitor()
    visitor.send(post(request("tools/list", None, request_id), mcp_session_id=id))
    stage.last.teller.note(b'{"jsonrpc":"2.0","method":"x"}')
    return visitor


@pytest.mark.parametrize("request_id", [17, "c-1", 'a"b\u00e9', -3])
def test_who_comes_back_for_a_lost_answer_is_told_and_nothing_is_done(
    before: Before, request_id: Any
) -> None:
    seen: list[str] = []

    async def call(stage: Stage, id: str) -> None:
        visitor = streaming(stage, id, request_id)
        await settle()
        seen.extend(at for at, _ in visitor.reply.events if at)

    async def scene(stage: Stage, id: str) -> None:
        for last in seen:
            assert re.fullmatch(r"[0-9a-f]+\.[0-9a-f]+-\d+", last)
            visitor = stage.visitor()
            said = await visitor.ask(get(mcp_session_id=id, last_event_id=last))
            (lost,) = said.messages
            assert lost["id"] == request_id
            assert lost["error"]["code"] == -32000
            assert said.whole
        assert stage.relay.exchanges == []

    before.play(call)
    assert len(seen) == 2
    before.then(scene)


def test_another_process_s_stream_is_never_taken_for_one_of_ours(before: Before) -> None:
    seen: list[str] = []

    async def listen(stage: Stage, id: str) -> None:
        visitor = stage.visitor()
        visitor.send(get(mcp_session_id=id))
        await settle()
        seen.extend(at for at, _ in visitor.reply.events if at)

    async def scene(stage: Stage, id: str) -> None:
        first, second = stage.visitor(), stage.visitor()
        first.send(post(request("tools/list", None, 1), mcp_session_id=id))
        stage.last.teller.note(b'{"secret":1}')
        second.send(get(mcp_session_id=id, last_event_id=seen[0]))
        await settle()
        assert second.reply.messages == []
        assert not second.reply.whole

    before.play(listen)
    before.then(scene)


def test_an_answer_to_the_process_before_is_no_answer_here(before: Before) -> None:
    async def scene(stage: Stage, id: str) -> None:
        answers: list[Any] = []
        visitor = stage.visitor()
        visitor.send(post(request("tools/call", {"name": "t"}, 1), mcp_session_id=id))
        question = Question("roots/list", None, answers.append)
        stage.last.tell(stage.last, NeedInput(question))
        for number in range(1, 50):
            stale = {"jsonrpc": "2.0", "id": number, "result": {}}
            assert (await stage.visitor().ask(post(stale, mcp_session_id=id))).status == 202
        assert answers == []
        asked = next(message for message in visitor.reply.messages if "method" in message)
        real = {"jsonrpc": "2.0", "id": asked["id"], "result": {}}
        await stage.visitor().ask(post(real, mcp_session_id=id))
        assert len(answers) == 1

    before.play()
    before.then(scene)


# The pieces.


class Place(Wire):
    principal = LOCAL
    profile = "default"


def test_an_entry_that_makes_no_sense_is_no_session(before: Before) -> None:
    async def scene(stage: Stage) -> None:
        await stage.open_session()
        opened = next(iter(stage.sessions)).conversation.session
        assert opened is not None
        good = entry_of(opened)
        again = session_of(good, Place(), "streamable-http", iter([1]))
        assert again is not None
        assert again.state is State.READY
        assert entry_of(again) == good

        for change in ({"revision": "2026-07-28"}, {"revision": "x"}):
            bad = msgspec.structs.replace(good, **change)
            assert session_of(bad, Place(), "streamable-http", iter([1])) is None
        bad = msgspec.structs.replace(good, capabilities=msgspec.Raw(b"1"))
        assert session_of(bad, Place(), "streamable-http", iter([1])) is None
        wish(again, msgspec.structs.replace(good, level="shrill", subscriptions=("x:1",)))
        assert (again.log_level, again.subscriptions) == (None, {"x:1"})

    play(scene)


def test_a_lost_answer_names_its_request() -> None:
    assert json.loads(lost_answer(b'"a"'))["id"] == "a"

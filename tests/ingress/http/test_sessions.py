"""Sessions over HTTP: ids that nobody guesses, streams of their own, and an end."""

import json
import re

import pytest

from anyport.ingress.http.sessions import COMMIT_PRIMED_SECONDS, COMMIT_SECONDS
from anyport.protocol.exchange import Answered, Log
from anyport.protocol.principal import Principal
from anyport.protocol.seal import KEY_BYTES, Seal
from tests.ingress.http.stage import Stage, delete, get, pass_by, play, post, settle
from tests.protocol.fakes import request

MINUTE = 60.0


def test_an_id_is_sealed_fits_a_header_and_is_never_drawn_twice() -> None:
    async def scene(stage: Stage) -> None:
        me = Principal("token", "laptop")
        ids = {stage.sessions.new_id("dev", me) for _ in range(50)}

        assert len(ids) == 50
        for id in ids:
            assert re.fullmatch(r"[A-Za-z0-9_-]+", id)
            claims = Seal([bytes(KEY_BYTES)]).open("session", id)
            assert claims is not None
            assert json.loads(claims)[1:] == ["dev", "token", "laptop", ""]

    play(scene)


def test_what_the_record_calls_a_session_opens_nothing() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        ((_, session),) = stage.relay.sessions
        assert session.id != id

        said = await stage.visitor().ask(post(request("ping"), mcp_session_id=session.id))

        assert said.status == 404

    play(scene)


def test_a_session_is_found_by_its_own_principal_in_its_own_profile() -> None:
    async def scene(stage: Stage) -> None:
        me, other = Principal("token", "me"), Principal("token", "other")
        session = stage.sessions.begin("dev", me, 0.0)
        assert stage.sessions.find(session.id, "dev", me) is None
        stage.sessions.add(session)

        assert stage.sessions.find(session.id, "dev", me) is session
        assert stage.sessions.find(session.id, "dev", other) is None
        assert stage.sessions.find(session.id, "default", me) is None
        assert stage.sessions.find("x", "dev", me) is None

    play(scene)


def test_a_session_that_nobody_uses_is_ended() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        await pass_by(4 * MINUTE)
        stage.answer_at_once()
        assert (await stage.visitor().ask(post(request("ping"), mcp_session_id=id))).status == 200
        await pass_by(4 * MINUTE)
        assert (await stage.visitor().ask(post(request("ping"), mcp_session_id=id))).status == 200

        await pass_by(6 * MINUTE)

        assert (await stage.visitor().ask(post(request("ping"), mcp_session_id=id))).status == 404
        assert [what for what, _ in stage.relay.sessions] == ["opened", "closed"]

    play(scene, idle_seconds=5 * MINUTE)


def test_a_session_is_in_use_while_its_stream_is_open_or_a_request_unanswered() -> None:
    async def scene(stage: Stage) -> None:
        listening, asking = await stage.open_session(), await stage.open_session()
        stream, asker = stage.visitor(), stage.visitor()
        stream.send(get(mcp_session_id=listening))
        asker.send(post(request("tools/list"), mcp_session_id=asking))
        await pass_by(12 * MINUTE)
        assert len(list(stage.sessions)) == 2

        stream.leave()
        stage.last.end(Answered(b"{}"))
        await pass_by(12 * MINUTE)

        assert list(stage.sessions) == []

    play(scene, idle_seconds=5 * MINUTE)


def test_there_is_a_most_of_sessions() -> None:
    async def scene(stage: Stage) -> None:
        ids = [await stage.open_session() for _ in range(2)]
        refused = await stage.visitor().ask(
            post(request("initialize", {"protocolVersion": "2025-06-18"}))
        )
        assert refused.status == 503
        assert refused.head.get("retry-after") is not None
        assert refused.json["id"] == 1

        assert (await stage.visitor().ask(delete(mcp_session_id=ids[0]))).status == 200
        await stage.open_session()

    play(scene, sessions_max=2)


def test_a_handshake_that_is_refused_opens_no_session() -> None:
    async def scene(stage: Stage) -> None:
        said = await stage.visitor().ask(post(request("initialize", {"capabilities": {}})))

        assert said.json["error"]["code"] == -32602
        assert said.head.get("mcp-session-id") is None
        assert list(stage.sessions) == []

    play(scene)


@pytest.mark.parametrize(
    ("revision", "seconds"), [("2025-11-25", COMMIT_PRIMED_SECONDS), ("2025-06-18", COMMIT_SECONDS)]
)
def test_an_answer_that_takes_long_becomes_a_stream_sooner_where_it_can_be_resumed(
    revision: str, seconds: float
) -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session(revision)
        visitor = stage.visitor()
        visitor.send(post(request("tools/list"), mcp_session_id=id, mcp_protocol_version=revision))
        await pass_by(seconds - 1)
        assert visitor.replies == []

        await pass_by(2)
        stage.last.end(Answered(b'{"n":1}'))
        await settle()

        (event,) = visitor.reply.messages
        assert event["result"] == {"n": 1}
        assert visitor.reply.whole
        primed = revision == "2025-11-25"
        assert (visitor.reply.events[0][1] == b"") is primed

    play(scene)


def test_what_belongs_to_no_request_goes_to_the_stream_for_that() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        stream, asker = stage.visitor(), stage.visitor()
        stream.send(get(mcp_session_id=id))
        asker.send(post(request("tools/list"), mcp_session_id=id))
        ((_, session),) = stage.relay.sessions

        session.notify("notifications/tools/list_changed", None)
        stage.last.end(Answered(b"{}"))
        await settle()

        assert stream.reply.messages[0]["method"] == "notifications/tools/list_changed"
        assert asker.reply.json["result"] == {}

    play(scene)


def test_without_that_stream_it_goes_along_with_an_answer() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        asker = stage.visitor()
        asker.send(post(request("tools/list"), mcp_session_id=id))
        ((_, session),) = stage.relay.sessions

        session.notify("notifications/tools/list_changed", None)
        stage.last.end(Answered(b"{}"))
        await settle()

        notice, answer = asker.reply.messages
        assert notice["method"] == "notifications/tools/list_changed"
        assert answer["result"] == {}

    play(scene)


def test_without_anyone_there_it_waits_for_who_comes() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        ((_, session),) = stage.relay.sessions
        session.notify("notifications/tools/list_changed", None)
        first, second = stage.visitor(), stage.visitor()

        first.send(get(mcp_session_id=id))
        await settle()
        second.send(get(mcp_session_id=id))
        await settle()

        assert len(first.reply.messages) == 1
        assert second.reply.messages == []

    play(scene)


def test_a_client_that_takes_json_alone_is_not_sent_a_stream() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        visitor = stage.visitor()
        visitor.send(post(request("tools/list"), mcp_session_id=id, accept="application/json"))
        stage.last.tell(stage.last, Log(b'{"level":"info"}'))
        await pass_by(2 * COMMIT_SECONDS)
        stage.last.end(Answered(b"{}"))
        await settle()

        assert visitor.reply.json["result"] == {}

    play(scene)


def test_ending_a_session_cancels_what_is_open_and_closes_its_streams() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        stream, asker = stage.visitor(), stage.visitor()
        stream.send(get(mcp_session_id=id))
        asker.send(post(request("tools/list"), mcp_session_id=id))
        exchange = stage.last

        assert (await stage.visitor().ask(delete(mcp_session_id=id))).status == 200

        assert exchange.ended
        assert asker.reply.json["error"] == {"code": -32800, "message": "Request cancelled"}
        assert stream.reply.whole
        assert [what for what, _ in stage.relay.sessions] == ["opened", "closed"]
        assert (await stage.visitor().ask(get(mcp_session_id=id))).status == 404

    play(scene)

"""Sessions over Streamable HTTP: ids, streams, eviction, expiry."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from anyport.config.model import Token
from anyport.ingress.http.sessions import (
    STREAM_AFTER_PRIMED_SECONDS,
    STREAM_AFTER_SECONDS,
    TOUCH_SECONDS,
)
from anyport.protocol.exchange import Answered, Log
from anyport.protocol.principal import Principal
from anyport.protocol.sealing import KEY_BYTES, Seal
from tests.ingress.http.stage import Stage, advance_clock, delete, get, play, post, settle
from tests.protocol.fakes import request

MINUTE = 60.0
TOKENS = tuple(
    Token(name=name, digest=hashlib.sha256(name.encode()).digest()) for name in ("me", "other")
)


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
        ((_, session),) = stage.handler.sessions
        assert session.id != id

        response = await stage.client().ask(post(request("ping"), mcp_session_id=session.id))

        assert response.status == 404

    play(scene)


def test_a_session_is_found_by_its_own_principal_in_its_own_profile() -> None:
    async def scene(stage: Stage) -> None:
        me, other = Principal("token", "me"), Principal("token", "other")
        session = stage.sessions.create("dev", me, 0.0)
        assert stage.sessions.find(session.id, "dev", me) is None
        stage.sessions.add(session)

        assert stage.sessions.find(session.id, "dev", me) is session
        assert stage.sessions.find(session.id, "dev", other) is None
        assert stage.sessions.find(session.id, "default", me) is None
        assert stage.sessions.find("x", "dev", me) is None

    play(scene)


def test_an_idle_session_is_ended() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        await advance_clock(4 * MINUTE)
        stage.answer_at_once()
        assert (await stage.client().ask(post(request("ping"), mcp_session_id=id))).status == 200
        await advance_clock(4 * MINUTE)
        assert (await stage.client().ask(post(request("ping"), mcp_session_id=id))).status == 200

        await advance_clock(6 * MINUTE)

        assert (await stage.client().ask(post(request("ping"), mcp_session_id=id))).status == 404
        assert [what for what, _ in stage.handler.sessions] == ["opened", "closed"]

    play(scene, idle_seconds=5 * MINUTE)


def test_a_session_is_in_use_while_its_stream_is_open_or_a_request_unanswered() -> None:
    async def scene(stage: Stage) -> None:
        listening, asking = await stage.open_session(), await stage.open_session()
        stream, asker = stage.client(), stage.client()
        stream.send(get(mcp_session_id=listening))
        asker.send(post(request("tools/list"), mcp_session_id=asking))
        await advance_clock(12 * MINUTE)
        assert len(list(stage.sessions)) == 2

        stream.disconnect()
        stage.last.end(Answered(b"{}"))
        await advance_clock(12 * MINUTE)

        assert list(stage.sessions) == []

    play(scene, idle_seconds=5 * MINUTE)


async def status(stage: Stage, id: str, **fields: str) -> int:
    """The status of a request in a session."""
    ping = post(request("ping", {}, "a ping"), mcp_session_id=id, **fields)
    return (await stage.client().ask(ping)).status


def test_when_there_is_no_room_the_session_goes_that_was_not_used_for_longest() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        first, second, third = [await stage.open_session() for _ in range(3)]
        assert await status(stage, first) == 200

        fourth = await stage.open_session()

        assert await status(stage, second) == 404
        for id in (first, third, fourth):
            assert await status(stage, id) == 200
        assert len(list(stage.sessions)) == 3
        (closed,) = [session for what, session in stage.handler.sessions if what == "closed"]
        assert closed.close_reason == "made room for another"

    play(scene, sessions_max=3)


def test_a_session_with_a_request_open_does_not_make_room() -> None:
    async def scene(stage: Stage) -> None:
        ids = [await stage.open_session() for _ in range(2)]
        asking = [stage.client() for _ in ids]
        for id, client in zip(ids, asking, strict=True):
            client.send(post(request("tools/list"), mcp_session_id=id))
        await settle()

        refused = await stage.client().ask(
            post(request("initialize", {"protocolVersion": "2025-06-18"}))
        )
        assert refused.status == 503
        assert refused.head.get("retry-after") is not None
        assert refused.json["id"] == 1

        stage.last.end(Answered(b"{}"))
        await settle()
        newest = await stage.open_session()
        stage.answer_at_once()
        assert await status(stage, newest) == 200
        assert [await status(stage, id) for id in ids] == [200, 404]

    play(scene, sessions_max=2)


def test_a_session_whose_client_listens_makes_room_last_and_its_stream_ends() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        listening, other = [await stage.open_session() for _ in range(2)]
        stream = stage.client()
        stream.send(get(mcp_session_id=listening))
        await settle()
        assert await status(stage, other) == 200

        newest = await stage.open_session()
        assert await status(stage, other) == 404
        assert not stream.response.whole

        asking = stage.client()
        stage.handler.on_begin = lambda exchange: None
        asking.send(post(request("tools/list"), mcp_session_id=newest))
        await settle()
        await stage.open_session()
        assert stream.response.whole
        assert await status(stage, listening) == 404

    play(scene, sessions_max=2)


def test_one_principal_has_no_more_than_its_share_and_takes_nothing_from_others() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        other = await stage.open_session(authorization="Bearer other")
        mine = [await stage.open_session(authorization="Bearer me") for _ in range(5)]

        assert await status(stage, other, authorization="Bearer other") == 200
        left = [await status(stage, id, authorization="Bearer me") for id in mine]
        assert left == [404, 404, 404, 200, 200]

    play(scene, tokens=TOKENS, sessions_max=100, client_sessions_max=2)


def test_the_largest_principal_is_evicted_first() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        mine = [await stage.open_session(authorization="Bearer me") for _ in range(4)]
        others = [await stage.open_session(authorization="Bearer other") for _ in range(3)]

        left = [await status(stage, id, authorization="Bearer me") for id in mine]
        assert left == [404, 404, 200, 200]
        left = [await status(stage, id, authorization="Bearer other") for id in others]
        assert left == [404, 200, 200]  # A principal with as many as the others evicts its own.

    play(scene, tokens=TOKENS, sessions_max=4)


def test_a_session_that_made_room_is_over_in_every_process(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        first = await stage.open_session()
        assert len(list((tmp_path / "sessions").iterdir())) == 1
        await stage.open_session()
        assert len(list((tmp_path / "sessions").iterdir())) == 1

        await advance_clock(2 * TOUCH_SECONDS)
        assert await status(stage, first) == 404

    play(scene, sessions_max=1, state=tmp_path)


def test_a_session_that_goes_on_here_makes_room_too(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        first = await stage.open_session()
        (session,) = stage.sessions
        stage.sessions.close_locally(session)
        second = await stage.open_session()

        assert await status(stage, first) == 200
        assert await status(stage, second) == 404

    play(scene, sessions_max=1, state=tmp_path)


def test_many_abandoned_sessions_are_evicted_one_after_the_other() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        ids = [await stage.open_session() for _ in range(60)]
        used = ids[-3]
        for _ in range(20):
            assert await status(stage, used) == 200
            ids.append(await stage.open_session())

        assert await status(stage, used) == 200
        assert {session.id for session in stage.sessions} == {used, *ids[-9:]}

    play(scene, sessions_max=10)


def test_a_handshake_that_is_refused_opens_no_session() -> None:
    async def scene(stage: Stage) -> None:
        response = await stage.client().ask(post(request("initialize", {"capabilities": {}})))

        assert response.json["error"]["code"] == -32602
        assert response.head.get("mcp-session-id") is None
        assert list(stage.sessions) == []

    play(scene)


@pytest.mark.parametrize(
    ("revision", "seconds"),
    [("2025-11-25", STREAM_AFTER_PRIMED_SECONDS), ("2025-06-18", STREAM_AFTER_SECONDS)],
)
def test_an_answer_that_takes_long_becomes_a_stream_sooner_where_it_can_be_resumed(
    revision: str, seconds: float
) -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session(revision)
        client = stage.client()
        client.send(post(request("tools/list"), mcp_session_id=id, mcp_protocol_version=revision))
        await advance_clock(seconds - 1)
        assert client.responses == []

        await advance_clock(2)
        stage.last.end(Answered(b'{"n":1}'))
        await settle()

        (event,) = client.response.messages
        assert event["result"] == {"n": 1}
        assert client.response.whole
        primed = revision == "2025-11-25"
        assert (client.response.events[0][1] == b"") is primed

    play(scene)


def test_what_belongs_to_no_request_goes_to_the_stream_for_that() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        stream, asker = stage.client(), stage.client()
        stream.send(get(mcp_session_id=id))
        asker.send(post(request("tools/list"), mcp_session_id=id))
        ((_, session),) = stage.handler.sessions

        session.notify("notifications/tools/list_changed", None)
        stage.last.end(Answered(b"{}"))
        await settle()

        assert stream.response.messages[0]["method"] == "notifications/tools/list_changed"
        assert asker.response.json["result"] == {}

    play(scene)


def test_without_that_stream_it_goes_along_with_an_answer() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        asker = stage.client()
        asker.send(post(request("tools/list"), mcp_session_id=id))
        ((_, session),) = stage.handler.sessions

        session.notify("notifications/tools/list_changed", None)
        stage.last.end(Answered(b"{}"))
        await settle()

        notice, answer = asker.response.messages
        assert notice["method"] == "notifications/tools/list_changed"
        assert answer["result"] == {}

    play(scene)


def test_standalone_messages_wait_for_a_stream_and_are_sent_once() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        ((_, session),) = stage.handler.sessions
        session.notify("notifications/tools/list_changed", None)
        first, second = stage.client(), stage.client()

        first.send(get(mcp_session_id=id))
        await settle()
        second.send(get(mcp_session_id=id))
        await settle()

        assert len(first.response.messages) == 1
        assert second.response.messages == []

    play(scene)


def test_a_client_that_takes_json_alone_is_not_sent_a_stream() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        client = stage.client()
        client.send(post(request("tools/list"), mcp_session_id=id, accept="application/json"))
        stage.last.deliver(stage.last, Log(b'{"level":"info"}'))
        await advance_clock(2 * STREAM_AFTER_SECONDS)
        stage.last.end(Answered(b"{}"))
        await settle()

        assert client.response.json["result"] == {}

    play(scene)


def test_ending_a_session_cancels_what_is_open_and_closes_its_streams() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        stream, asker = stage.client(), stage.client()
        stream.send(get(mcp_session_id=id))
        asker.send(post(request("tools/list"), mcp_session_id=id))
        exchange = stage.last

        assert (await stage.client().ask(delete(mcp_session_id=id))).status == 200

        assert exchange.ended
        assert asker.response.json["error"] == {"code": -32800, "message": "Request cancelled"}
        assert stream.response.whole
        assert [what for what, _ in stage.handler.sessions] == ["opened", "closed"]
        assert (await stage.client().ask(get(mcp_session_id=id))).status == 404

    play(scene)

"""HTTP+SSE: the first event is the URL to post to, and all answers come on the stream."""

import hashlib
import json
from typing import Any

import pytest

from anyport.config.model import Token
from anyport.ingress.http.connection import KEEP_ALIVE_SECONDS
from anyport.protocol.exchange import Answered
from tests.ingress.http.stage import (
    HttpClient,
    HttpResponse,
    Stage,
    advance_clock,
    get,
    initialize_request,
    play,
    post,
    settle,
)
from tests.protocol.fakes import request

TOKENS = tuple(
    Token(name=name, digest=hashlib.sha256(name.encode()).digest()) for name in ("me", "other")
)


def messages(response: HttpResponse) -> list[Any]:
    """The messages after the first event."""
    return [json.loads(held) for _, held in response.events[1:]]


async def opened(stage: Stage, path: str = "/mcp/default", **fields: str) -> tuple[HttpClient, str]:
    """Open a stream; returns it with the URL to post to."""
    client = stage.client()
    response = await client.ask(get(path, **fields))
    assert response.status == 200
    assert response.body.startswith(b"event: endpoint\ndata: ")
    return client, response.events[0][1].decode()


@pytest.mark.parametrize(
    ("path", "profile"),
    [
        ("/mcp/default", "default"),
        ("/mcp", "default"),
        ("/mcp/dev", "dev"),
        ("/mcp/dev/sse", "dev"),
    ],
)
def test_the_first_event_is_the_endpoint_to_post_to(path: str, profile: str) -> None:
    async def scene(stage: Stage) -> None:
        _, address = await opened(stage, path)

        assert address.startswith(f"/mcp/{profile}/messages?session_id=")

    play(scene)


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18"])
def test_a_legacy_version_in_the_head_changes_nothing(version: str) -> None:
    async def scene(stage: Stage) -> None:
        await opened(stage, mcp_protocol_version=version)

    play(scene)


def test_get_of_a_modern_client_is_not_allowed() -> None:
    async def scene(stage: Stage) -> None:
        response = await stage.client().ask(get(mcp_protocol_version="2026-07-28"))

        assert (response.status, response.head.get("allow")) == (405, "POST")

    play(scene)


def test_what_is_posted_is_answered_on_the_stream() -> None:
    async def scene(stage: Stage) -> None:
        stream, address = await opened(stage)
        poster = stage.client()
        assert (await poster.ask(post(initialize_request("2024-11-05"), address))).status == 202
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await poster.ask(post(note, address))).status == 202
        assert (await poster.ask(post(request("tools/list", id=7), address))).status == 202
        assert stage.last.caller.transport == "sse"
        stage.last.end(Answered(b'{"n":1}'))
        await settle()

        first, second = messages(stream.response)
        assert first["result"]["protocolVersion"] == "2024-11-05"
        assert second == {"jsonrpc": "2.0", "id": 7, "result": {"n": 1}}
        assert not stream.response.whole

    play(scene)


def test_what_is_no_message_is_answered_on_the_stream_too() -> None:
    async def scene(stage: Stage) -> None:
        stream, address = await opened(stage)

        assert (await stage.client().ask(post(b"{nonsense", address))).status == 202

        assert messages(stream.response)[0]["error"]["code"] == -32700

    play(scene)


def test_notifications_come_on_the_stream() -> None:
    async def scene(stage: Stage) -> None:
        stream, address = await opened(stage)
        poster = stage.client()
        await poster.ask(post(initialize_request(), address))
        await poster.ask(post({"jsonrpc": "2.0", "method": "initialized"}, address))
        ((_, session),) = stage.handler.sessions

        session.notify("notifications/tools/list_changed", None)
        await settle()

        assert messages(stream.response)[-1]["method"] == "notifications/tools/list_changed"

    play(scene)


def test_a_session_lives_as_long_as_its_stream() -> None:
    async def scene(stage: Stage) -> None:
        stream, address = await opened(stage)
        poster = stage.client()
        await poster.ask(post(initialize_request(), address))
        await poster.ask(post(request("tools/list"), address))
        exchange = stage.last

        stream.disconnect()
        await settle()

        assert exchange.ended
        assert [what for what, _ in stage.handler.sessions] == ["opened", "closed"]
        assert (await poster.ask(post(request("tools/list"), address))).status == 404

    play(scene)


@pytest.mark.parametrize("address", ["/mcp/default/messages", "/mcp/default/messages?session_id=x"])
def test_a_post_to_no_session_is_refused(address: str) -> None:
    async def scene(stage: Stage) -> None:
        response = await stage.client().ask(post(request("ping"), address))

        assert response.status == 404
        assert "Session not found" in response.json["error"]["message"]

    play(scene)


def test_a_session_belongs_to_one_principal_and_one_profile() -> None:
    async def scene(stage: Stage) -> None:
        _, address = await opened(stage, "/mcp/dev", authorization="Bearer me")
        poster = stage.client()

        async def status(where: str, who: str) -> int:
            raw = post(request("tools/list"), where, authorization=f"Bearer {who}")
            return (await poster.ask(raw)).status

        assert await status(address, "other") == 404
        assert await status(address.replace("/dev/", "/default/"), "me") == 404
        assert stage.handler.exchanges == []
        assert await status(address, "me") == 202

    play(scene, tokens=TOKENS)


def test_a_quiet_stream_is_kept_alive_by_comments_that_end_no_event() -> None:
    async def scene(stage: Stage) -> None:
        stream, _ = await opened(stage)
        before = stream.response.body
        await advance_clock(3 * KEEP_ALIVE_SECONDS + 3)

        assert stream.response.body == before + b": \n" * 3
        assert stream.transport.closed_by is None

    play(scene)


def test_when_there_is_no_room_the_stream_ends_that_was_not_used_for_longest() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        first, address = await opened(stage)
        second, _ = await opened(stage)
        assert (await stage.client().ask(post(request("ping"), address))).status == 202

        third, _ = await opened(stage)

        assert (first.response.whole, second.response.whole, third.response.whole) == (
            False,
            True,
            False,
        )
        assert len(list(stage.legacy_sse)) == 2

    play(scene, sessions_max=2)


def test_a_stream_on_which_an_answer_is_owed_does_not_make_room() -> None:
    async def scene(stage: Stage) -> None:
        first, address = await opened(stage)
        assert (await stage.client().ask(post(initialize_request(), address))).status == 202
        assert (await stage.client().ask(post(request("tools/list"), address))).status == 202
        refused = await stage.client().ask(get())
        assert (refused.status, refused.head.get("retry-after")) == (503, "5")
        stage.last.end(Answered(b"{}"))
        await settle()

        await opened(stage)
        assert first.response.whole

    play(scene, sessions_max=1)


def test_one_principal_has_no_more_streams_than_its_share() -> None:
    async def scene(stage: Stage) -> None:
        other, _ = await opened(stage, authorization="Bearer other")
        mine = [(await opened(stage, authorization="Bearer me"))[0] for _ in range(3)]

        assert [stream.response.whole for stream in (other, *mine)] == [False, True, True, False]

    play(scene, tokens=TOKENS, client_sessions_max=1)


def test_ending_all_closes_every_stream() -> None:
    async def scene(stage: Stage) -> None:
        streams = [(await opened(stage))[0] for _ in range(3)]

        stage.legacy_sse.end_all()
        await settle()

        assert all(stream.response.whole for stream in streams)
        assert list(stage.legacy_sse) == []

    play(scene)

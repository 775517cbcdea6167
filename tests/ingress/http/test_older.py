"""The transport of 2024-11-05: a stream that says where to post, and everything comes on it."""

import hashlib
import json
from typing import Any

import pytest

from anyport.config.schema import Token
from anyport.ingress.http.patience import KEEP_ALIVE_SECONDS
from anyport.protocol.exchange import Answered
from tests.ingress.http.stage import (
    Said,
    Stage,
    Visitor,
    get,
    hello,
    pass_by,
    play,
    post,
    settle,
)
from tests.protocol.fakes import request

TOKENS = tuple(
    Token(name=name, digest=hashlib.sha256(name.encode()).digest()) for name in ("me", "other")
)


def messages(said: Said) -> list[Any]:
    """What came after the first event, which is an address."""
    return [json.loads(held) for _, held in said.events[1:]]


async def opened(stage: Stage, path: str = "/mcp/default", **fields: str) -> tuple[Visitor, str]:
    """A stream, and where to post."""
    visitor = stage.visitor()
    said = await visitor.ask(get(path, **fields))
    assert said.status == 200
    assert said.body.startswith(b"event: endpoint\ndata: ")
    return visitor, said.events[0][1].decode()


@pytest.mark.parametrize(
    ("path", "profile"),
    [
        ("/mcp/default", "default"),
        ("/mcp", "default"),
        ("/mcp/dev", "dev"),
        ("/mcp/dev/sse", "dev"),
    ],
)
def test_the_first_event_says_where_to_post(path: str, profile: str) -> None:
    async def scene(stage: Stage) -> None:
        _, address = await opened(stage, path)

        assert address.startswith(f"/mcp/{profile}/messages?session_id=")

    play(scene)


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18"])
def test_a_legacy_version_in_the_head_changes_nothing(version: str) -> None:
    async def scene(stage: Stage) -> None:
        await opened(stage, mcp_protocol_version=version)

    play(scene)


def test_a_modern_client_is_told_that_there_is_no_such_stream() -> None:
    async def scene(stage: Stage) -> None:
        said = await stage.visitor().ask(get(mcp_protocol_version="2026-07-28"))

        assert (said.status, said.head.get("allow")) == (405, "POST")

    play(scene)


def test_what_is_posted_is_answered_on_the_stream() -> None:
    async def scene(stage: Stage) -> None:
        stream, address = await opened(stage)
        poster = stage.visitor()
        assert (await poster.ask(post(hello("2024-11-05"), address))).status == 202
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await poster.ask(post(note, address))).status == 202
        assert (await poster.ask(post(request("tools/list", id=7), address))).status == 202
        assert stage.last.caller.transport == "sse"
        stage.last.end(Answered(b'{"n":1}'))
        await settle()

        first, second = messages(stream.reply)
        assert first["result"]["protocolVersion"] == "2024-11-05"
        assert second == {"jsonrpc": "2.0", "id": 7, "result": {"n": 1}}
        assert not stream.reply.whole

    play(scene)


def test_what_is_no_message_is_answered_on_the_stream_too() -> None:
    async def scene(stage: Stage) -> None:
        stream, address = await opened(stage)

        assert (await stage.visitor().ask(post(b"{nonsense", address))).status == 202

        assert messages(stream.reply)[0]["error"]["code"] == -32700

    play(scene)


def test_notifications_come_on_the_stream() -> None:
    async def scene(stage: Stage) -> None:
        stream, address = await opened(stage)
        poster = stage.visitor()
        await poster.ask(post(hello(), address))
        await poster.ask(post({"jsonrpc": "2.0", "method": "initialized"}, address))
        ((_, session),) = stage.relay.sessions

        session.notify("notifications/tools/list_changed", None)
        await settle()

        assert messages(stream.reply)[-1]["method"] == "notifications/tools/list_changed"

    play(scene)


def test_a_session_lives_as_long_as_its_stream() -> None:
    async def scene(stage: Stage) -> None:
        stream, address = await opened(stage)
        poster = stage.visitor()
        await poster.ask(post(hello(), address))
        await poster.ask(post(request("tools/list"), address))
        exchange = stage.last

        stream.leave()
        await settle()

        assert exchange.ended
        assert [what for what, _ in stage.relay.sessions] == ["opened", "closed"]
        assert (await poster.ask(post(request("tools/list"), address))).status == 404

    play(scene)


@pytest.mark.parametrize("address", ["/mcp/default/messages", "/mcp/default/messages?session_id=x"])
def test_a_post_to_no_session_is_refused(address: str) -> None:
    async def scene(stage: Stage) -> None:
        said = await stage.visitor().ask(post(request("ping"), address))

        assert said.status == 404
        assert "Session not found" in said.json["error"]["message"]

    play(scene)


def test_a_session_belongs_to_who_opened_it_in_the_profile_where_it_was_opened() -> None:
    async def scene(stage: Stage) -> None:
        _, address = await opened(stage, "/mcp/dev", authorization="Bearer me")
        poster = stage.visitor()

        async def status(where: str, who: str) -> int:
            raw = post(request("tools/list"), where, authorization=f"Bearer {who}")
            return (await poster.ask(raw)).status

        assert await status(address, "other") == 404
        assert await status(address.replace("/dev/", "/default/"), "me") == 404
        assert stage.relay.exchanges == []
        assert await status(address, "me") == 202

    play(scene, tokens=TOKENS)


def test_a_quiet_stream_is_kept_alive_by_comments_that_end_no_event() -> None:
    async def scene(stage: Stage) -> None:
        stream, _ = await opened(stage)
        before = stream.reply.body
        await pass_by(3 * KEEP_ALIVE_SECONDS + 3)

        assert stream.reply.body == before + b": \n" * 3
        assert stream.transport.how is None

    play(scene)


def test_there_is_a_most_of_streams() -> None:
    async def scene(stage: Stage) -> None:
        first, _ = await opened(stage)
        refused = await stage.visitor().ask(get())
        assert (refused.status, refused.head.get("retry-after")) == (503, "5")
        first.leave()
        await settle()

        await opened(stage)

    play(scene, sessions_max=1)


def test_ending_all_closes_every_stream() -> None:
    async def scene(stage: Stage) -> None:
        streams = [(await opened(stage))[0] for _ in range(3)]

        stage.older.end_all()
        await settle()

        assert all(stream.reply.whole for stream in streams)
        assert list(stage.older) == []

    play(scene)

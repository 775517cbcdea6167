"""A gateway that leaves while its successor accepts connections: nobody is refused or cut off."""

import asyncio
import os
import socket

import pytest

from anyport.ingress.http import server as module
from anyport.protocol.exchange import Answered
from tests.ingress.http.stage import Stage, get, play, post, post_modern, settle
from tests.protocol.fakes import request

PING = post(request("tools/list"))


async def leaving(stage: Stage, idle: float = 60.0, seconds: float = 60.0) -> "asyncio.Task[None]":
    task = asyncio.get_running_loop().create_task(stage.ingress.leave(idle, seconds))
    await settle()
    return task


def test_who_leaves_accepts_no_more_connections_and_turns_no_request_away() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        idle, modern = stage.visitor(), stage.visitor()
        await idle.ask(PING)
        task = await leaving(stage)
        with pytest.raises(OSError):
            await asyncio.open_connection(*stage.address)

        said = [await idle.ask(PING), await modern.ask(post_modern("tools/list"))]

        for reply in said:
            assert (reply.status, reply.head.get("connection")) == (200, "close")
        assert [each.transport.how for each in (idle, modern)] == ["closed", "closed"]
        await task  # Nobody is left.

    play(scene)


def test_who_leaves_finishes_what_is_open() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        visitors = [stage.visitor() for _ in range(3)]
        for visitor, raw in zip(
            visitors,
            (PING, post_modern("tools/list"), post(request("tools/list"), mcp_session_id=id)),
            strict=True,
        ):
            visitor.send(raw)
        stage.relay.exchanges[1].teller.note(b"{}")  # It is a stream already.
        await settle()
        task = await leaving(stage, idle=0.0)
        await asyncio.sleep(3 * module.QUIET_SECONDS)
        assert not task.done()

        for exchange in stage.relay.exchanges:
            exchange.end(Answered(b"{}"))
        await task

        for visitor in visitors:
            assert visitor.reply.whole

    play(scene)


def test_streams_of_who_leaves_end_at_once_and_those_that_are_opened_later() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        listening, standing, older, late = (stage.visitor() for _ in range(4))
        listening.send(post_modern("subscriptions/listen", {"notifications": {}}))
        standing.send(get(mcp_session_id=id))
        older.send(get())
        await settle()

        task = await leaving(stage)

        assert listening.reply.json["result"]["resultType"] == "complete"
        assert standing.reply.whole
        assert older.reply.whole
        late.send(get(mcp_session_id=id))
        await asyncio.sleep(3 * module.QUIET_SECONDS)
        assert late.reply.whole
        for visitor in (listening, standing, older):
            visitor.leave()
        await task
        assert list(stage.sessions) == []

    play(scene)


def test_who_leaves_waits_for_idle_connections_only_so_long() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        await (await leaving(stage, idle=3 * module.QUIET_SECONDS))
        assert visitor.transport.how is None

    play(scene)


def test_who_leaves_can_be_hastened() -> None:
    async def scene(stage: Stage) -> None:
        stage.visitor().send(PING)
        task = await leaving(stage)
        stage.ingress.hasten(3 * module.QUIET_SECONDS)
        await task
        assert not stage.last.ended

    play(scene)


def test_who_was_about_to_stop_and_finds_a_successor_turns_nobody_away_any_more() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        visitor.send(PING)
        task = asyncio.get_running_loop().create_task(stage.ingress.drain(5.0, 5.0))
        await settle()
        other = stage.visitor()
        stage.ingress.give_way()
        waiting = stage.last
        stage.answer_at_once()

        assert (await other.ask(PING)).status == 200
        waiting.end(Answered(b"{}"))
        await task

    play(scene)


def test_sockets_that_somebody_else_opened_are_listened_on() -> None:
    async def scene(stage: Stage) -> None:
        other = Stage()
        (descriptor,) = stage.ingress.descriptors
        with socket.socket(fileno=os.dup(descriptor)) as taken:
            address = await other.ingress.take([taken.dup()])
        assert address == stage.address
        await stage.ingress.close()
        other.answer_at_once()

        reader, writer = await asyncio.open_connection(*stage.address)
        writer.write(PING)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()
        await other.ingress.close()

    play(scene)

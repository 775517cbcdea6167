"""The listening socket: room for so many, answers after the record, and an end without losses."""

import asyncio
import json
from typing import Any

import pytest

from anyport.ingress.http import server as module
from anyport.protocol.errors import timed_out
from anyport.protocol.exchange import Answered, Exchange, Failed
from anyport.protocol.timeouts import Timeout
from tests.ingress.http.stage import (
    Stage,
    get,
    play,
    post,
    post_modern,
    raw_request,
    settle,
)
from tests.protocol.fakes import request
from tests.upstream.fakes import until

PING = post(request("tools/list"))


def test_a_client_on_a_real_socket_is_served() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        reader, writer = await asyncio.open_connection(*stage.address)
        for _ in range(2):
            writer.write(PING)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK\r\n")
            length = int(head.partition(b"Content-Length: ")[2].split(b"\r\n")[0])
            assert json.loads(await reader.readexactly(length))["result"] == {"n": 1}
        assert len(stage.ingress.inlets) == 1
        writer.close()
        await until(lambda: not stage.ingress.inlets)

    play(scene)


def test_what_is_answered_leaves_after_the_record_of_it_is_safe() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        visitor = stage.visitor()
        visitor.send(PING)
        assert visitor.transport.written == b""
        assert stage.flushed == []

        await settle()

        assert stage.flushed == [0]
        assert visitor.reply.status == 200

    play(scene)


def test_the_answers_of_one_turn_leave_together() -> None:
    async def scene(stage: Stage) -> None:
        visitors = [stage.visitor() for _ in range(5)]
        for visitor in visitors:
            visitor.send(PING)
        for exchange in stage.relay.exchanges:
            exchange.end(Answered(b"{}"))
        await settle()

        assert stage.flushed == [0]
        assert all(visitor.reply.whole for visitor in visitors)

    play(scene)


def test_an_answer_that_memory_does_not_suffice_for_costs_its_own_connection_alone() -> None:
    def scarce(raw: bytes) -> None:
        raise MemoryError

    async def scene(stage: Stage) -> None:
        visitors = [stage.visitor() for _ in range(3)]
        visitors[1].transport.write = scarce  # type: ignore[method-assign]
        for visitor in visitors:
            visitor.send(PING)
        for exchange in stage.relay.exchanges:
            exchange.end(Answered(b"{}"))
        await settle()

        assert [visitor.transport.how for visitor in visitors] == [None, "aborted", None]
        assert visitors[0].reply.whole and visitors[2].reply.whole

    play(scene)


def test_who_finds_no_room_is_told_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 2)

    async def scene(stage: Stage) -> None:
        first, second, third = (stage.visitor() for _ in range(3))
        await settle()
        assert third.reply.status == 503
        assert 1 <= int(third.reply.head.get("retry-after") or 0) <= 5
        assert third.transport.how is not None
        assert first.replies == second.replies == []
        first.leave()
        await settle()

        fourth = stage.visitor()
        stage.answer_at_once()

        assert (await fourth.ask(PING)).status == 200

    play(scene)


def test_there_is_room_for_fewer_where_the_system_has_fewer_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_files_max", lambda: module.FILES_RESERVED + 1)

    async def scene(stage: Stage) -> None:
        stage.visitor()
        assert (await refused(stage)) == 503

    play(scene)


async def refused(stage: Stage) -> int:
    visitor = stage.visitor()
    await settle()
    return visitor.reply.status


def test_a_profile_that_does_not_exist_is_not_found() -> None:
    async def scene(stage: Stage) -> None:
        said = await stage.visitor().ask(post(request("tools/list"), "/mcp/nobody"))

        assert said.status == 404
        assert "'nobody'" in said.json["error"]["message"]

    play(scene)


def test_who_is_not_let_in_is_told_why_and_the_connection_stays() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        visitor = stage.visitor()
        denied = await visitor.ask(post(request("tools/list"), host="evil.example"))
        assert denied.status == 421
        assert denied.json["error"]["message"]

        assert (await visitor.ask(PING)).status == 200
        assert len(stage.relay.exchanges) == 1

    play(scene)


def test_everything_else_is_somebody_elses() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        visitor.send(raw_request("PATCH", "/api/v1/x?y=z", b"body", {"x-a": "b"}))

        ((head, body, reply),) = stage.asides
        assert (head.method, head.target, head.get("x-a")) == ("PATCH", "/api/v1/x?y=z", "b")
        assert body == b"body"
        reply.answer(418)
        await settle()
        assert visitor.reply.status == 418

    play(scene)


@pytest.mark.parametrize("raw", [PING, raw_request("GET", "/healthz", None, {})])
def test_what_breaks_costs_one_request_and_is_reported(raw: bytes) -> None:
    async def scene(stage: Stage) -> None:
        reported: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context))
        broken = RuntimeError("a bug")

        def breaks(*_: object) -> None:
            raise broken

        stage.relay.on_begin = breaks
        stage.ingress._aside = breaks
        other = stage.visitor()
        visitor = stage.visitor()
        said = await visitor.ask(raw)

        assert said.status == 500
        assert "a bug" not in said.body.decode()
        assert [context["exception"] for context in reported] == [broken]
        stage.answer_at_once()
        assert (await other.ask(PING)).status == 200

    play(scene)


def test_streams_are_counted_while_they_are_open() -> None:
    async def scene(stage: Stage) -> None:
        streams = [stage.visitor() for _ in range(3)]
        for visitor in streams:
            visitor.send(get())
        stage.visitor().send(PING)
        assert stage.ingress.streams == 3

        streams[0].leave()
        await settle()

        assert stage.ingress.streams == 2

    play(scene)


async def draining(
    stage: Stage, lame_duck: float = 0.0, seconds: float = 5.0
) -> "asyncio.Task[None]":
    task = asyncio.get_running_loop().create_task(stage.ingress.drain(lame_duck, seconds))
    await settle()
    return task


@pytest.mark.parametrize(
    "raw",
    [PING, post_modern("tools/call", {"name": "a"})],
    ids=["without a session", "modern"],
)
def test_a_gateway_that_stops_finishes_what_is_open(raw: bytes) -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        visitor.send(raw)
        task = await draining(stage)
        await asyncio.sleep(3 * module.QUIET_SECONDS)
        assert not task.done()

        stage.last.end(Answered(b"{}"))
        await task

        assert visitor.reply.status == 200
        assert visitor.reply.whole

    play(scene)


def test_a_gateway_that_stops_finishes_the_requests_of_sessions() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        visitor = stage.visitor()
        visitor.send(post(request("tools/list"), mcp_session_id=id))
        task = await draining(stage)
        await asyncio.sleep(3 * module.QUIET_SECONDS)
        assert not task.done()

        stage.last.end(Answered(b"{}"))
        await task

        assert visitor.reply.json["result"] == {}
        assert list(stage.sessions) == []

    play(scene)


def test_a_gateway_that_stops_does_not_wait_for_what_never_ends() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        listening, standing, older = (stage.visitor() for _ in range(3))
        listening.send(post_modern("subscriptions/listen", {"notifications": {}}))
        standing.send(get(mcp_session_id=id))
        older.send(get())
        await settle()

        await (await draining(stage))

        assert listening.reply.json["result"]["resultType"] == "complete"
        assert standing.reply.whole
        assert older.reply.whole

    play(scene)


def test_a_gateway_that_stops_tells_newcomers_to_go_elsewhere() -> None:
    async def scene(stage: Stage) -> None:
        stage.visitor().send(PING)
        waiting: Exchange = stage.last
        task = await draining(stage, lame_duck=5.0)

        for raw in (PING, post_modern("tools/list"), post(request("initialize", {}))):
            said = await stage.visitor().ask(raw)
            assert said.status == 503
            assert said.head.get("retry-after") is not None
        assert (await stage.visitor().ask(get())).status == 503
        waiting.end(Answered(b"{}"))
        await task

    play(scene)


def test_a_gateway_that_stops_waits_only_so_long_and_says_so() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        visitor.send(PING)

        def give_up(timeout: Timeout) -> None:
            stage.last.end(Failed(timed_out("s", timeout, "")))

        stage.ingress.give_up = give_up
        await (await draining(stage, seconds=3 * module.QUIET_SECONDS))
        await settle()

        assert visitor.reply.json["error"]["data"] == {"server": "s", "timeout": "drain"}

    play(scene)


def test_closing_sends_what_has_been_said() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once(b'{"text":"%b"}' % (b"x" * 3_000_000))
        reader, writer = await asyncio.open_connection(*stage.address)
        writer.write(PING)
        first = await reader.readexactly(10)

        closing = asyncio.get_running_loop().create_task(stage.ingress.close())
        rest = await reader.read()
        await closing

        assert (first + rest).endswith(b'x"}}')
        writer.close()

    play(scene)


def test_closing_does_not_wait_for_a_client_that_does_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LAST_WORDS_SECONDS_MAX", 0.05)

    async def scene(stage: Stage) -> None:
        stage.answer_at_once(b'{"text":"%b"}' % (b"x" * 30_000_000))
        reader, writer = await asyncio.open_connection(*stage.address)
        writer.write(PING)
        await reader.readexactly(10)
        await until(lambda: any(inlet.unsent_bytes for inlet in stage.ingress.inlets))

        await stage.ingress.close()
        await settle()

        assert stage.ingress.inlets == set()
        writer.close()

    play(scene)

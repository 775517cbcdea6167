"""The HTTP server: limit of connections, responses after recording, graceful shutdown."""

import asyncio
import json
import os
import socket
import time
from typing import Any

import pytest

from anyport.ingress.http import server as module
from anyport.ingress.http.connection import UNUSED_SECONDS_MIN
from anyport.ingress.http.server import SWEEP_SECONDS
from anyport.protocol.errors import Timeout, timed_out
from anyport.protocol.exchange import Answered, Exchange, Failed
from tests.ingress.http.stage import (
    Stage,
    advance_clock,
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
        assert len(stage.ingress.connections) == 1
        writer.close()
        await until(lambda: not stage.ingress.connections)

    play(scene)


def test_what_is_answered_leaves_after_the_record_of_it_is_safe() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        client = stage.client()
        client.send(PING)
        assert client.transport.written == b""
        assert stage.flushed == []

        await settle()

        assert stage.flushed == [0]
        assert client.response.status == 200

    play(scene)


def test_the_answers_of_one_turn_leave_together() -> None:
    async def scene(stage: Stage) -> None:
        clients = [stage.client() for _ in range(5)]
        for client in clients:
            client.send(PING)
        for exchange in stage.handler.exchanges:
            exchange.end(Answered(b"{}"))
        await settle()

        assert stage.flushed == [0]
        assert all(client.response.whole for client in clients)

    play(scene)


def test_an_answer_that_memory_does_not_suffice_for_costs_its_own_connection_alone() -> None:
    def scarce(raw: bytes) -> None:
        raise MemoryError

    async def scene(stage: Stage) -> None:
        clients = [stage.client() for _ in range(3)]
        clients[1].transport.write = scarce  # type: ignore[method-assign]
        for client in clients:
            client.send(PING)
        for exchange in stage.handler.exchanges:
            exchange.end(Answered(b"{}"))
        await settle()

        assert [client.transport.closed_by for client in clients] == [None, "aborted", None]
        assert clients[0].response.whole and clients[2].response.whole

    play(scene)


def test_a_refusal_for_overload_says_when_to_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 2)

    async def scene(stage: Stage) -> None:
        first, second, third = (stage.client() for _ in range(3))
        await settle()
        assert third.response.status == 503
        assert 1 <= int(third.response.head.get("retry-after") or 0) <= 5
        assert third.transport.closed_by is not None
        assert first.responses == second.responses == []
        first.disconnect()
        await settle()

        fourth = stage.client()
        stage.answer_at_once()

        assert (await fourth.ask(PING)).status == 200

    play(scene)


def test_who_has_not_used_a_connection_for_longest_makes_room_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 4)

    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        silent, begun, used, asking = (stage.client() for _ in range(4))
        stage.handler.on_begin = lambda exchange: None
        asking.send(PING)
        await advance_clock(2)
        stage.answer_at_once()
        begun.send(PING[:10])
        await advance_clock(2)
        assert (await used.ask(PING)).status == 200
        await advance_clock(2)

        for legacy_sse in (silent, begun, used):
            newer = stage.client()
            assert (await newer.ask(PING)).status == 200
            assert legacy_sse.transport.closed_by == "closed"
            assert asking.transport.closed_by is None
        # The others were used a moment ago, or wait for an answer.
        assert (await refused(stage)) == 503

        await advance_clock(2)
        assert (await stage.client().ask(PING)).status == 200
        stage.handler.exchanges[0].end(Answered(b"{}"))
        await settle()
        assert asking.response.status == 200
        assert len(stage.ingress.connections) == 4

    play(scene)


def test_who_used_a_connection_right_before_a_sweep_keeps_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 1)

    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        now = time.monotonic()
        with monkeypatch.context() as patch:  # Only the test moves the clock.
            patch.setattr(time, "monotonic", lambda: now)
            client = stage.client()
            await advance_clock(3.9 * SWEEP_SECONDS)
            assert (await client.ask(PING)).status == 200
            await advance_clock(0.2 * SWEEP_SECONDS)

            assert (await refused(stage)) == 503
            assert client.transport.closed_by is None

            await advance_clock(UNUSED_SECONDS_MIN)
            assert (await stage.client().ask(PING)).status == 200
            assert client.transport.closed_by == "closed"

    play(scene)


def test_who_made_room_and_does_not_read_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 1)

    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        slow = stage.client()
        await slow.ask(PING)
        slow.transport.unsent = 100
        await advance_clock(2)

        assert (await stage.client().ask(PING)).status == 200
        assert slow.transport.closed_by == "aborted"

    play(scene)


def test_there_is_room_for_fewer_where_the_system_has_fewer_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_files_max", lambda: module.FILES_RESERVED + 1)

    async def scene(stage: Stage) -> None:
        stage.client()
        assert (await refused(stage)) == 503

    play(scene)


async def refused(stage: Stage) -> int:
    client = stage.client()
    await settle()
    return client.response.status


def test_a_profile_that_does_not_exist_is_not_found() -> None:
    async def scene(stage: Stage) -> None:
        response = await stage.client().ask(post(request("tools/list"), "/mcp/nobody"))

        assert response.status == 404
        assert "'nobody'" in response.json["error"]["message"]

    play(scene)


def test_a_denied_request_gets_the_reason_and_the_connection_stays() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        client = stage.client()
        denied = await client.ask(raw_request("GET", "/mcp", None, {"host": "evil.example"}))
        assert denied.status == 421
        assert denied.json["error"]["message"]

        assert (await client.ask(PING)).status == 200
        assert len(stage.handler.exchanges) == 1

    play(scene)


def test_a_denied_request_is_refused_without_reading_its_body() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        client = stage.client()
        whole = post(request("tools/list"), host="evil.example")
        denied = await client.ask(whole.partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
        assert denied.status == 421
        assert denied.head.get("connection") == "close"
        assert client.transport.ended

        client.send(whole.partition(b"\r\n\r\n")[2] + PING)
        await settle()
        assert len(client.responses) == 1
        assert not stage.handler.exchanges

    play(scene)


def test_other_paths_go_to_the_application() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        client.send(raw_request("PATCH", "/api/v1/x?y=z", b"body", {"x-a": "b"}))

        ((head, body, response),) = stage.app_requests
        assert (head.method, head.target, head.get("x-a")) == ("PATCH", "/api/v1/x?y=z", "b")
        assert body == b"body"
        response.answer(418)
        await settle()
        assert client.response.status == 418

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

        stage.handler.on_begin = breaks
        stage.ingress._http_app = breaks
        other = stage.client()
        client = stage.client()
        response = await client.ask(raw)

        assert response.status == 500
        assert "a bug" not in response.body.decode()
        assert [context["exception"] for context in reported] == [broken]
        stage.answer_at_once()
        assert (await other.ask(PING)).status == 200

    play(scene)


def test_streams_are_counted_while_they_are_open() -> None:
    async def scene(stage: Stage) -> None:
        streams = [stage.client() for _ in range(3)]
        for client in streams:
            client.send(get())
        stage.client().send(PING)
        assert stage.ingress.streams == 3

        streams[0].disconnect()
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
        client = stage.client()
        client.send(raw)
        task = await draining(stage)
        await asyncio.sleep(3 * module.DRAIN_POLL_SECONDS)
        assert not task.done()

        stage.last.end(Answered(b"{}"))
        await task

        assert client.response.status == 200
        assert client.response.whole

    play(scene)


def test_a_gateway_that_stops_finishes_the_requests_of_sessions() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        client = stage.client()
        client.send(post(request("tools/list"), mcp_session_id=id))
        task = await draining(stage)
        await asyncio.sleep(3 * module.DRAIN_POLL_SECONDS)
        assert not task.done()

        stage.last.end(Answered(b"{}"))
        await task

        assert client.response.json["result"] == {}
        assert list(stage.sessions) == []

    play(scene)


def test_a_gateway_that_stops_does_not_wait_for_what_never_ends() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        listening, standing, legacy_sse = (stage.client() for _ in range(3))
        listening.send(post_modern("subscriptions/listen", {"notifications": {}}))
        standing.send(get(mcp_session_id=id))
        legacy_sse.send(get())
        await settle()

        await (await draining(stage))

        assert listening.response.json["result"]["resultType"] == "complete"
        assert standing.response.whole
        assert legacy_sse.response.whole

    play(scene)


def test_a_draining_gateway_refuses_new_requests() -> None:
    async def scene(stage: Stage) -> None:
        stage.client().send(PING)
        waiting: Exchange = stage.last
        task = await draining(stage, lame_duck=5.0)

        for raw in (PING, post_modern("tools/list"), post(request("initialize", {}))):
            response = await stage.client().ask(raw)
            assert response.status == 503
            assert response.head.get("retry-after") is not None
        assert (await stage.client().ask(get())).status == 503
        waiting.end(Answered(b"{}"))
        await task

    play(scene)


def test_draining_has_a_limit_and_cancels_open_calls() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        client.send(PING)

        def give_up(timeout: Timeout) -> None:
            stage.last.end(Failed(timed_out("s", timeout, "")))

        stage.ingress.cancel_open_calls = give_up
        await (await draining(stage, seconds=3 * module.DRAIN_POLL_SECONDS))
        await settle()

        assert client.response.json["error"]["data"] == {"server": "s", "timeout": "drain"}

    play(scene)


def test_closing_sends_what_was_written() -> None:
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
    monkeypatch.setattr(module, "FLUSH_SECONDS_MAX", 0.05)

    async def scene(stage: Stage) -> None:
        stage.answer_at_once(b'{"text":"%b"}' % (b"x" * 30_000_000))
        reader, writer = await asyncio.open_connection(*stage.address)
        writer.write(PING)
        await reader.readexactly(10)
        await until(
            lambda: any(connection.unsent_bytes for connection in stage.ingress.connections)
        )

        await stage.ingress.close()
        await settle()

        assert not stage.ingress.connections
        writer.close()

    play(scene)


# Handing over to another process.


async def leaving(stage: Stage, idle: float = 60.0, seconds: float = 60.0) -> "asyncio.Task[None]":
    task = asyncio.get_running_loop().create_task(
        stage.ingress.drain_without_refusing(idle, seconds)
    )
    await settle()
    return task


def test_who_leaves_accepts_no_more_connections_and_turns_no_request_away() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        idle, modern = stage.client(), stage.client()
        await idle.ask(PING)
        task = await leaving(stage)
        with pytest.raises(OSError):
            await asyncio.open_connection(*stage.address)

        responses = [await idle.ask(PING), await modern.ask(post_modern("tools/list"))]

        for response in responses:
            assert (response.status, response.head.get("connection")) == (200, "close")
        assert [each.transport.closed_by for each in (idle, modern)] == ["closed", "closed"]
        await task  # No connection is left.

    play(scene)


def test_who_leaves_finishes_what_is_open() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        clients = [stage.client() for _ in range(3)]
        for client, raw in zip(
            clients,
            (PING, post_modern("tools/list"), post(request("tools/list"), mcp_session_id=id)),
            strict=True,
        ):
            client.send(raw)
        stage.handler.exchanges[1].writer.send_frames(b"{}")  # It is a stream by now.
        await settle()
        task = await leaving(stage, idle=0.0)
        await asyncio.sleep(3 * module.DRAIN_POLL_SECONDS)
        assert not task.done()

        for exchange in stage.handler.exchanges:
            exchange.end(Answered(b"{}"))
        await task

        for client in clients:
            assert client.response.whole

    play(scene)


def test_idle_streams_end_at_once_while_handing_over() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        listening, standing, legacy_sse, late = (stage.client() for _ in range(4))
        listening.send(post_modern("subscriptions/listen", {"notifications": {}}))
        standing.send(get(mcp_session_id=id))
        legacy_sse.send(get())
        await settle()

        task = await leaving(stage)

        assert listening.response.json["result"]["resultType"] == "complete"
        assert standing.response.whole
        assert legacy_sse.response.whole
        late.send(get(mcp_session_id=id))
        await asyncio.sleep(3 * module.DRAIN_POLL_SECONDS)
        assert late.response.whole
        for client in (listening, standing, legacy_sse):
            client.disconnect()
        await task
        assert list(stage.sessions) == []

    play(scene)


def test_who_leaves_waits_for_idle_connections_only_so_long() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        await (await leaving(stage, idle=3 * module.DRAIN_POLL_SECONDS))
        assert client.transport.closed_by is None

    play(scene)


def test_who_leaves_can_be_hastened() -> None:
    async def scene(stage: Stage) -> None:
        stage.client().send(PING)
        task = await leaving(stage)
        stage.ingress.shorten_drain(3 * module.DRAIN_POLL_SECONDS)
        await task
        assert not stage.last.ended

    play(scene)


def test_a_draining_gateway_that_hands_over_refuses_no_request() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        client.send(PING)
        task = asyncio.get_running_loop().create_task(stage.ingress.drain(5.0, 5.0))
        await settle()
        other = stage.client()
        stage.ingress.hand_over_listening()
        waiting = stage.last
        stage.answer_at_once()

        assert (await other.ask(PING)).status == 200
        waiting.end(Answered(b"{}"))
        await task

    play(scene)


def test_sockets_of_another_process_are_adopted() -> None:
    async def scene(stage: Stage) -> None:
        other = Stage()
        (descriptor,) = stage.ingress.descriptors
        with socket.socket(fileno=os.dup(descriptor)) as taken:
            address = await other.ingress.adopt_sockets([taken.dup()])
        assert address == stage.address
        await stage.ingress.close()
        other.answer_at_once()

        reader, writer = await asyncio.open_connection(*stage.address)
        writer.write(PING)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()
        await other.ingress.close()

    play(scene)

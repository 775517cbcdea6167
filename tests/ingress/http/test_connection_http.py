"""HTTP/1.1 on a connection: requests in any pieces, pipelining, complete responses."""

import asyncio
import json

import pytest

from anyport.ingress.http import connection as bodies
from anyport.ingress.http.connection import (
    LINGER_BYTES_MAX,
    LINGER_SECONDS_MAX,
    PIPELINED_BYTES_MAX,
)
from anyport.protocol.exchange import Answered
from anyport.wire.http1 import HEAD_BYTES_MAX
from tests.ingress.http.stage import (
    Stage,
    advance_clock,
    play,
    post,
    post_chunked,
    raw_request,
    settle,
)
from tests.protocol.fakes import request

PING = post(request("tools/list"))


BODY = PING.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize(
    "raw", [PING, post_chunked(BODY), b"\r\n" + PING], ids=["plain", "chunked", "crlf"]
)
@pytest.mark.parametrize("known", [False, True])
def test_a_request_split_anywhere_gets_the_same_answer(raw: bytes, known: bool) -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        if known:
            await stage.client().ask(PING)
        for at in range(1, len(raw)):
            client = stage.client()
            client.send(raw[:at], raw[at:])
            await settle()

            assert client.response.json == {"jsonrpc": "2.0", "id": 1, "result": {"n": 1}}
            assert client.transport.closed_by is None
            client.disconnect()

    play(scene)


def test_a_request_byte_by_byte_gets_the_same_answer() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        client = stage.client()
        client.send(*(PING[at : at + 1] for at in range(len(PING))))
        await settle()

        assert client.response.json["result"] == {"n": 1}

    play(scene)


def test_a_body_is_never_taken_from_the_head_that_says_how_long_it_is() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        head = PING.partition(b"content-length")[0]
        for length in range(len(head), len(head) + 40):
            message = json.dumps(request("tools/list")).encode().ljust(length)
            raw = post(message)
            end = raw.index(b"\r\n\r\n")
            assert (await stage.client().ask(raw)).status == 200
            client = stage.client()

            client.send(raw[: end + 1], raw[end + 1 :])
            await settle()

            assert client.response.json["result"] == {"n": 1}

    play(scene)


def test_a_connection_is_kept_for_the_next_request() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        client = stage.client()
        for number in range(3):
            response = await client.ask(post(request("tools/list", id=number)))
            assert response.json["id"] == number

        assert client.transport.closed_by is None

    play(scene)


@pytest.mark.parametrize(
    "raw",
    [
        post(request("tools/list"), connection="close"),
        PING.replace(b"HTTP/1.1", b"HTTP/1.0"),
    ],
)
def test_a_client_that_wants_it_closed_gets_its_answer_first(raw: bytes) -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        client = stage.client()
        response = await client.ask(raw)

        assert response.json["result"] == {"n": 1}
        assert client.transport.closed_by == "closed"

    play(scene)


def test_requests_that_come_together_are_answered_one_by_one_in_their_order() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        raw = b"".join(post(request("tools/list", id=number)) for number in range(4))
        client.send(raw[:300], raw[300:])
        for number in range(4):
            await settle()
            assert len(stage.handler.exchanges) == number + 1
            stage.last.end(Answered(b"{}"))
        await settle()

        assert [response.json["id"] for response in client.responses] == [0, 1, 2, 3]

    play(scene)


def test_what_comes_between_two_answers_takes_its_place_behind_what_was_there() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        client = stage.client()
        first, second, third = (post(request("tools/list", id=number)) for number in (1, 2, 3))

        client.send(first + second, third)
        await settle()

        assert [response.json["id"] for response in client.responses] == [1, 2, 3]

    play(scene)


def test_more_than_may_wait_behind_a_request_is_not_read() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        client.send(PING)
        client.send(PING * (PIPELINED_BYTES_MAX // len(PING) + 1))
        assert not client.transport.reading

        stage.answer_at_once()
        stage.last.end(Answered(b"{}"))
        for _ in range(PIPELINED_BYTES_MAX // len(PING) + 1):
            await asyncio.sleep(0)
        await settle()

        assert client.transport.reading
        assert len(client.responses) == PIPELINED_BYTES_MAX // len(PING) + 2

    play(scene)


def test_a_head_gets_what_a_get_would_without_the_body() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        for verb in ("HEAD", "GET"):
            client.send(raw_request(verb, "/healthz", None, {}))
            stage.app_requests[-1][2].answer(200, b"fine", (("content-type", "text/plain"),))
            await settle()

        head, got = client.transport.written.split(b"HTTP/1.1")[1:]
        assert got == head + b"fine"

    play(scene)


def test_a_head_of_something_long_has_no_body_either() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        client.send(raw_request("HEAD", "/api/v1/events", None, {}))
        response = stage.app_requests[-1][2]
        response.start(200, (("content-type", "text/event-stream"),))
        response.write(b"data: 1\n\n")
        response.finish()
        await settle()

        assert client.transport.written.endswith(b"\r\n\r\n")
        assert b"data" not in client.transport.written
        stage.answer_at_once()
        client.send(PING)
        await settle()
        assert b'"result":{"n":1}' in client.transport.written

    play(scene)


def test_an_answer_in_pieces_ends_and_another_request_may_follow() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        client = stage.client()
        client.send(raw_request("GET", "/api/v1/events", None, {}))
        response = stage.app_requests[-1][2]
        response.start(200, (("content-type", "text/plain"),))
        response.write(b"one ")
        response.write(b"two")
        response.finish()
        await settle()
        await client.ask(PING)

        first, second = client.responses
        assert (first.body, first.whole) == (b"one two", True)
        assert second.json["result"] == {"n": 1}

    play(scene)


def test_expect_continue_is_answered_with_100() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        client = stage.client()
        raw = post(request("tools/list"), expect="100-continue")
        head, end, body = raw.partition(b"\r\n\r\n")
        client.send(head + end)
        assert client.transport.written == b"HTTP/1.1 100 Continue\r\n\r\n"

        client.send(body)
        await settle()

        assert client.response.json["result"] == {"n": 1}

    play(scene)


def test_a_denied_request_with_expect_continue_is_refused_at_once() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        raw = post(request("tools/list"), expect="100-continue", host="evil.example")
        client.send(raw.partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
        await settle()

        assert client.response.status == 421
        assert b"100 Continue" not in client.transport.written

    play(scene)


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX_A: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 101 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * HEAD_BYTES_MAX, 431),
        (PING.replace(b"content-length: ", b"content-length: 1\r\ncontent-length: "), 400),
        (post_chunked(BODY).replace(b"7\r\n", b"z\r\n", 1), 400),
        (PING.replace(b"content-length: ", b"content-length: 4194305"), 413),
    ],
)
def test_what_is_no_request_is_answered_once_and_nothing_more_is_read(
    raw: bytes, status: int
) -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        client = stage.client()
        client.send(raw)
        await settle()

        assert client.response.status == status
        assert client.response.head.get("connection") == "close"
        assert "error" in client.response.json
        assert client.transport.ended

        client.send(PING)
        await settle()
        assert len(client.responses) == 1
        assert stage.handler.exchanges == []
        await advance_clock(LINGER_SECONDS_MAX + 1)
        assert client.transport.closed_by is not None

    play(scene)


def test_a_chunked_body_over_the_limit_is_refused_when_it_gets_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bodies, "BODY_BYTES_MAX", 1000)

    async def scene(stage: Stage) -> None:
        client = stage.client()
        raw = post_chunked(b" " * 1100)
        client.send(raw[:-200])
        assert client.responses == []

        client.send(raw[-200:])
        await settle()

        assert client.response.status == 413

    play(scene)


def test_a_client_that_goes_on_after_a_refusal_is_cut_off() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        client.send(b"hello\r\n\r\n")
        await settle()
        portion = b"x" * 65536
        for _ in range(LINGER_BYTES_MAX // len(portion) + 1):
            client.send(portion)

        assert client.transport.closed_by == "aborted"

    play(scene)

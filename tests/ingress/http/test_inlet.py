"""One connection: requests in any pieces and in their order, answers whole, and no dawdling."""

import asyncio
import json

import pytest

from anyport.ingress.http import body as bodies
from anyport.ingress.http.inlet import LINGER_BYTES_MAX, PIPELINED_BYTES_MAX
from anyport.ingress.http.patience import LINGER_SECONDS_MAX
from anyport.protocol.exchange import Answered
from anyport.wire.http import HEAD_BYTES_MAX
from tests.ingress.http.stage import (
    Stage,
    pass_by,
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
            await stage.visitor().ask(PING)
        for at in range(1, len(raw)):
            visitor = stage.visitor()
            visitor.send(raw[:at], raw[at:])
            await settle()

            assert visitor.reply.json == {"jsonrpc": "2.0", "id": 1, "result": {"n": 1}}
            assert visitor.transport.how is None
            visitor.leave()

    play(scene)


def test_a_request_byte_by_byte_gets_the_same_answer() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        visitor = stage.visitor()
        visitor.send(*(PING[at : at + 1] for at in range(len(PING))))
        await settle()

        assert visitor.reply.json["result"] == {"n": 1}

    play(scene)


def test_a_body_is_never_taken_from_the_head_that_says_how_long_it_is() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        head = PING.partition(b"content-length")[0]
        for length in range(len(head), len(head) + 40):
            message = json.dumps(request("tools/list")).encode().ljust(length)
            raw = post(message)
            end = raw.index(b"\r\n\r\n")
            assert (await stage.visitor().ask(raw)).status == 200
            visitor = stage.visitor()

            visitor.send(raw[: end + 1], raw[end + 1 :])
            await settle()

            assert visitor.reply.json["result"] == {"n": 1}

    play(scene)


def test_a_connection_is_kept_for_the_next_request() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        visitor = stage.visitor()
        for number in range(3):
            said = await visitor.ask(post(request("tools/list", id=number)))
            assert said.json["id"] == number

        assert visitor.transport.how is None

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
        visitor = stage.visitor()
        said = await visitor.ask(raw)

        assert said.json["result"] == {"n": 1}
        assert visitor.transport.how == "closed"

    play(scene)


def test_requests_that_come_together_are_answered_one_by_one_in_their_order() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        raw = b"".join(post(request("tools/list", id=number)) for number in range(4))
        visitor.send(raw[:300], raw[300:])
        for number in range(4):
            await settle()
            assert len(stage.relay.exchanges) == number + 1
            stage.last.end(Answered(b"{}"))
        await settle()

        assert [said.json["id"] for said in visitor.replies] == [0, 1, 2, 3]

    play(scene)


def test_what_comes_between_two_answers_takes_its_place_behind_what_was_there() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        visitor = stage.visitor()
        first, second, third = (post(request("tools/list", id=number)) for number in (1, 2, 3))

        visitor.send(first + second, third)
        await settle()

        assert [said.json["id"] for said in visitor.replies] == [1, 2, 3]

    play(scene)


def test_more_than_may_wait_behind_a_request_is_not_read() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        visitor.send(PING)
        visitor.send(PING * (PIPELINED_BYTES_MAX // len(PING) + 1))
        assert not visitor.transport.reading

        stage.answer_at_once()
        stage.last.end(Answered(b"{}"))
        for _ in range(PIPELINED_BYTES_MAX // len(PING) + 1):
            await asyncio.sleep(0)
        await settle()

        assert visitor.transport.reading
        assert len(visitor.replies) == PIPELINED_BYTES_MAX // len(PING) + 2

    play(scene)


def test_a_head_gets_what_a_get_would_without_the_body() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        for verb in ("HEAD", "GET"):
            visitor.send(raw_request(verb, "/healthz", None, {}))
            stage.asides[-1][2].answer(200, b"fine", (("content-type", "text/plain"),))
            await settle()

        head, got = visitor.transport.written.split(b"HTTP/1.1")[1:]
        assert got == head + b"fine"

    play(scene)


def test_a_head_of_something_long_has_no_body_either() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        visitor.send(raw_request("HEAD", "/api/v1/events", None, {}))
        reply = stage.asides[-1][2]
        reply.start(200, (("content-type", "text/event-stream"),))
        reply.write(b"data: 1\n\n")
        reply.finish()
        await settle()

        assert visitor.transport.written.endswith(b"\r\n\r\n")
        assert b"data" not in visitor.transport.written
        stage.answer_at_once()
        visitor.send(PING)
        await settle()
        assert b'"result":{"n":1}' in visitor.transport.written

    play(scene)


def test_an_answer_in_pieces_ends_and_another_request_may_follow() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        visitor = stage.visitor()
        visitor.send(raw_request("GET", "/api/v1/events", None, {}))
        reply = stage.asides[-1][2]
        reply.start(200, (("content-type", "text/plain"),))
        reply.write(b"one ")
        reply.write(b"two")
        reply.finish()
        await settle()
        await visitor.ask(PING)

        first, second = visitor.replies
        assert (first.body, first.whole) == (b"one two", True)
        assert second.json["result"] == {"n": 1}

    play(scene)


def test_who_asks_before_sending_a_body_is_told_to_go_on() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        visitor = stage.visitor()
        raw = post(request("tools/list"), expect="100-continue")
        head, end, body = raw.partition(b"\r\n\r\n")
        visitor.send(head + end)
        assert visitor.transport.written == b"HTTP/1.1 100 Continue\r\n\r\n"

        visitor.send(body)
        await settle()

        assert visitor.reply.json["result"] == {"n": 1}

    play(scene)


def test_who_asks_before_sending_a_body_and_is_not_let_in_is_told_so_at_once() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        raw = post(request("tools/list"), expect="100-continue", host="evil.example")
        visitor.send(raw.partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
        await settle()

        assert visitor.reply.status == 421
        assert b"100 Continue" not in visitor.transport.written

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
        (raw_request("POST", "/mcp", None, {"content-length": "4194305"}), 413),
    ],
)
def test_what_is_no_request_is_answered_once_and_nothing_more_is_read(
    raw: bytes, status: int
) -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        visitor = stage.visitor()
        visitor.send(raw)
        await settle()

        assert visitor.reply.status == status
        assert visitor.reply.head.get("connection") == "close"
        assert "error" in visitor.reply.json
        assert visitor.transport.ended

        visitor.send(PING)
        await settle()
        assert len(visitor.replies) == 1
        assert stage.relay.exchanges == []
        await pass_by(LINGER_SECONDS_MAX + 1)
        assert visitor.transport.how is not None

    play(scene)


def test_a_chunked_body_over_the_limit_is_refused_when_it_gets_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bodies, "BODY_BYTES_MAX", 1000)

    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        raw = post_chunked(b" " * 1100)
        visitor.send(raw[:-200])
        assert visitor.replies == []

        visitor.send(raw[-200:])
        await settle()

        assert visitor.reply.status == 413

    play(scene)


def test_a_client_that_goes_on_after_a_refusal_is_cut_off() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        visitor.send(b"hello\r\n\r\n")
        await settle()
        portion = b"x" * 65536
        for _ in range(LINGER_BYTES_MAX // len(portion) + 1):
            visitor.send(portion)

        assert visitor.transport.how == "aborted"

    play(scene)

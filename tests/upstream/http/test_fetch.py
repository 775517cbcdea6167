"""One request and all that its reply tells: told once, whatever comes."""

import asyncio
import json

import pytest

from anyport.upstream.http.channel import ENDLESS_FACTOR
from anyport.upstream.http.connection import HttpFailure, HttpFailureKind
from anyport.upstream.http.fetch import Fetch, FetchResponse, fetch
from anyport.upstream.http.headers import REDIRECTS_MAX, RequestHeads
from anyport.upstream.http.url import HttpUrl
from anyport.wire.jsonrpc import Failure, Result
from tests.upstream.fakes import run, until
from tests.upstream.http.fake_client import PLACE, STREAM, FakeClient, head

HERE = HttpUrl.parse(PLACE)
HEAD = RequestHeads(HERE, {}).post()
RESULT = b'{"jsonrpc":"2.0","id":1,"result":{}}'
CUT = HttpFailure(HttpFailureKind.CUT_OFF, "it closed the connection")


class Scene:
    """An inquiry that was sent, and what it told."""

    def __init__(self, bytes_max: int = 1000) -> None:
        self.client = FakeClient(bytes_max)
        self.told: list[FetchResponse] = []
        self.inquiry = Fetch(self.client.client, HERE, self.told.append)
        self.inquiry.send(HEAD, b"{}")

    def hear(self, *portions: bytes) -> None:
        self.inquiry.on_stream(STREAM)
        for portion in portions:
            list(self.inquiry.on_stream_data(portion))

    @property
    def reply(self) -> FetchResponse:
        (reply,) = self.told
        return reply


def test_a_whole_reply_is_told_with_its_status_and_the_message_in_it() -> None:
    at = Scene()

    at.inquiry.on_response(head(), RESULT)

    assert (at.client.last.head, at.client.last.body) == (HEAD, b"{}")
    assert at.reply == FetchResponse(HERE, head(), Result(b"1", b"{}"), body=RESULT)
    assert at.reply.status == 200


@pytest.mark.parametrize("status", [200, 400, 404, 500])
def test_an_error_is_a_message_at_whatever_status(status: int) -> None:
    at = Scene()

    at.inquiry.on_response(head(status), b'{"jsonrpc":"2.0","id":null,"error":{"code":-1}}')

    assert isinstance(at.reply.answer, Failure)
    assert at.reply.status == status


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"<html>", b"[]", b"{"),
        b'{"jsonrpc":"2.0","method":"notifications/message"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}',
    ],
)
def test_what_is_no_answer_is_told_by_its_status_and_body(body: bytes) -> None:
    at = Scene()

    at.inquiry.on_response(head(400), body)

    assert at.reply == FetchResponse(HERE, head(400), body=body)


def test_a_request_that_failed_has_no_status() -> None:
    at = Scene()

    at.inquiry.on_failure(CUT)

    assert at.reply == FetchResponse(HERE, None, None, CUT)
    assert at.reply.status == 0


# Redirects.


def test_a_redirect_is_followed_with_the_same_request_and_the_new_place_is_told() -> None:
    at = Scene()

    at.inquiry.on_response(head(307, location="/other"), b"")
    assert at.told == []
    at.inquiry.on_response(head(), RESULT)

    assert at.client.last.target == "/other"
    assert at.client.last.body == b"{}"
    assert at.reply.url.target == "/other"


def test_a_server_that_sends_us_in_circles_is_given_up() -> None:
    at = Scene()

    for number in range(REDIRECTS_MAX + 1):
        assert at.told == []
        at.inquiry.on_response(head(308, location=f"/{number}"), b"")

    assert at.reply.status == 308
    assert len(at.client.asked) == 1 + REDIRECTS_MAX


def test_a_redirect_that_may_not_be_followed_is_the_reply() -> None:
    at = Scene()

    at.inquiry.on_response(head(307, location="http://other.example/"), b"")

    assert at.reply.status == 307
    assert len(at.client.asked) == 1


# Streams.


def test_the_answer_on_a_stream_is_told_at_once_and_once() -> None:
    at = Scene()

    at.hear(b'data: {"jsonrpc":"2.0","method":"notifications/x"}\n\n', b"data: " + RESULT)
    assert at.told == []
    list(at.inquiry.on_stream_data(b"\n\n"))
    assert at.reply == FetchResponse(HERE, STREAM, Result(b"1", b"{}"))
    list(at.inquiry.on_stream_data(b"data: " + RESULT + b"\n\n"))
    at.inquiry.on_stream_closed(CUT)

    assert len(at.told) == 1
    assert not at.client.last.cancelled, "its connection can be used again"


@pytest.mark.parametrize("trouble", [None, CUT])
def test_a_stream_that_ends_without_an_answer_is_told_with_what_went_wrong(
    trouble: HttpFailure | None,
) -> None:
    at = Scene()

    at.hear(b"data: {")
    at.inquiry.on_stream_closed(trouble)

    assert at.reply == FetchResponse(HERE, STREAM, None, trouble)


def test_an_event_over_the_limit_is_passed_over() -> None:
    at = Scene(bytes_max=50)

    at.hear(b"data: " + b"x" * 60 + b"\n\n", b"data: " + RESULT + b"\n\n")

    assert isinstance(at.reply.answer, Result)


def test_an_event_that_never_ends_is_given_up() -> None:
    at = Scene(bytes_max=50)

    at.hear(b"data: ")
    for _ in range(ENDLESS_FACTOR * 50):
        list(at.inquiry.on_stream_data(b"x"))

    assert at.reply.failure is not None
    assert at.reply.failure.kind is HttpFailureKind.TOO_LARGE
    assert at.reply.answer is None
    assert at.client.last.cancelled


# Waiting.


def test_whoever_waits_gets_the_reply() -> None:
    async def scene() -> None:
        client = FakeClient()
        loop = asyncio.get_running_loop()
        waiting = loop.create_task(fetch(client.client, HERE, HEAD, None))
        await until(lambda: bool(client.asked))
        assert client.last.body is None

        client.last.handler.on_response(head(), RESULT)

        reply = await waiting
        assert isinstance(reply.answer, Result)
        assert json.loads(reply.answer.result) == {}

    run(scene)


def test_whoever_gives_up_waiting_gives_up_the_request() -> None:
    async def scene() -> None:
        client = FakeClient()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await fetch(client.client, HERE, HEAD, b"{}")

        assert client.last.cancelled
        client.last.handler.on_failure(CUT)

    run(scene)

"""One request and all that its reply tells: told once, whatever comes."""

import asyncio
import json

import pytest

from anyport.upstream.http.channel import ENDLESS_FACTOR
from anyport.upstream.http.inquiry import Inquiry, Reply, inquire
from anyport.upstream.http.line import Trouble, TroubleKind
from anyport.upstream.http.outgoing import REDIRECTS_MAX, Outgoing
from anyport.upstream.http.place import Place
from anyport.wire.frame import Failure, Result
from tests.upstream.fakes import run, until
from tests.upstream.http.asked import PLACE, STREAM, FakeClient, head

HERE = Place.parse(PLACE)
HEAD = Outgoing(HERE, {}).post()
RESULT = b'{"jsonrpc":"2.0","id":1,"result":{}}'
CUT = Trouble(TroubleKind.CUT, "it closed the connection")


class Scene:
    """An inquiry that was sent, and what it told."""

    def __init__(self, bytes_max: int = 1000) -> None:
        self.client = FakeClient(bytes_max)
        self.told: list[Reply] = []
        self.inquiry = Inquiry(self.client.client, HERE, self.told.append)
        self.inquiry.send(HEAD, b"{}")

    def hear(self, *portions: bytes) -> None:
        self.inquiry.opened(STREAM)
        for portion in portions:
            self.inquiry.portion(portion)

    @property
    def reply(self) -> Reply:
        (reply,) = self.told
        return reply


def test_a_whole_reply_is_told_with_its_status_and_the_message_in_it() -> None:
    at = Scene()

    at.inquiry.answered(head(), RESULT)

    assert (at.client.last.head, at.client.last.body) == (HEAD, b"{}")
    assert at.reply == Reply(HERE, head(), Result(b"1", b"{}"))
    assert at.reply.status == 200


@pytest.mark.parametrize("status", [200, 400, 404, 500])
def test_an_error_is_a_message_at_whatever_status(status: int) -> None:
    at = Scene()

    at.inquiry.answered(head(status), b'{"jsonrpc":"2.0","id":null,"error":{"code":-1}}')

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
def test_what_is_no_answer_is_told_by_its_status_alone(body: bytes) -> None:
    at = Scene()

    at.inquiry.answered(head(400), body)

    assert at.reply == Reply(HERE, head(400))


def test_a_request_that_failed_has_no_status() -> None:
    at = Scene()

    at.inquiry.failed(CUT)

    assert at.reply == Reply(HERE, None, None, CUT)
    assert at.reply.status == 0


# Redirects.


def test_a_redirect_is_followed_with_the_same_request_and_the_new_place_is_told() -> None:
    at = Scene()

    at.inquiry.answered(head(307, location="/other"), b"")
    assert at.told == []
    at.inquiry.answered(head(), RESULT)

    assert at.client.last.target == "/other"
    assert at.client.last.body == b"{}"
    assert at.reply.place.target == "/other"


def test_a_server_that_sends_us_in_circles_is_given_up() -> None:
    at = Scene()

    for number in range(REDIRECTS_MAX + 1):
        assert at.told == []
        at.inquiry.answered(head(308, location=f"/{number}"), b"")

    assert at.reply.status == 308
    assert len(at.client.asked) == 1 + REDIRECTS_MAX


def test_a_redirect_that_may_not_be_followed_is_the_reply() -> None:
    at = Scene()

    at.inquiry.answered(head(307, location="http://other.example/"), b"")

    assert at.reply.status == 307
    assert len(at.client.asked) == 1


# Streams.


def test_the_answer_on_a_stream_is_told_at_once_and_once() -> None:
    at = Scene()

    at.hear(b'data: {"jsonrpc":"2.0","method":"notifications/x"}\n\n', b"data: " + RESULT)
    assert at.told == []
    at.inquiry.portion(b"\n\n")
    assert at.reply == Reply(HERE, STREAM, Result(b"1", b"{}"))
    at.inquiry.portion(b"data: " + RESULT + b"\n\n")
    at.inquiry.closed(CUT)

    assert len(at.told) == 1
    assert not at.client.last.given_up, "its connection can be used again"


@pytest.mark.parametrize("trouble", [None, CUT])
def test_a_stream_that_ends_without_an_answer_is_told_with_what_went_wrong(
    trouble: Trouble | None,
) -> None:
    at = Scene()

    at.hear(b"data: {")
    at.inquiry.closed(trouble)

    assert at.reply == Reply(HERE, STREAM, None, trouble)


def test_an_event_over_the_limit_is_passed_over() -> None:
    at = Scene(bytes_max=50)

    at.hear(b"data: " + b"x" * 60 + b"\n\n", b"data: " + RESULT + b"\n\n")

    assert isinstance(at.reply.answer, Result)


def test_an_event_that_never_ends_is_given_up() -> None:
    at = Scene(bytes_max=50)

    at.hear(b"data: ")
    for _ in range(ENDLESS_FACTOR * 50):
        at.inquiry.portion(b"x")

    assert at.reply.trouble is not None
    assert at.reply.trouble.kind is TroubleKind.TOO_LARGE
    assert at.reply.answer is None
    assert at.client.last.given_up


# Waiting.


def test_whoever_waits_gets_the_reply() -> None:
    async def scene() -> None:
        client = FakeClient()
        loop = asyncio.get_running_loop()
        waiting = loop.create_task(inquire(client.client, HERE, HEAD, None))
        await until(lambda: bool(client.asked))
        assert client.last.body is None

        client.last.taker.answered(head(), RESULT)

        reply = await waiting
        assert isinstance(reply.answer, Result)
        assert json.loads(reply.answer.result) == {}

    run(scene)


def test_whoever_gives_up_waiting_gives_up_the_request() -> None:
    async def scene() -> None:
        client = FakeClient()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await inquire(client.client, HERE, HEAD, b"{}")

        assert client.last.given_up
        client.last.taker.failed(CUT)

    run(scene)

"""One connection: nobody waits for ever for a client that does not send or does not read."""

import json

import pytest

from anyport.ingress.http.inlet import ANSWERS_UNSENT_BYTES_MAX, STREAM_UNSENT_BYTES_MAX
from anyport.ingress.http.patience import (
    AGE_SECONDS_MAX,
    BODY_SECONDS_MAX,
    HEAD_SECONDS_MAX,
    IDLE_SECONDS_MAX,
    LINGER_SECONDS_MAX,
    STALLED_SECONDS_MAX,
)
from anyport.protocol.exchange import Answered
from anyport.protocol.timeouts import Timeout
from tests.ingress.http.stage import (
    Stage,
    Visitor,
    get,
    pass_by,
    play,
    post,
    post_chunked,
    settle,
)
from tests.protocol.fakes import request

PING = post(request("tools/list"))
BODY = PING.partition(b"\r\n\r\n")[2]


def listened(stage: Stage) -> list[Timeout]:
    """What is told of clients that take too long."""
    late: list[Timeout] = []
    stage.ingress.timed_out = late.append
    return late


HEAD_WORDS = "The header of the request did not come within 10 s"
BODY_WORDS = "The body of the request did not come within 30 s"


@pytest.mark.parametrize(
    ("sent", "seconds", "timeout", "words"),
    [
        (b"", HEAD_SECONDS_MAX, Timeout.HEAD, HEAD_WORDS),
        (PING[:30], HEAD_SECONDS_MAX, Timeout.HEAD, HEAD_WORDS),
        (PING[:-5], BODY_SECONDS_MAX, Timeout.BODY, BODY_WORDS),
        (post_chunked(BODY)[:-5], BODY_SECONDS_MAX, Timeout.BODY, BODY_WORDS),
    ],
    ids=["nothing", "half a head", "half a body", "chunks without an end"],
)
def test_a_client_that_dawdles_is_let_go(
    sent: bytes, seconds: float, timeout: Timeout, words: str
) -> None:
    async def scene(stage: Stage) -> None:
        late = listened(stage)
        visitor = stage.visitor()
        visitor.send(*[sent] * bool(sent))
        await pass_by(seconds - 1)
        assert visitor.transport.how is None
        assert not visitor.replies

        await pass_by(2)

        if sent:
            assert visitor.reply.status == 408
            told = {"timeout": timeout.value}
            assert visitor.reply.json["error"] == {"code": -32600, "message": words, "data": told}
        else:
            assert visitor.replies == []
        assert late == [timeout]
        await pass_by(LINGER_SECONDS_MAX + 1)
        assert visitor.transport.how is not None
        assert visitor.inlet not in stage.ingress.inlets
        assert late == [timeout], "what is over is over once"

    play(scene)


def test_a_head_that_comes_one_byte_at_a_time_has_no_more_time_than_another() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        for at in range(int(HEAD_SECONDS_MAX) + 2):
            visitor.send(PING[at : at + 1])
            await pass_by(1)

        assert visitor.reply.status == 408

    play(scene)


def test_a_connection_may_be_idle_for_a_while_and_not_for_longer() -> None:
    async def scene(stage: Stage) -> None:
        late = listened(stage)
        stage.answer_at_once()
        visitor = stage.visitor()
        await visitor.ask(PING)
        await pass_by(IDLE_SECONDS_MAX - 2)
        assert visitor.transport.how is None
        await visitor.ask(PING)
        await pass_by(IDLE_SECONDS_MAX - 2)
        assert visitor.transport.how is None

        await pass_by(3)

        assert visitor.transport.how == "closed"
        assert len(visitor.replies) == 2
        assert late == [Timeout.IDLE]

    play(scene)


def test_a_request_that_is_being_answered_has_all_the_time_it_needs() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        visitor.send(post(request("tools/list"), accept="application/json"))
        await pass_by(2 * IDLE_SECONDS_MAX)
        assert visitor.transport.how is None

        stage.last.end(Answered(b"{}"))
        await settle()

        assert visitor.reply.status == 200

    play(scene)


def test_a_client_that_reads_its_stream_too_slowly_is_cut_at_the_limit() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        visitor.send(get())
        await settle()
        (session,) = stage.older
        visitor.transport.unsent = ANSWERS_UNSENT_BYTES_MAX
        session.note(b"{}")
        assert visitor.transport.how is None

        visitor.transport.unsent += 1
        session.note(b"{}")
        await settle()

        assert visitor.transport.how == "aborted"
        assert list(stage.older) == []

    play(scene)


def test_when_many_read_too_slowly_each_may_be_less_slow() -> None:
    async def scene(stage: Stage) -> None:
        crowd = 3
        stage.ingress.room.bytes_max = crowd * ANSWERS_UNSENT_BYTES_MAX + 1
        visitors = [stage.visitor() for _ in range(crowd + 1)]
        for visitor in visitors:
            visitor.send(get())
        await settle()
        modest, *slow = visitors
        modest.transport.unsent = STREAM_UNSENT_BYTES_MAX
        for visitor in slow:
            visitor.transport.unsent = ANSWERS_UNSENT_BYTES_MAX
            visitor.inlet.pause_writing()
        for session in stage.older:
            session.note(b"{}")
        await settle()
        assert [visitor.transport.how for visitor in visitors] == [None] * len(visitors)

        modest.inlet.pause_writing()
        await pass_by(1)
        for session in stage.older:
            session.note(b"{}")
        await settle()

        assert [visitor.transport.how for visitor in visitors] == [None, *["aborted"] * crowd]

    play(scene)


def test_a_client_that_stops_reading_has_a_while_to_go_on() -> None:
    async def scene(stage: Stage) -> None:
        late = listened(stage)
        stage.answer_at_once()
        patient, stalled = stage.visitor(), stage.visitor()
        for visitor in (patient, stalled):
            await visitor.ask(PING)
            visitor.inlet.pause_writing()
            assert not visitor.transport.reading
        await pass_by(STALLED_SECONDS_MAX - 2)
        patient.inlet.resume_writing()
        assert patient.transport.reading

        await pass_by(3)

        assert patient.transport.how is None
        assert stalled.transport.how == "aborted"
        assert late == [Timeout.IDLE]
        assert (await patient.ask(PING)).status == 200

    play(scene)


def test_the_next_request_of_a_client_that_does_not_read_is_not_taken_up() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        visitor.send(PING + PING)
        visitor.inlet.pause_writing()
        stage.last.end(Answered(b"{}"))
        await settle()
        assert len(stage.relay.exchanges) == 1

        visitor.inlet.resume_writing()
        await settle()

        assert len(stage.relay.exchanges) == 2

    play(scene)


def test_a_client_that_goes_away_is_forgotten() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        visitor.send(PING)
        visitor.leave()
        await settle()
        assert stage.ingress.inlets == set()

        stage.last.end(Answered(b"{}"))
        await settle()

        assert visitor.replies == []

    play(scene)


def test_what_requests_in_pieces_take_up_together_is_bounded_and_given_back() -> None:
    async def scene(stage: Stage) -> None:
        stage.ingress.room.bytes_max = 3000
        body = json.dumps(request("tools/list")).encode().ljust(1200)
        raw = post(body)
        first, second, third = (stage.visitor() for _ in range(3))
        for visitor in (first, second, third):
            visitor.send(raw[:-1])
        await settle()
        assert third.reply.status == 503
        assert 1 <= int(third.reply.head.get("retry-after") or 0) <= 5
        first.leave()
        await settle()

        again = stage.visitor()
        again.send(raw[:-1])
        await settle()

        assert again.replies == second.replies == []
        for visitor in (again, second):
            visitor.send(raw[-1:])
            stage.last.end(Answered(b"{}"))
            await settle()
            assert visitor.reply.status == 200
        assert stage.ingress.room.taken_bytes == 0

    play(scene)


def test_what_a_client_does_not_read_takes_up_room_until_it_does_or_goes() -> None:
    async def scene(stage: Stage) -> None:
        room = stage.ingress.room
        slow, gone = stage.visitor(), stage.visitor()
        for visitor in (slow, gone):
            visitor.send(get())
        await settle()
        for visitor in (slow, gone):
            visitor.transport.unsent = STREAM_UNSENT_BYTES_MAX
            visitor.inlet.pause_writing()
        assert room.taken_bytes == 2 * STREAM_UNSENT_BYTES_MAX

        slow.transport.unsent = 1000
        await pass_by(1)
        assert room.taken_bytes == STREAM_UNSENT_BYTES_MAX + 1000
        gone.leave()
        slow.inlet.resume_writing()
        await settle()

        assert room.taken_bytes == 0

    play(scene)


async def keep_busy(visitor: Visitor, seconds: float) -> None:
    """Ask now and then for so long."""
    for _ in range(int(seconds / 60)):
        reply = await visitor.ask(PING)
        assert reply.head.get("connection") is None
        await pass_by(60)


def test_a_connection_that_is_used_all_the_time_is_closed_with_an_answer() -> None:
    async def scene(stage: Stage) -> None:
        late = listened(stage)
        stage.answer_at_once()
        stage.ingress.chance = lambda: 0.0
        visitor = stage.visitor()
        await keep_busy(visitor, AGE_SECONDS_MAX)
        await pass_by(1)
        assert visitor.transport.how is None, "nothing is cut short"

        reply = await visitor.ask(PING)

        assert (reply.status, reply.head.get("connection")) == (200, "close")
        assert reply.whole
        assert visitor.transport.how == "closed"
        assert late == [Timeout.AGE]

    play(scene)


def test_a_stream_is_not_cut_for_its_age() -> None:
    async def scene(stage: Stage) -> None:
        late = listened(stage)
        visitor = stage.visitor()
        visitor.send(get())
        await settle()
        (session,) = stage.older

        await pass_by(AGE_SECONDS_MAX + 60)
        session.note(b'{"late":true}')
        await settle()

        assert visitor.transport.how is None
        assert b'"late"' in visitor.reply.body
        assert late == []

    play(scene)

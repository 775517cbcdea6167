"""One connection: nobody waits for ever for a client that does not send or does not read."""

import json

import pytest

from anyport.ingress.http import body as bodies
from anyport.ingress.http.inlet import (
    ANSWERS_UNSENT_BYTES_MAX,
    BODY_SECONDS_MAX,
    HEAD_SECONDS_MAX,
    IDLE_SECONDS_MAX,
    LINGER_SECONDS_MAX,
    STALLED_SECONDS_MAX,
    STREAM_UNSENT_BYTES_MAX,
    STREAMS_UNSENT_BYTES_MAX,
)
from anyport.protocol.exchange import Answered
from tests.ingress.http.stage import Stage, get, pass_by, play, post, post_chunked, settle
from tests.protocol.fakes import request

PING = post(request("tools/list"))
BODY = PING.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize(
    ("sent", "seconds"),
    [
        (b"", HEAD_SECONDS_MAX),
        (PING[:30], HEAD_SECONDS_MAX),
        (PING[:-5], BODY_SECONDS_MAX),
        (post_chunked(BODY)[:-5], BODY_SECONDS_MAX),
    ],
    ids=["nothing", "half a head", "half a body", "chunks without an end"],
)
def test_a_client_that_dawdles_is_let_go(sent: bytes, seconds: float) -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        visitor.send(*[sent] * bool(sent))
        await pass_by(seconds - 1)
        assert visitor.transport.how is None
        assert not visitor.replies

        await pass_by(2)

        if sent:
            assert visitor.reply.status == 408
        else:
            assert visitor.replies == []
        await pass_by(LINGER_SECONDS_MAX + 1)
        assert visitor.transport.how is not None
        assert visitor.inlet not in stage.ingress.inlets

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
        crowd = STREAMS_UNSENT_BYTES_MAX // ANSWERS_UNSENT_BYTES_MAX
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


def test_what_large_requests_take_up_together_is_bounded_and_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bodies, "BODIES_BYTES_MAX", 3000)

    async def scene(stage: Stage) -> None:
        body = json.dumps(request("tools/list")).encode().ljust(1200)
        raw = post(body)
        first, second, third = (stage.visitor() for _ in range(3))
        for visitor in (first, second, third):
            visitor.send(raw[:-1])
        await settle()
        assert third.reply.status == 503
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

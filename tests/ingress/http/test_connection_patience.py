"""Timeouts of connections whose clients do not send or do not read."""

import json

import pytest

from anyport.ingress.http.connection import (
    AGE_SECONDS_MAX,
    ANSWERS_UNSENT_BYTES_MAX,
    BODY_SECONDS_MAX,
    HEAD_SECONDS_MAX,
    IDLE_SECONDS_MAX,
    LINGER_SECONDS_MAX,
    STALLED_SECONDS_MAX,
    STREAM_UNSENT_BYTES_MAX,
)
from anyport.protocol.errors import Timeout
from anyport.protocol.exchange import Answered
from tests.ingress.http.stage import (
    HttpClient,
    Stage,
    advance_clock,
    get,
    play,
    post,
    post_chunked,
    settle,
)
from tests.protocol.fakes import request

PING = post(request("tools/list"))
BODY = PING.partition(b"\r\n\r\n")[2]


def listened(stage: Stage) -> list[Timeout]:
    """Collects the timeouts that are reported."""
    late: list[Timeout] = []
    stage.ingress.on_timeout = late.append
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
        client = stage.client()
        client.send(*[sent] * bool(sent))
        await advance_clock(seconds - 1)
        assert client.transport.closed_by is None
        assert not client.responses

        await advance_clock(2)

        if sent:
            assert client.response.status == 408
            received = {"timeout": timeout.value}
            assert client.response.json["error"] == {
                "code": -32600,
                "message": words,
                "data": received,
            }
        else:
            assert client.responses == []
        assert late == [timeout]
        await advance_clock(LINGER_SECONDS_MAX + 1)
        assert client.transport.closed_by is not None
        assert client.connection not in stage.ingress.connections
        assert late == [timeout], "what is over is over once"

    play(scene)


def test_a_head_that_comes_one_byte_at_a_time_has_no_more_time_than_another() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        for at in range(int(HEAD_SECONDS_MAX) + 2):
            client.send(PING[at : at + 1])
            await advance_clock(1)

        assert client.response.status == 408

    play(scene)


def test_a_connection_may_be_idle_for_a_while_and_not_for_longer() -> None:
    async def scene(stage: Stage) -> None:
        late = listened(stage)
        stage.answer_at_once()
        client = stage.client()
        await client.ask(PING)
        await advance_clock(IDLE_SECONDS_MAX - 2)
        assert client.transport.closed_by is None
        await client.ask(PING)
        await advance_clock(IDLE_SECONDS_MAX - 2)
        assert client.transport.closed_by is None

        await advance_clock(3)

        assert client.transport.closed_by == "closed"
        assert len(client.responses) == 2
        assert late == [Timeout.IDLE]

    play(scene)


def test_a_request_that_is_being_answered_has_all_the_time_it_needs() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        client.send(post(request("tools/list"), accept="application/json"))
        await advance_clock(2 * IDLE_SECONDS_MAX)
        assert client.transport.closed_by is None

        stage.last.end(Answered(b"{}"))
        await settle()

        assert client.response.status == 200

    play(scene)


def test_a_client_that_reads_its_stream_too_slowly_is_cut_at_the_limit() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        client.send(get())
        await settle()
        (session,) = stage.legacy_sse
        client.transport.unsent = ANSWERS_UNSENT_BYTES_MAX
        session.send_frames(b"{}")
        assert client.transport.closed_by is None

        client.transport.unsent += 1
        session.send_frames(b"{}")
        await settle()

        assert client.transport.closed_by == "aborted"
        assert list(stage.legacy_sse) == []

    play(scene)


def test_when_many_read_too_slowly_each_may_be_less_slow() -> None:
    async def scene(stage: Stage) -> None:
        crowd = 3
        stage.ingress.memory_budget.bytes_max = crowd * ANSWERS_UNSENT_BYTES_MAX + 1
        clients = [stage.client() for _ in range(crowd + 1)]
        for client in clients:
            client.send(get())
        await settle()
        modest, *slow = clients
        modest.transport.unsent = STREAM_UNSENT_BYTES_MAX
        for client in slow:
            client.transport.unsent = ANSWERS_UNSENT_BYTES_MAX
            client.connection.pause_writing()
        for session in stage.legacy_sse:
            session.send_frames(b"{}")
        await settle()
        assert [client.transport.closed_by for client in clients] == [None] * len(clients)

        modest.connection.pause_writing()
        await advance_clock(1)
        for session in stage.legacy_sse:
            session.send_frames(b"{}")
        await settle()

        assert [client.transport.closed_by for client in clients] == [None, *["aborted"] * crowd]

    play(scene)


def test_a_client_that_stops_reading_has_a_while_to_go_on() -> None:
    async def scene(stage: Stage) -> None:
        late = listened(stage)
        stage.answer_at_once()
        patient, stalled = stage.client(), stage.client()
        for client in (patient, stalled):
            await client.ask(PING)
            client.connection.pause_writing()
            assert not client.transport.reading
        await advance_clock(STALLED_SECONDS_MAX - 2)
        patient.connection.resume_writing()
        assert patient.transport.reading

        await advance_clock(3)

        assert patient.transport.closed_by is None
        assert stalled.transport.closed_by == "aborted"
        assert late == [Timeout.IDLE]
        assert (await patient.ask(PING)).status == 200

    play(scene)


def test_the_next_request_of_a_client_that_does_not_read_is_not_taken_up() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        client.send(PING + PING)
        client.connection.pause_writing()
        stage.last.end(Answered(b"{}"))
        await settle()
        assert len(stage.handler.exchanges) == 1

        client.connection.resume_writing()
        await settle()

        assert len(stage.handler.exchanges) == 2

    play(scene)


def test_a_client_that_goes_away_is_forgotten() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        client.send(PING)
        client.disconnect()
        await settle()
        assert not stage.ingress.connections

        stage.last.end(Answered(b"{}"))
        await settle()

        assert client.responses == []

    play(scene)


def test_what_requests_in_pieces_take_up_together_is_bounded_and_given_back() -> None:
    async def scene(stage: Stage) -> None:
        stage.ingress.memory_budget.bytes_max = 3000
        body = json.dumps(request("tools/list")).encode().ljust(1200)
        raw = post(body)
        first, second, third = (stage.client() for _ in range(3))
        for client in (first, second, third):
            client.send(raw[:-1])
        await settle()
        assert third.response.status == 503
        assert 1 <= int(third.response.head.get("retry-after") or 0) <= 5
        first.disconnect()
        await settle()

        again = stage.client()
        again.send(raw[:-1])
        await settle()

        assert again.responses == second.responses == []
        for client in (again, second):
            client.send(raw[-1:])
            stage.last.end(Answered(b"{}"))
            await settle()
            assert client.response.status == 200
        assert stage.ingress.memory_budget.used_bytes == 0

    play(scene)


def test_what_a_client_does_not_read_takes_up_room_until_it_does_or_goes() -> None:
    async def scene(stage: Stage) -> None:
        room = stage.ingress.memory_budget
        slow, gone = stage.client(), stage.client()
        for client in (slow, gone):
            client.send(get())
        await settle()
        for client in (slow, gone):
            client.transport.unsent = STREAM_UNSENT_BYTES_MAX
            client.connection.pause_writing()
        assert room.used_bytes == 2 * STREAM_UNSENT_BYTES_MAX

        slow.transport.unsent = 1000
        await advance_clock(1)
        assert room.used_bytes == STREAM_UNSENT_BYTES_MAX + 1000
        gone.disconnect()
        slow.connection.resume_writing()
        await settle()

        assert room.used_bytes == 0

    play(scene)


async def keep_busy(client: HttpClient, seconds: float) -> None:
    """Send a request now and then for some seconds."""
    for _ in range(int(seconds / 60)):
        response = await client.ask(PING)
        assert response.head.get("connection") is None
        await advance_clock(60)


def test_a_connection_that_is_used_all_the_time_is_closed_with_an_answer() -> None:
    async def scene(stage: Stage) -> None:
        late = listened(stage)
        stage.answer_at_once()
        stage.ingress.random_fraction = lambda: 0.0
        client = stage.client()
        await keep_busy(client, AGE_SECONDS_MAX)
        await advance_clock(1)
        assert client.transport.closed_by is None, "nothing is cut short"

        response = await client.ask(PING)

        assert (response.status, response.head.get("connection")) == (200, "close")
        assert response.whole
        assert client.transport.closed_by == "closed"
        assert late == [Timeout.AGE]

    play(scene)


def test_a_stream_is_not_cut_for_its_age() -> None:
    async def scene(stage: Stage) -> None:
        late = listened(stage)
        client = stage.client()
        client.send(get())
        await settle()
        (session,) = stage.legacy_sse

        await advance_clock(AGE_SECONDS_MAX + 60)
        session.send_frames(b'{"late":true}')
        await settle()

        assert client.transport.closed_by is None
        assert b'"late"' in client.response.body
        assert late == []

    play(scene)

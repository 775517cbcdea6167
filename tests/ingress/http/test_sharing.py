"""Fair scheduling: large requests of one client do not delay others."""

import asyncio
import hashlib

import pytest

from anyport.config.model import Token
from anyport.ingress.http.access import AccessControl
from anyport.ingress.http.server import DRAIN_POLL_SECONDS, REQUESTS_PER_TURN_MAX
from anyport.protocol.conversation import BATCH_MAX
from anyport.protocol.exchange import Answered, Exchange
from anyport.protocol.scheduler import (
    GROUP_REST_FACTOR,
    HEAVY_BYTES,
    LONG_SECONDS,
    REST_SECONDS_MAX,
    TURN_SECONDS_MAX,
    FairScheduler,
)
from anyport.wire.http1 import HEAD_END
from tests.ingress.http.stage import (
    Stage,
    advance_clock,
    delete,
    get,
    play,
    post,
    post_modern,
    settle,
)
from tests.protocol.fakes import request

TOKENS = tuple(
    Token(name=name, digest=hashlib.sha256(name.encode()).digest()) for name in ("me", "other")
)
MINE = {"authorization": "Bearer me"}
SMALL = request("tools/list")
HEAVY = request("tools/list", {"x": "y" * (HEAVY_BYTES + 1024)})
MEDIUM = request("tools/list", {"x": "y" * (20 * 1024)})
LARGE = request("tools/list", {"x": "y" * (70 * 1024)})
HUGE = request("tools/list", {"x": "y" * (300 * 1024)})
SMALL_BATCH = [request("tools/list", id=number) for number in range(40)]
BATCH = [request("tools/list", id=number) for number in range(BATCH_MAX)]


class Work:
    """The CPU time that requests take beyond a certain size."""

    def __init__(self, stage: Stage, seconds: float) -> None:
        self.seconds = seconds
        self.used = 0.0
        self._stage = stage
        stage.handler.on_begin = self._do
        stage.ingress.scheduler = FairScheduler(asyncio.get_running_loop(), lambda: self.used)

    def _do(self, exchange: Exchange) -> None:
        if len(exchange.params) > HEAVY_BYTES:
            self.used += self.seconds
        exchange.end(Answered(b"{}"))

    @property
    def done(self) -> int:
        return len(self._stage.handler.exchanges)


@pytest.mark.parametrize("message", [HEAVY, MEDIUM, LARGE])
@pytest.mark.parametrize("fields", [MINE, {}], ids=["a principal", "nobody knows who"])
@pytest.mark.parametrize("known", [True, False])
def test_large_requests_that_come_together_are_not_all_answered_in_one_turn(
    message: object, fields: dict[str, str], known: bool
) -> None:
    async def scene(stage: Stage) -> None:
        work = Work(stage, TURN_SECONDS_MAX / 2)
        if known:  # Its head is in the cache.
            await stage.client().ask(post(message, **fields))
        begun = work.done
        clients = [stage.client() for _ in range(10)]
        for client in clients:
            client.send(post(message, **fields))
        assert work.done == begun + 2

        for _ in range(8):
            before = work.done
            await asyncio.sleep(0)
            assert work.done <= before + 1
        await advance_clock(1)
        assert [client.response.status for client in clients] == [200] * 10

    play(scene, tokens=TOKENS if fields else ())


def test_a_client_without_a_token_rests_alone() -> None:
    async def scene(stage: Stage) -> None:
        work = Work(stage, 10 * LONG_SECONDS)
        heavy, other = stage.client(), stage.client()
        for _ in range(2):
            heavy.send(post(HUGE))
            await settle()
        assert len(heavy.responses) == 1

        raw = post(SMALL)
        other.send(raw[:-5], raw[-5:])
        await settle()
        assert len(other.responses) == 1

        other.send(post(HUGE))
        await advance_clock(GROUP_REST_FACTOR * work.seconds)
        assert len(other.responses) == 2
        assert len(heavy.responses) == 1

    play(scene)


async def make_wait(stage: Stage, *known: bytes) -> None:
    """Use up a principal's share of this turn; the heads are in the cache afterwards."""
    Work(stage, 10 * LONG_SECONDS)
    client = stage.client()
    for raw in known:
        client.send(raw)
        await advance_clock(REST_SECONDS_MAX)
    client.send(post(HUGE, **MINE))
    await settle()
    assert len(client.responses) == len(known) + 1
    stage.handler.on_begin = lambda exchange: None


@pytest.mark.parametrize("wishes", [{}, {"x": "y" * HEAVY_BYTES}], ids=["small", "large"])
@pytest.mark.parametrize("known", [True, False])
def test_a_subscription_whose_client_left_while_it_waited_is_not_begun(
    wishes: dict[str, object], known: bool
) -> None:
    async def scene(stage: Stage) -> None:
        listen = post_modern("subscriptions/listen", wishes, **MINE)
        await make_wait(stage, *([listen] if known else []))
        clients = [stage.client() for _ in range(2 * REQUESTS_PER_TURN_MAX)]
        for client in clients:
            client.send(listen)
        for client in clients:
            client.disconnect()
        await settle()
        begun = len(stage.handler.exchanges)
        await advance_clock(REST_SECONDS_MAX)

        assert len(stage.handler.exchanges) == begun
        assert not stage.endpoint.modern_requests.subscriptions

    play(scene, tokens=TOKENS)


@pytest.mark.parametrize("message", [SMALL, HEAVY], ids=["small", "large"])
@pytest.mark.parametrize("known", [True, False])
def test_a_request_of_a_session_whose_client_left_while_it_waited_goes_on(
    message: dict[str, object], known: bool
) -> None:
    """A disconnect does not cancel."""

    async def scene(stage: Stage) -> None:
        id = await stage.open_session(**MINE)
        raw = post(message, mcp_session_id=id, **MINE)
        await make_wait(stage, *([raw] if known else []))
        clients = [stage.client() for _ in range(2 * REQUESTS_PER_TURN_MAX)]
        for number, client in enumerate(clients):
            numbered = post({**message, "id": number}, mcp_session_id=id, **MINE)
            client.send(numbered)
            client.disconnect()
        assert stage.endpoint.open_requests < len(clients)
        await advance_clock(REST_SECONDS_MAX)

        assert stage.endpoint.open_requests == len(clients)

    play(scene, tokens=TOKENS)


def test_a_queued_request_of_a_client_that_left_is_authorized_again() -> None:
    """The session continues for the holder of the new token of the same name."""

    async def scene(stage: Stage) -> None:
        id = await stage.open_session(**MINE)
        await make_wait(stage)
        clients = [stage.client() for _ in range(2 * REQUESTS_PER_TURN_MAX)]
        for number, client in enumerate(clients):
            client.send(post(request("tools/list", id=number), mcp_session_id=id, **MINE))
            client.disconnect()
        begun = stage.endpoint.open_requests
        new = Token(name="me", digest=hashlib.sha256(b"new").digest())
        stage.head_parser.access = AccessControl(hosts=("localhost",), origins=(), tokens=(new,))
        stage.ingress.recheck_access(stage.head_parser.access)
        await advance_clock(REST_SECONDS_MAX)

        assert 0 < stage.endpoint.open_requests == begun < len(clients)

    play(scene, tokens=TOKENS)


def test_a_stream_of_a_session_whose_client_left_while_it_waited_is_not_opened() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session(**MINE)
        await make_wait(stage)
        clients = [stage.client() for _ in range(2 * REQUESTS_PER_TURN_MAX)]
        for path in (get(mcp_session_id=id, **MINE), get("/mcp/default/sse", **MINE)):
            for client in clients:
                client.send(path)
                client.disconnect()
            await settle()
            await advance_clock(REST_SECONDS_MAX)
        assert not any(session.has_listener for session in stage.sessions)
        assert not list(stage.legacy_sse)

    play(scene, tokens=TOKENS)


@pytest.mark.parametrize("known", [True, False])
def test_large_requests_that_wait_take_up_room_until_it_is_their_turn(known: bool) -> None:
    async def scene(stage: Stage) -> None:
        raw = post(MEDIUM, **MINE)
        await make_wait(stage, *([raw] if known else []))
        room, length = stage.ingress.memory_budget, len(raw.partition(HEAD_END)[2])
        room.bytes_max = 3 * length
        clients = [stage.client() for _ in range(4)]
        for client in clients:
            client.send(raw)
        await settle()
        assert room.used_bytes == 3 * length
        refused = clients[3].response
        assert refused.status == 503
        assert 1 <= int(refused.head.get("retry-after") or 0) <= 5
        assert room.refusals == {"bytes": 1}

        stage.answer_at_once()
        clients[0].disconnect()
        await advance_clock(REST_SECONDS_MAX)
        assert [client.response.status for client in clients[1:3]] == [200] * 2
        assert room.used_bytes == 0

    play(scene, tokens=TOKENS)


def test_small_batches_of_one_principal_have_one_share_over_however_many_connections() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        batches = [post(SMALL_BATCH, authorization=f"Bearer {token.name}") for token in TOKENS]
        for raw in batches:  # Their heads are in the cache from now on.
            client = stage.client()
            client.send(raw)
            while not client.responses:
                await asyncio.sleep(0)
        begun = len(stage.handler.exchanges)
        clients = [stage.client() for _ in range(REQUESTS_PER_TURN_MAX)]
        for client in clients:
            client.send(batches[0])
        other = stage.client()
        other.send(batches[1])
        while not other.responses:
            await asyncio.sleep(0)

        assert len(stage.handler.exchanges) - begun <= 3 * len(SMALL_BATCH)
        while not all(client.responses for client in clients):
            await asyncio.sleep(0)

    play(scene, tokens=TOKENS)


def test_a_batch_is_taken_some_messages_in_a_turn() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        batching, other = stage.client(), stage.client()
        batching.send(post(BATCH))
        await settle()
        begun = len(stage.handler.exchanges)
        assert begun < BATCH_MAX / 2

        other.send(post(SMALL))
        assert len(stage.handler.exchanges) == begun + 1
        while not batching.responses:
            await asyncio.sleep(0)
        assert [answer["id"] for answer in batching.response.json] == list(range(BATCH_MAX))

    play(scene)


def test_a_batch_whose_session_ends_is_not_begun_any_further() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session("2025-03-26")
        stage.answer_at_once()
        client, other = stage.client(), stage.client()
        client.send(post(BATCH, mcp_session_id=id))
        await settle()
        other.send(delete(mcp_session_id=id))
        begun = len(stage.handler.exchanges)
        assert begun < BATCH_MAX
        while not client.responses:
            await asyncio.sleep(0)

        assert len(stage.handler.exchanges) == begun
        answers = client.response.json
        assert [answer["id"] for answer in answers] == list(range(BATCH_MAX))
        assert {"error" in answer for answer in answers[begun:]} == {True}

    play(scene)


@pytest.mark.parametrize("message", [MEDIUM, HUGE, BATCH])
def test_a_gateway_that_stops_answers_what_waits_for_its_turn(message: object) -> None:
    async def scene(stage: Stage) -> None:
        Work(stage, 10 * LONG_SECONDS)
        client = stage.client()
        for earlier in (MEDIUM, HUGE):
            client.send(post(earlier))
            await advance_clock(1)
        client.send(post(message))
        task = asyncio.get_running_loop().create_task(stage.ingress.drain(5.0, 5.0))
        await asyncio.sleep(3 * DRAIN_POLL_SECONDS)
        assert not task.done()

        await advance_clock(2)
        await task
        *firsts, second = client.responses
        assert [response.status for response in firsts] == [200] * 2
        assert second.status in (200, 503)  # It may be refused by now, like the others.

    play(scene)

"""Modern requests over HTTP: validation, statuses, cancellation."""

import hashlib
import json
from typing import Any

import pytest

from anyport.config.model import Token
from anyport.ingress.http import modern_requests
from anyport.ingress.http.connection import KEEP_ALIVE_SECONDS
from anyport.ingress.http.modern_requests import CALLERS_CACHED_MAX
from anyport.ingress.http.sessions import STREAM_AFTER_SECONDS
from anyport.protocol.errors import invalid_params, not_running
from anyport.protocol.exchange import Answered, ErrorAnswered, Failed, Log, ServerNotification
from tests.ingress.http.stage import (
    HttpClient,
    Stage,
    advance_clock,
    play,
    post,
    post_modern,
    settle,
)
from tests.protocol.fakes import META, request

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


def test_a_modern_request_needs_no_session() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        response = await stage.client().ask(post_modern("tools/call", {"name": "a"}))

        assert response.json["result"]["resultType"] == "complete"
        assert stage.last.caller.session is None
        assert stage.last.caller.revision.name == "2026-07-28"

    play(scene)


def test_the_message_decides_its_era_whatever_session_a_stale_header_names() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        response = await stage.client().ask(post_modern("tools/list", mcp_session_id="stale"))

        assert response.status == 200

    play(scene)


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (post_modern("tools/call", {"name": "a"}, mcp_method="tools/list"), 400, -32020),
        (post_modern("tools/call", {"name": "a"}, mcp_name="b"), 400, -32020),
        (post_modern("tools/list", mcp_protocol_version="2025-11-25"), 400, -32020),
        (post_modern("tools/list", {"_meta": {VERSION: "2026-07-28"}}), 400, -32602),
        (
            post_modern(
                "tools/list",
                {"_meta": {VERSION: "2099-01-01", CAPABILITIES: {}}},
                mcp_protocol_version="2099-01-01",
            ),
            400,
            -32022,
        ),
        (post_modern("no/such"), 404, -32601),
        (post_modern("ping"), 404, -32601),
        (post(request("tools/list"), mcp_protocol_version="2026-07-28"), 400, -32602),
        (post(request("tools/list"), mcp_protocol_version="2099-01-01"), 400, -32022),
        (post(b"{nonsense", mcp_protocol_version="2026-07-28"), 400, -32700),
        (post([request("tools/list")], mcp_protocol_version="2026-07-28"), 400, -32600),
        (post(request("tools/list", [1]), mcp_protocol_version="2026-07-28"), 400, -32602),
    ],
)
def test_what_does_not_climb_the_ladder_is_refused_before_anything_begins(
    raw: bytes, status: int, code: int
) -> None:
    async def scene(stage: Stage) -> None:
        response = await stage.client().ask(raw)

        assert (response.status, response.json["error"]["code"]) == (status, code)
        assert stage.handler.exchanges == []

    play(scene)


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        (Failed(invalid_params("no")), 400),
        (ErrorAnswered(b'{"code":-32602,"message":"no"}'), 400),
        (ErrorAnswered(b'{"code":-32601,"message":"no"}'), 404),
        (ErrorAnswered(b'{"code":-7,"message":"no"}'), 200),
        (Failed(not_running("s", "why")), 200),
    ],
)
def test_an_error_has_the_status_of_its_code(ending: Any, status: int) -> None:
    async def scene(stage: Stage) -> None:
        stage.handler.on_begin = lambda exchange: exchange.end(ending)
        response = await stage.client().ask(post_modern("prompts/get", {"name": "a"}))

        assert response.status == status
        assert "error" in response.json

    play(scene)


def test_an_error_after_the_stream_has_begun_comes_on_the_stream() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        client.send(post_modern("tools/call", {"name": "a"}))
        stage.last.deliver(stage.last, Log(b'{"level":"info"}'))
        stage.last.end(ErrorAnswered(b'{"code":-32602,"message":"no"}'))
        await settle()

        assert client.response.status == 200
        assert [("method" in m, "error" in m) for m in client.response.messages] == [
            (True, False),
            (False, True),
        ]
        assert client.response.whole

    play(scene)


def test_a_client_that_closes_the_connection_has_cancelled() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        client.send(post_modern("tools/call", {"name": "a"}))
        exchange, reasons = stage.last, list[bytes | None]()
        exchange.on_cancel = reasons.append
        client.disconnect()
        await settle()

        assert exchange.ended
        assert len(reasons) == 1

    play(scene)


def test_a_client_that_closes_the_connection_after_its_answer_has_not() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        client.send(post_modern("tools/call", {"name": "a"}))
        exchange, reasons = stage.last, list[bytes | None]()
        exchange.on_cancel = reasons.append
        exchange.end(Answered(b"{}"))
        await settle()
        client.disconnect()
        await settle()

        assert reasons == []

    play(scene)


def test_an_answer_that_takes_long_becomes_a_stream_with_comments() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        client.send(post_modern("tools/call", {"name": "a"}))
        await advance_clock(STREAM_AFTER_SECONDS - 1)
        assert client.responses == []
        await advance_clock(KEEP_ALIVE_SECONDS + 3)
        assert client.response.body == b": \n" * 2

        stage.last.end(Answered(b"{}"))
        await settle()

        (answer,) = client.response.messages
        assert answer["result"]["resultType"] == "complete"
        assert client.response.whole

    play(scene)


def test_a_client_that_takes_streams_alone_gets_one() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        response = await stage.client().ask(post_modern("tools/list", accept="text/event-stream"))

        assert response.messages[0]["result"]["n"] == 1
        assert response.whole

    play(scene)


def test_a_subscription_is_a_stream_that_ends_with_its_result() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        params = {"notifications": {"toolsListChanged": True}}
        client.send(post_modern("subscriptions/listen", params, id="l"))
        exchange = stage.last
        exchange.deliver(
            exchange, ServerNotification("notifications/subscriptions/acknowledged", b"{}")
        )
        exchange.deliver(exchange, ServerNotification("notifications/tools/list_changed", b"{}"))
        await settle()
        assert exchange in stage.endpoint.modern_requests.subscriptions

        stage.endpoint.end_all()
        await settle()

        first, second, last = client.response.messages
        tag = "io.modelcontextprotocol/subscriptionId"
        assert [m["params"]["_meta"][tag] for m in (first, second)] == ["l", "l"]
        assert last["result"]["resultType"] == "complete"
        assert client.response.whole
        assert stage.endpoint.modern_requests.subscriptions == set()

    play(scene)


def test_at_the_limit_the_oldest_subscription_of_the_largest_principal_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(modern_requests, "SUBSCRIPTIONS_MAX", 4)
    monkeypatch.setattr(modern_requests, "SUBSCRIPTIONS_PER_PRINCIPAL_MAX", 3)

    async def scene(stage: Stage) -> None:
        async def listen(name: str) -> HttpClient:
            client = stage.client()
            listen = post_modern("subscriptions/listen", {"notifications": {}})
            fields = b"authorization: Bearer " + name.encode() + b"\r\ncontent-length"
            client.send(listen.replace(b"content-length", fields))
            exchange = stage.last
            exchange.deliver(
                exchange, ServerNotification("notifications/subscriptions/acknowledged", b"{}")
            )
            await settle()
            return client

        mine = [await listen("me") for _ in range(4)]
        assert [client.response.whole for client in mine] == [True, False, False, False]
        others = [await listen("other") for _ in range(2)]
        assert [client.response.whole for client in mine] == [True, True, False, False]
        assert [client.response.whole for client in others] == [False, False]
        assert mine[1].response.messages[-1]["result"]["resultType"] == "complete"
        mine[2].disconnect()
        await settle()
        await listen("other")
        assert [client.response.whole for client in others] == [False, False]

    tokens = [
        Token(name=name, digest=hashlib.sha256(name.encode()).digest()) for name in ("me", "other")
    ]
    play(scene, tokens=tuple(tokens))


def test_a_subscription_whose_client_has_gone_is_forgotten() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        client.send(post_modern("subscriptions/listen", {"notifications": {}}))
        exchange = stage.last
        client.disconnect()
        await settle()

        assert exchange.ended
        assert stage.endpoint.modern_requests.subscriptions == set()

    play(scene)


def test_header_fields_for_parameters_go_along() -> None:
    async def scene(stage: Stage) -> None:
        raw = post_modern("tools/call", {"name": "a"}, mcp_param_region="eu")
        stage.client().send(raw)

        assert stage.last.param_fields == (("mcp-param-region", "eu"),)

    play(scene)


def test_the_same_meta_makes_the_same_caller() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        stage.answer_at_once()
        named = {**META, "io.modelcontextprotocol/clientInfo": {"name": "other"}}
        progress = {**META, "progressToken": 1}
        for about in (META, META, named, progress, progress):
            await client.ask(post_modern("tools/call", {"name": "a", "_meta": about}))

        first, second, other, third, fourth = (e.caller for e in stage.handler.exchanges)
        assert first is second
        assert len({id(caller) for caller in (first, other, third, fourth)}) == 4

    play(scene)


def test_the_memory_of_callers_is_bounded() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        stage.answer_at_once()
        for number in range(CALLERS_CACHED_MAX + 10):
            about = {**META, "n": number}
            client.send(post_modern("tools/list", {"_meta": about}))

        assert len(stage.endpoint.modern_requests._callers) <= CALLERS_CACHED_MAX

    play(scene)


def test_a_new_trace_in_every_request_does_not_fill_the_cache_of_callers() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        client = stage.client()
        await client.ask(post_modern("tools/list"))
        known = dict(stage.endpoint.modern_requests._callers)
        for number in range(CALLERS_CACHED_MAX + 1):
            about = {"_meta": {**META, "traceparent": f"00-{'a' * 32}-{number:016x}-01"}}
            await client.ask(post_modern("tools/list", about))

        assert known
        assert stage.endpoint.modern_requests._callers == known

    play(scene)


def test_known_callers_are_held_to_their_headers_too() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        client = stage.client()
        good = post_modern("tools/call", {"name": "a"})
        assert (await client.ask(good)).status == 200

        bad = await client.ask(post_modern("tools/call", {"name": "a"}, mcp_name="b"))

        assert bad.json["error"]["code"] == -32020
        assert json.loads(bad.body)["id"] == 1

    play(scene)


def test_a_subscription_needs_a_client_that_accepts_a_stream() -> None:
    async def scene(stage: Stage) -> None:
        listen = post_modern("subscriptions/listen", {"notifications": {}})
        response = await stage.client().ask(listen.replace(b", text/event-stream", b""))

        assert response.status == 406

    play(scene)

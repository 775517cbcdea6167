"""Requests without a handshake over HTTP: the ladder, the statuses, and the stream's end."""

import json
from typing import Any

import pytest

from anyport.ingress.http.modern import CALLERS_REMEMBERED_MAX
from anyport.ingress.http.patience import KEEP_ALIVE_SECONDS
from anyport.ingress.http.sessions import COMMIT_SECONDS
from anyport.protocol.errors import invalid_params, not_running
from anyport.protocol.exchange import Answered, Failed, Log, Notice, Refused
from tests.ingress.http.stage import Stage, pass_by, play, post, post_modern, settle
from tests.protocol.fakes import META, request

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


def test_a_modern_request_stands_alone() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        said = await stage.visitor().ask(post_modern("tools/call", {"name": "a"}))

        assert said.json["result"]["resultType"] == "complete"
        assert stage.last.caller.session is None
        assert stage.last.caller.revision.name == "2026-07-28"

    play(scene)


def test_the_message_decides_its_era_whatever_session_a_stale_header_names() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        said = await stage.visitor().ask(post_modern("tools/list", mcp_session_id="stale"))

        assert said.status == 200

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
        said = await stage.visitor().ask(raw)

        assert (said.status, said.json["error"]["code"]) == (status, code)
        assert stage.relay.exchanges == []

    play(scene)


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        (Failed(invalid_params("no")), 400),
        (Refused(b'{"code":-32602,"message":"no"}'), 400),
        (Refused(b'{"code":-32601,"message":"no"}'), 404),
        (Refused(b'{"code":-7,"message":"no"}'), 200),
        (Failed(not_running("s", "why")), 200),
    ],
)
def test_an_error_has_the_status_of_its_code(ending: Any, status: int) -> None:
    async def scene(stage: Stage) -> None:
        stage.relay.on_begin = lambda exchange: exchange.end(ending)
        said = await stage.visitor().ask(post_modern("prompts/get", {"name": "a"}))

        assert said.status == status
        assert "error" in said.json

    play(scene)


def test_an_error_after_the_stream_has_begun_comes_on_the_stream() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        visitor.send(post_modern("tools/call", {"name": "a"}))
        stage.last.tell(stage.last, Log(b'{"level":"info"}'))
        stage.last.end(Refused(b'{"code":-32602,"message":"no"}'))
        await settle()

        assert visitor.reply.status == 200
        assert [("method" in m, "error" in m) for m in visitor.reply.messages] == [
            (True, False),
            (False, True),
        ]
        assert visitor.reply.whole

    play(scene)


def test_a_client_that_closes_the_connection_has_cancelled() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        visitor.send(post_modern("tools/call", {"name": "a"}))
        exchange, reasons = stage.last, list[bytes | None]()
        exchange.on_cancel = reasons.append
        visitor.leave()
        await settle()

        assert exchange.ended
        assert len(reasons) == 1

    play(scene)


def test_a_client_that_closes_the_connection_after_its_answer_has_not() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        visitor.send(post_modern("tools/call", {"name": "a"}))
        exchange, reasons = stage.last, list[bytes | None]()
        exchange.on_cancel = reasons.append
        exchange.end(Answered(b"{}"))
        await settle()
        visitor.leave()
        await settle()

        assert reasons == []

    play(scene)


def test_an_answer_that_takes_long_becomes_a_stream_with_comments() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        visitor.send(post_modern("tools/call", {"name": "a"}))
        await pass_by(COMMIT_SECONDS - 1)
        assert visitor.replies == []
        await pass_by(KEEP_ALIVE_SECONDS + 3)
        assert visitor.reply.body == b": \n" * 2

        stage.last.end(Answered(b"{}"))
        await settle()

        (answer,) = visitor.reply.messages
        assert answer["result"]["resultType"] == "complete"
        assert visitor.reply.whole

    play(scene)


def test_a_client_that_takes_streams_alone_gets_one() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        said = await stage.visitor().ask(post_modern("tools/list", accept="text/event-stream"))

        assert said.messages[0]["result"]["n"] == 1
        assert said.whole

    play(scene)


def test_a_subscription_is_a_stream_that_ends_with_its_result() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        params = {"notifications": {"toolsListChanged": True}}
        visitor.send(post_modern("subscriptions/listen", params, id="l"))
        exchange = stage.last
        exchange.tell(exchange, Notice("notifications/subscriptions/acknowledged", b"{}"))
        exchange.tell(exchange, Notice("notifications/tools/list_changed", b"{}"))
        await settle()
        assert exchange in stage.endpoint.modern.listening

        stage.endpoint.end_all()
        await settle()

        first, second, last = visitor.reply.messages
        tag = "io.modelcontextprotocol/subscriptionId"
        assert [m["params"]["_meta"][tag] for m in (first, second)] == ["l", "l"]
        assert last["result"]["resultType"] == "complete"
        assert visitor.reply.whole
        assert stage.endpoint.modern.listening == set()

    play(scene)


def test_a_subscription_whose_client_has_gone_is_forgotten() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        visitor.send(post_modern("subscriptions/listen", {"notifications": {}}))
        exchange = stage.last
        visitor.leave()
        await settle()

        assert exchange.ended
        assert stage.endpoint.modern.listening == set()

    play(scene)


def test_header_fields_for_parameters_go_along() -> None:
    async def scene(stage: Stage) -> None:
        raw = post_modern("tools/call", {"name": "a"}, mcp_param_region="eu")
        stage.visitor().send(raw)

        assert stage.last.param_fields == (("mcp-param-region", "eu"),)

    play(scene)


def test_who_says_the_same_of_itself_is_the_same_caller() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        stage.answer_at_once()
        named = {**META, "io.modelcontextprotocol/clientInfo": {"name": "other"}}
        progress = {**META, "progressToken": 1}
        for about in (META, META, named, progress, progress):
            await visitor.ask(post_modern("tools/call", {"name": "a", "_meta": about}))

        first, second, other, third, fourth = (e.caller for e in stage.relay.exchanges)
        assert first is second
        assert len({id(caller) for caller in (first, other, third, fourth)}) == 4

    play(scene)


def test_the_memory_of_callers_is_bounded() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        stage.answer_at_once()
        for number in range(CALLERS_REMEMBERED_MAX + 10):
            about = {**META, "n": number}
            visitor.send(post_modern("tools/list", {"_meta": about}))

        assert len(stage.endpoint.modern._callers) <= CALLERS_REMEMBERED_MAX

    play(scene)


def test_a_caller_whose_trace_is_new_in_every_request_pushes_nobody_out_of_memory() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        visitor = stage.visitor()
        await visitor.ask(post_modern("tools/list"))
        known = dict(stage.endpoint.modern._callers)
        for number in range(CALLERS_REMEMBERED_MAX + 1):
            about = {"_meta": {**META, "traceparent": f"00-{'a' * 32}-{number:016x}-01"}}
            await visitor.ask(post_modern("tools/list", about))

        assert known
        assert stage.endpoint.modern._callers == known

    play(scene)


def test_known_callers_are_held_to_their_headers_too() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        visitor = stage.visitor()
        good = post_modern("tools/call", {"name": "a"})
        assert (await visitor.ask(good)).status == 200

        bad = await visitor.ask(post_modern("tools/call", {"name": "a"}, mcp_name="b"))

        assert bad.json["error"]["code"] == -32020
        assert json.loads(bad.body)["id"] == 1

    play(scene)


def test_a_subscription_of_who_takes_no_stream_is_refused() -> None:
    async def scene(stage: Stage) -> None:
        listen = post_modern("subscriptions/listen", {"notifications": {}})
        said = await stage.visitor().ask(listen.replace(b", text/event-stream", b""))

        assert said.status == 406

    play(scene)

"""One URL for every revision: the message decides its era, and each era has its manners."""

import hashlib
from typing import Any

import pytest

from anyport.config.schema import Token
from anyport.protocol.exchange import Answered, Log, Progress
from anyport.protocol.principal import LOCAL, Principal
from anyport.protocol.revision import REVISIONS, UNNEGOTIATED, Revision
from tests.ingress.http.stage import (
    Stage,
    delete,
    get,
    hello,
    play,
    post,
    settle,
)
from tests.protocol.fakes import request

TOKENS = tuple(
    Token(name=name, digest=hashlib.sha256(name.encode()).digest()) for name in ("me", "other")
)
VERSION = "io.modelcontextprotocol/protocolVersion"


# Without a session.


@pytest.mark.parametrize(
    ("fields", "revision"),
    [
        ({}, UNNEGOTIATED),
        ({"mcp_protocol_version": "2025-03-26"}, REVISIONS["2025-03-26"]),
        ({"mcp_protocol_version": "2024-11-05"}, REVISIONS["2024-11-05"]),
    ],
)
def test_a_legacy_request_without_a_session_is_answered_by_itself(
    fields: dict[str, str], revision: Revision
) -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        said = await stage.visitor().ask(post(request("tools/list"), **fields))

        assert said.json == {"jsonrpc": "2.0", "id": 1, "result": {"n": 1}}
        caller = stage.last.caller
        assert (caller.session, caller.principal) == (None, LOCAL)
        assert caller.transport == "streamable-http"
        assert caller.revision is revision

    play(scene)


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_a_revision_that_has_sessions_and_names_itself_needs_one(version: str) -> None:
    async def scene(stage: Stage) -> None:
        said = await stage.visitor().ask(post(request("tools/list"), mcp_protocol_version=version))

        assert said.status == 400
        assert said.json["id"] == 1
        assert "Mcp-Session-Id" in said.json["error"]["message"]

    play(scene)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{nonsense", 400, -32700),
        (b'{"jsonrpc":"2.0"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"no/such"}', 200, -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}', 200, -32602),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', 400, -32600),
    ],
)
def test_what_cannot_be_answered_is_refused_with_its_code(
    body: bytes, status: int, code: int
) -> None:
    async def scene(stage: Stage) -> None:
        said = await stage.visitor().ask(post(body))

        assert (said.status, said.json["error"]["code"]) == (status, code)

    play(scene)


def test_a_notification_without_a_session_is_taken_and_concerns_nobody() -> None:
    async def scene(stage: Stage) -> None:
        asker = stage.visitor()
        asker.send(post(request("tools/list")))
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}

        said = await stage.visitor().ask(post(note))

        assert (said.status, said.body) == (202, b"")
        assert not stage.last.ended

    play(scene)


def test_a_batch_without_a_session_is_answered_in_one_piece() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        batch = [request("tools/list", id=1), request("ping", id=2)]
        said = await stage.visitor().ask(post(batch))

        assert [answer["id"] for answer in said.json] == [1, 2]

    play(scene)


def test_a_batch_of_notifications_has_no_answer() -> None:
    async def scene(stage: Stage) -> None:
        said = await stage.visitor().ask(post([{"jsonrpc": "2.0", "method": "x"}]))

        assert (said.status, said.body) == (202, b"")

    play(scene)


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28", "2099-01-01"])
def test_revisions_without_batches_refuse_them(version: str) -> None:
    async def scene(stage: Stage) -> None:
        batch = [request("tools/list")]
        said = await stage.visitor().ask(post(batch, mcp_protocol_version=version))

        assert (said.status, said.json["error"]["code"]) == (400, -32600)

    play(scene)


# Sessions.


def test_a_session_is_opened_by_a_handshake_and_named_from_then_on() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        said = await visitor.ask(post(hello("2025-06-18")))
        id = said.head.get("mcp-session-id")
        assert id is not None
        assert said.json["result"]["protocolVersion"] == "2025-06-18"

        stage.answer_at_once()
        asked = post(request("tools/list"), mcp_session_id=id, mcp_protocol_version="2025-06-18")
        assert (await visitor.ask(asked)).json["result"] == {"n": 1}

        session = stage.last.caller.session
        assert session is not None
        assert session.revision.name == "2025-06-18"

    play(scene)


def test_a_client_that_takes_streams_alone_gets_its_handshake_as_one() -> None:
    async def scene(stage: Stage) -> None:
        said = await stage.visitor().ask(post(hello(), accept="text/event-stream"))

        assert said.head.get("mcp-session-id") is not None
        assert said.messages[0]["id"] == "hello"
        assert said.whole

    play(scene)


@pytest.mark.parametrize("raw", [post, get, delete], ids=["POST", "GET", "DELETE"])
def test_a_session_that_is_not_there_is_not_found(raw: Any) -> None:
    async def scene(stage: Stage) -> None:
        message = (request("tools/list"),) if raw is post else ()
        said = await stage.visitor().ask(raw(*message, mcp_session_id="no-such"))

        assert said.status == 404
        assert said.json["error"]["code"] == -32001

    play(scene)


@pytest.mark.parametrize(
    ("path", "who"), [("/mcp/default", "other"), ("/mcp/dev", "me")], ids=["principal", "profile"]
)
def test_a_session_of_somebody_else_or_somewhere_else_is_not_found(path: str, who: str) -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session(authorization="Bearer me")
        fields = {"mcp_session_id": id, "authorization": f"Bearer {who}"}
        for raw in (
            post(request("tools/list"), path, **fields),
            post({"jsonrpc": "2.0", "method": "notifications/cancelled"}, path, **fields),
            post([request("tools/list")], path, **fields),
            get(path, **fields),
            delete(path, **fields),
        ):
            assert (await stage.visitor().ask(raw)).status == 404
        assert stage.relay.exchanges == []

        fields["authorization"] = "Bearer me"
        stage.answer_at_once()
        mine = await stage.visitor().ask(post(request("tools/list"), **fields))
        assert mine.status == 200
        assert stage.last.caller.principal == Principal("token", "me")

    play(scene, tokens=TOKENS)


def test_a_version_that_nobody_knows_is_refused_in_a_session() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        said = await stage.visitor().ask(
            post(request("tools/list"), mcp_session_id=id, mcp_protocol_version="1999-01-01")
        )

        assert said.status == 400
        assert "1999-01-01" in said.json["error"]["message"]

    play(scene)


def test_what_happens_before_the_answer_makes_it_a_stream() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        visitor = stage.visitor()
        params = {"name": "a", "_meta": {"progressToken": "t"}}
        visitor.send(post(request("tools/call", params), mcp_session_id=id))
        exchange = stage.last
        exchange.tell(exchange, Progress(b'{"progressToken":1,"progress":1}'))
        await settle()
        assert not visitor.reply.whole
        exchange.tell(exchange, Log(b'{"level":"info"}'))
        exchange.end(Answered(b"{}"))
        await settle()

        progress, log, answer = visitor.reply.messages
        assert progress["params"] == {"progressToken": "t", "progress": 1}
        assert log["method"] == "notifications/message"
        assert answer["result"] == {}
        assert visitor.reply.whole

    play(scene)


def test_a_disconnect_is_no_cancellation_and_the_answer_can_be_fetched() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session("2025-11-25")
        fields = {"mcp_session_id": id, "mcp_protocol_version": "2025-11-25"}
        visitor = stage.visitor()
        visitor.send(post(request("tools/list"), **fields))
        exchange = stage.last
        exchange.tell(exchange, Log(b'{"level":"info"}'))
        await settle()
        seen = [event for event, _ in visitor.reply.events]
        visitor.leave()
        await settle()
        assert not exchange.ended
        exchange.end(Answered(b'{"n":1}'))

        again = await stage.visitor().ask(get(**fields, last_event_id=str(seen[-1])))

        assert [message["result"] for message in again.messages] == [{"n": 1}]
        assert again.whole

    play(scene)


def test_resuming_one_stream_brings_nothing_of_another() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session("2025-11-25")
        fields = {"mcp_session_id": id, "mcp_protocol_version": "2025-11-25"}
        first, second = stage.visitor(), stage.visitor()
        for number, visitor in enumerate((first, second)):
            visitor.send(post(request("tools/list", id=number), **fields))
            stage.last.tell(stage.last, Log(b'{"of":%d}' % number))
        await settle()
        primed = first.reply.events[0][0]
        first.leave()
        second.leave()
        await settle()

        again = await stage.visitor().ask(get(**fields, last_event_id=str(primed)))

        assert [message["params"] for message in again.messages] == [{"of": 0}]
        assert not again.whole

    play(scene)


def test_a_cancelled_request_ends_its_response() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        asker = stage.visitor()
        asker.send(post(request("tools/list", id=5), mcp_session_id=id))
        params = {"requestId": 5, "reason": "enough"}
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}

        assert (await stage.visitor().ask(post(note, mcp_session_id=id))).status == 202

        assert stage.last.ended
        assert asker.reply.json["error"]["code"] == -32800

    play(scene)


def test_a_batch_of_a_session_that_has_them_is_answered_together() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session("2025-03-26")
        visitor = stage.visitor()
        visitor.send(post([request("tools/list", id=n) for n in (1, 2)], mcp_session_id=id))
        first, second = stage.relay.exchanges
        second.end(Answered(b"{}"))
        await settle()
        assert visitor.replies == []
        first.end(Answered(b"{}"))
        await settle()

        assert [answer["id"] for answer in visitor.reply.json] == [2, 1]

    play(scene)


def test_a_batch_of_which_all_was_cancelled_still_ends_its_response() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session("2025-03-26")
        visitor = stage.visitor()
        visitor.send(post([request("tools/list", id=n) for n in (1, 2)], mcp_session_id=id))
        for number in (1, 2):
            params = {"requestId": number}
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
            await stage.visitor().ask(post(note, mcp_session_id=id))

        assert [answer["error"]["code"] for answer in visitor.reply.json] == [-32800, -32800]

    play(scene)


def test_a_delete_without_a_session_is_no_method_here() -> None:
    async def scene(stage: Stage) -> None:
        for fields in ({}, {"mcp_protocol_version": "2026-07-28"}):
            said = await stage.visitor().ask(delete(**fields))

            assert (said.status, said.head.get("allow")) == (405, "POST")

    play(scene)

"""One URL for every revision: the message decides its era."""

import hashlib
from typing import Any

import pytest

from anyport.config.model import Token
from anyport.protocol.exchange import Answered, Log, Progress
from anyport.protocol.principal import LOCAL, Principal
from anyport.protocol.revisions import REVISIONS, UNNEGOTIATED, Revision
from tests.ingress.http.stage import Stage, delete, get, initialize_request, play, post, settle
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
        response = await stage.client().ask(post(request("tools/list"), **fields))

        assert response.json == {"jsonrpc": "2.0", "id": 1, "result": {"n": 1}}
        caller = stage.last.caller
        assert (caller.session, caller.principal) == (None, LOCAL)
        assert caller.transport == "streamable-http"
        assert caller.revision is revision

    play(scene)


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_a_revision_that_has_sessions_and_names_itself_needs_one(version: str) -> None:
    async def scene(stage: Stage) -> None:
        response = await stage.client().ask(
            post(request("tools/list"), mcp_protocol_version=version)
        )

        assert response.status == 400
        assert response.json["id"] == 1
        assert "Mcp-Session-Id" in response.json["error"]["message"]

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
        response = await stage.client().ask(post(body))

        assert (response.status, response.json["error"]["code"]) == (status, code)

    play(scene)


def test_a_notification_about_requests_without_a_session_is_accepted_and_ignored() -> None:
    async def scene(stage: Stage) -> None:
        asker = stage.client()
        asker.send(post(request("tools/list")))
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}

        response = await stage.client().ask(post(note))

        assert (response.status, response.body) == (202, b"")
        assert not stage.last.ended

    play(scene)


def test_a_batch_without_a_session_is_answered_in_one_piece() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        batch = [request("tools/list", id=1), request("ping", id=2)]
        response = await stage.client().ask(post(batch))

        assert [answer["id"] for answer in response.json] == [1, 2]

    play(scene)


def test_a_batch_of_notifications_has_no_answer() -> None:
    async def scene(stage: Stage) -> None:
        response = await stage.client().ask(post([{"jsonrpc": "2.0", "method": "x"}]))

        assert (response.status, response.body) == (202, b"")

    play(scene)


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28", "2099-01-01"])
def test_revisions_without_batches_refuse_them(version: str) -> None:
    async def scene(stage: Stage) -> None:
        batch = [request("tools/list")]
        response = await stage.client().ask(post(batch, mcp_protocol_version=version))

        assert (response.status, response.json["error"]["code"]) == (400, -32600)

    play(scene)


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2026-07-28"])
@pytest.mark.parametrize("in_session", [False, True])
def test_half_an_array_is_no_json_whether_there_are_batches_or_not(
    version: str, in_session: bool
) -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        fields = {"mcp_protocol_version": version}
        if in_session:
            opened = await client.ask(post(initialize_request("2025-06-18")))
            fields["mcp_session_id"] = opened.head.get("mcp-session-id") or ""

        response = await client.ask(post(b"[1,2", **fields))

        assert (response.status, response.json["error"]["code"]) == (400, -32700)

    play(scene)


# Sessions.


def test_a_session_is_opened_by_a_handshake_and_named_from_then_on() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        response = await client.ask(post(initialize_request("2025-06-18")))
        id = response.head.get("mcp-session-id")
        assert id is not None
        assert response.json["result"]["protocolVersion"] == "2025-06-18"

        stage.answer_at_once()
        asked = post(request("tools/list"), mcp_session_id=id, mcp_protocol_version="2025-06-18")
        assert (await client.ask(asked)).json["result"] == {"n": 1}

        session = stage.last.caller.session
        assert session is not None
        assert session.revision.name == "2025-06-18"

    play(scene)


def test_a_client_that_takes_streams_alone_gets_its_handshake_as_one() -> None:
    async def scene(stage: Stage) -> None:
        response = await stage.client().ask(post(initialize_request(), accept="text/event-stream"))

        assert response.head.get("mcp-session-id") is not None
        assert response.messages[0]["id"] == "hello"
        assert response.whole

    play(scene)


@pytest.mark.parametrize("raw", [post, get, delete], ids=["POST", "GET", "DELETE"])
def test_a_session_that_is_not_there_is_not_found(raw: Any) -> None:
    async def scene(stage: Stage) -> None:
        message = (request("tools/list"),) if raw is post else ()
        response = await stage.client().ask(raw(*message, mcp_session_id="no-such"))

        assert response.status == 404
        assert response.json["error"]["code"] == -32001

    play(scene)


@pytest.mark.parametrize(
    ("path", "who"), [("/mcp/default", "other"), ("/mcp/dev", "me")], ids=["principal", "profile"]
)
def test_a_session_of_another_principal_or_profile_is_not_found(path: str, who: str) -> None:
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
            assert (await stage.client().ask(raw)).status == 404
        assert stage.handler.exchanges == []

        fields["authorization"] = "Bearer me"
        stage.answer_at_once()
        mine = await stage.client().ask(post(request("tools/list"), **fields))
        assert mine.status == 200
        assert stage.last.caller.principal == Principal("token", "me")

    play(scene, tokens=TOKENS)


def test_an_unknown_version_is_refused_in_a_session() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        response = await stage.client().ask(
            post(request("tools/list"), mcp_session_id=id, mcp_protocol_version="1999-01-01")
        )

        assert response.status == 400
        assert "1999-01-01" in response.json["error"]["message"]

    play(scene)


def test_what_happens_before_the_answer_makes_it_a_stream() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        client = stage.client()
        params = {"name": "a", "_meta": {"progressToken": "t"}}
        client.send(post(request("tools/call", params), mcp_session_id=id))
        exchange = stage.last
        exchange.deliver(exchange, Progress(b'{"progressToken":1,"progress":1}'))
        await settle()
        assert not client.response.whole
        exchange.deliver(exchange, Log(b'{"level":"info"}'))
        exchange.end(Answered(b"{}"))
        await settle()

        progress, log, answer = client.response.messages
        assert progress["params"] == {"progressToken": "t", "progress": 1}
        assert log["method"] == "notifications/message"
        assert answer["result"] == {}
        assert client.response.whole

    play(scene)


def test_a_disconnect_is_no_cancellation_and_the_answer_can_be_fetched() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session("2025-11-25")
        fields = {"mcp_session_id": id, "mcp_protocol_version": "2025-11-25"}
        client = stage.client()
        client.send(post(request("tools/list"), **fields))
        exchange = stage.last
        exchange.deliver(exchange, Log(b'{"level":"info"}'))
        await settle()
        seen = [event for event, _ in client.response.events]
        client.disconnect()
        await settle()
        assert not exchange.ended
        exchange.end(Answered(b'{"n":1}'))

        again = await stage.client().ask(get(**fields, last_event_id=str(seen[-1])))

        assert [message["result"] for message in again.messages] == [{"n": 1}]
        assert again.whole

    play(scene)


def test_resuming_one_stream_brings_nothing_of_another() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session("2025-11-25")
        fields = {"mcp_session_id": id, "mcp_protocol_version": "2025-11-25"}
        first, second = stage.client(), stage.client()
        for number, client in enumerate((first, second)):
            client.send(post(request("tools/list", id=number), **fields))
            stage.last.deliver(stage.last, Log(b'{"of":%d}' % number))
        await settle()
        primed = first.response.events[0][0]
        first.disconnect()
        second.disconnect()
        await settle()

        again = await stage.client().ask(get(**fields, last_event_id=str(primed)))

        assert [message["params"] for message in again.messages] == [{"of": 0}]
        assert not again.whole

    play(scene)


def test_a_cancelled_request_ends_its_response() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session()
        asker = stage.client()
        asker.send(post(request("tools/list", id=5), mcp_session_id=id))
        params = {"requestId": 5, "reason": "enough"}
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}

        assert (await stage.client().ask(post(note, mcp_session_id=id))).status == 202

        assert stage.last.ended
        assert asker.response.json["error"]["code"] == -32800

    play(scene)


def test_a_batch_of_a_session_that_has_them_is_answered_together() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session("2025-03-26")
        client = stage.client()
        client.send(post([request("tools/list", id=n) for n in (1, 2)], mcp_session_id=id))
        await settle()
        first, second = stage.handler.exchanges
        second.end(Answered(b"{}"))
        await settle()
        assert client.responses == []
        first.end(Answered(b"{}"))
        await settle()

        assert [answer["id"] for answer in client.response.json] == [2, 1]

    play(scene)


def test_a_batch_of_which_all_was_cancelled_still_ends_its_response() -> None:
    async def scene(stage: Stage) -> None:
        id = await stage.open_session("2025-03-26")
        client = stage.client()
        client.send(post([request("tools/list", id=n) for n in (1, 2)], mcp_session_id=id))
        await settle()
        for number in (1, 2):
            params = {"requestId": number}
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
            await stage.client().ask(post(note, mcp_session_id=id))

        assert [answer["error"]["code"] for answer in client.response.json] == [-32800, -32800]

    play(scene)


def test_a_delete_without_a_session_is_no_method_here() -> None:
    async def scene(stage: Stage) -> None:
        for fields in ({}, {"mcp_protocol_version": "2026-07-28"}):
            response = await stage.client().ask(delete(**fields))

            assert (response.status, response.head.get("allow")) == (405, "POST")

    play(scene)

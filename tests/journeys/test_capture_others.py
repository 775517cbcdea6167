"""What is recorded of everything that is no call of a tool."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Message
from tests.journeys.capture_clients import (
    HttpCaptureClient,
    RecordReader,
    SseCaptureClient,
    StdioCaptureClient,
    texts,
)
from tests.journeys.capture_pairs import (
    COMPLETED,
    GREETING,
    TRACE,
    TRACED,
    CapturePair,
    CapturePairs,
    configured,
    receiving_servers,
)
from tests.journeys.clients import KINDS, MODERN, ModernClient, request
from tests.journeys.http_gateway import HttpGateway
from tests.journeys.scripts import gateway


def test_a_list_is_a_row_of_no_server(pair: CapturePair) -> None:
    talk = pair.front.ask("tools/list", {}, **TRACED)

    row = pair.book.row("tools/list")
    pair.check_client(row, talk)
    assert (row["event_type"], row["trace_id"]) == ("gateway.exchange", TRACE)
    assert pair.frames(row) == [
        ("request", "client", talk.params),
        ("response", "client", talk.answer),
    ]


def test_a_ping_is_a_row(pair: CapturePair) -> None:
    talk = pair.front.ask("ping", {}, **TRACED)

    row = pair.book.row("ping")
    gone = pair.front.modern  # With the sessions.
    pair.check_client(row, talk, "gateway_error" if gone else "ok")
    assert row["trace_id"] == TRACE


def test_a_notification_is_a_frame(pair: CapturePair) -> None:
    params = b'{"reason":"a quetzal"}'
    pair.front.tell(b'{"jsonrpc":"2.0","method":"notifications/vendor","params":%b}' % params)
    pair.front.ask("tools/list", {})

    (frame,) = pair.book.asides("client-notification")
    assert (frame["side"], frame["method"]) == ("client", "notifications/vendor")
    assert frame["client_transport"] == pair.front.transport
    assert (frame["bytes"], frame["shape"]) == (len(params), '{"reason":s}')


@pytest.mark.parametrize("bad", [b"rubbish", b'{"jsonrpc":"1.0","id":1,"method":"ping"}'])
def test_what_is_no_message_is_a_frame_with_the_reason(pair: CapturePair, bad: bytes) -> None:
    pair.front.tell(bad)
    pair.front.ask("tools/list", {})

    (frame,) = pair.book.asides("not-json-rpc")
    assert frame["side"] == "client"
    assert frame["reason"]


def test_a_prompt_is_a_row(pair: CapturePair) -> None:
    asked: Message = {"name": f"{pair.back}__greet", "arguments": {"bird": "quetzal"}}
    talk = pair.front.ask("prompts/get", asked, **TRACED)

    row = pair.book.row("prompts/get")
    about = pair.check(row, talk)
    pair.check_trace(row, talk)
    assert (row["event_type"], about["prompt"]) == ("gateway.prompt_get", "greet")
    assert about["params_shape"] == '{"bird":s}'
    assert pair.frames(row)[2] == ("response", "server", pair.said(GREETING))


def test_a_completion_is_a_row(pair: CapturePair) -> None:
    ref = {"type": "ref/prompt", "name": f"{pair.back}__greet"}
    asked = {"ref": ref, "argument": {"name": "bird", "value": "qu"}}
    talk = pair.front.ask("completion/complete", asked, **TRACED)

    row = pair.book.row("completion/complete")
    pair.check(row, talk)
    pair.check_trace(row, talk)
    assert pair.frames(row)[2] == ("response", "server", pair.said(COMPLETED))


def test_a_resource_is_a_row_and_says_when_it_was_not_asked_for(pair: CapturePair) -> None:
    uri = f"x:{pair.back}"
    first, second = (pair.front.ask("resources/read", {"uri": uri}, **TRACED) for _ in range(2))

    rows = pair.book.rows()
    for row, talk in zip(rows, (first, second), strict=True):
        pair.check_client(row, talk)
        assert row["event_type"] == "gateway.resource_read"
        assert (row["trace_id"], row["metadata"]["server"]) == (TRACE, pair.back)
    assert rows[0]["metadata"]["params_hash"] == rows[1]["metadata"]["params_hash"]
    cached = [row["metadata"].get("cached", False) for row in rows]
    assert cached[1] is (pair.back == "new")
    for row, answered in zip(rows, cached, strict=True):
        asked = {"sent_bytes", "answer_bytes", "server_ms"} & row["metadata"].keys()
        assert len(asked) == (0 if answered else 3)
        assert len(pair.frames(row)) == (2 if answered else 4)
    assert len(pair.ears.params("resources/read")) == cached.count(False)


# Sessions, batches and streams.


@pytest.mark.parametrize("kind", [HttpCaptureClient, SseCaptureClient])
def test_a_handshake_is_a_row(
    captured: CapturePairs, kind: type[HttpCaptureClient] | type[SseCaptureClient]
) -> None:
    there = captured.fronts["http 2025-11-25"]
    assert isinstance(there, HttpCaptureClient)
    there.book.turn()
    talk = kind(there.site, "2025-06-18").open()

    (row,) = there.book.rows()
    about = row["metadata"]
    assert (about["method"], about["client"]) == ("initialize", "test 1")
    assert about["client_revision"] == "2025-06-18"
    assert about["client_transport"] == kind.transport
    assert about["params_bytes"] == len(talk.params)
    assert about["result_bytes"] == len(talk.answer)
    assert [bytes(frame.payload or b"") for frame in there.book.payloads(row)] == [
        talk.params,
        talk.answer,
    ]


def test_a_session_that_is_over_is_a_row_for_whoever_still_uses_it(captured: CapturePairs) -> None:
    there = captured.fronts["http 2025-11-25"]
    assert isinstance(there, HttpCaptureClient)
    there.book.turn()
    lost = HttpCaptureClient(there.site, "2025-11-25")
    lost.fields = [("Mcp-Session-Id", "no-such-session")]
    talk = lost.ask("tools/list", {})

    row = there.book.row("tools/list")
    assert row["metadata"]["outcome"] == "gateway_error"
    assert row["metadata"]["result_bytes"] == len(talk.answer)


@pytest.mark.parametrize("session", [True, False])
def test_each_request_of_a_batch_is_a_row(captured: CapturePairs, session: bool) -> None:
    there = captured.fronts["http 2025-11-25"]
    assert isinstance(there, HttpCaptureClient)
    client = HttpCaptureClient(there.site, "2025-03-26")
    if session:
        client.open()
    there.book.turn()
    calls = [request("tools/call", {"name": f"{back}__plain"}) for back in ("old", "new")]
    batch: list[Any] = [*calls, {"jsonrpc": "2.0", "method": "notifications/vendor"}, "rubbish"]
    answer = there.site.post(batch, *client.fields)

    assert len(answer.rest()) == 3
    there.book.wait(2)
    rows = there.book.rows()
    assert sorted(row["metadata"]["server"] for row in rows) == ["new", "old"]
    for row in rows:
        assert row["metadata"]["client_revision"] == "2025-03-26"
        assert row["metadata"]["params_bytes"] == len(json.dumps(calls[0]["params"]))
    assert len(there.book.asides("client-notification")) == 1
    assert len(there.book.asides("not-json-rpc")) == 1


@pytest.mark.parametrize("name", [f"http {MODERN}", f"stdio {MODERN}"])
def test_a_subscription_is_one_row_when_it_ends_and_keeps_nothing_until_then(
    captured: CapturePairs, name: str
) -> None:
    front = captured.fronts[name]
    front.book.turn()
    talk = front.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    begun = next(frame for frame in front.frames(talk) if b"acknowledged" in frame)
    front.ask("tools/list", {})
    assert [row["metadata"]["method"] for row in front.book.rows()] == ["tools/list"]
    front.cancel(talk)

    front.book.wait(2)
    row = front.book.rows()[1]
    about = row["metadata"]
    assert (about["method"], about["outcome"]) == ("subscriptions/listen", "cancelled")
    assert (about.get("frames"), about["frames_more"]) == (None, 1)
    (asked,) = front.book.payloads(row)
    assert (asked.kind, bytes(asked.payload or b"")) == ("request", talk.params)
    assert begun


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_tells_how_its_server_is_spoken_with(site: HttpGateway, kind: str) -> None:
    book = RecordReader(site.state)
    book.turn()
    ModernClient(site).call(f"{kind}__echo", {"text": "x"})

    about = book.row("tools/call")["metadata"]
    revision, transport = SPOKEN[kind]
    assert (about["server_revision"], about["server_transport"]) == (revision, transport)
    assert (about["client_revision"], about["client_transport"]) == (MODERN, "streamable-http")


SPOKEN = {
    "stdio-new": (MODERN, "stdio"),
    "stdio-old": ("2025-11-25", "stdio"),
    "http-new": (MODERN, "streamable-http"),
    "http-old": ("2025-11-25", "streamable-http"),
    "older": ("2025-11-25", "sse"),
}


def test_a_client_that_never_comes_back_has_its_row_when_the_gateway_stops(tmp_path: Path) -> None:
    ears = receiving_servers(tmp_path / "servers", "old")
    with gateway(tmp_path, configured(ears)) as client:
        front = StdioCaptureClient(client, MODERN)
        asked = front.ask("tools/call", {"name": "old__elicit", "arguments": {}})
        assert json.loads(asked.answer)["resultType"] == "input_required"
        assert client.finish() == 0

    (row,) = RecordReader(tmp_path / "state").rows()
    assert (row["status"], row["metadata"]["outcome"]) == ("cancelled", "cancelled")
    assert texts(row)[0] == "server-request elicitation/create"

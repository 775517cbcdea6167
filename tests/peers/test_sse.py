"""HTTP+SSE."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests import schema
from tests.peers.driver import EVERYTHING, LEGACY, Json
from tests.peers.http_driver import INITIALIZE, HttpDemo, Response, legacy, modern


@pytest.fixture(scope="module")
def demo() -> Iterator[HttpDemo]:
    with HttpDemo() as demo:
        yield demo


class Client:
    """One client with its stream, past the handshake."""

    def __init__(self, demo: HttpDemo, revision: str = "2024-11-05") -> None:
        self.demo = demo
        self.revision = revision
        self.stream = demo.send("GET", "/sse", headers={"Accept": "text/event-stream"})
        first = self.stream.event()
        assert first is not None and first.event == "endpoint"
        self.path = first.data
        params = {**INITIALIZE, "protocolVersion": revision, "capabilities": EVERYTHING}
        assert self.ask("initialize", params)["result"]["protocolVersion"] == revision
        assert self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).status == 202

    def post(self, body: Any) -> Response:
        headers = {"Content-Type": "application/json"}
        return self.demo.send("POST", self.path, body, headers)

    def ask(self, method: str, params: Json | None = None) -> Json:
        assert self.post(legacy(1, method, params)).status == 202
        answer: Json = self.next()
        schema.check_result(self.revision, method, answer["result"])
        return answer

    def next(self) -> Any:
        event = self.stream.event()
        assert event is not None and (event.event, event.id) == ("message", None)
        return event.message


@pytest.mark.parametrize("revision", LEGACY)
def test_all_messages_come_on_the_one_stream(demo: HttpDemo, revision: str) -> None:
    client = Client(demo, revision)
    for method in ("ping", "tools/list"):
        client.ask(method)

    client.post(legacy(2, "tools/call", {"name": "roots"}))
    question = client.next()
    assert question["method"] == "roots/list"
    client.post({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})
    assert client.next()["result"]["content"][0]["text"] == '{"roots":[]}'

    client.post(legacy(3, "tools/call", {"name": "grow"}))
    assert client.next()["method"] == "notifications/tools/list_changed"
    assert client.next()["id"] == 3


def test_a_batch_is_answered_at_once_in_the_one_revision_that_has_them(demo: HttpDemo) -> None:
    client, other = Client(demo, "2025-03-26"), Client(demo, "2025-06-18")
    batch = [legacy("a", "ping"), legacy("b", "ping")]

    assert client.post(batch).status == 202
    assert [each["id"] for each in client.next()] == ["a", "b"]
    assert other.post(batch).status == 400


def test_a_bad_message_is_refused_where_it_was_posted(demo: HttpDemo) -> None:
    client = Client(demo)

    assert client.post(b"{").message()["error"]["code"] == -32700
    assert client.post({"id": 1}).status == 400
    client.ask("ping")


def test_a_modern_request_is_one_that_the_session_does_not_know(demo: HttpDemo) -> None:
    client = Client(demo)

    client.post(modern("server/discover"))

    assert client.next()["error"]["code"] == -32601


def test_a_message_needs_a_session_that_is_there(demo: HttpDemo) -> None:
    headers = {"Content-Type": "application/json"}

    for path, status in (("/messages", 400), ("/messages?session_id=x", 404)):
        assert demo.send("POST", path, legacy(1, "ping"), headers).status == status
    assert demo.send("POST", Client(demo).path, legacy(1, "ping")).status == 415


def test_a_session_ends_with_its_stream() -> None:
    with HttpDemo("--transport", "sse") as demo:
        client = Client(demo)
        slow = {"name": "slow", "arguments": {"seconds": 3600, "steps": 1}}
        client.post(legacy(2, "tools/call", slow))
        assert client.next()["method"] == "notifications/message"

        client.stream.close()

        demo.wait_stderr("slow: cancelled")
        assert client.post(legacy(3, "ping")).status == 404


def test_a_session_can_be_lost() -> None:
    with HttpDemo("--lose-sessions", "2") as demo:
        client = Client(demo)
        for _ in range(2):
            client.ask("ping")

        assert client.post(legacy(3, "ping")).status == 404
        assert client.stream.events() == []

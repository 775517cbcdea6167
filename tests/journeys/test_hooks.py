"""Hooks of a whole gateway: what a client does sets them off, and a client never notices."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.harness import DEMO, WAIT_SECONDS, LineClient, gateway, read_events
from tests.rig.probe import eventually

pytestmark = pytest.mark.slow

SECRET = "s3cret-of-the-hook"


class Receiver:
    """Takes what is posted; answers with the next of `statuses`, then with 204."""

    def __init__(self) -> None:
        self.posts: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.statuses: list[int] = []
        self.open = threading.Event()
        self.open.set()
        self._came = threading.Condition()
        receiver = self

        class Page(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                fields = {name.lower(): value for name, value in self.headers.items()}
                with receiver._came:
                    receiver.posts.append((fields, json.loads(body)))
                    receiver._came.notify_all()
                receiver.open.wait(WAIT_SECONDS)
                self.send_response(receiver.statuses.pop(0) if receiver.statuses else 204)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *words: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/{SECRET}"

    def wait(self, count: int) -> list[dict[str, Any]]:
        """The bodies, once so many have come."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.posts) >= count, WAIT_SECONDS)
            return [body for _, body in self.posts]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    here = Receiver()
    yield here
    here.open.set()
    here.server.shutdown()
    here.server.server_close()


def posting(receiver: Receiver, on: str, **rest: Any) -> dict[str, Any]:
    return {"name": "h", "on": on, "post": "${env:HOOK_URL}", **rest}


@pytest.fixture(autouse=True)
def environment(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_URL", receiver.url)


def hooks_of(client: LineClient) -> dict[str, Any]:
    """What `gateway_status` says of them."""
    [content] = client.call("gateway_status")["result"]["content"]
    monitoring: dict[str, Any] = json.loads(content["text"])["gateway"]["event_monitoring"]
    return monitoring


def test_a_failure_is_posted_and_nothing_else_is(tmp_path: Path, receiver: Receiver) -> None:
    hook = posting(receiver, "tool:* status:error")
    with gateway(tmp_path, {"demo": DEMO}, hooks=[hook]) as client:
        client.initialize()
        client.call("demo__add", {"a": 1, "b": 2})
        client.call("demo__nothing")

        [event] = receiver.wait(1)

        assert event["event_type"] == "gateway.tool_call"
        assert event["metadata"]["tool"] == "demo__nothing"
        monitoring = hooks_of(client)
        assert monitoring["webhook_configured"] is True
        assert monitoring["hooks"]["h"]["failed"] == 0
    for file in (tmp_path / "state").rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes()


def test_what_was_accepted_survives_a_kill(tmp_path: Path, receiver: Receiver) -> None:
    receiver.open.clear()
    hooks = [posting(receiver, "type:tool_call server:demo")]
    with gateway(tmp_path, {"demo": DEMO}, hooks=hooks) as client:
        client.initialize()
        for number in range(3):
            client.call("demo__add", {"a": number, "b": 1})
        receiver.wait(1)
        wait_report(client, "h", waiting=3)
        client.kill()
    receiver.posts.clear()
    receiver.open.set()

    with gateway(tmp_path, {"demo": DEMO}, hooks=hooks) as client:
        client.initialize()
        events = receiver.wait(3)
        assert client.finish() == 0

    spans = [event["metadata"]["span_id"] for event in events]
    noted = [
        event["metadata"]["span_id"]
        for event in read_events(tmp_path / "state")
        if event["event_type"] == "gateway.tool_call" and "server" in event["metadata"]
    ]
    assert spans == noted
    assert len({fields["idempotency-key"] for fields, _ in receiver.posts}) == len(receiver.posts)


def test_a_receiver_that_hangs_is_not_noticed_by_clients(
    tmp_path: Path, receiver: Receiver
) -> None:
    receiver.open.clear()
    with gateway(tmp_path, {"demo": DEMO}, hooks=[posting(receiver, "type:*")]) as client:
        client.initialize()
        for number in range(50):
            answer = client.call("demo__add", {"a": number, "b": 1})
            assert "result" in answer
        assert len(receiver.posts) == 1
        receiver.open.set()
        receiver.wait(50)


def test_a_tool_is_called_in_the_same_trace_and_sets_nothing_off(tmp_path: Path) -> None:
    hook = {
        "name": "echo-it",
        "on": "type:tool_call server:demo",
        "call": "demo/echo",
        "arguments": {"text": "{{ metadata.tool }} of {{ metadata.server }}"},
    }
    with gateway(tmp_path, {"demo": DEMO}, hooks=[hook]) as client:
        client.initialize()
        client.call("demo__add", {"a": 1, "b": 2})
        wait_report(client, "echo-it", delivered=1)
        assert hooks_of(client)["hooks"]["echo-it"]["last_error"] is None
        assert client.finish() == 0

    cause, effect = (
        event
        for event in read_events(tmp_path / "state")
        if event["event_type"] == "gateway.tool_call" and "server" in event["metadata"]
    )
    assert [event["metadata"]["tool"] for event in (cause, effect)] == ["add", "echo"]
    assert cause["trace_id"] == effect["trace_id"]
    assert effect["metadata"]["client"].startswith("anyport-hook ")


@pytest.mark.parametrize("capture", ["off", "shape", "full"])
def test_a_client_in_the_trace_of_a_hooks_call_sets_hooks_off_all_the_same(
    tmp_path: Path, capture: str
) -> None:
    hook = {
        "name": "echo-it",
        "on": "type:tool_call server:demo",
        "call": "demo/echo",
        "arguments": {"text": "x"},
    }
    record = {"capture": capture}
    with gateway(tmp_path, {"demo": DEMO}, hooks=[hook], record=record) as client:
        client.initialize()
        client.call("demo__add", {"a": 1, "b": 2})
        wait_report(client, "echo-it", delivered=1)
        *_, own = (
            event
            for event in read_events(tmp_path / "state")
            if event["event_type"] == "gateway.tool_call" and "server" in event["metadata"]
        )
        for span in (own["metadata"]["parent_span_id"], own["metadata"]["span_id"]):
            parent = f"00-{own['trace_id']}-{span}-01"
            params = {"name": "demo__add", "arguments": {"a": 1, "b": 2}}
            client.request("tools/call", params | {"_meta": {"traceparent": parent}})
        wait_report(client, "echo-it", delivered=3)
        assert hooks_of(client)["hooks"]["echo-it"]["waiting"] == 0


def test_a_command_gets_the_event(tmp_path: Path) -> None:
    file = tmp_path / "found"
    code = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"
    hook = {
        "name": "write",
        "on": "server:demo tool:add",
        "run": [sys.executable, "-I", "-S", "-c", code, str(file)],
    }
    with gateway(tmp_path, {"demo": DEMO}, hooks=[hook]) as client:
        client.initialize()
        client.call("demo__add", {"a": 1, "b": 2})
        wait_report(client, "write", delivered=1)

    [line] = file.read_text().splitlines()
    assert json.loads(line)["metadata"]["tool"] == "add"


def test_a_bad_filter_keeps_the_gateway_from_starting_and_shows_where(tmp_path: Path) -> None:
    hook = {"name": "h", "on": "sever:x", "run": ["x"]}
    with gateway(tmp_path, {"demo": DEMO}, hooks=[hook]) as client:
        assert client.finish() == 1
        client.kill()
        told = client.stderr.decode().splitlines()

    assert told[0].startswith(str(tmp_path / "anyport.json"))
    assert "Did you mean server?" in told[0]
    assert told[1:3] == ["    sever:x", "    ^^^^^"]


def wait_report(client: LineClient, name: str, **wanted: int) -> None:
    """Wait until a hook reports this of itself; asking sets off nothing that is waited for."""

    def reported() -> bool:
        report: dict[str, int] = hooks_of(client)["hooks"][name]
        assert not report["failed"] or report == report | wanted, report
        return report == report | wanted

    eventually(reported, f"{name} reports {wanted}")

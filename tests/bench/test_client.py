"""A target that does not do its work is found out before it is measured."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from bench.client import Call, Endpoint, WrongAnswer, call_params, events

ECHO = Call(tool="echo", expect="fox")
COUNT = Call(tool="count", expect="fox", events=2, progress=True)

Message = dict[str, Any]
Answers = Callable[[Message], list[Message]]


def result(asked: Message, **members: object) -> Message:
    return {"jsonrpc": "2.0", "id": asked["id"], "result": {"text": "fox", **members}}


def progress(token: object) -> Message:
    return {
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": {"progressToken": token},
    }


@contextmanager
def serving(answers: Answers) -> Iterator[str]:
    class Server(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            lines = [f"data: {json.dumps(message)}\r\n\r\n" for message in answers(asked)]
            body = "".join(lines).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Tests are silent."""

    class Backlogged(ThreadingHTTPServer):
        request_queue_size = 64
        daemon_threads = True

    with Backlogged(("127.0.0.1", 0), Server) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        server.shutdown()


def verify(call: Call, answers: Answers) -> None:
    with serving(answers) as url:
        endpoint = Endpoint(url, "modern")
        endpoint.open()
        endpoint.verify(call, "s0__" + call.tool)


def test_right_answers_are_accepted() -> None:
    verify(ECHO, lambda asked: [result(asked)])


def test_progress_of_the_right_call_is_accepted() -> None:
    def answers(asked: Message) -> list[Message]:
        return [progress(asked["params"]["_meta"]["progressToken"]), result(asked)]

    verify(COUNT, answers)


@pytest.mark.parametrize(
    ("call", "answers"),
    [
        pytest.param(ECHO, lambda asked: [], id="no answer"),
        pytest.param(ECHO, lambda asked: [result({"id": 1})], id="the id of another"),
        pytest.param(ECHO, lambda asked: [result(asked, text="hound")], id="another result"),
        pytest.param(COUNT, lambda asked: [result(asked)], id="an event too few"),
        pytest.param(COUNT, lambda asked: [progress(1), result(asked)], id="progress of another"),
    ],
)
def test_wrong_answers_are_not(call: Call, answers: Answers) -> None:
    with pytest.raises(WrongAnswer):
        verify(call, answers)


def test_all_pages_of_a_list_are_read() -> None:
    def answers(asked: Message) -> list[Message]:
        if "cursor" in asked["params"]:
            return [result(asked, tools=[{"name": "s0__echo"}])]
        return [result(asked, tools=[{"name": "other"}], nextCursor="2")]

    with serving(answers) as url:
        endpoint = Endpoint(url, "modern")
        endpoint.open()

        assert endpoint.list_tools() == (["other", "s0__echo"], 2)
        assert endpoint.find_tool("echo") == "s0__echo"


def test_a_modern_request_says_everything_in_headers_and_body() -> None:
    endpoint = Endpoint("http://127.0.0.1:1/mcp", "modern")
    params = call_params(COUNT, "s0__count", 7)

    headers = endpoint.headers("tools/call", params, None)
    meta = json.loads(endpoint.body("tools/call", params, 7))["params"]["_meta"]

    assert (headers["Mcp-Method"], headers["Mcp-Name"]) == ("tools/call", "s0__count")
    assert meta["io.modelcontextprotocol/protocolVersion"] == headers["MCP-Protocol-Version"]
    assert meta["progressToken"] == 7


def test_events_without_a_message_are_left_out() -> None:
    raw = b': hello\n\nid: 1\ndata:\n\nevent: message\r\ndata: {"id":1}\r\n\r\n'

    assert list(events(raw)) == [{"id": 1}]

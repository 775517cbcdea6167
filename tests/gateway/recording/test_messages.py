"""Messages outside any client's request."""

import json
from pathlib import Path
from typing import Any

import pytest

from anyport.config.model import Capture
from anyport.gateway.recording.messages import MESSAGES_PER_SECOND_MAX, MessageRecorder
from anyport.observe.trace_context import IdGenerator
from anyport.record.journal.journal import Journal
from anyport.upstream.connection import OwnRequest
from anyport.upstream.peer import Peer
from anyport.upstream.pending_call import Answer, NoAnswer
from anyport.wire.jsonrpc import BadFrame, Failure, Notification, Request, Result
from tests.gateway.capturing import capture_at
from tests.gateway.fakes import LEGACY, MODERN, FakeServer, FakeSession, caller
from tests.record.recorded import find_payload
from tests.upstream.fakes import peer_of

TRACE = "1" * 32


class Scene:
    """Asides, and what they noted."""

    def __init__(self, path: Path, capture: Capture = "shape") -> None:
        self.path = path
        self.events: list[dict[str, Any]] = []
        self.now = 0.0
        journal = Journal(path, source="test", now=lambda: 0.0, redact=str)
        journal.subscribe(lambda line: self.events.append(json.loads(line)))
        ids = IdGenerator(lambda size: bytes([1]) * size)
        self.recorder = MessageRecorder(
            journal, capture_at(path, capture), ids, lambda: self.now, TRACE
        )
        self.server = FakeServer("s")

    @property
    def last(self) -> dict[str, Any]:
        metadata: dict[str, Any] = self.events[-1]["metadata"]
        return metadata

    def record_own_request(
        self, request: OwnRequest, answer: Answer, seconds: float, peer: Peer | None = None
    ) -> None:
        peer = peer or self.server.peer
        self.recorder.record_own_request(self.server, peer, request, answer, seconds)

    def payloads(self) -> Any:
        line = find_payload(self.path, self.last["payload_file"], self.last["span_id"])
        assert line is not None
        return json.loads(line)["frames"]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_handshake_is_an_exchange(scene: Scene) -> None:
    message = Request(b"1", "initialize", b'{"protocolVersion":"x"}')
    scene.recorder.record_client_message(
        caller(FakeSession("mine")), message, Result(b"1", b'{"capabilities":{}}')
    )

    assert scene.events[-1]["event_type"] == "gateway.exchange"
    assert scene.events[-1]["status"] == "success"
    assert scene.last["method"] == "initialize"
    assert scene.last["session"] == "mine"
    assert scene.last["params_shape"] == '{"protocolVersion":s}'
    assert scene.last["result_bytes"] == len('{"capabilities":{}}')


def test_what_was_refused_is_a_fault_of_ours_and_a_servers_error_is_its_own(scene: Scene) -> None:
    error = Failure(b"1", b'{"code":-32601,"message":"Method not found: x"}')
    scene.recorder.record_client_message(caller(), Request(b"1", "x", None), error)
    ours = scene.events[-1]
    scene.record_own_request(("x", None), error, 0.25)
    theirs = scene.events[-1]

    assert (ours["status"], ours["error_code"]) == ("failure", -32601)
    assert ours["error_message"] == "Method not found: x"
    assert ours["metadata"]["outcome"] == "gateway_error"
    assert theirs["metadata"]["outcome"] == "server_error"
    assert theirs["duration_ms"] == theirs["metadata"]["server_ms"] == 250.0
    assert "profile" not in theirs["metadata"]


def test_a_server_that_does_not_know_the_probe_has_done_nothing_wrong(scene: Scene) -> None:
    error = Failure(b"1", b'{"code":-32601,"message":"Method not found"}')
    scene.record_own_request(("server/discover", b"{}"), error, 0.0)

    assert scene.events[-1]["status"] == "success"
    assert scene.last["result_shape"] == '{"code":n,"message":s}'


def test_a_server_that_did_not_answer_is_told_with_the_reason(scene: Scene) -> None:
    scene.record_own_request(("initialize", b"{}"), NoAnswer("exit code 1"), 0.0)

    assert scene.events[-1]["error_message"] == "exit code 1"
    assert "result_bytes" not in scene.last


def test_a_request_is_recorded_in_the_revision_of_its_own_connection(scene: Scene) -> None:
    """A server of both eras speaks one over its first connection and the other over a session's."""
    scene.server.connection.peer = peer_of(MODERN)

    scene.record_own_request(("tools/list", b"{}"), Result(b"1", b"{}"), 0.0, peer_of(LEGACY))

    assert scene.last["server_revision"] == LEGACY.name


def test_each_kind_of_frame_has_its_name(scene: Scene) -> None:
    recorder, server = scene.recorder, scene.server
    recorder.record_client_message(caller(), Notification("notifications/initialized", None))
    recorder.record_client_message(caller(), BadFrame(-32700, "Parse error"))
    recorder.record_server_message(
        server, Notification("notifications/message", b'{"level":"info"}')
    )
    recorder.record_server_message(server, Request(b"1", "roots/list", None))
    recorder.record_client_response(server, "roots/list", Result(b"1", b'{"roots":[]}'))
    recorder.record_noise(server, b"\xffnoise", "not JSON")

    assert [(event["metadata"]["kind"], event["metadata"]["side"]) for event in scene.events] == [
        ("client-notification", "client"),
        ("not-json-rpc", "client"),
        ("server-notification", "server"),
        ("server-request", "server"),
        ("client-response", "server"),
        ("not-json-rpc", "server"),
    ]
    assert {event["event_type"] for event in scene.events} == {"gateway.frame"}
    assert scene.events[1]["metadata"]["reason"] == "Parse error"
    assert scene.events[2]["metadata"]["shape"] == '{"level":s}'


def test_what_nobody_had_asked_for_is_noted_with_that_reason(scene: Scene) -> None:
    for message in (
        Result(b"9", b'{"a":1}'),
        Failure(b"9", b'{"code":1,"message":"x"}'),
        Notification("notifications/progress", b'{"progressToken":9}'),
    ):
        scene.recorder.record_noise(scene.server, message, "nobody had asked for it")

    noted = [event["metadata"] for event in scene.events]
    assert [each["kind"] for each in noted] == ["response", "response", "server-notification"]
    assert {each["reason"] for each in noted} == {"nobody had asked for it"}


def test_nothing_is_noted_where_nothing_is_recorded(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "off")
    scene.recorder.record_client_message(caller(), Notification("notifications/initialized", None))
    scene.recorder.record_server_message(scene.server, Request(b"1", "roots/list", None))
    scene.record_own_request(("initialize", None), NoAnswer("gone"), 0.0)

    assert scene.events == []


def test_payloads_are_kept_where_they_are_wanted(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "full")
    scene.record_own_request(("tools/list", b"{}"), Result(b"1", b'{"tools":[]}'), 0.001)

    assert [(frame["kind"], frame["side"]) for frame in scene.payloads()] == [
        ("request", "server"),
        ("response", "server"),
    ]
    assert scene.payloads()[1]["payload"] == {"tools": []}
    assert scene.payloads()[1]["ms"] == 1.0


def test_a_flood_is_recorded_up_to_a_limit_and_the_rest_is_counted(scene: Scene) -> None:
    message = Notification("notifications/message", b"{}")
    for _ in range(MESSAGES_PER_SECOND_MAX + 5):
        scene.recorder.record_server_message(scene.server, message)
    assert len(scene.events) == MESSAGES_PER_SECOND_MAX

    scene.now = 1.0
    scene.recorder.record_server_message(scene.server, message)
    assert scene.last["skipped"] == 5


def test_one_peers_flood_is_no_others(scene: Scene) -> None:
    for _ in range(MESSAGES_PER_SECOND_MAX + 5):
        scene.recorder.record_server_message(
            scene.server, Notification("notifications/message", b"{}")
        )
    scene.recorder.record_server_message(
        FakeServer("quiet"), Notification("notifications/message", b"{}")
    )

    assert scene.last["server"] == "quiet"


def test_what_a_client_asks_has_a_trace_of_its_own_or_joins_the_clients(scene: Scene) -> None:
    traceparent = f"00-{'a' * 32}-{'b' * 16}-01"
    for params in (
        json.dumps({"_meta": {"traceparent": traceparent}}).encode(),
        b'{"_meta":{"traceparent":"nonsense"}}',
        b'{"_meta":"traceparent"}',
        None,
    ):
        scene.recorder.record_client_message(caller(), Request(b"1", "x", params), None)
    joined, *others = scene.events

    assert joined["trace_id"] == "a" * 32
    assert joined["metadata"]["parent_span_id"] == "b" * 16
    for event in others:
        assert event["trace_id"] not in (TRACE, "a" * 32)
        assert "parent_span_id" not in event["metadata"]
    scene.record_own_request(("initialize", None), NoAnswer("gone"), 0.0)
    assert scene.events[-1]["trace_id"] == TRACE

"""What is recorded of the traffic, at each level."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from anyport.config.model import Capture
from anyport.protocol.transcript import Transcript
from anyport.record.capture import frame_text, payload_file_member, subject_of
from anyport.record.journal.payloads import LINE_BYTES_MAX
from anyport.record.redact.redactor import WITHHELD
from tests.gateway.capturing import capture_at
from tests.gateway.fakes import Asked
from tests.gateway.scene import Scene
from tests.record.recorded import find_payload

SECRET = "a configured secret"
CALL = {"name": "s__echo", "arguments": {"text": "hello", "password": "hunter2"}}
ANSWER = {"content": [{"type": "text", "text": f"it is {SECRET}"}]}


def noted(tmp_path: Path, capture: Capture) -> dict[str, Any]:
    scene = Scene(tmp_path, capture=capture)
    scene.begin(params=CALL)
    scene.now = 0.5
    scene.answer(result=ANSWER)
    (event,) = scene.events
    scene.recorder._capture.payloads.flush()
    metadata: dict[str, Any] = event["metadata"]
    return metadata


def test_nothing_more_is_noted_where_nothing_is_recorded(tmp_path: Path) -> None:
    assert noted(tmp_path, "off").keys() == {
        *("span_id", "profile", "server", "tool", "public_name", "result_bytes")
    }


def test_a_shape_tells_keys_and_types_and_no_value(tmp_path: Path) -> None:
    metadata = noted(tmp_path, "shape")

    assert metadata["params_shape"] == '{"text":s,"password":s}'
    assert metadata["result_shape"] == '{"content":[{"type":s,"text":s}]}'
    assert metadata["method"] == "tools/call"
    assert metadata["server_ms"] == 500.0
    assert metadata["server_revision"] == metadata["client_revision"] == "2025-11-25"
    assert "payload_file" not in metadata
    text = json.dumps(metadata)
    assert "hello" not in text
    assert "hunter2" not in text


@pytest.mark.parametrize("capture", ["shape", "full"])
def test_sizes_are_those_of_what_was_said(tmp_path: Path, capture: Capture) -> None:
    metadata = noted(tmp_path, capture)

    assert metadata["params_bytes"] == len(msgspec.json.encode(CALL))
    assert metadata["sent_bytes"] == len(msgspec.json.encode(CALL | {"name": "echo"}))
    assert metadata["answer_bytes"] == len(json.dumps(ANSWER))


def test_payloads_are_kept_without_secrets(tmp_path: Path) -> None:
    metadata = noted(tmp_path, "full")
    line = find_payload(tmp_path, metadata["payload_file"], metadata["span_id"])
    assert line is not None
    frames = json.loads(line)["frames"]

    assert [(frame["kind"], frame["side"]) for frame in frames] == [
        *(("request", "client"), ("request", "server")),
        ("response", "server"),
    ]
    assert frames[0]["payload"]["arguments"]["text"] == "hello"
    assert frames[0]["payload"]["arguments"]["password"] == "[redacted]"
    assert frames[1]["payload"]["name"] == "echo"
    assert frames[2]["payload"]["content"][0]["text"] == "it is [redacted]"
    assert frames[2]["ms"] == 500.0


def test_the_subject_of_a_call_are_its_arguments() -> None:
    assert subject_of(Asked(params=CALL).exchange) == b'{"text":"hello","password":"hunter2"}'


def test_the_subject_of_anything_else_is_what_it_says_besides_who_says_it() -> None:
    params = {"uri": "x:1", "_meta": {"progressToken": 7}}
    assert subject_of(Asked("resources/read", params).exchange) == b'{"uri":"x:1"}'


def test_a_frame_in_words() -> None:
    assert frame_text(12.3456, "server-notification", "a/b", 118) == (
        "12.346 server-notification a/b 118"
    )
    assert frame_text(0, "not-json-rpc", "", 3) == "0.000 not-json-rpc - 3"


def test_a_place_is_a_member() -> None:
    assert payload_file_member("2026-07-28/12-cafe-0") == b',"payload_file":"2026-07-28/12-cafe-0"'
    assert payload_file_member(None) == b""


@pytest.mark.parametrize(
    ("level", "is_enabled", "keeps_payloads"),
    [("off", False, False), ("shape", True, False), ("full", True, True)],
)
def test_levels_are_known_before_anything_happens(
    tmp_path: Path, level: Capture, is_enabled: bool, keeps_payloads: bool
) -> None:
    capture = capture_at(tmp_path, level)
    assert (capture.is_enabled, capture.keeps_payloads) == (is_enabled, keeps_payloads)


def test_payloads_that_are_the_same_on_both_sides_are_kept_once(tmp_path: Path) -> None:
    recorder = capture_at(tmp_path, "full")
    asked = Asked(params={"name": "a"})
    asked.exchange.span_id = "1" * 16
    asked.exchange.transcript = Transcript(clock=lambda: 0.0, keeps_payloads=True)
    asked.exchange.transcript.on_request_sent("tools/call", asked.exchange.params)
    asked.exchange.transcript.on_server_answer(b'{"content": \n []}', failed=False)
    asked.exchange.transcript.client_answer = b'{"content": \n []}'

    place = recorder.store_exchange(asked.exchange, b"now")
    recorder.payloads.flush()

    assert place is not None
    line = find_payload(tmp_path, place, "1" * 16)
    assert line is not None
    frames = json.loads(line)["frames"]
    assert [frame.get("same", False) for frame in frames] == [False, True, False, True]
    assert frames[2]["payload"] == {"content": []}


def test_a_server_that_never_answers_is_what_a_call_waited_for(tmp_path: Path) -> None:
    scene = Scene(tmp_path, capture="shape")
    scene.begin(params=CALL)
    scene.now = 61.0
    scene.calls.sweep(61.0)

    (event,) = [event for event in scene.events if event["status"] != "pending"]
    assert event["metadata"]["outcome"] == "timeout"
    assert event["metadata"]["server_ms"] == 61_000.0
    assert scene.overheads() == 0.0


def test_a_call_that_was_given_up_waited_for_its_server_until_then(tmp_path: Path) -> None:
    scene = Scene(tmp_path, capture="shape")
    asked = scene.begin(params=CALL)
    scene.now = 2.0
    asked.exchange.cancel()

    (event,) = scene.events
    assert event["metadata"]["outcome"] == "cancelled"
    assert event["metadata"]["server_ms"] == 2_000.0


def test_one_exchange_leaves_the_next_of_its_turn_enough_to_be_looked_through(
    tmp_path: Path,
) -> None:
    later: list[Callable[[], None]] = []
    recorder = capture_at(tmp_path, "full", later.append)
    loud = json.dumps(["password=hunter2 "] * 2_000).encode()
    quiet = b'{"password":"hunter2"}'

    shown = [recorder.encode_frame("request", "client", "x", raw) for raw in (loud, loud, quiet)]
    assert [json.loads(frame)["payload"] for frame in shown] == [
        *(WITHHELD, WITHHELD),
        {"password": "[redacted]"},
    ]
    petty = json.dumps(["password=hunter2 "] * 10).encode()
    for _ in range(200):
        recorder.encode_frame("request", "client", "x", petty)
    assert json.loads(recorder.encode_frame("request", "client", "x", quiet))["payload"] == WITHHELD
    (renew,) = later
    renew()
    assert WITHHELD.encode() not in recorder.encode_frame("request", "client", "x", quiet)


def test_an_exchange_that_is_too_large_to_be_kept_is_not_looked_through(tmp_path: Path) -> None:
    scene = Scene(tmp_path, capture="full")
    recorder = scene.recorder._capture
    scene.begin(params=CALL | {"more": "x" * LINE_BYTES_MAX})
    scene.answer(result=ANSWER)
    (event,) = scene.events
    assert "payload_file" not in event["metadata"]
    assert recorder.payloads.lost_count == 1


def test_a_page_of_a_list_that_does_not_change_is_looked_at_once(tmp_path: Path) -> None:
    recorder = capture_at(tmp_path, "shape")
    looked: list[bytes] = []
    outline = recorder.outline

    def looking(raw: bytes) -> bytes:
        looked.append(raw)
        return outline(raw)

    recorder.outline = looking
    page, other = b'{"tools":[{"name":"a"}]}', b'{"tools":[{"title":"b"}]}'
    shapes = []
    for given in (page, page, other, page):
        exchange = Asked("tools/list", {}).exchange
        exchange.transcript = Transcript(clock=lambda: 0.0, keeps_payloads=False)
        exchange.transcript.client_answer = given
        shapes.append(recorder.captured_metadata(exchange, "shape")["result_shape"])

    assert [raw for raw in looked if raw != b"{}"] == [page, other]
    assert shapes == ['{"tools":[{"name":s}]}'] * 2 + [
        *('{"tools":[{"title":s}]}', '{"tools":[{"name":s}]}')
    ]

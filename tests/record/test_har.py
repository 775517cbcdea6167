"""Traffic as HAR."""

import json
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import pytest

from anyport.record.har import HarWriter, har_entries
from anyport.record.traffic import Detail
from tests.record.recorded import SPAN, detail_of, exchange, frame, payload_line, write_payloads

_COMMENT: Final = {"comment": {"type": "string"}}


def thing(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """An object of HAR: own members begin with an underscore, others than these are not allowed."""
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **(optional or {}), **_COMMENT},
        "patternProperties": {"^_": {}},
        "additionalProperties": False,
    }


TEXT: Final = {"type": "string"}
WHOLE: Final = {"type": "integer"}
SIZE: Final = {"type": "integer", "minimum": -1}
TIME: Final = {"type": "number", "minimum": 0}
TIME_OR_NOT: Final = {"type": "number", "minimum": -1}
PAIR: Final = thing({"name": TEXT, "value": TEXT})
BOTH: Final = {
    "httpVersion": TEXT,
    "cookies": {"type": "array", "items": thing({"name": TEXT, "value": TEXT})},
    "headers": {"type": "array", "items": PAIR},
    "headersSize": SIZE,
    "bodySize": SIZE,
}
REQUEST: Final = thing(
    {
        "method": TEXT,
        "url": {"type": "string", "format": "uri"},
        "queryString": {"type": "array", "items": PAIR},
        **BOTH,
    },
    {"postData": thing({"mimeType": TEXT}, {"text": TEXT, "params": {"type": "array"}})},
)
RESPONSE: Final = thing(
    {
        "status": WHOLE,
        "statusText": TEXT,
        "content": thing(
            {"size": WHOLE, "mimeType": TEXT},
            {"text": TEXT, "compression": WHOLE, "encoding": TEXT},
        ),
        "redirectURL": TEXT,
        **BOTH,
    }
)
ENTRY: Final = thing(
    {
        "startedDateTime": {"type": "string", "format": "date-time"},
        "time": TIME,
        "request": REQUEST,
        "response": RESPONSE,
        "cache": thing({}, {"beforeRequest": {}, "afterRequest": {}}),
        "timings": thing(
            {"send": TIME, "wait": TIME, "receive": TIME},
            dict.fromkeys(("blocked", "dns", "connect", "ssl"), TIME_OR_NOT),
        ),
    },
    {"pageref": TEXT, "serverIPAddress": TEXT, "connection": TEXT},
)
CREATOR: Final = thing({"name": TEXT, "version": TEXT})
SCHEMA: Final = thing(
    {
        "log": thing(
            {
                "version": {"const": "1.2"},
                "creator": CREATOR,
                "entries": {"type": "array", "items": ENTRY},
            },
            {"browser": CREATOR, "pages": {"type": "array"}},
        )
    }
)
"""HTTP Archive 1.2, as its definition has it."""


def archive(*details: Detail) -> Any:
    har = HarWriter("1.0")
    text = har.opening + b"".join(map(har.encode_entries, details)) + har.closing
    document = json.loads(text)
    jsonschema_rs.validator_for(SCHEMA, validate_formats=True).validate(document)
    return document


def test_each_http_leg_of_an_exchange_is_an_entry(tmp_path: Path) -> None:
    write_payloads(tmp_path, payload_line())
    client, server = archive(detail_of(tmp_path, exchange()))["log"]["entries"]

    assert client["request"]["url"] == "http://anyport.invalid/mcp/dev"
    assert client["startedDateTime"] == "2026-07-28T12:00:00.018500+00:00"
    assert client["time"] == client["timings"]["wait"] == 231.5
    assert json.loads(client["request"]["postData"]["text"]) == {
        "jsonrpc": "2.0",
        "method": "tools/call",
        "params": {"name": "create_issue", "arguments": {"title": "hello"}},
    }
    assert json.loads(client["response"]["content"]["text"])["result"]["content"]
    assert client["response"]["status"] == 200

    assert server["request"]["url"] == "http://anyport.invalid/servers/github"
    assert server["startedDateTime"] == "2026-07-28T12:00:00.021500+00:00"
    assert server["time"] == 200.0
    assert server["request"]["postData"] == client["request"]["postData"]
    assert server["_anyport"]["server"]["era"] == "modern"
    assert server["_anyport"]["id"] == SPAN


@pytest.mark.parametrize(
    ("transports", "legs"),
    [
        (("stdio", "stdio"), []),
        (("stdio", "sse"), ["server"]),
        (("streamable-http", "stdio"), ["client"]),
        (("sse", "streamable-http"), ["client", "server"]),
        (("streamable-http", None), ["client"]),
    ],
)
def test_only_legs_over_http_are_entries(
    tmp_path: Path, transports: tuple[str, str | None], legs: list[str]
) -> None:
    client, server = transports
    made = detail_of(tmp_path, exchange(client_transport=client, server_transport=server))

    assert [entry["_anyport"]["leg"] for entry in archive(made)["log"]["entries"]] == legs


def test_what_the_gateway_asked_for_itself_is_one_leg(tmp_path: Path) -> None:
    own = exchange(profile=None, client_transport=None, answer_bytes=None, sent_bytes=None)
    [entry] = archive(detail_of(tmp_path, own))["log"]["entries"]
    assert (entry["_anyport"]["leg"], entry["response"]["content"]["size"]) == ("server", 118)


def test_what_was_not_captured_is_left_out(tmp_path: Path) -> None:
    made = detail_of(tmp_path, exchange(payload_file=None))
    for entry in archive(made)["log"]["entries"]:
        assert "postData" not in entry["request"]
        assert "text" not in entry["response"]["content"]
        assert entry["_anyport"]["shapes"]["params"] == '{"name":s,"arguments":{"title":s}}'


def test_what_is_not_recorded_is_named(tmp_path: Path) -> None:
    failed = exchange(outcome="server_error", event={"status": "failure", "error_code": -32602})
    client, _ = archive(detail_of(tmp_path, failed))["log"]["entries"]

    assert client["response"]["status"] == 0
    assert {"request.url", "response.status"} <= set(client["_anyport"]["invented"])
    assert client["_anyport"]["not_recorded"] == ["headers", "cookies", "id"]


def test_the_answer_on_another_stream_has_no_status(tmp_path: Path) -> None:
    client, _ = archive(detail_of(tmp_path, exchange(client_transport="sse")))["log"]["entries"]
    assert client["response"]["status"] == 0


def test_an_error_is_an_error_in_the_answer(tmp_path: Path) -> None:
    line = payload_line().replace(
        b'"payload":{"content":[{"type":"text","text":"made hello"}]}', b'"error":{"code":-1}'
    )
    write_payloads(tmp_path, line)
    for entry in har_entries(detail_of(tmp_path, exchange(outcome="server_error"))):
        assert json.loads(entry["response"]["content"]["text"]) == {
            "jsonrpc": "2.0",
            "error": {"code": -1},
        }


def test_frames_outside_exchanges_are_no_entries(tmp_path: Path) -> None:
    assert archive(detail_of(tmp_path, frame()))["log"]["entries"] == []


def test_several_rows_make_one_document(tmp_path: Path) -> None:
    details = [detail_of(tmp_path, event) for event in (exchange(), frame(), exchange())]
    assert len(archive(*details)["log"]["entries"]) == 4


def test_an_archive_of_nothing_is_one(tmp_path: Path) -> None:
    assert archive()["log"]["entries"] == []


@pytest.mark.parametrize(
    "event", [{"timestamp": "soon"}, {"timestamp": "0001-01-01T00:00:00"}, {"duration_ms": -5}]
)
def test_odd_times_of_other_writers_do_no_harm(tmp_path: Path, event: dict[str, Any]) -> None:
    assert archive(detail_of(tmp_path, exchange(event=event)))

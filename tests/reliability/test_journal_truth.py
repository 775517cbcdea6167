"""The journal says what happened, in whose trace, and nothing else, whatever anybody says."""

import os
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import pytest

from anyport.record.tamper.verify import ExternalEvidence, verify
from tests.harness import Message, read_events
from tests.journeys.scripts import Scripted, failure, result, rule, text, tools
from tests.rig.small_servers import patient, status, text_of

BAGGAGE_BYTES: Final = 1024 * 1024
CONTEXT_BYTES_MAX: Final = 8 * 1024
TRACEPARENT: Final = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]")


def traceparent(number: int) -> str:
    """A trace of its own for each number."""
    return f"00-{number:032x}-{number:016x}-01"


def tool_calls(state: Path) -> dict[str, list[Message]]:
    """The events of tool calls, by trace."""
    found = defaultdict(list)
    for event in read_events(state):
        if event["event_type"] == "gateway.tool_call":
            found[event["trace_id"]].append(event)
    return found


def endings(events: list[Message]) -> list[str]:
    """How a call ended; that it takes a while is noted too where the machine is busy."""
    return [event["status"] for event in events if event["status"] != "pending"]


def test_a_client_that_sends_no_trace_adds_nothing_to_the_call(tmp_path: Path) -> None:
    server = Scripted(tmp_path / "server", tools("echo"), rule("tools/call", result(text("ok"))))
    with patient(tmp_path, {"s": server.command}) as client:
        client.initialize()
        client.call("s__echo", {"a": 1})

    params = server.heard("tools/call")[0]["params"]
    assert params == {"name": "echo", "arguments": {"a": 1}}
    (trace,) = tool_calls(tmp_path / "state").values()
    assert endings(trace) == ["success"]
    assert re.fullmatch("[0-9a-f]{32}", trace[0]["trace_id"])


CONTEXTS: Final[dict[str, Message]] = {
    "valid": {"traceparent": traceparent(7)},
    "not-sampled": {"traceparent": traceparent(7)[:-1] + "0"},
    "capitals": {"traceparent": traceparent(0xABC).upper()},
    "all-zero": {"traceparent": traceparent(0)},
    "reserved-version": {"traceparent": "ff" + traceparent(7)[2:]},
    "too-much": {"traceparent": traceparent(7) + "-more"},
    "future": {"traceparent": "01" + traceparent(7)[2:] + "-more"},
    "forged-line": {"traceparent": traceparent(7) + "\r\nstatus: success"},
    "empty": {"traceparent": ""},
    "number": {"traceparent": 7},
    "object": {"traceparent": {"a": 1}},
    "null": {"traceparent": None},
    "half-a-character": {"traceparent": "\ud83d\ude00"},
    "long": {"traceparent": "0" * BAGGAGE_BYTES},
    "state-without-parent": {"tracestate": "vendor=1"},
    "state-of-an-invalid-parent": {"traceparent": "?", "tracestate": "vendor=1"},
    "large-state": {"traceparent": traceparent(7), "tracestate": "v=" + "1" * BAGGAGE_BYTES},
    "large-baggage": {"traceparent": traceparent(7), "baggage": "k=" + "1" * BAGGAGE_BYTES},
    "large-baggage-alone": {"baggage": "k=" + "1" * BAGGAGE_BYTES},
    "small-baggage": {"baggage": "k=1", "tracestate": "v=1", "traceparent": traceparent(7)},
    "nothing": {},
}


def test_a_server_gets_a_valid_trace_context_or_none(tmp_path: Path) -> None:
    server = Scripted(tmp_path / "server", tools("echo"), rule("tools/call", result(text("ok"))))
    with patient(tmp_path, {"s": server.command}) as client:
        client.initialize()
        for context in CONTEXTS.values():
            assert text_of(client.call("s__echo", **context, vendor="kept")) == "ok"

    seen = [message["params"]["_meta"] for message in server.heard("tools/call")]
    passed: dict[str, Any] = dict(zip(CONTEXTS, seen, strict=True))
    for context in seen:
        assert context["vendor"] == "kept"
        if "traceparent" in context:
            assert TRACEPARENT.fullmatch(context["traceparent"])
        for name in ("tracestate", "baggage"):
            assert len(context.get(name, "")) <= CONTEXT_BYTES_MAX
    for name in ("valid", "not-sampled", "future", "large-state", "large-baggage"):
        assert passed[name]["traceparent"].split("-")[1] == f"{7:032x}", name
        assert passed[name]["traceparent"].split("-")[2] != f"{7:016x}", name
    assert passed["not-sampled"]["traceparent"].endswith("-00")
    assert passed["small-baggage"]["baggage"] == "k=1"
    assert passed["small-baggage"]["tracestate"] == "v=1"
    # Who takes over a trace it cannot read starts a new one, and its vendors' state with it.
    assert "tracestate" not in passed["state-of-an-invalid-parent"]
    for name in ("large-state", "large-baggage", "large-baggage-alone"):
        assert not {"tracestate", "baggage"} & passed[name].keys(), name


HOSTILE: Final = (
    "a\nb",
    "a\r\nb",
    'a\n{"timestamp":"2026-07-28T00:00:00.000000+00:00","status":"success"}',
    "a\u2028b\u2029c\x85d",
    "a\x00b",
    "\x1b[31mred\x1b]0;title\x07",
    "\u202egnitset",
    "\x7f\x9b31m",
)
"""Texts that would be two records, or another one, to a careless reader."""


def test_hostile_text_is_one_record_and_forges_none(tmp_path: Path) -> None:
    offers = [{"name": name, "inputSchema": {"type": "object"}} for name in HOSTILE]
    server = Scripted(
        tmp_path / "server",
        rule("tools/list", result({"tools": offers})),
        *(
            rule(
                "tools/call",
                failure({"code": -1, "message": name}),
                where={"name": name},
                stderr=name,
            )
            for name in HOSTILE
        ),
    )
    with patient(tmp_path, {"s": server.command}) as client:
        client.initialize()
        names = [tool["name"] for tool in client.request("tools/list")["result"]["tools"]]
        public = [name for name in names if name.startswith("s__")]
        assert len(public) == len(HOSTILE)
        for name in public:
            assert client.call(name)["error"]["message"] in HOSTILE
        for name in HOSTILE:
            assert "error" in client.call(name + " of nobody")
        assert client.finish() == 0
    (file,) = (tmp_path / "state" / "events").glob("*/events.jsonl")
    raw = file.read_bytes()
    assert raw.decode().splitlines() == raw.decode().rstrip("\n").split("\n")
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", raw)
    verified = verify(tmp_path / "state", ExternalEvidence())
    assert (verified.faults, verified.records) == ((), raw.count(b"\n"))
    events = read_events(tmp_path / "state")
    calls = [event for event in events if event["event_type"] == "gateway.tool_call"]
    assert len(calls) == 2 * len(HOSTILE)
    natives = {event["metadata"]["tool"] for event in calls}
    assert set(HOSTILE) <= natives
    refused = [event for event in calls if event["status"] == "failure"]
    assert len(refused) == 2 * len(HOSTILE)
    assert set(HOSTILE) <= {event["error_message"] for event in refused}
    lines = [event["metadata"]["line"] for event in events if "stderr" in event["event_type"]]
    unsafe = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202e]")
    assert not any(unsafe.search(line) for line in lines)


@pytest.mark.parametrize("outage", ["full disk", "no directory"])
def test_calls_are_answered_while_the_journal_cannot_be_written(
    tmp_path: Path, outage: str
) -> None:
    state = tmp_path / "state"
    if outage == "no directory":
        state.write_text("a file where the directory should be")
    else:
        for year in range(2026, 2100):
            for month in range(1, 13):
                folder = state / "events" / f"{year}-{month:02}"
                folder.mkdir(parents=True)
                (folder / "events.jsonl").symlink_to("/dev/full")
    server = Scripted(tmp_path / "server", tools("echo"), rule("tools/call", result(text("ok"))))
    with patient(tmp_path, {"s": server.command}) as client:
        client.initialize()
        assert text_of(client.call("s__echo")) == "ok"

        monitoring = status(client)["gateway"]["event_monitoring"]

        assert monitoring["enabled"] is False
        assert monitoring["last_error"].startswith("The event journal cannot be written: ")
        assert os.fspath(tmp_path) not in monitoring["last_error"]
        if outage == "no directory":  # The other stands for a full disk, but reads without end.
            assert "result" in client.call("get_events")
        assert text_of(client.call("s__echo")) == "ok"
        assert client.finish() == 0
    assert b"Traceback" not in client.stderr

"""Servers that misbehave: whoever called them is told, and nobody else notices."""

import json
import os
import signal
import time
from collections import Counter
from hashlib import sha256
from typing import Any, Final

import pytest

from anyport.gateway.recording.messages import MESSAGES_PER_SECOND_MAX
from tests.harness import MODERN_META, read_events
from tests.reliability.conftest import Watch
from tests.rig.client import key_of
from tests.rig.hostile_server import BROKEN_TEXT, LONG_INSTRUCTIONS, MISDELIVERED, filling
from tests.rig.probe import HOSTILE, MIB, Probe, answered_before, eventually, text_of
from tests.rig.scale import measured, scaled

IN_FLIGHT: Final = 100
BANNERS: Final = 1_000
ENDLESS_BYTES: Final = 1024 * MIB
"""Promised by the server; it is cut off long before."""
ANSWER_BYTES_MAX: Final = 16 * MIB
STDERR_BYTES: Final = scaled(32, full=1024) * MIB
DEAF_CALLS: Final = scaled(2_000, full=10_000)
OPEN_CALLS_MAX: Final = 128
WAITING_CALLS_MAX: Final = 1_024
OPEN_BYTES_MAX: Final = 64 * MIB
STRAYS: Final = scaled(2_000, full=10_000)
STORM_NOTIFICATIONS: Final = scaled(4_000, full=60_000)
STORM_PER_SECOND: Final = 1_000
RELIST_SECONDS_MIN: Final = 2.0
STDERR_EVENTS_PER_SECOND_MAX: Final = 10
STDERR_LINE_BYTES_MAX: Final = 10 * 1024
PATIENT: Final = {
    "command": HOSTILE[0],
    "args": HOSTILE[1:],
    "timeout": scaled(60, full=600),
}
"""For calls that take as long as what they do."""

UNREPEATED: Final = {"command": HOSTILE[0], "args": HOSTILE[1:], "retry": "never"}
"""What it could not take before it was killed is not brought to the next one."""


def hold(probe: Probe, count: int = IN_FLIGHT) -> dict[str, str | int]:
    """Calls that wait for their release; the ids by the texts they are to get."""
    texts = [f"nonce-{number}" for number in range(count)]
    calls: list[tuple[str, Any]] = [
        ("tools/call", {"name": "bad__hold", "arguments": {"text": text}}) for text in texts
    ]
    return dict(zip(texts, probe.client.start_all(calls), strict=True))


@pytest.mark.slow
def test_a_line_that_is_not_utf8_harms_no_call(watch: Watch) -> None:
    with watch({"bad": HOSTILE}) as probe:
        for broken in BROKEN_TEXT:
            held = hold(probe)
            assert text_of(probe.client.call("bad__release", broken=broken)) == f"{IN_FLIGHT}"
            for text, id in held.items():
                assert text_of(probe.client.answer(id)) == text
            assert text_of(probe.client.call("bad__echo", text="next")) == "next"
        assert probe.backend()["noise_lines"] == len(BROKEN_TEXT) * IN_FLIGHT
        assert probe.backend()["restarts"] == 0


@pytest.mark.slow
def test_an_answer_that_is_not_utf8_fails_its_own_call_only(watch: Watch) -> None:
    with watch({"bad": HOSTILE}) as probe:
        held = hold(probe)
        probe.client.call("bad__release", victim="nonce-50")
        for text, id in held.items():
            answer = probe.client.answer(id)
            if text == "nonce-50":
                assert "'bad'" in answer["error"]["message"]
                assert "UTF-8" in answer["error"]["message"]
            else:
                assert text_of(answer) == text
        assert text_of(probe.client.call("bad__echo", text="next")) == "next"


@pytest.mark.slow
def test_banners_and_half_lines_between_answers_lose_no_answer_and_fill_no_log(
    watch: Watch,
) -> None:
    with watch({"bad": HOSTILE}) as probe:
        held = hold(probe)
        noted = len(read_events(probe.state))
        released = probe.client.call("bad__release", banners=BANNERS // IN_FLIGHT)
        assert text_of(released) == f"{IN_FLIGHT}"
        for text, id in held.items():
            assert text_of(probe.client.answer(id)) == text
        events = read_events(probe.state)[noted:]
        noise = [event for event in events if event["event_type"] != "gateway.tool_call"]
        assert {event["metadata"]["kind"] for event in noise} == {"not-json-rpc"}
        in_a_second = Counter(event["timestamp"][:19] for event in noise)
        assert max(in_a_second.values()) <= 2 * MESSAGES_PER_SECOND_MAX  # The seconds are not ours.
        assert probe.backend()["noise_lines"] == BANNERS
        assert probe.client.stderr == b""


SPOILT_ANSWERS: Final = (
    '{"jsonrpc":"2.0","id":@,"result":"text"}',
    '{"jsonrpc":"2.0","id":@,"result":null}',
    '{"jsonrpc":"2.0","id":@,"result":[]}',
    '{"jsonrpc":"2.0","id":@,"result":{"a":NaN}}',
    '{"jsonrpc":"2.0","id":@,"result":{"a":1,}}',
    '{"jsonrpc":"2.0","id":@,"result":{"content":[],"content":[]},"result":{}}',
    '{"jsonrpc":"2.0","id":@,"error":"text"}',
    '{"jsonrpc":"2.0","id":@,"error":{}}',
    '{"jsonrpc":"2.0","id":@,"error":{"code":"x","message":7}}',
    '{"jsonrpc":"2.0","id":@,"error":{"code":1.5,"message":"x"}}',
    '{"jsonrpc":"2.0","id":@,"error":{"code":1e999,"message":"x"}}',
    '{"jsonrpc":"2.0","id":@,"error":{"code":99999999999999999999,"message":"x","data":[]}}',
    '{"jsonrpc":"2.0","id":@,"error":{"code":1,"message":"x","data":{"a":1,"a":2}}}',
    '{"jsonrpc":"2.0","id":@,"error":{"code":1,"code":2,"message":"x"}}',
    '{"jsonrpc":"2.0","id":@,"error":{"code":1,"message":"x"},"result":{}}',
    '{"jsonrpc":"2.0","id":@,"result":{"a":' + "[" * 200 + "]" * 200 + "}}",
    '{"jsonrpc":"2.0","id":@,"result":{"a":' + "9" * 2000 + "}}",
    '{"jsonrpc":"2.0","id":@,"result":{"content":[{"type":"text","text":"\\ud800"}]}}',
    '{"jsonrpc":"2.0","id":@}',
    '{"id":@,"result":{"content":[]},"Result":{}}',
)


@pytest.mark.slow
def test_an_answer_that_cannot_be_used_becomes_an_error_that_names_the_server(
    watch: Watch,
) -> None:
    # Each failure is to be seen for itself, not only the first few.
    bad = {"command": HOSTILE[0], "args": HOSTILE[1:], "breaker": False}
    with watch({"bad": bad}) as probe:
        for frame in SPOILT_ANSWERS:
            answer = probe.client.call("bad__spoil", frame=frame)
            assert "error" in answer, frame
            assert "bad" in json.dumps(answer["error"]), frame
        assert text_of(probe.client.call("bad__echo", text="next")) == "next"
        assert probe.backend()["restarts"] == 0


@pytest.mark.slow
def test_a_line_without_an_end_is_cut_and_the_server_started_anew(watch: Watch) -> None:
    with watch({"bad": HOSTILE}) as probe:
        client = probe.client
        with probe.peak(2 * ANSWER_BYTES_MAX):
            answer = client.call("bad__endless", size=ENDLESS_BYTES)
        assert "'bad' is not running" in answer["error"]["message"]
        assert "without an end" in answer["error"]["message"]
        eventually(lambda: probe.backend()["status"] == "running", "it runs again")
        assert text_of(client.call("bad__echo", text="next")) == "next"
        assert probe.backend()["restarts"] == 1


@pytest.mark.slow
def test_an_answer_of_the_limit_passes_and_a_longer_one_is_refused_with_both_sizes(
    watch: Watch,
) -> None:
    with watch({"bad": HOSTILE}) as probe:
        client = probe.client
        whole = text_of(client.call("bad__big", size=ANSWER_BYTES_MAX))
        assert ANSWER_BYTES_MAX - 200 < len(whole) < ANSWER_BYTES_MAX
        assert sha256(whole.encode()).digest() == sha256(filling(len(whole)).encode()).digest()
        refusal = client.call("bad__big", size=ANSWER_BYTES_MAX + 1)["error"]["message"]
        assert f"{ANSWER_BYTES_MAX + 1}" in refusal
        assert f"{ANSWER_BYTES_MAX}" in refusal
        assert text_of(client.call("bad__echo", text="next")) == "next"
        assert probe.backend()["restarts"] == 0


@pytest.mark.slow
def test_the_limit_of_an_answer_can_be_set_for_a_server(watch: Watch) -> None:
    entry = {"command": HOSTILE[0], "args": HOSTILE[1:], "maxMessageBytes": MIB}
    with watch({"bad": entry}) as probe:
        assert text_of(probe.client.call("bad__big", size=MIB))
        refusal = probe.client.call("bad__big", size=MIB + 1)["error"]["message"]
        assert f"{MIB + 1}" in refusal
        assert text_of(probe.client.call("bad__echo", text="next")) == "next"


@pytest.mark.slow
@pytest.mark.parametrize("newlines", [True, False])
def test_a_flood_on_stderr_blocks_nothing_and_is_not_kept(watch: Watch, newlines: bool) -> None:
    with watch({"bad": PATIENT}) as probe:
        began = time.monotonic()
        with probe.peak(10 * MIB):
            answer = probe.client.call("bad__flood", size=STDERR_BYTES, newlines=newlines)
        assert text_of(answer) == "flooded"
        seconds = time.monotonic() - began + 1
        lines = [e for e in read_events(probe.state) if e["event_type"] == "gateway.stderr"]
        assert 0 < len(lines) <= STDERR_EVENTS_PER_SECOND_MAX * (seconds + 1)
        assert max(len(line["metadata"]["line"]) for line in lines) <= STDERR_LINE_BYTES_MAX
        assert "[redacted]" in lines[0]["metadata"]["line"]


@pytest.mark.slow
def test_a_server_that_does_not_read_is_given_so_many_calls_and_no_more(watch: Watch) -> None:
    with watch({"bad": UNREPEATED}) as probe:
        # What so many have taken up is used again by those who come next.
        probe.growth_bytes_max = scaled(probe.growth_bytes_max, full=20 * MIB)
        client = probe.client
        text_of(client.call("bad__deaf"))
        echo = {"name": "bad__echo", "arguments": {"text": "x"}}
        calls = client.start_all([("tools/call", echo)] * DEAF_CALLS)
        marker = client.start("ping")
        client.answer(marker)
        accepted = OPEN_CALLS_MAX + WAITING_CALLS_MAX
        assert not any(client.answered(id) for id in calls[:accepted])
        for id in calls[accepted:]:
            assert "busy" in client.answer(id)["error"]["message"]
            assert answered_before(client, id, marker)
        client.cancel(*calls[:100])
        os.kill(probe.backend()["pid"], signal.SIGKILL)
        for id in calls[100:accepted]:
            assert "SIGKILL" in client.answer(id)["error"]["message"]
        eventually(lambda: probe.backend()["status"] == "running", "it runs again")
        assert text_of(client.call("bad__echo", text="next")) == "next"
        assert not any(client.answered(id) for id in calls[:100])


@pytest.mark.slow
def test_a_server_that_does_not_read_is_given_so_many_bytes_and_no_more(watch: Watch) -> None:
    with watch({"bad": UNREPEATED}) as probe:
        client = probe.client
        text_of(client.call("bad__deaf"))
        with probe.peak(160 * MIB):  # Each message is in memory up to four times.
            large = {"name": "bad__echo", "arguments": {"text": "x" * MIB}}
            calls = [client.start("tools/call", large) for _ in range(60)]
            client.request("ping")
        refused = [id for id in calls if client.answered(id)]
        assert 20 <= len(refused) <= 40
        os.kill(probe.backend()["pid"], signal.SIGKILL)
        for id in calls:
            assert "error" in client.answer(id)


@pytest.mark.slow
def test_calls_that_wait_for_a_busy_server_hold_so_many_bytes_and_no_more(watch: Watch) -> None:
    with watch({"bad": UNREPEATED}) as probe:
        client = probe.client
        held = hold(probe, OPEN_CALLS_MAX)
        with probe.peak(4 * OPEN_BYTES_MAX):  # Each message is in memory up to four times.
            large = {"name": "bad__echo", "arguments": {"text": "x" * MIB}}
            calls = [client.start("tools/call", large) for _ in range(100)]
            client.request("ping")
        refused = [id for id in calls if client.answered(id)]
        assert len(refused) >= 100 - OPEN_BYTES_MAX // MIB
        for id in refused:
            assert f"{OPEN_BYTES_MAX}" in client.answer(id)["error"]["message"]
            client.calls.discard(key_of(id))  # Turned away at the door, before it was a call.
        os.kill(probe.backend()["pid"], signal.SIGKILL)
        for id in (*held.values(), *calls):
            assert "error" in client.answer(id)


@pytest.mark.slow
def test_answers_with_wrong_ids_reach_nobody_and_are_counted(watch: Watch) -> None:
    with watch({"bad": HOSTILE}) as probe:
        client = probe.client
        given_up = hold(probe, 20)
        client.cancel(*given_up.values())
        for _ in range(4):
            assert text_of(client.call("bad__stray", count=STRAYS // 4)) == "mine"
        assert text_of(client.call("bad__release", twice=True)) == "20"
        report = probe.backend()
        assert report["stray_answers"] + report["noise_lines"] == STRAYS + 4 + 40
        assert not [line for line in client.lines if MISDELIVERED.encode() in line]
        assert not any(client.answered(id) for id in given_up.values())


@pytest.mark.slow
def test_a_storm_of_list_changes_is_calmed(watch: Watch) -> None:
    with watch({"bad": PATIENT}) as probe:
        client = probe.client
        lists = json.loads(text_of(client.call("bad__report")))["lists"]
        client.request("tools/list")
        told = len(client.told)
        began, spent = time.monotonic(), probe.cpu_seconds()
        storm = {"count": STORM_NOTIFICATIONS, "per_second": STORM_PER_SECOND}
        assert text_of(client.call("bad__storm", **storm)) == "calm"
        seconds = time.monotonic() - began
        spent = probe.cpu_seconds() - spent
        lists = json.loads(text_of(client.call("bad__report")))["lists"] - lists
        assert 1 <= lists <= seconds / RELIST_SECONDS_MIN + 2
        assert len(client.told) - told <= lists
        measured(share=round(spent / seconds, 3), lists=lists)
        assert spent < seconds / 2, "more than half of a processor"
        eventually(lambda: not _tools_named(probe, "bad__fresh"), "the list is what it was before")


def _tools_named(probe: Probe, start: str) -> list[str]:
    tools = probe.client.request("tools/list")["result"]["tools"]
    return [tool["name"] for tool in tools if tool["name"].startswith(start)]


@pytest.mark.slow
def test_a_server_that_hangs_in_the_handshake_delays_nobody_else(watch: Watch) -> None:
    entry = {"command": HOSTILE[0], "args": [*HOSTILE[1:], "hang"], "timeout": 1}
    with watch({"bad": entry}) as probe:
        assert _tools_named(probe, "neighbour__")
        assert not _tools_named(probe, "bad__")
        report = probe.backend()
        assert report["status"] == "starting"
        answer = probe.client.call("bad__echo", text="x")
        assert "bad" in json.dumps(answer["error"])


@pytest.mark.slow
def test_a_server_of_an_unknown_revision_is_named_with_its_revision(watch: Watch) -> None:
    with watch({"bad": [*HOSTILE, "wrong-version"]}) as probe:
        eventually(lambda: probe.backend()["last_error"] is not None, "it has failed")
        assert "1999-12-31" in probe.backend()["last_error"]
        answer = probe.client.call("bad__echo", text="x")
        assert "1999-12-31" in answer["error"]["message"]


@pytest.mark.slow
def test_a_server_that_exits_at_once_is_told_with_its_code_and_last_words(watch: Watch) -> None:
    with watch({"bad": [*HOSTILE, "crash"]}) as probe:
        eventually(lambda: probe.backend()["last_error"] is not None, "it has failed")
        told = probe.backend()["last_error"]
        assert "exit code 3" in told
        assert "cannot read the licence ([redacted])" in told
        answer = probe.client.call("bad__echo", text="x")
        assert "exit code 3" in answer["error"]["message"]
        assert "cannot read the licence" in answer["error"]["message"]


@pytest.mark.slow
def test_a_server_that_exits_in_a_call_is_told_with_its_code_and_last_words(watch: Watch) -> None:
    with watch({"bad": HOSTILE}) as probe:
        held = hold(probe, 20)
        answer = probe.client.call("bad__crash", code=7)
        assert "exit code 7" in answer["error"]["message"]
        assert "out of ideas ([redacted])" in answer["error"]["message"]
        for id in held.values():
            assert "exit code 7" in probe.client.answer(id)["error"]["message"]
        eventually(lambda: probe.backend()["status"] == "running", "it runs again")
        assert text_of(probe.client.call("bad__echo", text="next")) == "next"


@pytest.mark.slow
def test_instructions_of_a_megabyte_are_not_passed_on(watch: Watch) -> None:
    with watch({"bad": [*HOSTILE, "long-instructions"]}) as probe:
        assert text_of(probe.client.call("bad__echo", text="x")) == "x"
        found = probe.client.request("server/discover", {"_meta": MODERN_META})["result"]
        assert LONG_INSTRUCTIONS not in found["instructions"]
        assert 0 < len(found["instructions"]) < 10_000

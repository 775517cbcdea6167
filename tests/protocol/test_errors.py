"""Faults: one code and message for each situation and revision; errors of servers stay their
own."""

import json
import re
from pathlib import Path

import pytest

import anyport
from anyport.protocol import errors
from anyport.protocol.errors import Fault, Situation, Timeout, add_server_context
from anyport.protocol.revisions import REVISIONS

FIRST, LEGACY, MODERN = (REVISIONS[name] for name in ("2024-11-05", "2025-11-25", "2026-07-28"))


@pytest.mark.parametrize(
    ("situation", "legacy", "modern"),
    [
        (Situation.INVALID_REQUEST, -32600, -32600),
        (Situation.INVALID_PARAMS, -32602, -32602),
        (Situation.METHOD_NOT_FOUND, -32601, -32601),
        (Situation.INTERNAL, -32603, -32603),
        (Situation.UNKNOWN_TOOL, -32602, -32602),
        (Situation.UNKNOWN_RESOURCE, -32002, -32602),
        (Situation.NOT_RUNNING, -32000, -32603),
        (Situation.TIMED_OUT, -32000, -32603),
        (Situation.BUSY, -32000, -32603),
        (Situation.EJECTED, -32000, -32603),
        (Situation.MISBEHAVED, -32000, -32603),
        (Situation.OVERLOADED, -32000, -32603),
        # Modern requests only, so they have one code.
        (Situation.UNSUPPORTED_REVISION, -32022, -32022),
        (Situation.HEADER_MISMATCH, -32020, -32020),
        (Situation.MISSING_CAPABILITY, -32021, -32021),
    ],
)
def test_a_situation_has_its_code_in_either_era(
    situation: Situation, legacy: int, modern: int
) -> None:
    fault = Fault(situation=situation, message="words")

    assert (fault.code(LEGACY), fault.code(MODERN)) == (legacy, modern)


def test_every_situation_has_its_row_above_and_a_label_of_its_own() -> None:
    assert len(list(Situation)) == 15
    assert len({situation.label for situation in Situation}) == 15


def test_an_unknown_tool_is_reported_as_the_revision_has_it() -> None:
    fault = errors.unknown_tool("a{b}c")

    assert json.loads(fault.render(FIRST)) == {"code": -32601, "message": "Tool not found: a{b}c"}
    assert json.loads(fault.render(LEGACY)) == {"code": -32602, "message": "Unknown tool: a{b}c"}
    assert json.loads(fault.render(MODERN)) == {"code": -32602, "message": "Unknown tool: a{b}c"}


def test_faults_of_the_caller_say_what_is_wrong() -> None:
    assert json.loads(errors.invalid_params("needs a name").render(LEGACY)) == {
        "code": -32602,
        "message": "needs a name",
    }
    assert errors.method_not_found("a/b").message_for(MODERN) == "Method not found: a/b"


@pytest.mark.parametrize(
    ("situation", "words"),
    [
        (Situation.NOT_RUNNING, "Server 'a' is not running: why"),
        (Situation.BUSY, "Server 'a' is busy: why"),
        (Situation.MISBEHAVED, "Server 'a' why"),
    ],
)
def test_a_server_that_gave_no_answer_is_named(situation: Situation, words: str) -> None:
    rendered = json.loads(errors.server_failure("a", situation, "why").render(LEGACY))

    assert rendered == {"code": -32000, "message": words, "data": {"server": "a"}}


def test_a_call_that_took_too_long_has_run_out_of_its_own_time() -> None:
    assert errors.server_failure("a", Situation.TIMED_OUT, "60s") == errors.timed_out(
        "a", Timeout.TOTAL, "60s"
    )


def test_a_server_that_is_down_is_not_running() -> None:
    assert errors.not_running("a", "why") == errors.server_failure(
        "a", Situation.NOT_RUNNING, "why"
    )


def test_only_a_modern_tool_call_gets_a_servers_fault_as_a_tool_result() -> None:
    down, unknown = errors.not_running("a", "why"), errors.unknown_tool("a")

    assert down.is_tool_result("tools/call", MODERN)
    assert not down.is_tool_result("tools/call", LEGACY)
    assert not down.is_tool_result("prompts/get", MODERN)
    assert not unknown.is_tool_result("tools/call", MODERN)


def test_a_tool_error_says_it_in_text() -> None:
    assert json.loads(errors.tool_error('a "b"')) == {
        "content": [{"type": "text", "text": 'a "b"'}],
        "isError": True,
    }


@pytest.mark.parametrize(
    ("own", "kept"),
    [
        (b"", {}),
        (b',"data":null', {}),
        (b',"data":[1]', {}),
        (b',"data":"text"', {}),
        (b',"data":{"a":1.50,"server":"theirs"}', {"a": 1.5}),
        (b',"data":{"a":1,"a":2}', {}),
        (b',"data":{"a":1,"Server":"theirs","OriginalError":{}}', {"a": 1}),
    ],
)
def test_a_servers_error_keeps_code_and_message_and_gains_context(
    own: bytes, kept: dict[str, object]
) -> None:
    error = b'{"code":-32050,"message":"no"%b}' % own

    converted = json.loads(add_server_context(error, "a"))

    assert (converted["code"], converted["message"]) == (-32050, "no")
    assert converted["data"] == {**kept, "server": "a", "originalError": json.loads(error)}


def test_the_code_of_an_error_is_read() -> None:
    assert errors.error_code(b'{"code":-32022,"message":""}') == -32022
    assert errors.error_code(b"{}") is None


def test_who_is_turned_away_learns_when_to_come_back() -> None:
    fault = errors.overloaded("too much", own=True, seconds=3)

    assert fault.retry_after == errors.RetryAfter(429, 3)
    assert json.loads(fault.render(LEGACY))["data"] == {"retryAfterSeconds": 3}
    assert not fault.is_tool_result("tools/call", MODERN)
    assert errors.overloaded("too much", seconds=1).retry_after == errors.RetryAfter(503, 1)


def test_who_waits_for_a_busy_server_may_be_put_off_too() -> None:
    busy = errors.server_failure("s", Situation.BUSY, "open calls: 128, waiting: 9")
    assert busy.retry_after is None

    put_off = errors.add_retry_after(busy, errors.RetryAfter(seconds=2))

    assert put_off.retry_after == errors.RetryAfter(None, 2)
    assert json.loads(put_off.data or b"") == {"server": "s", "retryAfterSeconds": 2}


def test_an_answer_that_could_not_be_kept_is_not_to_be_asked_for_again_unthinkingly() -> None:
    fault = errors.server_failure("s", Situation.OVERLOADED, "9 bytes; the call was carried out")

    assert fault.retry_after == errors.RetryAfter(503)
    assert "retryAfterSeconds" not in json.loads(fault.data or b"")


@pytest.mark.parametrize(
    ("timeout", "words"),
    [
        (Timeout.QUEUE, "Server 's' is busy: no place became free for this call within why"),
        (Timeout.CONNECT, "Server 's' is not running: why"),
        (Timeout.HANDSHAKE, "Server 's' is not running: why"),
        (Timeout.FIRST_BYTE, "Server 's' why"),
        (Timeout.STREAM_IDLE, "Server 's' why"),
        (Timeout.TOTAL, "Tool execution timeout (why)"),
        (Timeout.CAP, "Tool execution timeout (why in all, the timeoutMax of server 's')"),
        (
            Timeout.ANSWER,
            "Tool execution timeout: the question of server 's' was not answered within why",
        ),
        (Timeout.DRAIN, "The gateway is stopping, and server 's' has not answered in time"),
    ],
)
def test_a_timeout_is_named_in_the_error(timeout: Timeout, words: str) -> None:
    fault = errors.timed_out("s", timeout, "why")

    assert (fault.message, fault.timeout) == (words, timeout)
    assert fault.situation is Situation.TIMED_OUT
    assert json.loads(fault.data or b"") == {"server": "s", "timeout": timeout.value}
    assert fault.is_tool_result("tools/call", MODERN)


def test_a_server_that_gets_no_calls_says_when_it_may_again() -> None:
    fault = errors.server_failure("a", Situation.EJECTED, "why", 26.2)

    assert json.loads(fault.render(LEGACY)) == {
        "code": -32000,
        "message": "Server 'a' is not taking calls: why",
        "data": {"server": "a", "retryAfterSeconds": 27},
    }
    assert json.loads(fault.render(MODERN))["code"] == -32603
    assert fault.is_tool_result("tools/call", MODERN)


# Timeouts.

PAGE = Path(anyport.__file__).parents[2] / "docs" / "reference" / "timeouts.md"


def test_the_names_are_words_that_fit_a_label() -> None:
    names = [timeout.value for timeout in Timeout]

    assert len(set(names)) == len(names) == 14
    assert all(re.fullmatch("[a-z]+(-[a-z]+)?", name) for name in names)


def test_the_page_of_timeouts_has_a_row_for_each_and_no_other() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)

    assert rows == [timeout.value for timeout in Timeout]

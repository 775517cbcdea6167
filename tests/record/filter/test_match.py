from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyport.record.filter.match import compile_filter, compile_glob, event_outcome
from anyport.record.filter.parser import KEYS, Filter, parse_filter
from tests.record.filters import NOON, TRACE, cases
from tests.record.predicate import fits_plainly, matches_plainly
from tests.record.story import CPU_SECONDS_MAX, cpu_seconds

CALL: dict[str, Any] = {
    "timestamp": "2026-07-28T12:00:00.250000+00:00",
    "trace_id": TRACE,
    "status": "failure",
    "schema_version": "1.0",
    "event_type": "gateway.tool_call",
    "source": "anyport",
    "metadata": {
        "span_id": "00f067aa0ba902b7",
        "profile": "dev",
        "session": "s1",
        "server": "github",
        "tool": "create_issue",
        "public_name": "gh__create_issue",
        "method": "tools/call",
        "client": "cursor-vscode 1.0.0",
        "principal": "ci",
        "client_revision": "2025-06-18",
        "client_transport": "stdio",
        "server_revision": "2026-07-28",
        "server_transport": "streamable-http",
        "queue_ms": 0.5,
        "server_ms": 1200.5,
        "params_bytes": 120,
        "result_bytes": 20_000,
        "outcome": "server_error",
        "frames": ["12.345 server-notification notifications/progress 118"],
    },
    "duration_ms": 1231.48,
    "error_code": -32602,
    "error_message": "Invalid params: Rate Limit reached",
}
FRAME: dict[str, Any] = {
    "timestamp": "2026-07-28T12:00:01.000000+00:00",
    "trace_id": "1" * 32,
    "status": "success",
    "event_type": "gateway.frame",
    "metadata": {"kind": "server-notification", "side": "server", "bytes": 118, "server": "docs"},
}
STDERR: dict[str, Any] = {
    "timestamp": "2026-07-28T12:00:02.000000+00:00",
    "trace_id": "2" * 32,
    "status": "success",
    "event_type": "gateway.stderr",
    "metadata": {"server": "docs", "line": "listening"},
}


def matches(text: str, event: dict[str, Any]) -> bool:
    return compile_filter(parse_filter(text, NOON + 60))(event)


# Each key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "server:github",
        "server:git*",
        "server:docs,github",
        "server:docs,git*",
        "profile:dev",
        "method:tools/call",
        "method:tools/*",
        "tool:create_issue",
        "tool:gh__create_issue",
        "tool:*issue*",
        "tool:create?issue",
        "target:create_issue",
        "target:gh__*",
        "client:cursor",
        "client:*1.0.0",
        "principal:ci",
        "session:s1",
        "type:tool_call",
        "type:*call",
        "kind:exchange",
        "outcome:server_error",
        "code:-32602",
        "code:<-32000",
        "code:-32700..-32600",
        "status:error",
        "status:failure",
        "era:legacy",
        "era:modern",
        "revision:2025-06-18",
        "revision:2026-*",
        "transport:stdio",
        "transport:streamable-http",
        f"trace:{TRACE}",
        "trace:4bf92f35-77b3-4da6-a3ce-929d0e0e4736",
        "trace:4BF9",
        "id:00f067aa0ba902b7",
        "id:00f0",
        "rate",
        'text:"rate limit"',
        "progress",
        "CREATE_ISSUE",
        "dur:>1s",
        "dur:1s..2s",
        "dur:1231.48",
        "queue:<=1",
        "wait:>1200",
        "size:>10kb",
        "size:20kb",
        "since:10m",
        "since:2026-07-28T12:00:00.25Z",
        "until:10s",
        "-server:docs",
        "-prompt:*",
        "-dur:<1s",
        "server:github method:tools/call tool:*issue* status:error dur:>1s since:10m client:cursor"
        ' text:"rate limit"',
    ],
)
def test_a_failed_call_is_found(text: str) -> None:
    assert matches(text, CALL)


@pytest.mark.parametrize(
    "text",
    [
        "server:git",
        "server:GITHUB",
        "server:docs,gitlab",
        'server:"git*"',
        "tool:issue",
        "prompt:gh__create_issue",
        "uri:*",
        "client:vscode",
        "client:Cursor",
        "type:frame*",
        "kind:stderr",
        "side:client",
        "outcome:ok",
        "code:-32601",
        "code:a*",
        "status:ok",
        "revision:2025-11-25",
        "transport:sse",
        "trace:5",
        "id:f067",
        "rate-limit",
        'text:"dev s1"',
        "dur:<=1s",
        "dur:2s..3s",
        "size:<=120",
        "since:30s",
        "until:2026-07-28T12:00:00.25Z",
        "-server:github",
        "server:github server:docs",
        "server:github dur:<1s",
    ],
)
def test_a_failed_call_is_left_out(text: str) -> None:
    assert not matches(text, CALL)


def test_a_frame_is_found_by_what_it_is() -> None:
    assert matches("type:*frame kind:server-notification side:server size:118", FRAME)
    assert not matches("kind:exchange", FRAME)
    assert not matches("outcome:*", FRAME)
    assert not matches("method:*", FRAME)


def test_a_line_of_standard_error_is_a_frame_of_a_server() -> None:
    assert matches("kind:stderr side:server listening", STDERR)


def test_a_call_of_which_nothing_was_captured_is_found_all_the_same() -> None:
    bare = CALL | {"metadata": {"tool": "t"}, "status": "success"}
    assert matches("method:tools/call kind:exchange outcome:ok", bare)


@pytest.mark.parametrize(
    ("event", "outcome"),
    [
        (CALL, "server_error"),
        ({"event_type": "gateway.exchange", "status": "success"}, "ok"),
        ({"event_type": "gateway.tool_call", "status": "cancelled"}, "cancelled"),
        ({"event_type": "gateway.tool_call", "status": "timeout"}, "timeout"),
        ({"event_type": "gateway.tool_call", "status": "failure"}, "tool_error"),
        ({"event_type": "gateway.tool_call", "status": "failure", "error_code": -1}, None),
        ({"event_type": "gateway.tool_call", "status": "pending"}, None),
        ({"event_type": "gateway.started", "status": "success"}, None),
        ({"event_type": ["gateway.tool_call"], "status": ["success"]}, None),
    ],
)
def test_the_outcome_is_told_or_follows_from_the_status(
    event: dict[str, Any], outcome: str | None
) -> None:
    assert event_outcome(event) == outcome


def test_the_era_of_a_server_that_started_is_known_by_either_member() -> None:
    assert matches("era:modern", {"metadata": {"era": "modern"}})
    assert matches("era:legacy", {"metadata": {"revision": "2024-11-05"}})
    assert matches("era:legacy", {"metadata": {"client_revision": "2024-10-07"}})
    assert not matches("era:legacy,modern", {"metadata": {"revision": "1999-01-01"}})


def test_the_public_name_alone_is_a_target_and_neither_tool_nor_prompt() -> None:
    unknown = {"metadata": {"public_name": "x"}}
    assert matches("target:x -tool:x -prompt:x -uri:x", unknown)


def test_no_text_is_found_across_two_members() -> None:
    event = {"metadata": {"a": "rate", "b": "limit"}}
    assert matches("rate limit", event)
    assert not matches("ratelimit", event)


def test_letters_are_compared_as_people_do() -> None:
    assert matches("STRASSE", {"error_message": "Straße"})


@pytest.mark.parametrize("trace_id", [TRACE.upper(), str(UUID(TRACE)), str(UUID(TRACE)).upper()])
def test_ids_of_other_writers_are_understood(trace_id: str) -> None:
    assert matches(f"trace:{TRACE}", {"trace_id": trace_id})
    assert matches(f"trace:{TRACE[:20]}", {"trace_id": trace_id})


def test_true_is_no_number() -> None:
    event = {"error_code": True, "duration_ms": True, "metadata": {"bytes": True}}
    assert matches("-code:1 -dur:1 -size:1 -dur:0..2", event)


@pytest.mark.parametrize(
    "told",
    [
        "2026-07-28T14:00:00.25+02:00",
        "2026-07-28T12:00:00.250000",
        "2026-07-28 12:00:00.250000+00:00",
    ],
)
def test_times_of_other_writers_are_understood(told: str) -> None:
    event = {"timestamp": told}
    assert matches("since:2026-07-28T12:00:00.25Z", event)
    assert not matches("until:2026-07-28T12:00:00.25Z", event)
    assert not matches("since:2026-07-28T12:00:00.250001Z", event)
    assert matches("until:2026-07-28T12:00:00.250001Z", event)


@pytest.mark.parametrize("key", KEYS)
def test_an_event_without_an_answer_matches_only_the_negation(key: str) -> None:
    value = {"duration": ">=0", "bytes": ">=0", "code": ">=0", "moment": "1h"}
    asked = f"{key}:{value.get(KEYS[key].kind, '*')}"
    assert not matches(asked, {})
    assert matches(f"-{asked}", {})


# Globs


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("*", "", True),
        ("a*", "a", True),
        ("*a", "ba", True),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("a*b*c", "a-b-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("*ab*", "aab", True),
        ("*ab*b", "ab", False),
        ("?", "", False),
        ("?", "ä", True),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("*?", "", False),
        ("?*?", "ab", True),
        ("*a?", "aab", True),
        ("[ab]", "a", False),
        ("[ab]*", "[ab]c", True),
        ("a.c*", "abc", False),
    ],
)
def test_a_glob_fits_the_whole_text(pattern: str, text: str, fits: bool) -> None:
    assert compile_glob(pattern)(text) is fits


@given(st.text(alphabet="ab*?[]", max_size=10), st.text(alphabet="ab[]!", max_size=12))
def test_globs_fit_what_the_standard_library_says(pattern: str, text: str) -> None:
    assert compile_glob(pattern)(text) is fits_plainly(pattern, text)


@pytest.mark.parametrize(
    "pattern",
    ["*a" * 20 + "*b", "a*" * 20 + "b", "*?a" * 20 + "b", "?*" * 20 + "b", f"*{'a' * 50}b*"],
)
def test_a_glob_takes_time_in_proportion_to_the_text(pattern: str) -> None:
    fits, text = compile_glob(pattern), "a" * 200_000
    assert cpu_seconds(lambda: fits(text)) < CPU_SECONDS_MAX


# Against a predicate that is slow and plain


@settings(max_examples=400)
@given(cases)
def test_a_matcher_says_what_the_plain_predicate_says(case: tuple[Filter, dict[str, Any]]) -> None:
    filter, event = case
    assert compile_filter(filter)(event) is matches_plainly(filter, event)

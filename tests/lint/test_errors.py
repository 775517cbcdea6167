"""Rules about errors."""

import time
from typing import Any

import pytest

from tests.lint.checking import broken
from tests.lint.conversations import ask, call, fail, hello, stamped

TRACES = {
    "python": 'Traceback (most recent call last):\n  File "x.py", line 3, in f\nKeyError',
    "python, its end": '  File "x.py", line 3, in f\n    raise KeyError',
    "javascript": "Error: x\n    at Object.f (/srv/app/index.js:10:15)\n    at g (a.js:1:1)",
    "javascript, plain": "Error: x\n    at file:///srv/app/index.js:10:15",
    "java": "java.lang.Error: x\n\tat com.example.Main.f(Main.java:10)",
    "go": "panic: x\n\ngoroutine 1 [running]:\nmain.main()",
    "rust": "thread 'main' panicked at src/main.rs:3:5",
}


@pytest.mark.parametrize("language", TRACES)
def test_a_stack_trace_is_known_in_many_languages(language: str) -> None:
    trace = TRACES[language]

    assert "stack-trace" in broken(ask("ping"), fail(1, trace))
    assert "stack-trace-inside" in broken(ask("ping"), fail(1, "No", trace))
    assert "stack-trace-inside" in broken(ask("ping"), fail(1, "No", {"stack": trace.split("\n")}))
    told = {"content": [{"type": "text", "text": trace}], "isError": True}
    assert "stack-trace-inside" in broken(*call(told))


@pytest.mark.parametrize(
    "words", ["Look at line 10:15", "We meet at 10:15:00 at the bridge", "File not found: a.py"]
)
def test_other_words_are_no_stack_trace(words: str) -> None:
    assert "stack-trace" not in broken(ask("ping"), fail(1, words))


def test_a_tool_may_give_back_a_stack_trace_that_was_asked_for() -> None:
    told = {"content": [{"type": "text", "text": TRACES["python"]}]}
    assert "stack-trace-inside" not in broken(*call(told))


@pytest.mark.parametrize("text", ["at ", "  at a:1", "File ", "\n", " ", "panicked at "])
def test_texts_of_strangers_take_time_in_proportion(text: str) -> None:
    def seconds(count: int) -> float:
        began = time.perf_counter()
        broken(ask("ping"), fail(1, "No", text * count))
        return time.perf_counter() - began

    seconds(100)
    small = min(seconds(2000) for _ in range(3))
    assert min(seconds(8000) for _ in range(3)) < small * 12 + 0.02


@pytest.mark.parametrize("code", [-32700, -32600, -32601, -32602, -32603, -32001, -32050, 1, 404])
def test_codes_that_may_be_used_in_a_session(code: int) -> None:
    found = broken(*hello(), ask("ping"), fail(code))
    assert not found & {"error-code-reserved", "error-code-of-other-revision"}


@pytest.mark.parametrize("code", [-32768, -32604, -32500, -32100])
def test_codes_that_json_rpc_reserves(code: int) -> None:
    assert "error-code-reserved" in broken(*hello(), ask("ping"), fail(code))


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        (-32023, "error-code-reserved"),
        (-32099, "error-code-reserved"),
        (-32002, "error-code-of-other-revision"),
        (-32042, "error-code-of-other-revision"),
    ],
)
def test_codes_that_may_not_be_used_without_a_session(code: int, rule: str) -> None:
    assert rule in broken(ask("resources/read", stamped({"uri": "a:b"})), fail(code))


@pytest.mark.parametrize(
    ("revision", "code", "right"),
    [("2025-11-25", -32042, True), ("2025-06-18", -32042, False), ("2025-11-25", -32021, False)],
)
def test_codes_of_one_revision(revision: str, code: int, right: bool) -> None:
    found = broken(*hello(revision), ask("tools/call", {"name": "a"}), fail(code))
    assert ("error-code-of-other-revision" not in found) is right


@pytest.mark.parametrize("error", [None, "No", {"message": "No"}, {"code": 1}, {"code": "1"}])
def test_what_is_no_error(error: Any) -> None:
    told = {"jsonrpc": "2.0", "id": 9, "error": error}
    assert "error-object" in broken(ask("ping"), told)

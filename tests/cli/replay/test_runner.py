"""Cases played in their order."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from anyport.cli.arguments import BadArgument
from anyport.cli.replay.cases import ReplayCase, Unplayable
from anyport.cli.replay.runner import (
    CaseOutcome,
    ReplaySettings,
    ReplayVerdict,
    edited_params,
    run_cases,
    skip_unplayable,
    will_be_sent,
)
from anyport.cli.replay.targets import Answer, AnswerScript
from anyport.record.compare import ABSENT, CompareMode
from anyport.record.redact.redactor import MARK
from anyport.upstream.pending_call import NoAnswer
from anyport.wire import jsonrpc
from anyport.wire.jsonrpc import Failure, Result

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOLS = {"add": {"name": "add", "inputSchema": SCHEMA}}


class Scripted:
    """Answers in the order of a list, and keeps what it was sent."""

    def __init__(self, *answers: Any, greeting: Any = None, is_gateway: bool = False) -> None:
        self.handshake_answer: Answer | None = None if greeting is None else told(greeting)
        self.is_gateway = is_gateway
        self.sent: list[tuple[str, Any]] = []
        self._answers = iter(answers)

    async def request(self, method: str, params: bytes | None, script: AnswerScript) -> Answer:
        self.sent.append((method, None if params is None else msgspec.json.decode(params)))
        answer = next(self._answers)
        return answer if isinstance(answer, NoAnswer | Failure) else told(answer)

    def notify(self, method: str, params: bytes | None) -> None:
        self.sent.append((method, None))


def told(result: Any) -> Result:
    return Result(b"1", msgspec.json.encode(result))


def case(params: Any = None, result: Any = ABSENT, **more: Any) -> ReplayCase:
    made = {"name": "a", "method": "tools/call", "mode": CompareMode.RECORDED}
    expected = ABSENT if result is ABSENT else {"result": result}
    sent = None if params is None else msgspec.json.encode(params)
    return ReplayCase(**{**made, "params": sent, "expected": expected, **more})


def played(
    stand: Scripted, *cases: ReplayCase, terms: ReplaySettings | None = None
) -> Sequence[CaseOutcome]:
    return asyncio.run(run_cases(cases, stand, TOOLS, terms or ReplaySettings()))


def verdicts(stand: Scripted, *cases: ReplayCase, terms: ReplaySettings | None = None) -> list[str]:
    return [outcome.verdict.value for outcome in played(stand, *cases, terms=terms)]


def test_an_answer_is_the_same_or_different() -> None:
    stand = Scripted({"x": 1}, {"x": 2})
    assert verdicts(stand, case(result={"x": 1}), case(result={"x": 1})) == ["same", "different"]


def test_no_answer_is_a_failure() -> None:
    [outcome] = played(Scripted(NoAnswer("gone")), case(result={}))
    assert (outcome.verdict, outcome.reason) == (ReplayVerdict.FAILED, "no answer: gone")


def test_an_error_in_place_of_a_result_is_told() -> None:
    [outcome] = played(
        Scripted(Failure(b"1", jsonrpc.encode_error(-7, "Not today"))), case(result={})
    )
    assert outcome.verdict is ReplayVerdict.DIFFERENT
    assert outcome.reason == "the answer is an error: Not today (-7)"


def test_an_error_that_was_recorded_is_expected() -> None:
    expected = {"error": {"code": -7, "message": "Not today"}}
    assert verdicts(
        Scripted(Failure(b"1", jsonrpc.encode_error(-7, "Not today"))), case(expected=expected)
    ) == ["same"]


def test_what_expects_nothing_is_answered_or_has_failed() -> None:
    assert verdicts(Scripted({}), case()) == ["answered"]
    assert verdicts(Scripted(Failure(b"1", jsonrpc.encode_error(1, "No"))), case()) == ["failed"]
    assert verdicts(Scripted({}), case(), terms=ReplaySettings(strict=True)) == ["failed"]


def test_edited_arguments_are_laid_over_the_recorded_ones() -> None:
    stand = Scripted({"x": 2})
    terms = ReplaySettings(edits=["a=7"])
    recorded = case({"name": "add", "arguments": {"a": 1, "b": 2}}, {"x": 1})

    [outcome] = played(stand, recorded, terms=terms)
    assert stand.sent == [("tools/call", {"name": "add", "arguments": {"a": 7, "b": 2}})]
    assert outcome.verdict is ReplayVerdict.ANSWERED
    assert outcome.comparison.differences
    assert verdicts(
        Scripted({"x": 2}), recorded, terms=ReplaySettings(edits=["a=7"], strict=True)
    ) == ["different"]


def test_a_document_takes_the_place_of_the_recorded_arguments() -> None:
    recorded = case({"name": "add", "arguments": {"a": 1, "b": 2}})
    params = edited_params(recorded, TOOLS, ReplaySettings(document='{"c": 3}', edits=["a=4"]))

    assert params is not None
    assert msgspec.json.decode(params)["arguments"] == {"c": 3, "a": 4}


def test_only_calls_and_prompts_have_arguments() -> None:
    listing = case({"cursor": "x"}, method="tools/list")
    assert edited_params(listing, TOOLS, ReplaySettings(edits=["a=4"])) == listing.params


def test_an_argument_that_does_not_fit_is_told() -> None:
    with pytest.raises(BadArgument, match="a must be an integer"):
        edited_params(case({"name": "add"}), TOOLS, ReplaySettings(edits=["a=x"]))


def test_an_edit_that_ends_in_an_error_has_failed() -> None:
    recorded = case({"name": "add", "arguments": {}}, {"x": 1})
    stand = Scripted(Failure(b"1", jsonrpc.encode_error(1, "No")))
    assert verdicts(stand, recorded, terms=ReplaySettings(edits=["a=7"])) == ["failed"]


def test_what_was_redacted_is_not_sent_unless_it_was_put_back() -> None:
    recorded = case({"name": "add", "arguments": {"key": "[redacted]"}}, {})
    stand = Scripted({})

    assert verdicts(stand, recorded) == ["skipped"]
    assert stand.sent == []
    assert verdicts(stand, recorded, terms=ReplaySettings(edits=["key=k"])) == ["same"]


def test_what_comes_is_redacted_like_what_was_recorded() -> None:
    terms = ReplaySettings(redact=lambda raw: raw.replace(b"hunter2", b"[redacted]"))
    stand = Scripted({"text": "hunter2"})
    assert verdicts(stand, case(result={"text": "[redacted]"}), terms=terms) == ["same"]


def test_a_cursor_is_replaced_by_what_it_is_called_now() -> None:
    stand = Scripted({"nextCursor": "new"}, {"tools": []})
    outcomes = verdicts(
        stand,
        case({}, {"nextCursor": "old"}, method="tools/list"),
        case({"cursor": "old"}, {"tools": []}, method="tools/list"),
    )
    assert outcomes == ["same", "same"]
    assert stand.sent[1] == ("tools/list", {"cursor": "new"})


def test_a_notification_is_sent_and_the_handshake_s_own_is_not_sent_twice() -> None:
    stand = Scripted()
    outcomes = verdicts(
        stand,
        case(method="notifications/initialized", is_notification=True),
        case(method="notifications/cancelled", is_notification=True),
    )
    assert outcomes == ["sent", "sent"]
    assert stand.sent == [("notifications/cancelled", None)]


def test_the_handshake_is_compared_once() -> None:
    greeting = case({}, {"serverInfo": {}}, method="initialize")
    stand = Scripted(greeting={"serverInfo": {}})

    assert verdicts(stand, greeting, greeting) == ["same", "skipped"]
    assert stand.sent == []
    assert verdicts(Scripted(), greeting) == ["skipped"]


def test_what_a_gateway_tells_of_its_servers_is_not_compared() -> None:
    then: dict[str, Any] = {"capabilities": {"tools": {}, "tasks": {}}}
    now = {"capabilities": {"tools": {}}, "instructions": "Hello"}
    greeting = case({}, then, method="initialize")

    assert verdicts(Scripted(greeting=now, is_gateway=True), greeting) == ["same"]
    assert verdicts(Scripted(greeting=now), greeting) == ["different"]


def test_what_cannot_be_played_is_skipped_with_the_reason() -> None:
    outcome = skip_unplayable(Unplayable(name="a", method="tools/call", target="add", reason="why"))
    assert (outcome.verdict, outcome.reason, outcome.case.name) == (
        ReplayVerdict.SKIPPED,
        "why",
        "a",
    )
    assert outcome.case.subject == "add"


def test_what_was_redacted_will_be_sent_only_if_it_is_put_back() -> None:
    hidden = case({"name": "add", "arguments": {"a": MARK}})

    assert not will_be_sent(hidden, TOOLS, ReplaySettings())
    assert will_be_sent(hidden, TOOLS, ReplaySettings(edits=("a=1",)))

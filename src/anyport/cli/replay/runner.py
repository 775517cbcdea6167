"""Runs the cases of a conversation in order, and compares the answers.

Values that servers make up, such as cursors, differ from the recorded ones: later requests get the
new values.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final

import msgspec

from anyport.cli.arguments import read_arguments
from anyport.cli.replay.cases import ReplayCase, Unplayable, has_redacted
from anyport.cli.replay.targets import Answer, AnswerScript, ReplayTarget
from anyport.protocol.methods import INITIALIZED_NOTIFICATIONS
from anyport.record.compare import ABSENT, CompareMode, ComparisonResult, compare
from anyport.upstream.pending_call import NoAnswer
from anyport.wire import raw_json
from anyport.wire.jsonrpc import Failure, Result

METHODS_WITH_ARGUMENTS: Final = frozenset({"tools/call", "prompts/get"})
"""Requests that `--set` and `--args` change."""

SERVER_NAMED_MEMBERS: Final = ("cursor", "requestState", "taskId")
"""Members of params with values that servers make up."""

ToolsByName = Mapping[str, Mapping[str, Any]]


class ReplayVerdict(Enum):
    """The result of a case."""

    SAME = "same"
    DIFFERENT = "different"
    ANSWERED = "answered"
    """It was answered, and there is no expected answer: none was recorded, or it was edited."""
    SENT = "sent"
    """A notification, which has no answer."""
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseOutcome:
    """A case with its result."""

    case: ReplayCase
    verdict: ReplayVerdict
    comparison: ComparisonResult = field(default_factory=ComparisonResult)
    reason: str = ""
    took_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """How cases are run."""

    edits: Sequence[str] = ()
    """`key=value` for single arguments."""
    document: str | None = None
    """All arguments as JSON."""
    strict: bool = False
    """Whether every answer must be as expected, even to an edited request."""
    redact: Callable[[bytes], bytes] = lambda raw: raw
    """Applied to new answers, since recorded ones were redacted."""

    @property
    def edited(self) -> bool:
        return bool(self.edits) or self.document is not None


def skip_unplayable(case: Unplayable) -> CaseOutcome:
    """The outcome for an exchange that cannot be replayed."""
    about = ReplayCase(name=case.name, method=case.method, target=case.target)
    return CaseOutcome(case=about, verdict=ReplayVerdict.SKIPPED, reason=case.reason)


async def run_cases(
    cases: Sequence[ReplayCase], target: ReplayTarget, tools: ToolsByName, settings: ReplaySettings
) -> list[CaseOutcome]:
    """Run cases one after the other.

    Raises:
        BadArgument: an edited argument cannot be read.
    """
    names: dict[str, str] = {}
    outcomes: list[CaseOutcome] = []
    had_handshake = False
    for case in cases:
        if case.method == "initialize":
            outcomes.append(_skip(case, "the handshake was already done") if had_handshake
                            else _compare_handshake(case, target, settings))  # fmt: skip
            had_handshake = True
            continue
        outcome = await _run_case(case, target, tools, settings, names)
        names |= outcome.comparison.renamed_values
        outcomes.append(outcome)
    return outcomes


def edited_params(case: ReplayCase, tools: ToolsByName, settings: ReplaySettings) -> bytes | None:
    """The params of a case with the edited arguments.

    Raises:
        BadArgument: one of them cannot be read.
    """
    if not settings.edited or case.method not in METHODS_WITH_ARGUMENTS or case.params is None:
        return case.params
    tool = tools.get(case.subject, {}) if case.method == "tools/call" else {}
    schema = tool.get("inputSchema")
    schema = schema if isinstance(schema, dict) else {}
    arguments = read_arguments(settings.edits, settings.document, schema, _read_file)
    if settings.document is None:
        recorded = raw_json.members(case.params).get("arguments")
        recorded_arguments = {} if recorded is None else msgspec.json.decode(recorded)
        arguments = {
            **(recorded_arguments if isinstance(recorded_arguments, dict) else {}),
            **arguments,
        }
    return raw_json.edit(case.params, {"arguments": msgspec.json.encode(arguments)})


def will_be_sent(case: ReplayCase, tools: ToolsByName, settings: ReplaySettings) -> bool:
    """Whether a case can be sent: nothing in it is redacted, or edits replace it.

    Raises:
        BadArgument: an edited argument cannot be read.
    """
    return not has_redacted(edited_params(case, tools, settings))


async def _run_case(
    case: ReplayCase,
    target: ReplayTarget,
    tools: ToolsByName,
    settings: ReplaySettings,
    names: Mapping[str, str],
) -> CaseOutcome:
    params = _rename_carried(edited_params(case, tools, settings), names)
    if has_redacted(params):
        return _skip(case, "part of it was redacted; use --set or --args to replace it")
    if case.is_notification:
        if case.method not in INITIALIZED_NOTIFICATIONS:  # Part of the handshake.
            target.notify(case.method, params)
        return CaseOutcome(case=case, verdict=ReplayVerdict.SENT)
    started_at = time.monotonic()
    answer = await target.request(case.method, params, AnswerScript(case.answers))
    took_ms = (time.monotonic() - started_at) * 1000
    edited = settings.edited and params != case.params
    return compare_answer(case, answer, settings, took_ms, edited=edited)


def compare_answer(
    case: ReplayCase,
    answer: Answer,
    settings: ReplaySettings,
    took_ms: float | None,
    *,
    edited: bool = False,
) -> CaseOutcome:
    """The outcome of a case with this answer."""
    if isinstance(answer, NoAnswer):
        reason = f"no answer: {answer.reason}"
        return CaseOutcome(case=case, verdict=ReplayVerdict.FAILED, reason=reason, took_ms=took_ms)
    actual = _decode_answer(answer, settings if case.mode is CompareMode.RECORDED else None)
    if case.expected is ABSENT:
        if isinstance(answer, Failure):
            verdict, reason = ReplayVerdict.FAILED, _error_words(actual)
        elif settings.strict:
            verdict, reason = ReplayVerdict.FAILED, "there is no expected answer"
        else:
            verdict, reason = ReplayVerdict.ANSWERED, ""
        return CaseOutcome(case=case, verdict=verdict, reason=reason, took_ms=took_ms)
    comparison = compare(case.expected, actual, case.mode)
    verdict, reason = ReplayVerdict.SAME, ""
    if not comparison.is_equal:
        verdict = ReplayVerdict.DIFFERENT
        if "error" in actual and "error" not in case.expected:
            reason = _error_words(actual)
        if edited and not settings.strict:
            verdict = ReplayVerdict.FAILED if reason else ReplayVerdict.ANSWERED
    return CaseOutcome(
        case=case, verdict=verdict, comparison=comparison, reason=reason, took_ms=took_ms
    )


def _compare_handshake(
    case: ReplayCase, target: ReplayTarget, settings: ReplaySettings
) -> CaseOutcome:
    if target.handshake_answer is None:
        return _skip(case, "the target needs no handshake")
    answer = target.handshake_answer
    if target.is_gateway and case.mode is CompareMode.RECORDED and isinstance(answer, Result):
        result = msgspec.json.encode(_without_server_details(msgspec.json.decode(answer.result)))
        expected = {name: _without_server_details(value) for name, value in case.expected.items()}
        case, answer = replace(case, expected=expected), Result(answer.id, result)
    return compare_answer(case, answer, settings, None)


def _without_server_details(result: Any) -> Any:
    """The `initialize` result of a gateway without the parts that depend on its servers."""
    if not isinstance(result, dict):
        return result
    own_details = {key: value for key, value in result.items() if key != "instructions"}
    if isinstance(own_details.get("capabilities"), dict):
        capabilities = own_details["capabilities"].items()
        own_details["capabilities"] = {
            key: value for key, value in capabilities if key not in ("tasks", "extensions")
        }
    return own_details


def _rename_carried(params: bytes | None, new_values: Mapping[str, str]) -> bytes | None:
    """The params with the new values of the server."""
    if params is None or not new_values:
        return params
    members = raw_json.members(params)
    changes: dict[str, bytes | None] = {
        member: raw_json.encode_string(new_values[value])
        for member in SERVER_NAMED_MEMBERS
        if (value := raw_json.decode_string(members.get(member))) in new_values
        and value is not None
    }
    return raw_json.edit(params, changes) if changes else params


def _decode_answer(answer: Answer, settings: ReplaySettings | None) -> Any:
    assert not isinstance(answer, NoAnswer)
    failed = isinstance(answer, Failure)
    raw = answer.error if isinstance(answer, Failure) else answer.result
    content = msgspec.json.decode(raw if settings is None else settings.redact(raw))
    return {"error": content} if failed else {"result": content}


def _error_words(actual: Any) -> str:
    error = actual["error"]
    if not isinstance(error, dict):
        return "the answer is an error"
    return f"the answer is an error: {error.get('message')} ({error.get('code')})"


def _skip(case: ReplayCase, reason: str) -> CaseOutcome:
    return CaseOutcome(case=case, verdict=ReplayVerdict.SKIPPED, reason=reason)


def _read_file(name: str) -> str:
    with open(name, encoding="utf-8") as file:
        return file.read()

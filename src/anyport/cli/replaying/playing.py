"""Cases played in their order, and what came of each.

What a server made up the last time, such as a cursor, it calls something else now: later requests
that name it get the new name. Knows neither where the cases come from nor how they are shown.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final

import msgspec

from anyport.cli.arguments import read_arguments
from anyport.cli.replaying.case import Case
from anyport.cli.replaying.recording import Unplayable, has_redacted
from anyport.cli.replaying.stand import Answer, Script, Stand
from anyport.protocol.method import INITIALIZED
from anyport.record.compare import ABSENT, Comparison, Mode, compare
from anyport.upstream.call import Lost
from anyport.wire import members
from anyport.wire.frame import Failure, Result

WITH_ARGUMENTS: Final = frozenset({"tools/call", "prompts/get"})
"""Requests whose arguments can be edited."""

CARRIED: Final = ("cursor", "requestState", "taskId")
"""Members of params that name what the server made up."""

Tools = Mapping[str, Mapping[str, Any]]


class Verdict(Enum):
    """What came of a case."""

    SAME = "same"
    DIFFERENT = "different"
    ANSWERED = "answered"
    """Nothing certain is expected: there is no answer to compare with, or it was edited."""
    SENT = "sent"
    """A notification: nobody answers those."""
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One case, and what came of it."""

    case: Case
    verdict: Verdict
    comparison: Comparison = field(default_factory=Comparison)
    reason: str = ""
    took_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How cases are to be played."""

    edits: Sequence[str] = ()
    """`key=value`, over the arguments that were recorded."""
    document: str | None = None
    """Arguments as JSON, in place of those that were recorded."""
    strict: bool = False
    """Whether every answer must be as expected: also to what was edited, or expects nothing."""
    redact: Callable[[bytes], bytes] = lambda raw: raw
    """What was recorded was redacted, so what comes now must be."""

    @property
    def edited(self) -> bool:
        return bool(self.edits) or self.document is not None


def unplayed(case: Unplayable) -> Outcome:
    """What came of a case that cannot be played."""
    about = Case(name=case.name, method=case.method, target=case.target)
    return Outcome(case=about, verdict=Verdict.SKIPPED, reason=case.reason)


async def play(cases: Sequence[Case], stand: Stand, tools: Tools, terms: Terms) -> list[Outcome]:
    """Play cases one after the other.

    Raises:
        BadArgument: an edited argument cannot be read.
    """
    names: dict[str, str] = {}
    outcomes: list[Outcome] = []
    greeted = False
    for case in cases:
        if case.method == "initialize":
            outcomes.append(_skipped(case, "one handshake is enough") if greeted
                            else _greeted(case, stand, terms))  # fmt: skip
            greeted = True
            continue
        outcome = await _played(case, stand, tools, terms, names)
        names |= outcome.comparison.renamed
        outcomes.append(outcome)
    return outcomes


def edited_params(case: Case, tools: Tools, terms: Terms) -> bytes | None:
    """The params of a case with the arguments that are asked for.

    Raises:
        BadArgument: one of them cannot be read.
    """
    if not terms.edited or case.method not in WITH_ARGUMENTS or case.params is None:
        return case.params
    tool = tools.get(case.subject, {}) if case.method == "tools/call" else {}
    schema = tool.get("inputSchema")
    schema = schema if isinstance(schema, dict) else {}
    wanted = read_arguments(terms.edits, terms.document, schema, _read_file)
    if terms.document is None:
        recorded = members.members(case.params).get("arguments")
        kept = {} if recorded is None else msgspec.json.decode(recorded)
        wanted = {**(kept if isinstance(kept, dict) else {}), **wanted}
    return members.edit(case.params, {"arguments": msgspec.json.encode(wanted)})


def will_be_sent(case: Case, tools: Tools, terms: Terms) -> bool:
    """Whether all of a case is known, or put back.

    Raises:
        BadArgument: an edited argument cannot be read.
    """
    return not has_redacted(edited_params(case, tools, terms))


async def _played(
    case: Case, stand: Stand, tools: Tools, terms: Terms, names: Mapping[str, str]
) -> Outcome:
    params = _carried(edited_params(case, tools, terms), names)
    if has_redacted(params):
        return _skipped(case, "something in it was redacted; --set or --args can put it back")
    if case.is_notification:
        if case.method not in INITIALIZED:  # That is part of the handshake.
            stand.notify(case.method, params)
        return Outcome(case=case, verdict=Verdict.SENT)
    began = time.monotonic()
    answer = await stand.request(case.method, params, Script(case.answers))
    took_ms = (time.monotonic() - began) * 1000
    edited = terms.edited and params != case.params
    return judged(case, answer, terms, took_ms, edited=edited)


def judged(
    case: Case, answer: Answer, terms: Terms, took_ms: float | None, *, edited: bool = False
) -> Outcome:
    """What an answer means for a case."""
    if isinstance(answer, Lost):
        words = f"no answer: {answer.reason}"
        return Outcome(case=case, verdict=Verdict.FAILED, reason=words, took_ms=took_ms)
    actual = _decoded(answer, terms if case.mode is Mode.RECORDED else None)
    if case.expected is ABSENT:
        if isinstance(answer, Failure):
            verdict, words = Verdict.FAILED, _error_words(actual)
        elif terms.strict:
            verdict, words = Verdict.FAILED, "nothing says what the answer should be"
        else:
            verdict, words = Verdict.ANSWERED, ""
        return Outcome(case=case, verdict=verdict, reason=words, took_ms=took_ms)
    comparison = compare(case.expected, actual, case.mode)
    verdict, words = Verdict.SAME, ""
    if not comparison.same:
        verdict = Verdict.DIFFERENT
        if "error" in actual and "error" not in case.expected:
            words = _error_words(actual)
        if edited and not terms.strict:
            verdict = Verdict.FAILED if words else Verdict.ANSWERED
    return Outcome(case=case, verdict=verdict, comparison=comparison, reason=words, took_ms=took_ms)


def _greeted(case: Case, stand: Stand, terms: Terms) -> Outcome:
    if stand.greeting is None:
        return _skipped(case, "there was no handshake: none is needed there")
    answer = stand.greeting
    if stand.is_gateway and case.mode is Mode.RECORDED and isinstance(answer, Result):
        told = msgspec.json.encode(_of_itself(msgspec.json.decode(answer.result)))
        expected = {name: _of_itself(value) for name, value in case.expected.items()}
        case, answer = replace(case, expected=expected), Result(answer.id, told)
    return judged(case, answer, terms, None)


def _of_itself(greeting: Any) -> Any:
    """What a gateway says of itself; of its servers it says what it has seen of them by then."""
    if not isinstance(greeting, dict):
        return greeting
    told = {key: value for key, value in greeting.items() if key != "instructions"}
    if isinstance(told.get("capabilities"), dict):
        capabilities = told["capabilities"].items()
        told["capabilities"] = {
            key: value for key, value in capabilities if key not in ("tasks", "extensions")
        }
    return told


def _carried(params: bytes | None, names: Mapping[str, str]) -> bytes | None:
    """The same params, with what the server calls things now."""
    if params is None or not names:
        return params
    found = members.members(params)
    changes: dict[str, bytes | None] = {
        member: members.text(names[named])
        for member in CARRIED
        if (named := members.string(found.get(member))) in names and named is not None
    }
    return members.edit(params, changes) if changes else params


def _decoded(answer: Answer, terms: Terms | None) -> Any:
    assert not isinstance(answer, Lost)
    failed = isinstance(answer, Failure)
    raw = answer.error if isinstance(answer, Failure) else answer.result
    told = msgspec.json.decode(raw if terms is None else terms.redact(raw))
    return {"error": told} if failed else {"result": told}


def _error_words(actual: Any) -> str:
    error = actual["error"]
    if not isinstance(error, dict):
        return "it was answered with an error"
    return f"it was answered with an error: {error.get('message')} ({error.get('code')})"


def _skipped(case: Case, reason: str) -> Outcome:
    return Outcome(case=case, verdict=Verdict.SKIPPED, reason=reason)


def _read_file(name: str) -> str:
    with open(name, encoding="utf-8") as file:
        return file.read()

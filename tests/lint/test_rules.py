"""Every rule finds what breaks it, and nothing in what keeps it."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from anyport.lint.engine import LintReport, check_legs
from anyport.lint.frame_files import legs_of_frames
from anyport.lint.model import Depth, Frame, Leg, Severity
from anyport.lint.rules import RULES
from anyport.protocol import meta
from anyport.protocol.revisions import NEWEST_MODERN
from tests.lint.conversations import Conversation, Line, hello, reports
from tests.lint.examples import EXAMPLES

RULES_BY_ID = {rule.id: rule for rule in RULES}
MADE = {"subscription-id", "slow-discovery"}
"""Rules whose examples are made below, leg by leg."""


def judged(conversation: Conversation) -> LintReport:
    lines = [
        line if isinstance(line, bytes) else msgspec.json.encode(line) for line in conversation
    ]
    return check_legs(legs_of_frames(lines))


def broken(report: LintReport) -> set[str]:
    return {finding.rule.id for finding in report.findings}


def test_every_rule_has_examples() -> None:
    assert EXAMPLES.keys() | MADE == RULES_BY_ID.keys()
    assert len(RULES_BY_ID) == len(RULES)


@pytest.mark.parametrize("rule", EXAMPLES)
def test_a_rule_finds_what_breaks_it(rule: str) -> None:
    assert rule in broken(judged(EXAMPLES[rule][0]))


@pytest.mark.parametrize("rule", EXAMPLES)
def test_a_rule_finds_nothing_in_what_keeps_it(rule: str) -> None:
    report = judged(EXAMPLES[rule][1])

    assert rule not in broken(report)
    assert not report.unchecked


STRANGE: tuple[Any, ...] = (None, 1.5, "x", [], {}, ["x"], {"type": ["x"]})


@pytest.mark.parametrize("rule", EXAMPLES)
def test_values_of_another_type_do_not_end_the_judging(rule: str) -> None:
    for conversation in EXAMPLES[rule]:
        for place, line in enumerate(conversation):
            for changed in changed_lines(line):
                judged([*conversation[:place], changed, *conversation[place + 1 :]])


def changed_lines(line: Line) -> Iterator[Line]:
    for member in ("params", "result", "error") if isinstance(line, dict) else ():
        assert isinstance(line, dict)
        fields = line.get(member)
        if not isinstance(fields, dict):
            continue
        for key in fields:
            for value in STRANGE:
                yield line | {member: fields | {key: value}}


@pytest.mark.parametrize("conversation", [hello(), reports({"progress": 1}, {"progress": 2})])
def test_a_good_conversation_breaks_no_rule(conversation: Conversation) -> None:
    assert not judged(conversation).findings


def made(method: str, *between: Frame, **more: Any) -> Leg:
    return Leg(
        id="a",
        side=more.pop("side", "server"),
        depth=Depth.FULL,
        method=method,
        revision=NEWEST_MODERN,
        request=Frame(kind="request", method=method),
        between=between,
        answer=Frame(kind="response", method=method, payload={}),
        **more,
    )


def told(**params: Any) -> Frame:
    method = "notifications/subscriptions/acknowledged"
    return Frame(kind="server-notification", method=method, payload=params)


def test_what_comes_on_a_stream_of_changes_says_on_which() -> None:
    rule = [RULES_BY_ID["subscription-id"]]
    good = told(_meta={meta.SUBSCRIPTION_ID: 1})

    assert check_legs([made("subscriptions/listen", told())], rule).findings
    assert not check_legs([made("subscriptions/listen", good)], rule).findings


def test_discovery_that_takes_long_is_noted() -> None:
    rule = [RULES_BY_ID["slow-discovery"]]

    late = made("server/discover", side="client", duration_ms=1200.0)
    soon = made("server/discover", side="client", duration_ms=12.0)

    assert check_legs([late], rule).findings
    assert not check_legs([soon], rule).findings
    # A server that was started for it is not to blame.
    assert not check_legs([made("server/discover", duration_ms=1200.0)], rule).findings


def test_every_rule_says_what_it_is_and_what_to_do() -> None:
    for rule in RULES:
        assert rule.title.endswith("."), rule.id
        assert rule.advice.endswith("."), rule.id
        assert rule.source, rule.id
        assert (rule.check_conversation is None) == bool(rule.check_leg or rule.schema), rule.id
        assert isinstance(rule.severity, Severity)

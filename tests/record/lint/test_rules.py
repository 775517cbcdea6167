"""Every rule finds what breaks it, and nothing in what keeps it."""

from typing import Any

import msgspec
import pytest

from anyport.protocol import meta
from anyport.protocol.revision import NEWEST_MODERN
from anyport.record.lint.frames import legs_of_frames
from anyport.record.lint.judging import Report, judge
from anyport.record.lint.model import Depth, Frame, Leg, Severity
from anyport.record.lint.rules import BY_ID, RULES
from tests.record.lint.conversations import Conversation, hello, reports
from tests.record.lint.examples import EXAMPLES

MADE = {"subscription-id", "slow-discovery"}
"""Rules whose examples are made below, leg by leg."""


def judged(conversation: Conversation) -> Report:
    lines = [
        line if isinstance(line, bytes) else msgspec.json.encode(line) for line in conversation
    ]
    return judge(legs_of_frames(lines))


def broken(report: Report) -> set[str]:
    return {finding.rule.id for finding in report.findings}


def test_every_rule_has_examples() -> None:
    assert EXAMPLES.keys() | MADE == BY_ID.keys()
    assert len(BY_ID) == len(RULES)


@pytest.mark.parametrize("rule", EXAMPLES)
def test_a_rule_finds_what_breaks_it(rule: str) -> None:
    assert rule in broken(judged(EXAMPLES[rule][0]))


@pytest.mark.parametrize("rule", EXAMPLES)
def test_a_rule_finds_nothing_in_what_keeps_it(rule: str) -> None:
    report = judged(EXAMPLES[rule][1])

    assert rule not in broken(report)
    assert not report.unjudged


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
    rule = [BY_ID["subscription-id"]]
    good = told(_meta={meta.SUBSCRIPTION_ID: 1})

    assert judge([made("subscriptions/listen", told())], rule).findings
    assert not judge([made("subscriptions/listen", good)], rule).findings


def test_discovery_that_takes_long_is_noted() -> None:
    rule = [BY_ID["slow-discovery"]]

    late = made("server/discover", side="client", duration_ms=1200.0)
    soon = made("server/discover", side="client", duration_ms=12.0)

    assert judge([late], rule).findings
    assert not judge([soon], rule).findings
    # A server that was started for it is not to blame.
    assert not judge([made("server/discover", duration_ms=1200.0)], rule).findings


def test_every_rule_says_what_it_is_and_what_to_do() -> None:
    for rule in RULES:
        assert rule.title.endswith("."), rule.id
        assert rule.advice.endswith("."), rule.id
        assert rule.source, rule.id
        assert (rule.leg is None) != (rule.conversation is None), rule.id
        assert isinstance(rule.severity, Severity)

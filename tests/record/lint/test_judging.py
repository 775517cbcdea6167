"""Legs held against rules."""

from anyport.record.lint.judging import judge
from anyport.record.lint.model import (
    CannotTell,
    Depth,
    Fault,
    Faults,
    Frame,
    Leg,
    Rule,
    Severity,
    always,
)


def leg(id: str, depth: Depth = Depth.FULL, conversation: str = "", side: str = "server") -> Leg:
    return Leg(id=id, side=side, depth=depth, method="ping", conversation=conversation)


def complain(leg: Leg) -> Faults:
    yield Fault(leg=leg, frame=None, words="no")


def rule(**members: object) -> Rule:
    made = {
        "id": "r",
        "title": "T.",
        "source": "S",
        "advice": "A.",
        "severity": Severity.ERROR,
        "needs": Depth.SHAPE,
        "about": always,
    }
    return Rule(**{**made, **members})  # type: ignore[arg-type]


def test_findings_come_in_the_order_of_time() -> None:
    one, two = rule(id="one", leg=complain), rule(id="two", leg=complain)
    report = judge([leg("a", conversation="x"), leg("b"), leg("c", conversation="x")], [one, two])

    told = [(finding.fault.leg.id, finding.rule.id) for finding in report.findings]
    assert told == [(id, name) for id in "abc" for name in ("one", "two")]
    assert report.count(Severity.ERROR) == 6
    assert report.count(Severity.NOTE) == 0


def test_a_rule_that_lacks_what_it_needs_says_so() -> None:
    report = judge([leg("a", Depth.NOTED), leg("b", Depth.SHAPE)], [rule(leg=complain)])

    assert [finding.fault.leg.id for finding in report.findings] == ["b"]
    assert [(each.rule.id, each.legs) for each in report.unjudged] == [("r", 1)]


def test_a_rule_that_cannot_tell_says_so() -> None:
    def unsure(leg: Leg) -> Faults:
        raise CannotTell
        yield

    report = judge([leg("a")], [rule(leg=unsure)])
    assert [(each.rule.id, each.legs) for each in report.unjudged] == [("r", 1)]


def test_a_rule_that_is_not_about_something_passes_it_by() -> None:
    report = judge([leg("a", Depth.NOTED)], [rule(leg=complain, about=lambda _: False)])
    assert not report.findings
    assert not report.unjudged


def test_conversations_are_judged_one_by_one() -> None:
    sizes: list[int] = []

    def count(legs: list[Leg]) -> Faults:
        sizes.append(len(legs))
        yield from ()

    judge([leg("a"), leg("b", conversation="x"), leg("c")], [rule(conversation=count)])
    assert sizes == [2, 1]


def passed_on(kind: str) -> list[str]:
    """Who is told of a fault that stands in what both sides have seen."""
    frame = Frame(kind=kind)

    def complain(leg: Leg) -> Faults:
        yield Fault(leg=leg, frame=frame, words="no")

    legs = [leg("a", conversation=side, side=side) for side in ("client", "server")]
    return [each.fault.leg.side for each in judge(legs, [rule(leg=complain)]).findings]


def test_what_was_passed_on_is_told_once_with_whoever_said_it() -> None:
    assert passed_on("response") == ["server"]
    assert passed_on("server-notification") == ["server"]
    assert passed_on("request") == ["client"]


def test_what_only_one_side_has_seen_is_told_there() -> None:
    def complain(leg: Leg) -> Faults:
        yield Fault(leg=leg, frame=None, words=leg.side)

    legs = [leg("a", conversation=side, side=side) for side in ("client", "server")]
    assert len(judge(legs, [rule(leg=complain)]).findings) == 2

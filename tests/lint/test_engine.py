"""Legs held against rules."""

from anyport.lint.engine import check_legs
from anyport.lint.model import (
    Depth,
    Faults,
    Frame,
    Leg,
    LintFault,
    NotRecorded,
    Rule,
    Severity,
    always,
)


def leg(id: str, depth: Depth = Depth.FULL, conversation: str = "", side: str = "server") -> Leg:
    return Leg(id=id, side=side, depth=depth, method="ping", conversation=conversation)


def complain(leg: Leg) -> Faults:
    yield LintFault(leg=leg, frame=None, message="no")


def rule(**members: object) -> Rule:
    made = {
        "id": "r",
        "title": "T.",
        "source": "S",
        "advice": "A.",
        "severity": Severity.ERROR,
        "needs": Depth.SHAPE,
        "applies_to": always,
    }
    return Rule(**{**made, **members})  # type: ignore[arg-type]


def test_findings_come_in_the_order_of_time() -> None:
    one, two = rule(id="one", check_leg=complain), rule(id="two", check_leg=complain)
    report = check_legs(
        [leg("a", conversation="x"), leg("b"), leg("c", conversation="x")], [one, two]
    )

    told = [(finding.fault.leg.id, finding.rule.id) for finding in report.findings]
    assert told == [(id, name) for id in "abc" for name in ("one", "two")]
    assert report.count(Severity.ERROR) == 6
    assert report.count(Severity.NOTE) == 0


def test_a_rule_that_lacks_what_it_needs_says_so() -> None:
    report = check_legs([leg("a", Depth.NOTED), leg("b", Depth.SHAPE)], [rule(check_leg=complain)])

    assert [finding.fault.leg.id for finding in report.findings] == ["b"]
    assert [(each.rule.id, each.legs) for each in report.unchecked] == [("r", 1)]


def test_a_rule_that_cannot_tell_says_so() -> None:
    def unsure(leg: Leg) -> Faults:
        raise NotRecorded
        yield

    report = check_legs([leg("a")], [rule(check_leg=unsure)])
    assert [(each.rule.id, each.legs) for each in report.unchecked] == [("r", 1)]


def test_a_rule_that_is_not_about_something_passes_it_by() -> None:
    report = check_legs(
        [leg("a", Depth.NOTED)], [rule(check_leg=complain, applies_to=lambda _: False)]
    )
    assert not report.findings
    assert not report.unchecked


def test_conversations_are_judged_one_by_one() -> None:
    sizes: list[int] = []

    def count(legs: list[Leg]) -> Faults:
        sizes.append(len(legs))
        yield from ()

    check_legs([leg("a"), leg("b", conversation="x"), leg("c")], [rule(check_conversation=count)])
    assert sizes == [2, 1]


def passed_on(kind: str) -> list[str]:
    """Who is told of a fault that stands in what both sides have seen."""
    frame = Frame(kind=kind)

    def complain(leg: Leg) -> Faults:
        yield LintFault(leg=leg, frame=frame, message="no")

    legs = [leg("a", conversation=side, side=side) for side in ("client", "server")]
    return [each.fault.leg.side for each in check_legs(legs, [rule(check_leg=complain)]).findings]


def test_what_was_passed_on_is_told_once_with_whoever_said_it() -> None:
    assert passed_on("response") == ["server"]
    assert passed_on("server-notification") == ["server"]
    assert passed_on("request") == ["client"]


def test_what_only_one_side_has_seen_is_told_there() -> None:
    def complain(leg: Leg) -> Faults:
        yield LintFault(leg=leg, frame=None, message=leg.side)

    legs = [leg("a", conversation=side, side=side) for side in ("client", "server")]
    assert len(check_legs(legs, [rule(check_leg=complain)]).findings) == 2

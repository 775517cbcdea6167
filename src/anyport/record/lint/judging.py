"""Legs held against every rule: what is wrong with them, and what could not be told.

A rule that lacks what it needs says so; it never passes in silence.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from anyport.record.lint.model import CannotTell, Fault, Leg, Rule, Severity
from anyport.record.lint.rules import RULES
from anyport.record.lint.vocabulary import CLIENT, SERVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One rule, broken in one place."""

    rule: Rule
    fault: Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Unjudged:
    """One rule, and of how many legs it could say nothing."""

    rule: Rule
    legs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came of it."""

    legs: int
    findings: tuple[Finding, ...]
    unjudged: tuple[Unjudged, ...]

    def count(self, severity: Severity) -> int:
        """How many findings are of this severity."""
        return sum(finding.rule.severity is severity for finding in self.findings)


def judge(legs: Sequence[Leg], rules: Iterable[Rule] = RULES) -> Report:
    """Hold legs, in the order of time, against the rules."""
    conversations: dict[str, list[Leg]] = {}
    for leg in legs:
        conversations.setdefault(leg.conversation, []).append(leg)
    order = {id(leg): place for place, leg in enumerate(legs)}
    findings: list[Finding] = []
    unjudged: list[Unjudged] = []
    for rule in rules:
        faults, missed = _judge(rule, conversations.values())
        findings += (Finding(rule=rule, fault=fault) for fault in _once(faults))
        if missed:
            unjudged.append(Unjudged(rule=rule, legs=missed))
    findings.sort(key=lambda finding: order[id(finding.fault.leg)])
    return Report(legs=len(legs), findings=tuple(findings), unjudged=tuple(unjudged))


def _once(faults: Sequence[Fault]) -> list[Fault]:
    """The faults without those that the gateway only passed on: whoever made one is to hear it."""
    found = {(fault.leg.id, fault.leg.side, fault.words) for fault in faults}
    return [
        fault
        for fault in faults
        if fault.leg.side == _maker(fault)
        or (fault.leg.id, _maker(fault), fault.words) not in found
    ]


def _maker(fault: Fault) -> str:
    return SERVER if fault.frame is None or fault.frame.from_server else CLIENT


def _judge(rule: Rule, conversations: Iterable[Sequence[Leg]]) -> tuple[list[Fault], int]:
    """What a rule finds, and of how many legs it cannot tell."""
    faults: list[Fault] = []
    missed = 0
    for legs in conversations:
        concerned = [leg for leg in legs if rule.about(leg)]
        known = [leg for leg in concerned if leg.depth >= rule.needs]
        missed += len(concerned) - len(known)
        if rule.conversation is not None:
            faults += rule.conversation(known)
        for leg in known if rule.leg is not None else ():
            assert rule.leg is not None
            try:
                faults += rule.leg(leg)
            except CannotTell:
                missed += 1
    return faults, missed

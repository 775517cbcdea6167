"""Checks legs against all rules.

A rule that needs more than was recorded is reported as unchecked, with the number of legs.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from anyport.lint.model import CLIENT, SERVER, Faults, Leg, LintFault, NotRecorded, Rule, Severity
from anyport.lint.rules import RULES
from anyport.lint.schemas import LocatedError, errors_of


@dataclass(frozen=True, slots=True, kw_only=True)
class LintFinding:
    """One violation of a rule."""

    rule: Rule
    fault: LintFault


@dataclass(frozen=True, slots=True, kw_only=True)
class UncheckedRule:
    """A rule, and the number of legs that it could not check."""

    rule: Rule
    legs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LintReport:
    """Result of one run."""

    legs: int
    findings: tuple[LintFinding, ...]
    unchecked: tuple[UncheckedRule, ...]

    def count(self, severity: Severity) -> int:
        return sum(finding.rule.severity is severity for finding in self.findings)


def check_legs(legs: Sequence[Leg], rules: Iterable[Rule] = RULES) -> LintReport:
    """Check legs, which must be in chronological order, against the rules."""
    conversations: dict[str, list[Leg]] = {}
    for leg in legs:
        conversations.setdefault(leg.conversation, []).append(leg)
    order = {id(leg): index for index, leg in enumerate(legs)}
    errors = _SchemaErrors()
    findings: list[LintFinding] = []
    unchecked: list[UncheckedRule] = []
    for rule in rules:
        faults, unchecked_count = _check_rule(rule, conversations.values(), errors)
        findings += (LintFinding(rule=rule, fault=fault) for fault in _without_relayed(faults))
        if unchecked_count:
            unchecked.append(UncheckedRule(rule=rule, legs=unchecked_count))
    findings.sort(key=lambda finding: order[id(finding.fault.leg)])
    return LintReport(legs=len(legs), findings=tuple(findings), unchecked=tuple(unchecked))


def _without_relayed(faults: Sequence[LintFault]) -> list[LintFault]:
    """Drop faults that the gateway only passed on from the other side."""
    found = {(fault.leg.id, fault.leg.side, fault.message) for fault in faults}
    return [
        fault
        for fault in faults
        if fault.leg.side == _origin_side(fault)
        or (fault.leg.id, _origin_side(fault), fault.message) not in found
    ]


def _origin_side(fault: LintFault) -> str:
    return SERVER if fault.frame is None or fault.frame.from_server else CLIENT


class _SchemaErrors:
    """Cache of the schema errors of each leg."""

    def __init__(self) -> None:
        self._errors: dict[int, list[LocatedError] | NotRecorded] = {}

    def matching(self, leg: Leg, pattern: str) -> Faults:
        if id(leg) not in self._errors:
            try:
                self._errors[id(leg)] = errors_of(leg)
            except NotRecorded as not_recorded:
                self._errors[id(leg)] = not_recorded
        errors = self._errors[id(leg)]
        if isinstance(errors, NotRecorded):
            raise errors
        for error in errors:
            if re.fullmatch(pattern, error.location):
                yield LintFault(leg=leg, frame=error.frame, message=error.message)


def _check_rule(
    rule: Rule, conversations: Iterable[Sequence[Leg]], errors: _SchemaErrors
) -> tuple[list[LintFault], int]:
    """Faults that a rule finds, and the number of legs that it cannot check."""
    faults: list[LintFault] = []
    unchecked_count = 0
    for legs in conversations:
        relevant = [leg for leg in legs if rule.applies_to(leg)]
        checkable = [leg for leg in relevant if leg.depth >= rule.needs]
        unchecked_count += len(relevant) - len(checkable)
        if rule.check_conversation is not None:
            faults += rule.check_conversation(checkable)
            continue
        for leg in checkable:
            try:
                if rule.schema is not None:
                    faults += errors.matching(leg, rule.schema)
                if rule.check_leg is not None:
                    faults += rule.check_leg(leg)
            except NotRecorded:
                unchecked_count += 1
    return faults, unchecked_count

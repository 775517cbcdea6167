"""Runs the rules on a conversation."""

import msgspec

from anyport.lint.engine import check_legs
from anyport.lint.frame_files import legs_of_frames
from tests.lint.conversations import Line


def broken(*lines: Line) -> set[str]:
    """The rules that a conversation breaks."""
    raw = [line if isinstance(line, bytes) else msgspec.json.encode(line) for line in lines]
    return {finding.rule.id for finding in check_legs(legs_of_frames(raw)).findings}


def messages(rule: str, *lines: Line) -> list[str]:
    """The messages of a rule about a conversation."""
    raw = [line if isinstance(line, bytes) else msgspec.json.encode(line) for line in lines]
    findings = check_legs(legs_of_frames(raw)).findings
    return [finding.fault.message for finding in findings if finding.rule.id == rule]

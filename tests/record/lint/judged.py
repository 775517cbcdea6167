"""What tests of rules share: a conversation, and which rules it breaks."""

import msgspec

from anyport.record.lint.frames import legs_of_frames
from anyport.record.lint.judging import judge
from tests.record.lint.conversations import Line


def broken(*lines: Line) -> set[str]:
    """The rules that a conversation breaks."""
    raw = [line if isinstance(line, bytes) else msgspec.json.encode(line) for line in lines]
    return {finding.rule.id for finding in judge(legs_of_frames(raw)).findings}


def words(rule: str, *lines: Line) -> list[str]:
    """What a rule says of a conversation."""
    raw = [line if isinstance(line, bytes) else msgspec.json.encode(line) for line in lines]
    findings = judge(legs_of_frames(raw)).findings
    return [finding.fault.words for finding in findings if finding.rule.id == rule]

"""`anyport lint`: recorded traffic, held against the rules of the protocol."""

import os
from collections import deque
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import msgspec

from anyport.cli import places
from anyport.cli.ending import FAILED, GOOD, CommandFailed, WrongUsage, say
from anyport.cli.exported import is_export, is_har, names_missing_file, read_export
from anyport.cli.journal import require_journal
from anyport.cli.options import Given
from anyport.cli.recorded import Asked, recorded
from anyport.cli.render import counted, out, out_json
from anyport.record.detail import Detail
from anyport.record.lint.frames import legs_of_frames
from anyport.record.lint.judging import Finding, Report, Unjudged, judge
from anyport.record.lint.model import ABSENT, Depth, Frame, Leg, Severity
from anyport.record.lint.reading import legs_of
from anyport.record.lint.rules import RULES
from anyport.record.text import cut, printable

ROWS_MAX: Final = 20_000
"""Judged at once, the newest: sessions are judged as wholes, and have to be held for that."""

SHOWN_MAX: Final = 5
"""Places of one broken rule that people are shown; programs get all."""

FRAME_CHARS_MAX: Final = 400
"""Of a frame that people are shown."""

_ORDER: Final = tuple(Severity)


def lint(given: Given, words: tuple[str, ...]) -> int:
    """Say which rules are broken where; the exit code."""
    legs = _legs(given, words)
    if not legs:
        # Whoever judges nothing has not found it good.
        raise CommandFailed("nothing that is recorded matches: there is nothing to judge")
    report = judge(legs)
    if given.json:
        out_json(_document(report))
    else:
        _show(report)
    return FAILED if report.count(Severity.ERROR) else GOOD


def _legs(given: Given, words: tuple[str, ...]) -> list[Leg]:
    """What the words mean: a file, or what was recorded and matches a filter."""
    file = next((Path(word) for word in words if Path(word).is_file()), None)
    if file is not None:
        if len(words) > 1:
            raise WrongUsage(
                f"'{file}' is a file, and is judged alone: give a filter to 'anyport export',"
                " or write text: before a word that is to be looked for"
            )
        return read_legs(file)
    for word in filter(names_missing_file, words):
        raise WrongUsage(f"there is no file '{word}'")
    asked = Asked(words)
    state_dir = places.state_dir(given.state_dir, os.environ)
    if given.url is None:
        require_journal(state_dir)
    with recorded(given) as source:
        return _recorded_legs(source.everything(asked))


def read_legs(file: Path) -> list[Leg]:
    """The legs in a file: an export, or messages as they were said.

    Raises:
        CommandFailed: there are none in it.
    """
    if is_export(file):
        return _recorded_legs(read_export(file))
    if is_har(file):
        raise CommandFailed(
            f"{file} is a HAR file, which lacks what the rules look at: lint takes JSON Lines, as"
            " 'anyport export --format jsonl' writes them"
        )
    legs = legs_of_frames(file.read_bytes().splitlines())
    if not legs:
        raise CommandFailed(f"nothing has been recorded yet in {file}: it is empty")
    return legs


def _recorded_legs(details: Iterable[Detail]) -> list[Leg]:
    newest: deque[Detail] = deque(maxlen=ROWS_MAX)
    count = 0
    for detail in details:
        count += 1
        newest.append(detail)
    if count > ROWS_MAX:
        say(f"only the newest {ROWS_MAX} of {count} rows are judged; narrow the filter")
    return [leg for detail in newest for leg in legs_of(detail)]


def _show(report: Report) -> None:
    ranked = sorted(report.findings, key=_rank)
    for _, findings in groupby(ranked, key=_rank):
        _show_rule(list(findings))
    counts = [counted(report.count(severity), severity.value) for severity in _ORDER]
    judged = counted(report.legs, "side")
    out(f"{judged} of exchanges, {len(RULES)} rules: {', '.join(counts)}.")
    for depth in Depth:
        _show_unjudged(depth, [each for each in report.unjudged if each.rule.needs is depth])


def _rank(finding: Finding) -> tuple[int, int]:
    return _ORDER.index(finding.rule.severity), RULES.index(finding.rule)


def _show_rule(findings: list[Finding]) -> None:
    rule = findings[0].rule
    out(f"{rule.severity.value}: {rule.id}: {rule.title}")
    out(f"  {rule.advice} ({rule.source})")
    for finding in findings[:SHOWN_MAX]:
        fault = finding.fault
        out(printable(f"  {fault.place}  {_where(fault.leg)}: {fault.words}"))
        if fault.frame is not None:
            out(f"    {cut(printable(_text(fault.frame)), FRAME_CHARS_MAX)}")
    if len(findings) > SHOWN_MAX:
        out(f"  and {len(findings) - SHOWN_MAX} more; --json has them all")
    out("")


def _show_unjudged(depth: Depth, unjudged: list[Unjudged]) -> None:
    if unjudged:
        rules = counted(len(unjudged), "rule")
        out(f"{rules} could not judge everything, which needs {depth.wanted}:")
        out(f"  {', '.join(f'{each.rule.id} ({each.legs})' for each in unjudged)}")


def _where(leg: Leg) -> str:
    what = leg.method or "a frame of no exchange"
    whose = f"with server {leg.server}" if leg.side == "server" and leg.server else None
    if leg.id.startswith("line "):
        return what
    return f"{what}, {whose or 'with the client'}"


def _text(frame: Frame) -> str:
    """A frame for people: what it is, and what was recorded of it."""
    shown = _shown(frame)
    kind, method = shown.pop("kind"), shown.pop("method", "")
    said = [
        value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for value in shown.values()
    ]
    return " ".join(part for part in (kind, method, *said) if part)


def _shown(frame: Frame) -> dict[str, Any]:
    """What was recorded of a frame: the whole message, or else its parts."""
    shown: dict[str, Any] = {"kind": frame.kind}
    if frame.envelope is not ABSENT and frame.envelope is not None:
        return shown | {"frame": frame.envelope}
    parts = {
        "method": frame.method,
        "payload": None if frame.payload is ABSENT else frame.payload,
        "error": None if frame.error is ABSENT else frame.error,
        "shape": frame.shape,
        "text": frame.text,
    }
    return shown | {name: value for name, value in parts.items() if value is not None}


def _document(report: Report) -> dict[str, Any]:
    return {
        "sides": report.legs,
        "errors": report.count(Severity.ERROR),
        "warnings": report.count(Severity.WARNING),
        "notes": report.count(Severity.NOTE),
        "findings": [_found(finding) for finding in report.findings],
        "cannot_be_judged": [
            {"rule": each.rule.id, "needs": each.rule.needs.wanted, "sides": each.legs}
            for each in report.unjudged
        ],
    }


def _found(finding: Finding) -> dict[str, Any]:
    rule, fault = finding.rule, finding.fault
    return {
        "rule": rule.id,
        "severity": rule.severity.value,
        "id": fault.place,
        "side": fault.leg.side,
        "method": fault.leg.method,
        "server": fault.leg.server,
        "message": fault.words,
        "sentence": rule.title,
        "advice": rule.advice,
        "source": rule.source,
        "frame": None if fault.frame is None else _shown(fault.frame),
    }

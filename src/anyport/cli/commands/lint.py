"""`anyport lint`: checks recorded traffic against the MCP specification."""

import os
from collections import deque
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import msgspec

from anyport.cli import dirs
from anyport.cli.connect.journal import require_journal
from anyport.cli.connect.traffic import (
    FilterQuery,
    is_export,
    is_har,
    names_missing_file,
    open_traffic,
    read_export,
)
from anyport.cli.exit_codes import FAILED, SUCCESS, CommandFailed, WrongUsage, notify_user
from anyport.cli.options import SharedOptions
from anyport.cli.output import out, out_json, pluralize
from anyport.lint.engine import LintFinding, LintReport, UncheckedRule, check_legs
from anyport.lint.frame_files import legs_of_frames
from anyport.lint.model import ABSENT, Depth, Frame, Leg, Severity
from anyport.lint.recorded_traffic import legs_of
from anyport.lint.rules import RULES
from anyport.record.redact.escape import cut, make_printable
from anyport.record.traffic import Detail

ROWS_MAX: Final = 20_000
"""The newest rows that are checked; whole sessions must fit into memory."""

SHOWN_MAX: Final = 5
"""Findings of one rule without `--json`."""

FRAME_CHARS_MAX: Final = 400
"""Of a message that is quoted without `--json`."""

_ORDER: Final = tuple(Severity)


def lint(options: SharedOptions, words: tuple[str, ...]) -> int:
    """Print which rules are violated where; the exit code."""
    legs = _legs(options, words)
    if not legs:
        # Exit code 0 would say that everything is fine.
        raise CommandFailed("no recorded traffic matches: there is nothing to check")
    report = check_legs(legs)
    if options.json:
        out_json(_document(report))
    else:
        _show(report)
    return FAILED if report.count(Severity.ERROR) else SUCCESS


def _legs(options: SharedOptions, words: tuple[str, ...]) -> list[Leg]:
    """The traffic in a file, or the recorded traffic that matches a filter."""
    file = next((Path(word) for word in words if Path(word).is_file()), None)
    if file is not None:
        if len(words) > 1:
            raise WrongUsage(
                f"'{file}' is a file and cannot be combined with a filter: filter with "
                "'anyport export', or search for the word with text:"
            )
        return read_legs(file)
    for word in filter(names_missing_file, words):
        raise WrongUsage(f"file not found: {word}")
    query = FilterQuery(words)
    state_dir = dirs.state_dir(options.state_dir, os.environ)
    if options.url is None:
        require_journal(state_dir)
    with open_traffic(options) as source:
        return _recorded_legs(source.all_details(query))


def read_legs(file: Path) -> list[Leg]:
    """The traffic in a file: an export, or JSON-RPC messages.

    Raises:
        CommandFailed: the file has none.
    """
    if is_export(file):
        return _recorded_legs(read_export(file))
    if is_har(file):
        raise CommandFailed(
            f"{file} is a HAR file, which lacks what the rules need: use JSON Lines, as written by"
            " 'anyport export --format jsonl'"
        )
    legs = legs_of_frames(file.read_bytes().splitlines())
    if not legs:
        raise CommandFailed(f"{file} is empty: nothing has been recorded yet")
    return legs


def _recorded_legs(details: Iterable[Detail]) -> list[Leg]:
    newest: deque[Detail] = deque(maxlen=ROWS_MAX)
    count = 0
    for detail in details:
        count += 1
        newest.append(detail)
    if count > ROWS_MAX:
        notify_user(f"only the newest {ROWS_MAX} of {count} rows are checked; narrow the filter")
    return [leg for detail in newest for leg in legs_of(detail)]


def _show(report: LintReport) -> None:
    ranked = sorted(report.findings, key=_rank)
    for _, findings in groupby(ranked, key=_rank):
        _show_rule(list(findings))
    counts = [pluralize(report.count(severity), severity.value) for severity in _ORDER]
    checked = pluralize(report.legs, "side")
    out(f"{checked} of exchanges, {len(RULES)} rules: {', '.join(counts)}.")
    for depth in Depth:
        _show_unchecked(depth, [each for each in report.unchecked if each.rule.needs is depth])


def _rank(finding: LintFinding) -> tuple[int, int]:
    return _ORDER.index(finding.rule.severity), RULES.index(finding.rule)


def _show_rule(findings: list[LintFinding]) -> None:
    rule = findings[0].rule
    out(f"{rule.severity.value}: {rule.id}: {rule.title}")
    out(f"  {rule.advice} ({rule.source})")
    for finding in findings[:SHOWN_MAX]:
        fault = finding.fault
        out(make_printable(f"  {fault.place}  {_describe_leg(fault.leg)}: {fault.message}"))
        if fault.frame is not None:
            out(f"    {cut(make_printable(_text(fault.frame)), FRAME_CHARS_MAX)}")
    if len(findings) > SHOWN_MAX:
        out(f"  and {len(findings) - SHOWN_MAX} more; use --json for all")
    out("")


def _show_unchecked(depth: Depth, unchecked: list[UncheckedRule]) -> None:
    if unchecked:
        rules = pluralize(len(unchecked), "rule")
        out(f"{rules} could not check everything, which needs {depth.requirement}:")
        out(f"  {', '.join(f'{each.rule.id} ({each.legs})' for each in unchecked)}")


def _describe_leg(leg: Leg) -> str:
    what = leg.method or "a message outside an exchange"
    peer = f"with server {leg.server}" if leg.side == "server" and leg.server else None
    if leg.id.startswith("line "):
        return what
    return f"{what}, {peer or 'with the client'}"


def _text(frame: Frame) -> str:
    """A message as text: its kind, and what was recorded of it."""
    document = _frame_document(frame)
    kind, method = document.pop("kind"), document.pop("method", "")
    values = [
        value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for value in document.values()
    ]
    return " ".join(part for part in (kind, method, *values) if part)


def _frame_document(frame: Frame) -> dict[str, Any]:
    """What was recorded of a message: all of it, or parts."""
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


def _document(report: LintReport) -> dict[str, Any]:
    return {
        "sides": report.legs,
        "errors": report.count(Severity.ERROR),
        "warnings": report.count(Severity.WARNING),
        "notes": report.count(Severity.NOTE),
        "findings": [_finding_document(finding) for finding in report.findings],
        "cannot_be_judged": [
            {"rule": each.rule.id, "needs": each.rule.needs.requirement, "sides": each.legs}
            for each in report.unchecked
        ],
    }


def _finding_document(finding: LintFinding) -> dict[str, Any]:
    rule, fault = finding.rule, finding.fault
    return {
        "rule": rule.id,
        "severity": rule.severity.value,
        "id": fault.place,
        "side": fault.leg.side,
        "method": fault.leg.method,
        "server": fault.leg.server,
        "message": fault.message,
        "sentence": rule.title,
        "advice": rule.advice,
        "source": rule.source,
        "frame": None if fault.frame is None else _frame_document(fault.frame),
    }

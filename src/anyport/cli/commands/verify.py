"""`anyport verify`: checks the hash chain and the signatures of the journal."""

import os
import re
from pathlib import Path
from typing import Any, Final

import msgspec

from anyport.cli import dirs
from anyport.cli.connect.journal import require_journal
from anyport.cli.exit_codes import FAILED, SUCCESS, CommandFailed, WrongUsage, notify_user
from anyport.cli.options import SharedOptions
from anyport.cli.output import out, out_json, pluralize
from anyport.cli.setup import read_config
from anyport.record.redact.escape import make_printable
from anyport.record.tamper.chain import Link
from anyport.record.tamper.checkpoints import Head, RecordRef
from anyport.record.tamper.verify import ExternalEvidence, StillChanging, VerificationReport
from anyport.record.tamper.verify import verify as verified

_HEAD: Final = re.compile(r"([0-9a-f]{8}):([1-9][0-9]{0,17}):([0-9a-f]{32})")
_KEY: Final = re.compile(r"[0-9a-f]{64}")


def verify(options: SharedOptions, *, head: str | None, key: str | None) -> int:
    """Verify the whole journal and print the faults; the exit code.

    Raises:
        WrongUsage: the head or the key is not valid.
        CommandFailed: there is no journal.
    """
    state_dir = dirs.state_dir(options.state_dir, os.environ)
    anchor = read_config(options, os.environ, Path.cwd()).record.anchor
    outside = ExternalEvidence(
        anchor=None if anchor is None else Path(anchor),
        head=None if head is None else _read_head(head),
        key=None if key is None else _read_key(key),
    )
    try:
        report = verified(state_dir, outside)
    except StillChanging as error:
        raise CommandFailed(f"{error}; try again") from None
    if not report.faults:
        require_journal(state_dir)
    if options.json:
        out_json(_document(report))
    else:
        _print_report(report)
    return FAILED if report.faults else SUCCESS


def _read_head(text: str) -> Link:
    """A head as this command prints it, or a line of `heads.jsonl` or of an anchor."""
    match = _HEAD.fullmatch(text.strip())
    if match is not None:
        return Link(match[1], int(match[2]), match[3].encode())
    try:
        record = msgspec.json.decode(text, type=RecordRef)
    except (msgspec.DecodeError, RecursionError):
        raise WrongUsage(
            "--head takes a head as 'anyport verify' prints it, such as "
            "1f3a9c0e:512:0123456789abcdef0123456789abcdef"
        ) from None
    return _read_head(f"{record.writer}:{record.seq}:{record.hash}")


def _read_key(text: str) -> str:
    key = text.strip().lower()
    if not _KEY.fullmatch(key):
        raise WrongUsage("--key takes 64 hexadecimal digits, as 'anyport verify' prints them")
    return key


def _print_report(report: VerificationReport) -> None:
    for fault in report.faults:
        out(f"bad: {make_printable(str(fault))}")
    what = _verdict(report)
    span = (
        f", {make_printable(report.since)} to {make_printable(report.until)}"
        if report.records
        else ""
    )
    count = pluralize(report.records, "record")
    writers = pluralize(report.writers, "writer")
    out(f"{what}: {count} of {writers} in {pluralize(report.files, 'file')}{span}")
    nothing = "nothing" if report.faults else "nothing yet"
    if report.head is None:
        out(f"signed: {nothing}")
    else:
        out(f"signed: {_head_link(report.head)} at {report.head.time}")
        if not report.faults:
            out(f"after that: {pluralize(report.unsigned, 'record')}")
    if report.anchored is not None:
        anchored = pluralize(report.anchored, "signed line") if report.anchored else nothing
        out(f"anchor: {anchored}")
    if report.removed:
        removed = pluralize(report.removed, "record")
        out(f"removed by retention: {removed}, the last of {report.removed_until}")
    for key in report.keys:
        out(f"key: {key}")
    if report.torn_lines:
        notify_user(
            f"skipped {pluralize(report.torn_lines, 'line')} "
            "that a crash or a full disk left incomplete"
        )
    if report.unlinked:
        have = "has" if report.unlinked == 1 else "have"
        notify_user(
            f"{pluralize(report.unlinked, 'record')} at the beginning {have} no link of a chain"
        )


def _verdict(report: VerificationReport) -> str:
    if not report.faults:
        return "good"
    only_heads = all(fault.kind in ("heads", "pruned") for fault in report.faults)
    return "the chains fit" if only_heads else "good before that"


def _document(report: VerificationReport) -> dict[str, Any]:
    head, newest = report.head, report.newest
    return {
        "good": not report.faults,
        "faults": report.faults,
        "records": report.records,
        "writers": report.writers,
        "files": report.files,
        "since": report.since or None,
        "until": report.until or None,
        "newest": None if newest is None else str(newest),
        "head": None if head is None else str(_head_link(head)),
        "signed_at": None if head is None else head.time,
        "unsigned": None if report.faults else report.unsigned,
        "anchored": report.anchored,
        "removed": report.removed,
        "removed_until": report.removed_until or None,
        "keys": report.keys,
        "parts": report.torn_lines,
        "unlinked": report.unlinked,
    }


def _head_link(head: Head) -> Link:
    return Link(head.writer, head.seq, head.hash.encode())

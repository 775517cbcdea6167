"""`anyport verify`: whether the journal is as it was written, or what is the first bad record."""

import os
import re
from pathlib import Path
from typing import Any, Final

import msgspec

from anyport.cli import places
from anyport.cli.ending import FAILED, GOOD, CommandFailed, WrongUsage, say
from anyport.cli.journal import require_journal
from anyport.cli.options import Given
from anyport.cli.render import counted, out, out_json
from anyport.cli.setup import read_config
from anyport.record.chain import Link
from anyport.record.statements import Head, Mark
from anyport.record.text import printable
from anyport.record.verify import Outside, Report, StillChanging
from anyport.record.verify import verify as verified

_HEAD: Final = re.compile(r"([0-9a-f]{8}):([1-9][0-9]{0,17}):([0-9a-f]{32})")
_KEY: Final = re.compile(r"[0-9a-f]{64}")


def verify(given: Given, *, head: str | None, key: str | None) -> int:
    """Read the whole journal and say what is wrong with it; the exit code.

    Raises:
        WrongUsage: the head or the key is none.
        CommandFailed: there is nothing to verify.
    """
    state_dir = places.state_dir(given.state_dir, os.environ)
    anchor = read_config(given, os.environ, Path.cwd()).record.anchor
    outside = Outside(
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
    if given.json:
        out_json(_document(report))
    else:
        _tell(report)
    return FAILED if report.faults else GOOD


def _read_head(text: str) -> Link:
    """A head as this command tells it, or as a line of `heads.jsonl` or of an anchor has it."""
    found = _HEAD.fullmatch(text.strip())
    if found is not None:
        return Link(found[1], int(found[2]), found[3].encode())
    try:
        mark = msgspec.json.decode(text, type=Mark)
    except (msgspec.DecodeError, RecursionError):
        raise WrongUsage(
            "--head takes a head as 'anyport verify' tells it, such as "
            "1f3a9c0e:512:0123456789abcdef0123456789abcdef"
        ) from None
    return _read_head(f"{mark.writer}:{mark.seq}:{mark.hash}")


def _read_key(text: str) -> str:
    key = text.strip().lower()
    if not _KEY.fullmatch(key):
        raise WrongUsage("--key takes 64 hexadecimal digits, as 'anyport verify' tells them")
    return key


def _tell(report: Report) -> None:
    for fault in report.faults:
        out(f"bad: {printable(str(fault))}")
    what = _judgement(report)
    span = f", {printable(report.since)} to {printable(report.until)}" if report.records else ""
    count = counted(report.records, "record")
    writers = counted(report.writers, "writer")
    out(f"{what}: {count} of {writers} in {counted(report.files, 'file')}{span}")
    nothing = "nothing" if report.faults else "nothing yet"
    if report.head is None:
        out(f"signed: {nothing}")
    else:
        out(f"signed: {_link(report.head)} at {report.head.time}")
        if not report.faults:
            out(f"after that: {counted(report.unsigned, 'record')}")
    if report.anchored is not None:
        anchored = counted(report.anchored, "signed line") if report.anchored else nothing
        out(f"anchor: {anchored}")
    if report.removed:
        removed = counted(report.removed, "record")
        out(f"removed by retention: {removed}, the last of {report.removed_until}")
    for key in report.keys:
        out(f"key: {key}")
    if report.parts:
        say(f"skipped {counted(report.parts, 'line')} that a crash or a full disk left unfinished")
    if report.unlinked:
        have = "has" if report.unlinked == 1 else "have"
        say(f"{counted(report.unlinked, 'record')} at the beginning {have} no place in a chain")


def _judgement(report: Report) -> str:
    """What can be said of the records that were counted."""
    if not report.faults:
        return "good"
    only_heads = all(fault.kind in ("heads", "pruned") for fault in report.faults)
    return "the chains fit" if only_heads else "good before that"


def _document(report: Report) -> dict[str, Any]:
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
        "head": None if head is None else str(_link(head)),
        "signed_at": None if head is None else head.time,
        "unsigned": None if report.faults else report.unsigned,
        "anchored": report.anchored,
        "removed": report.removed,
        "removed_until": report.removed_until or None,
        "keys": report.keys,
        "parts": report.parts,
        "unlinked": report.unlinked,
    }


def _link(head: Head) -> Link:
    return Link(head.writer, head.seq, head.hash.encode())

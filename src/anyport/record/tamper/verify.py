"""Verifies the journal: whether it is as written, or which record is the first that is not.

The files are only read. A gateway may go on writing: what is verified is the journal at one moment.
"""

import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from io import FileIO
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from anyport.record.journal.segments import SegmentsChanged, snapshot
from anyport.record.tamper.chain import INITIAL_HASH, Link, is_linked_to, parse_link
from anyport.record.tamper.checkpoints import (
    HEADS_FILE,
    KEY_FILE,
    ChainSpan,
    CheckpointState,
    Head,
    read_statements,
    trusted_keys,
)
from anyport.record.tamper.keys import DamagedKeys

ATTEMPTS_MAX: Final = 5
"""Files may be rotated or removed during verification, but not in every attempt."""

CHUNK_BYTES: Final = 64 * 1024
"""Read at a time; between two reads other threads get their turn."""

LINE_BYTES_MAX: Final = 1024 * 1024
"""Far longer than any record; a longer line is not kept in memory."""

# A journal without any signature is either young, or its signatures were removed.

FIRST_HEAD_SECONDS: Final = 300.0
"""A gateway signs its first head within this time after its first record. Far more than it takes,
so that a busy machine raises no false alarm."""

LAST_HEAD_SECONDS: Final = 30.0
"""A gateway signs its last head within this time after its end, with the same margin."""

_BEGINNING: Final = b'{"timestamp":"'
_MOMENT: Final = slice(len(_BEGINNING), len(_BEGINNING) + len("2026-07-28T12:00:00.000000+00:00"))

ChainFaultKind: TypeAlias = Literal[
    "edited",
    "rewritten",
    "missing",
    "inserted",
    "out of order",
    "cut",
    "chain missing",
    "restored",
    "pruned",
    "heads",
]
"""Kinds of faults; docs/guides/tamper-evidence.md explains each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainFault:
    """Something that is wrong with the journal."""

    kind: ChainFaultKind
    text: str
    """A sentence for people, without the place."""
    file: str | None = None
    line: int | None = None
    writer: str | None = None
    seq: int | None = None
    """Number of the first bad record in its chain."""

    def __str__(self) -> str:
        line = "" if self.line is None else f", line {self.line}"
        return self.text if self.file is None else f"{self.file}{line}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalEvidence:
    """Evidence about the journal from outside the state directory."""

    anchor: Path | None = None
    """A file with signed heads."""
    head: Link | None = None
    """A record that the journal is known to have had."""
    key: str | None = None
    """The public key of the signer, instead of the one in the state directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationReport:
    """The result of `verify`."""

    records: int
    writers: int
    files: int
    since: str
    until: str
    torn_lines: int
    """Lines that are not records, such as torn ones."""
    unlinked: int
    """Records from before the journal had a chain."""
    newest: Link | None
    """The last record."""
    head: Head | None
    """The last signed head."""
    anchored: int | None
    """Statements in the anchor; None without an anchor."""
    unsigned: int
    """Records after the last signed head of their writer."""
    removed: int
    """Records that retention removed, with signed tombstones."""
    removed_until: str
    keys: tuple[str, ...]
    """The public keys that were trusted."""
    faults: tuple[ChainFault, ...]
    """The first fault of the journal, and those of its statements."""


class StillChanging(Exception):
    """The files never stayed the same for long enough."""


def verify(
    state_dir: Path, evidence: ExternalEvidence, *, now: Callable[[], float] = time.time
) -> VerificationReport:
    """Verify everything below a state directory.

    Raises:
        OSError: a file cannot be read.
        StillChanging: files were rotated or removed in every attempt.
    """
    for _ in range(ATTEMPTS_MAX):
        try:
            return _verify_once(state_dir, evidence, now())
        except SegmentsChanged:
            continue
    raise StillChanging("files of the journal change too fast to be verified")


def _verify_once(state_dir: Path, evidence: ExternalEvidence, now: float) -> VerificationReport:
    # The order matters. Statements are read before the journal, so that every signed record must be
    # in it; a gateway writes the anchor last, so it is read after `heads.jsonl`.
    raw = _read_if_present(state_dir / HEADS_FILE)
    anchored = None if evidence.anchor is None else _read_if_present(evidence.anchor)
    snapshots = snapshot(state_dir / "events")
    # Retention may have signed a tombstone since.
    if _read_if_present(state_dir / HEADS_FILE) != raw:
        raise SegmentsChanged
    signed = _SignedEvidence(state_dir, evidence, raw, anchored)
    verifier = ChainVerifier(signed.state)
    verifier.unseen_hashes |= signed.external_hashes
    for segment in snapshots:
        with segment.open() as file:
            verifier.read(
                os.fspath(segment.path.relative_to(state_dir)), read_lines(file, segment.size)
            )
        if verifier.is_done:
            break
    verifier.finish()
    fault = verifier.fault or signed.find_missing(verifier)
    signed.check_overdue(verifier, now)
    totals = verifier.totals()
    return VerificationReport(
        records=totals.records,
        writers=totals.writers,
        files=totals.files,
        since=verifier.since.decode(errors="replace"),
        until=totals.until.decode(errors="replace"),
        torn_lines=verifier.torn_line_count,
        unlinked=verifier.unlinked_count,
        newest=totals.newest,
        head=signed.state.last_head,
        anchored=None if evidence.anchor is None else signed.anchored.statement_count,
        unsigned=verifier.unsigned_count(),
        removed=signed.state.removed,
        removed_until=signed.state.until,
        keys=tuple(sorted(signed.keys)),
        faults=(*(() if fault is None else (fault,)), *signed.faults),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedTotals:
    """What was verified, up to one line."""

    records: int
    writers: int
    files: int
    until: bytes
    newest: Link | None


class ChainVerifier:
    """Follows the chains of all writers through the journal, up to the first fault."""

    def __init__(self, checkpoints: CheckpointState) -> None:
        self.links: dict[str, Link] = {}
        """The last good record of each writer."""
        self.unseen_hashes = dict(checkpoints.signed_hashes)
        """Signed records that were not seen yet: the hash by writer and number."""
        self.first_lines: dict[str, bytes] = {}
        """The first record seen of each writer."""
        self.last_lines: dict[str, bytes] = {}
        self.records = 0
        self.files = 0
        self.torn_line_count = 0
        """Lines that are not records, such as torn ones."""
        self.unlinked_count = 0
        """Records from before the journal had a chain."""
        self.newest: Link | None = None
        """The last record read."""
        self.since = b""
        self.until = b""
        self.fault: ChainFault | None = None
        self._checkpoints = checkpoints
        self._first_links: dict[str, Link] = {}
        """The link of the first record seen of each writer."""
        self._counts: dict[str, int] = {}
        self._unlinked_fault: ChainFault | None = None
        """A line without a link. Later lines show whether its link was removed, or the line
        inserted."""
        self._totals_before_unlinked: VerifiedTotals | None = None
        self._missing_record: tuple[str, int] | None = None
        """A record whose absence is the fault, in case it comes later."""
        self._file = ""
        self._line = 0

    @property
    def is_done(self) -> bool:
        """Whether further lines cannot change the result."""
        return self.fault is not None and self._missing_record is None

    def read(self, file: str, lines: Iterable[bytes]) -> None:
        """Verify the lines of one more file."""
        self._file = file
        self.files += self.fault is None
        for number, line in enumerate(lines, 1):
            self._line = number
            if self.fault is None:
                self.fault = self._check_line(line)
            else:
                self._look_for_missing(line)
            if self.is_done:
                return

    def finish(self) -> None:
        """Conclude that there are no more lines."""
        self.fault = self.fault or self._unlinked_fault

    def totals(self) -> VerifiedTotals:
        """Everything verified, or what comes before the fault."""
        # A line without a link is the fault, or the place of it.
        return self._totals_before_unlinked or VerifiedTotals(
            records=self.records,
            writers=len(self.links),
            files=self.files,
            until=self.until,
            newest=self.newest,
        )

    def spans(self) -> list[ChainSpan]:
        """The records read, by writer."""
        return [_span(link, self._counts[writer]) for writer, link in self.links.items()]

    def unsigned_count(self) -> int:
        """Records after the last signed head of their writer."""
        heads = self._checkpoints.heads
        signed = {writer: heads[writer].seq if writer in heads else 0 for writer in self.links}
        return sum(
            max(0, min(self._counts[writer], link.seq - signed[writer]))
            for writer, link in self.links.items()
        )

    def _check_line(self, line: bytes) -> ChainFault | None:
        link = parse_link(line)
        if link is None:
            self._accept_unlinked(line)
            return None
        previous = self._previous_hash(link)
        if previous is None:
            return self._misplaced_fault(link)
        if not is_linked_to(line, link, previous):
            # A process that is killed while it writes leaves a torn line, and the record of another
            # process may follow on it. Inside a record the quotes of this text would be escaped.
            at = line.rfind(_BEGINNING)
            if at <= 0 or not is_linked_to(line[at:], link, previous):
                return self._edited_fault(link)
            self.torn_line_count += 1
            line = line[at:]
        # The record fits its chain. Only a signature shows that the chain is the original one.
        signed = (
            self.unseen_hashes.pop((link.writer, link.seq), None) if self.unseen_hashes else None
        )
        if signed is not None and signed.encode() != link.hash:
            return self._rewritten_fault(link)
        self._accept(line, link)
        return None

    def _previous_hash(self, link: Link) -> bytes | None:
        """The hash that this record must follow; None if it cannot be here."""
        last = self.links.get(link.writer)
        if last is not None and link.seq == last.seq + 1:
            return last.hash
        if link.seq == 1:
            # Another process may have drawn the same writer id, but no record comes twice.
            return None if self._first_links.get(link.writer) == link else INITIAL_HASH
        # The first record seen of a writer may follow those that retention removed.
        end = (
            self._checkpoints.removed_ends.get((link.writer, link.seq - 1))
            if last is None
            else None
        )
        return None if end is None else end.encode()

    def _accept(self, line: bytes, link: Link) -> None:
        if link.seq == 1 or link.writer not in self.links:
            self._first_links[link.writer] = link
            self._counts[link.writer] = 0
            self.first_lines[link.writer] = line
        self.last_lines[link.writer] = line
        self.links[link.writer] = link
        self._counts[link.writer] += 1
        self.records += 1
        self.newest = link
        self.since = self.since or line[_MOMENT]
        self.until = line[_MOMENT]

    def _accept_unlinked(self, line: bytes) -> None:
        """Note a line without a link: torn, older than the chain, or foreign."""
        if not line.strip():
            return
        if not _has_record(line):
            self.torn_line_count += 1
        elif not self.links and not self._checkpoints.removed:
            self.unlinked_count += 1
        elif self._unlinked_fault is None:
            self._totals_before_unlinked = self.totals()
            self._unlinked_fault = self._make_fault(
                "inserted", "this line belongs to no chain: Anyport did not write it"
            )

    def _misplaced_fault(self, link: Link) -> ChainFault:
        expected = self.next_seq(link.writer)
        count = link.seq - expected
        if self._unlinked_fault is not None:
            if count != 1:
                return self._unlinked_fault
            text = f"record {expected} of writer {link.writer} was changed: its link is gone"
            return replace(
                self._unlinked_fault, kind="edited", text=text, writer=link.writer, seq=expected
            )
        if count <= 0:
            text = f"record {link.seq} of writer {link.writer} is there twice, or was inserted"
            return self._make_fault("inserted", text, link.writer, link.seq)
        self._missing_record = (link.writer, expected)
        which = f"record {expected}" if count == 1 else f"records {expected} to {link.seq - 1}"
        are = "is" if count == 1 else "are"
        text = f"{which} of writer {link.writer} {are} missing before this one"
        return self._make_fault("missing", text, link.writer, expected)

    def next_seq(self, writer: str) -> int:
        """Number of a writer's next record."""
        if writer in self.links:
            return self.links[writer].seq + 1
        span = self._checkpoints.spans.get(writer)
        return 1 if span is None else span.last + 1

    def _edited_fault(self, link: Link) -> ChainFault:
        text = f"record {link.seq} of writer {link.writer} was changed, or the one before it was"
        return self._unlinked_fault or self._make_fault("edited", text, link.writer, link.seq)

    def _rewritten_fault(self, link: Link) -> ChainFault:
        text = (
            f"record {link.seq} of writer {link.writer} is not the one that was signed: "
            "it, or one before it, was replaced and the chain rebuilt"
        )
        return self._unlinked_fault or self._make_fault("rewritten", text, link.writer, link.seq)

    def _look_for_missing(self, line: bytes) -> None:
        link = parse_link(line)
        if self.fault is not None and link is not None and link[:2] == self._missing_record:
            text = f"record {link.seq} of writer {link.writer} is further down"
            place = f"{self._file}, line {self._line}"
            self.fault = replace(self.fault, kind="out of order", text=f"{text}: {place}")
            self._missing_record = None

    def _make_fault(
        self, kind: ChainFaultKind, text: str, writer: str | None = None, seq: int | None = None
    ) -> ChainFault:
        return ChainFault(
            kind=kind, text=text, file=self._file, line=self._line, writer=writer, seq=seq
        )


class _SignedEvidence:
    """Signed statements about the journal, here and elsewhere."""

    def __init__(
        self, state_dir: Path, evidence: ExternalEvidence, raw: bytes | None, anchored: bytes | None
    ) -> None:
        self.faults: list[ChainFault] = []
        self.keys = self._trusted_keys(state_dir, evidence.key)
        self.state = self._read_statements(
            raw, HEADS_FILE, is_required=(state_dir / KEY_FILE).exists()
        )
        self.anchored = CheckpointState()
        if evidence.anchor is not None:
            # A new anchor is empty until the next head.
            is_required = self.state.anchored
            self.anchored = self._read_statements(
                anchored or None, "the anchor", is_required=is_required
            )
        self._is_signing_expected = bool(
            evidence.key or evidence.head or self.anchored.statement_count
        )
        self.external_hashes = dict(self.anchored.signed_hashes)
        """Records that are known from outside the state directory."""
        if evidence.head is not None:
            self.external_hashes[evidence.head.writer, evidence.head.seq] = (
                evidence.head.hash.decode()
            )
        for text in self.state.faults:
            self._add_fault("pruned", text, None)

    def find_missing(self, verifier: ChainVerifier) -> ChainFault | None:
        """A record that was signed, or seen, and is missing."""
        for (writer, seq), digest in verifier.unseen_hashes.items():
            link = Link(writer, seq, digest.encode())
            if self.state.is_removed(link) or self.anchored.is_removed(link):
                continue
            newest = max(number for name, number in verifier.unseen_hashes if name == writer)
            next_seq = verifier.next_seq(writer)
            extent = f"the journal has {next_seq - 1} of them" if next_seq > 1 else "none is there"
            kind: ChainFaultKind
            if (writer, seq) not in self.state.signed_hashes:
                kind, why = "restored", "it was cut, or an older copy was put in its place"
            elif next_seq == 1:
                kind, why = "chain missing", "the whole chain was removed"
            else:
                kind, why = "cut", "the end was cut off"
            text = f"writer {writer} is known to have written {newest} records, and {extent}: {why}"
            return ChainFault(kind=kind, text=text, writer=writer, seq=next_seq)
        return None

    def check_overdue(self, verifier: ChainVerifier, now: float) -> None:
        """If nothing at all is signed, check whether something should be."""
        if self.state.statement_count or any(fault.kind == "heads" for fault in self.faults):
            return
        if self._is_signing_expected:
            self._add_fault("heads", "signatures are expected, but there are none", HEADS_FILE)
            return
        why = why_overdue(verifier, now)
        if why is not None:
            self._add_fault(
                "heads", f"nothing is signed, although {why}: the heads were removed", HEADS_FILE
            )

    def _trusted_keys(self, state_dir: Path, key: str | None) -> Collection[str]:
        if key is not None:
            return {key}
        try:
            return trusted_keys(state_dir)
        except FileNotFoundError:
            return set()
        except DamagedKeys as error:
            self._add_fault("heads", f"the key cannot be trusted: {error}", KEY_FILE)
            return set()

    def _read_statements(
        self, raw: bytes | None, name: str, *, is_required: bool
    ) -> CheckpointState:
        if raw is None:
            if is_required:
                self._add_fault("heads", "the signed heads are missing", name)
            return CheckpointState()
        if raw and not self.keys:
            self._add_fault("heads", "there is no key to verify it with", name)
            return CheckpointState()
        state, fault = read_statements(raw, self.keys, must_be_complete=name == HEADS_FILE)
        if fault is not None:
            self._add_fault("heads", fault, name)
        return state

    def _add_fault(self, kind: ChainFaultKind, text: str, file: str | None) -> None:
        self.faults.append(ChainFault(kind=kind, text=text, file=file))


class _GatewayRecord(msgspec.Struct):
    """What a record says about its gateway."""

    timestamp: Annotated[datetime, msgspec.Meta(tz=True)]
    event_type: str


def why_overdue(verifier: ChainVerifier, now: float) -> str | None:
    """Why there should be a signed head; None if every gateway may have been too young for one.

    A gateway that was killed signed nothing at its end: then only the time that it wrote counts.
    """
    for writer, line in verifier.last_lines.items():
        try:
            first = msgspec.json.decode(verifier.first_lines[writer], type=_GatewayRecord)
            last = msgspec.json.decode(line, type=_GatewayRecord)
        except (msgspec.DecodeError, RecursionError):  # Not written by a gateway.
            continue
        until = last.timestamp.timestamp()
        if until - first.timestamp.timestamp() > FIRST_HEAD_SECONDS:
            return f"writer {writer} wrote for longer than signing takes"
        if last.event_type == "gateway.stopped" and now - until > LAST_HEAD_SECONDS:
            return f"writer {writer} stopped normally"
    return None


def claimed_spans(lines: Iterable[bytes]) -> list[ChainSpan]:
    """The records that some lines claim to contain, verified or not."""
    last: dict[str, Link] = {}
    counts: dict[str, int] = {}
    for line in lines:
        link = parse_link(line)
        if link is not None:
            last[link.writer] = link
            counts[link.writer] = counts.get(link.writer, 0) + 1
    return [_span(link, counts[writer]) for writer, link in last.items()]


def read_lines(
    file: FileIO, size: int = sys.maxsize, *, rest_seconds: float = 0.0
) -> Iterator[bytes]:
    """The lines in the first `size` bytes of a file, without their ends.

    In a thread beside an event loop, pause between reads, so that the loop gets its turn.
    """
    rest = b""
    while size > 0 and (chunk := file.read(min(size, CHUNK_BYTES))):
        size -= len(chunk)
        *lines, rest = (rest + chunk).split(b"\n")
        rest = rest[:LINE_BYTES_MAX]
        yield from lines
        if rest_seconds:
            time.sleep(rest_seconds)
    if rest:
        yield rest


def _span(last: Link, count: int) -> ChainSpan:
    return ChainSpan(last.writer, last.seq - count + 1, last.seq, last.hash.decode(), count)


def _has_record(line: bytes) -> bool:
    """Whether a reader of the journal would take a line for a record."""
    return _is_json(line) or ((at := line.rfind(_BEGINNING)) > 0 and _is_json(line[at:]))


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return False
    return True


def _read_if_present(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None

"""Checkpoints: signed statements about the journal, kept apart from it in `heads.jsonl` and an
anchor.

A hash chain does not show that its end was cut off; a signed statement elsewhere does. Three kinds
of statements are lines of `heads.jsonl`: a *head* says how far a chain went, a *tombstone* says
what was in a file that retention removed, and a *summary* replaces many of either. Statements are
numbered, and each contains the hash of the one before it, so that none can be removed unseen.

The anchor is a second copy, best where the gateway can append and nobody can delete. Several
processes may share both files. All of this may take long: call it in a thread.
"""

import errno
import fcntl
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from anyport.clock import Clock
from anyport.record.event import format_timestamp
from anyport.record.journal.fsync import sync_file
from anyport.record.journal.segments import make_private_directory, segments
from anyport.record.tamper.chain import HASH_DIGITS, INITIAL_HASH, Link
from anyport.record.tamper.keys import load_or_create_key, read_keys

HEADS_FILE: Final = "heads.jsonl"
KEY_FILE: Final = "head-key"

HEADS_BYTES_MAX: Final = 1024 * 1024
"""A longer file is summarised: some three thousand heads, which take a third of a second to
verify."""

SYNCED_SEGMENTS: Final = 2
"""Files that may contain the records of a new head: the active one may have just begun."""

_OPEN_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_SIGNATURE: Final = re.compile(rb',"signature":"([0-9a-f]{128})"\}')


class RecordRef(msgspec.Struct, frozen=True):
    """A record, by its place in a chain."""

    writer: str
    seq: int
    hash: str


class ChainSpan(msgspec.Struct, frozen=True):
    """Removed records of one chain, with the hash of the last one."""

    writer: str
    first: int
    last: int
    hash: str
    count: int


class SignedStatement(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True
):
    """Members of every statement."""

    number: int
    """From 1, in the order of the file."""
    previous: str
    """The hash of the previous statement."""
    time: str
    key: str
    """The public key that verifies the signature."""
    anchored: bool = False
    """Whether this statement, or one that it summarises, went to an anchor, too."""


class Head(SignedStatement, frozen=True, kw_only=True, tag="head", omit_defaults=True):
    """The journal has this record, and all before it in its chain."""

    writer: str
    seq: int
    hash: str


class Tombstone(SignedStatement, frozen=True, kw_only=True, tag="tombstone", omit_defaults=True):
    """A file of the journal was removed."""

    file: str
    bytes: int
    until: str
    """When the last record in it was recorded."""
    spans: tuple[ChainSpan, ...]
    fault: str | None = None
    """What was wrong with the file before it was removed."""


class Summary(SignedStatement, frozen=True, kw_only=True, tag="summary", omit_defaults=True):
    """What the statements before it said, as far as it still matters."""

    heads: tuple[RecordRef, ...]
    spans: tuple[ChainSpan, ...]
    removed: int
    """Number of removed records."""
    until: str
    faults: tuple[str, ...] = ()


Statement: TypeAlias = Head | Tombstone | Summary
_decoder: Final[msgspec.json.Decoder[Statement]] = msgspec.json.Decoder(Statement)


class CheckpointWriter:
    """Signs checkpoints for the journal below a state directory."""

    def __init__(
        self,
        state_dir: Path,
        *,
        anchor: Path | None,
        clock: Clock,
        syncs: bool = True,
    ) -> None:
        self._state_dir = state_dir
        self._path = state_dir / HEADS_FILE
        self._anchor = anchor
        self._clock = clock
        self._is_synced = syncs
        """Whether records are synced before they are signed, and the signature after."""

    def sign(self, link: Link) -> None:
        """Sign a head: the journal has a record, and all before it.

        Raises:
            DamagedKeys: the key cannot be trusted.
            OSError: a file cannot be written.
        """
        # First the records: a loss of power must not take them and leave their head.
        if self._is_synced:
            for path in segments(self._state_dir / "events")[-SYNCED_SEGMENTS:]:
                with suppress(FileNotFoundError):
                    _sync_path(path)
        self._append(Head, writer=link.writer, seq=link.seq, hash=link.hash.decode())

    def sign_removal(
        self, file: str, size: int, until: str, spans: Collection[ChainSpan], fault: str | None
    ) -> None:
        """Sign a tombstone for a file of the journal that is about to be removed.

        Raises:
            DamagedKeys: the key cannot be trusted.
            OSError: a file cannot be written.
        """
        fields = {
            "file": file,
            "bytes": size,
            "until": until,
            "spans": tuple(spans),
            "fault": fault,
        }
        self._append(Tombstone, **fields)

    def summarise(self, live_writers: Callable[[], Collection[str]]) -> None:
        """Replace a long file by a summary about the writers that still have records.

        Raises:
            DamagedKeys: the key cannot be trusted.
            OSError: the file cannot be written.
        """
        if not self._path.exists() or self._path.stat().st_size < HEADS_BYTES_MAX:
            return
        with self._lock():
            raw = self._path.read_bytes()
            known, fault = read_statements(raw, trusted_keys(self._state_dir))
            if fault is not None:  # The file is evidence and stays as it is.
                return
            heads, spans = known.limit_to_writers(live_writers())
            line = self._sign_statement(
                Summary,
                raw,
                anchored=known.anchored or self._anchor is not None,
                heads=heads,
                spans=spans,
                removed=known.removed,
                until=known.until,
                faults=tuple(known.faults),
            )
            scratch = self._path.with_suffix(".tmp")
            scratch.unlink(missing_ok=True)
            _append_line(scratch, line, syncs=self._is_synced)
            scratch.replace(self._path)
        self._append_to_anchor(line)

    def _append(self, kind: type[Statement], **fields: Any) -> None:
        with self._lock():
            raw, anchored = self._path.read_bytes(), self._anchor is not None
            line = self._sign_statement(kind, raw, anchored=anchored, **fields)
            _append_line(self._path, line, syncs=self._is_synced)
        self._append_to_anchor(line)

    def _sign_statement(self, kind: type[Statement], raw: bytes, **fields: Any) -> bytes:
        """A signed line that follows those of a file."""
        key = load_or_create_key(self._state_dir / KEY_FILE, self._clock.random_bytes)
        number, previous = find_last_statement(raw)
        statement = kind(
            number=number + 1,
            previous=previous,
            time=format_timestamp(self._clock.now()),
            key=public_key(key).hex(),
            **fields,
        )
        return encode_signed(statement, sign_text(key, signed_text(statement)))

    def _append_to_anchor(self, line: bytes) -> None:
        if self._anchor is not None:
            _append_line(self._anchor, line, syncs=self._is_synced)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Lock the checkpoints of this state directory, and make sure that the file exists.

        It must exist before the key does: a key without heads means that they were removed.
        """
        make_private_directory(self._state_dir)
        lock = os.open(
            self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.close(os.open(self._path, _OPEN_FLAGS, 0o600))
            yield
        finally:
            os.close(lock)


class CheckpointState:
    """What statements say about the journal, taken together."""

    def __init__(self) -> None:
        self.signed_hashes: dict[tuple[str, int], str] = {}
        """Hashes of signed records, by writer and number."""
        self.heads: dict[str, RecordRef] = {}
        """The last one of each writer."""
        self.spans: dict[str, ChainSpan] = {}
        """The last removed span of each writer."""
        self.removed_ends: dict[tuple[str, int], str] = {}
        """Hash of the last record of each removed span, by writer and number."""
        self.statement_count = 0
        self.anchored = False
        """Whether an anchor has some of the statements."""
        self.last_head: Head | None = None
        self.removed = 0
        self.until = ""
        self.faults: list[str] = []

    def add(self, statement: Statement) -> None:
        self.statement_count += 1
        self.anchored = self.anchored or statement.anchored
        match statement:
            case Head():
                self._add_head(RecordRef(statement.writer, statement.seq, statement.hash))
                self.last_head = statement
            case Tombstone():
                self._add_removed(statement.spans, statement.until)
                self.removed += sum(span.count for span in statement.spans)
                if statement.fault is not None:
                    self.faults.append(f"{statement.file}, removed since: {statement.fault}")
            case Summary():
                for mark in statement.heads:
                    self._add_head(mark)
                self._add_removed(statement.spans, statement.until)
                self.removed += statement.removed
                self.faults += statement.faults

    def is_removed(self, link: Link) -> bool:
        """Whether retention removed a record."""
        span = self.spans.get(link.writer)
        return span is not None and link.seq <= span.last

    def limit_to_writers(
        self, writers: Collection[str]
    ) -> tuple[tuple[RecordRef, ...], tuple[ChainSpan, ...]]:
        """The heads and spans of these writers."""
        heads = (mark for writer, mark in self.heads.items() if writer in writers)
        return tuple(heads), tuple(s for writer, s in self.spans.items() if writer in writers)

    def _add_head(self, head: RecordRef) -> None:
        self.signed_hashes[head.writer, head.seq] = head.hash
        self.heads[head.writer] = head

    def _add_removed(self, spans: Iterable[ChainSpan], until: str) -> None:
        for span in spans:
            self.spans[span.writer] = span
            self.removed_ends[span.writer, span.last] = span.hash
        self.until = max(self.until, until)


class BadStatement(Exception):
    """A line is not a trustworthy statement; the text says why."""


def trusted_keys(state_dir: Path) -> set[str]:
    """The public keys whose signatures are valid for a state directory.

    Raises:
        DamagedKeys: the key file cannot be trusted.
        OSError: it cannot be read.
    """
    return {public_key(key).hex() for key in read_keys(state_dir / KEY_FILE)}


def read_statements(
    raw: bytes, trusted: Collection[str], *, must_be_complete: bool = True
) -> tuple["CheckpointState", str | None]:
    """What the statements of a file say together, and what is wrong with the first bad one.

    With `must_be_complete=False`, for an anchor, gaps between statements are accepted.
    """
    state = CheckpointState()
    number, previous = 0, INITIAL_HASH.decode()
    # Torn lines are skipped: the numbers show if a complete statement is missing.
    for at, line in enumerate(raw.split(b"\n")[:-1], 1):
        if not _is_statement(line):
            continue
        try:
            statement = read_statement(line, trusted)
        except BadStatement as error:
            return state, f"line {at}: {error}"
        may_begin = not must_be_complete or (number == 0 and isinstance(statement, Summary))
        if not may_begin and (statement.number, statement.previous) != (number + 1, previous):
            return state, f"line {at}: it does not follow the statement before it: one is missing"
        state.add(statement)
        number, previous = statement.number, hash_statement(line)
    return state, None


def read_statement(line: bytes, trusted: Collection[str]) -> Statement:
    """The statement in a line, given without its end.

    Raises:
        BadStatement: the line is not a statement, or not signed with a trusted key.
    """
    signed = _SIGNATURE.fullmatch(line, max(line.rfind(b',"signature":"'), 0))
    try:
        statement = _decoder.decode(line)
    except (msgspec.DecodeError, RecursionError):
        raise BadStatement("this is not a signed statement") from None
    if signed is None:
        raise BadStatement("it has no signature")
    if statement.key not in trusted:
        raise BadStatement("it is signed with a key that does not belong to this journal")
    key, text = bytes.fromhex(statement.key), line[: signed.start()]
    if not is_signature_valid(key, text, bytes.fromhex(signed[1].decode())):
        raise BadStatement("its signature is invalid: it was changed, or made by somebody else")
    return statement


def find_last_statement(raw: bytes) -> tuple[int, str]:
    """Number and hash of the last statement in a file."""
    for line in reversed(raw.split(b"\n")[:-1]):
        with suppress(msgspec.DecodeError, RecursionError):
            return _decoder.decode(line).number, hash_statement(line)
    return 0, INITIAL_HASH.decode()


def encode_signed(statement: Statement, signature: bytes) -> bytes:
    """A statement as a signed line."""
    return b'%b,"signature":"%b"}\n' % (signed_text(statement), signature.hex().encode())


def signed_text(statement: Statement) -> bytes:
    """The signed part of a line: all but the signature and the closing brace."""
    return msgspec.json.encode(statement)[:-1]


def hash_statement(line: bytes) -> str:
    """Hash of a line, given without its end, for the next statement."""
    return sha256(line).hexdigest()[:HASH_DIGITS]


def _is_statement(line: bytes) -> bool:
    try:
        _decoder.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _append_line(path: Path, line: bytes, *, syncs: bool) -> None:
    fd = os.open(path, _OPEN_FLAGS, 0o600)
    try:
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":  # Close a torn line first.
            line = b"\n" + line
        if os.write(fd, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if syncs:
            sync_file(fd)
    finally:
        os.close(fd)


def _sync_path(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync_file(fd)
    finally:
        os.close(fd)


# Ed25519 (RFC 8032). `cryptography` costs nine megabytes and some milliseconds, so the first
# signature imports it, in the thread that signs, and not the start of the gateway.


def public_key(key: bytes) -> bytes:
    """The public key of a private key of 32 bytes."""
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415

    return ed25519.Ed25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw()


def sign_text(key: bytes, text: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415

    return ed25519.Ed25519PrivateKey.from_private_bytes(key).sign(text)


def is_signature_valid(raw_public_key: bytes, text: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415

    try:
        ed25519.Ed25519PublicKey.from_public_bytes(raw_public_key).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True

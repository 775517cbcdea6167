"""The journal: every event is one line, linked to the line before it, appended to a file.

`record` only queues an event; `flush` writes the queue with one system call. Whoever answers
clients calls `flush` before it releases the answers of a turn of the event loop, so that `kill -9`
loses no event whose answer a client has seen. Several processes can append to the same files, each
with a hash chain of its own.

A journal that cannot be written never fails a caller of `record`: `JournalWriter` keeps or counts
the lines.
"""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from anyport.record.event import (
    SCHEMA_VERSION,
    EventRecord,
    EventType,
    Metadata,
    MetadataValue,
    Status,
    encode_event,
    format_timestamp,
)
from anyport.record.journal.writer import Gap, JournalWriter
from anyport.record.tamper.chain import WRITER_BYTES, Link

REDACTED_CHARS_MAX: Final = 64 * 1024
"""Of one text; far less of it is kept."""

REMEMBERED_CHARS_MAX: Final = 128
REMEMBERED_TEXTS_MAX: Final = 2048
"""Texts whose redacted form is cached: the same servers and tools come with every call."""

LISTENERS_MAX: Final = 64
"""Each costs a call per event."""

DISTRUSTED_MESSAGE: Final = (
    "The disk did not keep what was written: a file of the journal may lack its last records, "
    "and a new one was begun"
)

_UNREDACTED_KEYS: Final = frozenset(
    {"span_id", "parent_span_id", "params_hash", "result_hash", "hash", "payload_file"}
)
"""Generated ids and hashes: they cannot contain secrets, and caching them is useless."""

Listener: TypeAlias = Callable[[bytes], None]
"""Gets an event as a line of JSON. It must be quick; after an exception it is not called again."""


class Journal:
    """Appends events to `events/YYYY-MM/events.jsonl` below a directory."""

    def __init__(  # noqa: PLR0913 - where, who and when, nearly all by name
        self,
        directory: Path,
        *,
        source: str,
        now: Callable[[], float],
        redact: Callable[[str], str],
        on_pending: Callable[[], None] | None = None,
        writer: str | None = None,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        self.directory = directory
        self._source = source
        self._wall_seconds = now
        self._redact = redact
        self._on_pending = on_pending
        self._is_pending_notified = False
        self._listeners: list[Listener] = []
        self._redacted_texts: dict[str, str] = {}
        self._second = -1
        self._second_text = ""
        self._deferred: Callable[[], None] | None = None
        """Records what has happened but was not turned into events yet."""
        self.writer = writer or os.urandom(WRITER_BYTES).hex()
        """Id of this process's chain."""
        self.file_writer = JournalWriter(
            directory,
            self.writer,
            now=now,
            monotonic=monotonic or time.monotonic,
            gap_line=self._gap_line,
        )
        self.on_failure = "degrade"
        """Policy for calls while the journal cannot be written; `DurabilityGate` applies it."""
        self.sync = "batch"
        """Policy for syncing; applied there, too."""
        self.troubles: dict[str, str] = {}
        """What else of the record is broken, and why: a sentence by subject."""
        self.on_trouble: Callable[[str], None] = lambda _: None
        """Called once for each of these sentences, perhaps in another thread."""

    @property
    def last_error(self) -> str | None:
        """Why the journal cannot be written, as a sentence; None while it can."""
        return self.file_writer.last_error

    @property
    def is_blocking(self) -> bool:
        """Whether calls are refused because the journal cannot be written."""
        return self.on_failure == "block" and self.file_writer.last_error is not None

    def set_trouble(self, subject: str, trouble: str | None) -> None:
        """Set or clear what is broken about one part of the record."""
        if trouble is None:
            self.troubles.pop(subject, None)
        elif self.troubles.get(subject) != trouble:
            self.troubles[subject] = trouble
            self.on_trouble(trouble)

    @property
    def lost_count(self) -> int:
        """Events that never reached a file."""
        return self.file_writer.lost_count

    @property
    def head(self) -> Link | None:
        """The link of the last record in the file; None before the first."""
        return self.file_writer.head

    def record(  # noqa: PLR0913 - the fields of an event, nearly all by name
        self,
        event_type: EventType,
        status: Status,
        *,
        trace_id: str,
        metadata: Metadata,
        duration_ms: float | None = None,
        error_code: int | str | None = None,
        error_message: str | None = None,
    ) -> None:
        """Queue an event for the next `flush`."""
        line = encode_event(
            EventRecord(
                timestamp=self._now(),
                trace_id=trace_id,
                status=status,
                schema_version=SCHEMA_VERSION,
                event_type=event_type,
                source=self._source,
                metadata=self._redact_metadata(metadata),
                duration_ms=None if duration_ms is None else round(duration_ms, 3),
                error_code=error_code,
                error_message=None if error_message is None else self._redact_text(error_message),
            )
        )
        self._enqueue(line, trace_id)

    def _enqueue(self, line: bytes, trace_id: str) -> None:
        self._run_deferred()
        if self.file_writer.is_full:
            self.file_writer.count_lost(self._now(), trace_id)
        else:
            self.file_writer.put([line + b"\n"])
        if self._listeners:
            self._notify_listeners(line)
        self._notify_pending()

    def _notify_pending(self) -> None:
        if not self._is_pending_notified and self._on_pending is not None:
            self._is_pending_notified = True
            self._on_pending()

    def encode_template(self, event_type: EventType, metadata: Metadata, last_member: str) -> bytes:
        """Encode a template for a frequent event.

        It leaves open time, trace id, span id, the integer `last_member` and the duration.
        """
        moment = "0000-00-00T00:00:00"
        sample = encode_event(
            EventRecord(
                timestamp=moment,
                trace_id="",
                status="success",
                schema_version=SCHEMA_VERSION,
                event_type=event_type,
                source=self._source,
                metadata={"span_id": "", **self._redact_metadata(metadata), last_member: 0},
                duration_ms=0.0,
            )
        )
        line = sample.decode().replace("%", "%%").replace(moment, "%b", 1)
        line = line.replace('"trace_id":""', '"trace_id":"%b"', 1)
        line = line.replace('"span_id":""', '"span_id":"%b"', 1)
        head, _, _ = line.rpartition(f'"{last_member}":0}}')
        return f'{head}"{last_member}":%d}},"duration_ms":%.3f}}\n'.encode()

    def timestamp(self) -> bytes:
        """The current time in the form of events."""
        return self._now().encode()

    def append_encoded(self, lines: list[bytes]) -> None:
        """Queue events that were encoded with a template, each with its line end."""
        self._run_deferred()
        if self._listeners or self.file_writer.is_full:
            for line in lines:
                self._enqueue(line[:-1], line.partition(b'"trace_id":"')[2][:32].decode())
            return
        self.file_writer.put(lines)
        self._notify_pending()

    def defer(self, record_deferred: Callable[[], None]) -> None:
        """Have `record_deferred` called before the next event, or at the next flush.

        Batching saves work on the fast path; calling it first keeps the events in order.
        """
        if self._listeners:
            record_deferred()
            return
        if self._deferred is not None and self._deferred != record_deferred:
            self._run_deferred()  # Another recorder has events of this turn.
        self._deferred = record_deferred
        self._notify_pending()

    def _run_deferred(self) -> None:
        record_deferred, self._deferred = self._deferred, None
        if record_deferred is not None:
            record_deferred()

    def flush(self) -> None:
        """Write the queue. A failure shows in `last_error`, and the next flush tries again."""
        self._is_pending_notified = False
        self._run_deferred()
        self.file_writer.flush()

    def close(self) -> None:
        """Write what can be written, and close the file."""
        self._run_deferred()
        self.file_writer.close()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call a listener for every event from now on; returns a function that unsubscribes it.

        Raises:
            ValueError: there are too many listeners.
        """
        if len(self._listeners) >= LISTENERS_MAX:
            raise ValueError(f"Too many listeners follow the events: {LISTENERS_MAX} is the limit")
        self._listeners.append(listener)
        return lambda: self._unsubscribe(listener)

    def _gap_line(self, gap: Gap) -> bytes:
        event = EventRecord(
            timestamp=self._now(),
            trace_id=gap.trace_id,
            status="failure",
            schema_version=SCHEMA_VERSION,
            event_type="gateway.journal_gap",
            source=self._source,
            metadata={"lost": gap.lost, "first_lost": gap.first_lost},
            error_message=gap.reason,
        )
        return encode_event(event) + b"\n"

    def _redact_metadata(self, metadata: Metadata) -> Metadata:
        redacted: dict[str, MetadataValue] = {}
        for key, value in metadata.items():
            if isinstance(value, str):
                text = self._redacted_texts.get(value)
                if text is None:
                    text = value if key in _UNREDACTED_KEYS else self._redact_text(value)
                redacted[key] = text
            elif isinstance(value, Sequence):
                redacted[key] = [self._redact_text(item) for item in value]
            else:
                redacted[key] = value
        return redacted

    def _redact_text(self, text: str) -> str:
        redacted = self._redact(text[:REDACTED_CHARS_MAX])
        if len(text) <= REMEMBERED_CHARS_MAX:
            if len(self._redacted_texts) >= REMEMBERED_TEXTS_MAX:
                self._redacted_texts.clear()
            self._redacted_texts[text] = redacted
        return redacted

    def _now(self) -> str:
        at = self._wall_seconds()
        second = int(at)
        if second != self._second:
            self._begin_second(second)
        return "%s.%06d+00:00" % (self._second_text, (at - second) * 1_000_000)  # noqa: UP031 - faster

    def _begin_second(self, second: int) -> None:
        """Format the date once a second: it costs more than the rest of an event."""
        self._second = second
        self._second_text = format_timestamp(second)[:19]

    def _notify_listeners(self, line: bytes) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(line)
            except Exception:  # noqa: BLE001 - a listener's fault must not become the caller's
                self._unsubscribe(listener)

    def _unsubscribe(self, listener: Listener) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

"""The journal: every event as one line, linked to the one before it, appended to a file.

`note` only remembers; `flush` writes everything noted with one system call. Whoever answers
clients calls `flush` before it lets the answers of the same turn of the loop go: then no kill of
the process can lose an event whose answer was seen. Several processes may share the files, each
with a chain of its own.

A journal that cannot be written never stops whoever notes something; how its lines get to the file
is the `outflow`'s business. It knows nothing of queries: see the index for those.
"""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from anyport.record.chain import WRITER_BYTES, Link
from anyport.record.event import (
    SCHEMA_VERSION,
    Event,
    EventType,
    Metadata,
    MetadataValue,
    Status,
    encode_event,
    timestamp,
)
from anyport.record.outflow import Gap, Outflow

REDACTED_CHARS_MAX: Final = 64 * 1024
"""No more of a text is searched for secrets; far less of it is kept."""

REMEMBERED_CHARS_MAX: Final = 128
REMEMBERED_TEXTS_MAX: Final = 2048
"""Names of servers and tools come again with every call; what redaction said is remembered."""

LISTENERS_MAX: Final = 64
"""Each costs a call for each event."""

_OWN_WORDS: Final = frozenset(
    {"span_id", "parent_span_id", "params_hash", "result_hash", "hash", "payload_file"}
)
"""Drawn by us or made of digits: they carry no one's text, and are new in every call."""

Listener: TypeAlias = Callable[[bytes], None]
"""Gets one event as a line of JSON. Must be quick; one that raises is not called again."""


class Journal:
    """Appends events to `events/YYYY-MM/events.jsonl` below a directory."""

    def __init__(  # noqa: PLR0913 - where, who and when, nearly all by name
        self,
        directory: Path,
        *,
        source: str,
        clock: Callable[[], float],
        redact: Callable[[str], str],
        on_pending: Callable[[], None] | None = None,
        writer: str | None = None,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory = directory
        self._source = source
        self._clock = clock
        self._redact = redact
        self._on_pending = on_pending
        self._announced = False
        self._listeners: list[Listener] = []
        self._remembered: dict[str, str] = {}
        self._second = -1
        self._second_text = ""
        self._expected: Callable[[], None] | None = None
        """How to get what has happened and was not noted yet."""
        self.writer = writer or os.urandom(WRITER_BYTES).hex()
        """The name of its chain."""
        self.outflow = Outflow(
            directory, self.writer, clock=clock, timer=timer, gap_line=self._gap_line
        )
        self.on_failure = "degrade"
        """What becomes of calls while it cannot be written, for those who ask."""
        self.troubles: dict[str, str] = {}
        """What else of the record does not work, and why, each as a sentence."""
        self.on_trouble: Callable[[str], None] = lambda _: None
        """Told of each of those once; perhaps in another thread."""

    @property
    def last_error(self) -> str | None:
        """Why the journal cannot be written now, as a sentence; None while it can."""
        return self.outflow.last_error

    @property
    def blocking(self) -> bool:
        """Whether calls are refused now."""
        return self.on_failure == "block" and self.outflow.last_error is not None

    def complain(self, about: str, trouble: str | None) -> None:
        """Say what does not work, or that it does again."""
        if trouble is None:
            self.troubles.pop(about, None)
        elif self.troubles.get(about) != trouble:
            self.troubles[about] = trouble
            self.on_trouble(trouble)

    @property
    def lost_count(self) -> int:
        """Events that never reached the file, in all."""
        return self.outflow.lost_count

    @property
    def head(self) -> Link | None:
        """The place of the last record that is in the file; None before the first."""
        return self.outflow.head

    def note(  # noqa: PLR0913 - the fields of an event, nearly all by name
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
        """Remember an event until the next `flush`."""
        line = encode_event(
            Event(
                timestamp=self._now(),
                trace_id=trace_id,
                status=status,
                schema_version=SCHEMA_VERSION,
                event_type=event_type,
                source=self._source,
                metadata=self._redacted(metadata),
                duration_ms=None if duration_ms is None else round(duration_ms, 3),
                error_code=error_code,
                error_message=None if error_message is None else self._shown(error_message),
            )
        )
        self._keep(line, trace_id)

    def _keep(self, line: bytes, trace_id: str) -> None:
        self._settle()
        if self.outflow.full:
            self.outflow.lose(self._now(), trace_id)
        else:
            self.outflow.put([line + b"\n"])
        if self._listeners:
            self._tell(line)
        self._announce()

    def _announce(self) -> None:
        if not self._announced and self._on_pending is not None:
            self._announced = True
            self._on_pending()

    def prepare(self, event_type: EventType, metadata: Metadata, last: str) -> bytes:
        """An event that will be noted often: all but when, trace, span, `last`, milliseconds."""
        moment = "0000-00-00T00:00:00"
        sample = encode_event(
            Event(
                timestamp=moment,
                trace_id="",
                status="success",
                schema_version=SCHEMA_VERSION,
                event_type=event_type,
                source=self._source,
                metadata={"span_id": "", **self._redacted(metadata), last: 0},
                duration_ms=0.0,
            )
        )
        line = sample.decode().replace("%", "%%").replace(moment, "%b", 1)
        line = line.replace('"trace_id":""', '"trace_id":"%b"', 1)
        line = line.replace('"span_id":""', '"span_id":"%b"', 1)
        head, _, _ = line.rpartition(f'"{last}":0}}')
        return f'{head}"{last}":%d}},"duration_ms":%.3f}}\n'.encode()

    def moment(self) -> bytes:
        """Now, as events tell it."""
        return self._now().encode()

    def take(self, lines: list[bytes]) -> None:
        """Remember events that were prepared, each with its line end."""
        self._settle()
        if self._listeners or self.outflow.full:
            for line in lines:
                self._keep(line[:-1], line.partition(b'"trace_id":"')[2][:32].decode())
            return
        self.outflow.put(lines)
        self._announce()

    def expect(self, settle: Callable[[], None]) -> None:
        """Have somebody asked for what they have to note before all that is noted after it."""
        if self._listeners:
            settle()
            return
        if self._expected is not None and self._expected != settle:
            self._settle()  # Several may have something to note in one turn.
        self._expected = settle
        self._announce()

    def _settle(self) -> None:
        settle, self._expected = self._expected, None
        if settle is not None:
            settle()

    def flush(self) -> None:
        """Write all that was noted. A failure shows in `last_error`; the next flush tries again."""
        self._announced = False
        self._settle()
        self.outflow.flush()

    def close(self) -> None:
        """Write what can be written, and let go of the file."""
        self._settle()
        self.outflow.close()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Have a listener told of every event from now on; returns how to stop that.

        Raises:
            ValueError: there are too many already.
        """
        if len(self._listeners) >= LISTENERS_MAX:
            raise ValueError(f"Too many follow the events already: {LISTENERS_MAX} is the limit")
        self._listeners.append(listener)
        return lambda: self._forget(listener)

    def _gap_line(self, gap: Gap) -> bytes:
        event = Event(
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

    def _redacted(self, metadata: Metadata) -> Metadata:
        shown: dict[str, MetadataValue] = {}
        for key, value in metadata.items():
            if isinstance(value, str):
                text = self._remembered.get(value)
                if text is None:
                    text = value if key in _OWN_WORDS else self._shown(value)
                shown[key] = text
            elif isinstance(value, Sequence):
                shown[key] = [self._shown(item) for item in value]
            else:
                shown[key] = value
        return shown

    def _shown(self, text: str) -> str:
        redacted = self._redact(text[:REDACTED_CHARS_MAX])
        if len(text) <= REMEMBERED_CHARS_MAX:
            if len(self._remembered) >= REMEMBERED_TEXTS_MAX:
                self._remembered.clear()
            self._remembered[text] = redacted
        return redacted

    def _now(self) -> str:
        at = self._clock()
        second = int(at)
        if second != self._second:
            self._begin_second(second)
        return "%s.%06d+00:00" % (self._second_text, (at - second) * 1_000_000)  # noqa: UP031 - faster

    def _begin_second(self, second: int) -> None:
        """Making the date costs more than all the rest of an event, so it is made once."""
        self._second = second
        self._second_text = timestamp(second)[:19]

    def _tell(self, line: bytes) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(line)
            except Exception:  # noqa: BLE001 - a listener's fault must not become the caller's
                self._forget(listener)

    def _forget(self, listener: Listener) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

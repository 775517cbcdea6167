"""One ending in the journal for every exchange, and in the numbers; a start too if it takes long.

Names, sizes and times are noted here; what else of the traffic is recorded, the tap knows.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from anyport.config.schema import Capture
from anyport.gateway.context import Ids, join_trace
from anyport.gateway.metrics import Metrics, Series, error_type
from anyport.gateway.noting import (
    OK,
    Outcome,
    about,
    client_words,
    event_of,
    labels,
    network_of,
    outcome_of,
    sides,
    target_of,
)
from anyport.gateway.sluice import Sluice
from anyport.gateway.tap import Said, Tap, Trip, payload_place, subject_of
from anyport.protocol.exchange import Answered, Ending, Exchange, Session
from anyport.protocol.passage import Passage
from anyport.protocol.timeouts import Timeout
from anyport.record.event import EventType, MetadataValue, Status
from anyport.record.journal import Journal
from anyport.record.likeness import Likeness

ENDLESS: Final = frozenset({"subscriptions/listen"})
"""What ends only when somebody ends it: what happens in it is counted, and not kept until then."""
HABITS_MAX: Final = 256
"""Kinds of call that are remembered for one caller; who uses more tools than that pays for it."""


class Habit(msgspec.Struct, frozen=True, gc=False):
    """What noting a caller's call of one tool takes, worked out once."""

    prepared: bytes
    series: Series
    level: Capture
    """How much of it is recorded."""
    asked: Likeness
    """What its arguments look like, and its results."""
    answered: Likeness


_SIZE: Final = b'"result_bytes":%d}'
_FACTS: Final = (
    b'"result_bytes":%d,"params_bytes":%d,"sent_bytes":%d,"answer_bytes":%d,"server_ms":%.3f'
    b',"params_shape":"%b","params_hash":"%b","result_shape":"%b","result_hash":"%b"%b}'
)
"""What is recorded of a call in place of its size alone; the last place is for rarer things."""


class Ledger:
    """Notes calls and sessions."""

    def __init__(
        self,
        journal: Journal,
        clock: Callable[[], float],
        ids: Ids,
        metrics: Metrics,
        tap: Tap,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._ids = ids.draw
        self._metrics = metrics
        self._tap = tap
        journal.outflow.beside = tap.payloads
        self.sluice = Sluice(journal)
        self.share: float | None = None
        """Of the traces that begin here, how many are told to a collector; None without one."""
        self._passed: list[tuple[Habit, Trip, int, float, bytes, bytes]] = []
        """Calls that have their result and were not noted yet."""

    def mark(self, exchange: Exchange) -> None:
        """Give an exchange its time and a trace of its own."""
        exchange.started = self._clock()
        trace_id, span_id = self._ids()
        exchange.trace_id, exchange.span_id = trace_id.decode(), span_id.decode()
        if exchange.method.event is not None:
            exchange.hold = self.sluice.hold
        if self._tap.works:
            exchange.passage = passage = Passage(clock=self._clock, keeps=self._tap.keeps)
            exchange.on_end = self.over
            if exchange.method.name in ENDLESS:
                passage.kept_max = 0

    def identify(self, exchange: Exchange) -> None:
        """Give an exchange its place in a trace: the client's if it sent one, else a new one."""
        self.mark(exchange)
        join_trace(exchange, self.share)

    def timed_out(self, timeout: Timeout) -> None:
        """Count what took too long."""
        self._metrics.timed_out(timeout)

    def begin(self, exchange: Exchange, slug: str, native: str) -> None:
        """Note that a call has started and takes a while."""
        metadata = about(exchange, slug, native) | {"params_bytes": len(exchange.params)}
        self._note(exchange, "pending", metadata)

    def end(
        self,
        exchange: Exchange,
        slug: str,
        native: str,
        ending: Ending | None,
        waited: float | None,
    ) -> None:
        """Note how an exchange ended, and how much of its time its server took."""
        seconds = self._clock() - exchange.started
        outcome = outcome_of(exchange, ending)
        if outcome is OK and exchange.method.event is not None and not _is_marked(exchange):
            habit = self.habit(exchange, slug, native)
            figures = self._figures(habit.level, exchange, ending)
            if figures is not None:
                ids = exchange.trace_id.encode(), exchange.span_id.encode()
                places = (self._journal.moment(), *ids, *figures, seconds * 1000)
                self._journal.take([habit.prepared % places])
                habit.series.add(seconds, waited)
                return
        self._told(exchange, slug, native, (ending, outcome), seconds)
        if exchange.method.event is not None:
            error = error_type(outcome.status, outcome.code)
            self._metrics.called(labels(exchange, slug, native, error), seconds, waited)

    def over(self, exchange: Exchange, ending: Ending | None) -> None:
        """Note an exchange that nobody else has noted."""
        passage = exchange.passage
        slug = "" if passage is None else passage.server
        native = exchange.name if passage is None else passage.native or exchange.name
        native = native or target_of(exchange)
        called = exchange.method.event is not None
        if called or self._tap.level(exchange.caller.profile, slug) != "off":
            self.end(exchange, slug, native, ending, None)

    def _told(
        self,
        exchange: Exchange,
        slug: str,
        native: str,
        how: tuple[Ending | None, Outcome],
        seconds: float,
    ) -> None:
        """Note an exchange in full words: it failed, or there is more to tell than usual."""
        ending, outcome = how
        level = self._tap.level(exchange.caller.profile, slug)
        metadata = about(exchange, slug, native)
        if outcome.timeout:
            metadata["timeout"] = outcome.timeout
        if level != "off":
            metadata |= sides(exchange) | self._tap.facts(exchange, level)
            if outcome is not OK:
                metadata["outcome"] = outcome.outcome
            if level == "full":
                file = self._tap.keep(exchange, self._journal.moment())
                if file is not None:
                    metadata["payload_file"] = file
                    self._journal.expect(self._settle)
        elif isinstance(ending, Answered):
            metadata["result_bytes"] = _size(ending)
        else:
            metadata["params_bytes"] = len(exchange.params)
        milliseconds = seconds * 1000
        self._note(exchange, outcome.status, metadata, milliseconds, outcome)

    def _figures(
        self, level: Capture, exchange: Exchange, ending: Ending | None
    ) -> tuple[object, ...] | None:
        """What is recorded of a call in which nothing happened but question and answer."""
        passage = exchange.passage
        if level == "off":
            return (_size(ending),)
        if passage is None or passage.sent is None or passage.crossings:
            return None
        tap, subject, answer = self._tap, subject_of(exchange), passage.answer or b""
        more = b',"queue_ms":%.3f' % (passage.queued * 1000) if passage.queued else b""
        if level == "full":
            more += payload_place(tap.keep(exchange, self._journal.moment()))
            self._journal.expect(self._settle)
        return (
            *(len(passage.given or b""), len(exchange.params), len(passage.sent)),
            *(len(answer), passage.waited * 1000),
            *(tap.outline(subject), tap.digest(subject), tap.outline(answer), tap.digest(answer)),
            more,
        )

    def passed(
        self, habit: Habit, trip: Trip, size: int, waited: float, result: bytes, frame: bytes
    ) -> None:
        """Note, before the answer goes out, that a call of a known kind has its result."""
        passed = self._passed
        passed.append((habit, trip, size, waited, result, frame))
        if len(passed) == 1:
            self._journal.expect(self._settle)

    def _settle(self) -> None:
        """Note the calls that have passed since the last time, all as of now."""
        passed, self._passed = self._passed, []
        now, moment, ids, lines = self._clock(), self._journal.moment(), self._ids, []
        tap = self._tap
        digest = tap.digest
        for habit, trip, size, waited, result, frame in passed:
            seconds, (trace_id, span_id) = now - trip.started, ids()
            if habit.level == "off":
                line = habit.prepared % (moment, trace_id, span_id, size, seconds * 1000)
            else:
                arguments, params_bytes, sent_bytes = trip.asked()
                more = b""
                if habit.level == "full" or trip.passage is not None or trip.queued:
                    said = Said(arguments, result, frame, size, waited)
                    more = tap.more(habit.level, trip, (span_id, moment), said)
                line = habit.prepared % (
                    moment,
                    trace_id,
                    span_id,
                    size,
                    params_bytes,
                    sent_bytes,
                    len(result),
                    waited * 1000,
                    habit.asked.of(arguments),
                    digest(arguments),
                    habit.answered.of(result),
                    digest(result),
                    more,
                    seconds * 1000,
                )
            lines.append(line)
            habit.series.add(seconds, waited)
        tap.payloads.flush()
        self._journal.take(lines)

    def opened(self, session: Session, trace_id: str) -> None:
        """Note that a session starts or goes on, and whose it is."""
        metadata: dict[str, MetadataValue] = {
            "session": session.id,
            "profile": session.profile,
            "revision": session.revision.name,
            "transport": session.transport,
        }
        client = client_words(session.client)
        if client:
            metadata["client"] = client
        what: EventType = (
            "gateway.session_resumed" if session.resumed else "gateway.session_started"
        )
        self._journal.note(what, "success", trace_id=trace_id, metadata=metadata)
        self._metrics.opened(session.id)

    def closed(self, session: Session, trace_id: str, reason: str) -> None:
        """Note that a session has ended."""
        metadata = {"session": session.id, "profile": session.profile, "reason": reason}
        self._journal.note("gateway.session_ended", "success", trace_id=trace_id, metadata=metadata)
        revision, network = session.revision.name, network_of(session.transport)
        self._metrics.session_closed(session.id, session.profile, revision, network)

    def habit(self, exchange: Exchange, slug: str, native: str) -> Habit:
        """What noting a good ending of a call like this takes."""
        memory, passage = exchange.caller.memory, exchange.passage
        peer = None if passage is None else (passage.server_revision, passage.server_transport)
        key = (exchange.method.name, slug, native, exchange.name, peer)
        habit: Habit | None = memory.get(key)
        if habit is None:
            habit = self._habit(exchange, slug, native)
            if len(memory) < HABITS_MAX:
                memory[key] = habit
        return habit

    def _habit(self, exchange: Exchange, slug: str, native: str) -> Habit:
        level = self._tap.level(exchange.caller.profile, slug)
        metadata = about(exchange, slug, native)
        series = self._metrics.series(labels(exchange, slug, native, ""))
        asked, answered = Likeness(self._tap.looks), Likeness(self._tap.looks)
        if level == "off":
            return Habit(self._prepared(exchange, metadata), series, level, asked, answered)
        prepared = self._prepared(exchange, metadata | sides(exchange))
        head, _, tail = prepared.rpartition(_SIZE)
        return Habit(head + _FACTS + tail, series, level, asked, answered)

    def _prepared(self, exchange: Exchange, metadata: dict[str, MetadataValue]) -> bytes:
        return self._journal.prepare(event_of(exchange), metadata, "result_bytes")

    def _note(
        self,
        exchange: Exchange,
        status: Status,
        metadata: dict[str, MetadataValue],
        milliseconds: float | None = None,
        outcome: Outcome = OK,
    ) -> None:
        self._journal.note(
            event_of(exchange),
            status,
            trace_id=exchange.trace_id,
            metadata={"span_id": exchange.span_id, **metadata},
            duration_ms=milliseconds,
            error_code=outcome.code,
            error_message=outcome.words,
        )


def _size(ending: Ending | None) -> int:
    """Of a result."""
    return len(ending.result) if isinstance(ending, Answered) else 0


def _is_marked(exchange: Exchange) -> bool:
    """Whether there is something about it that others of its kind do not have."""
    return bool(exchange.parent_span_id) or exchange.reused or exchange.attempts > 1

"""One ending in the journal for every call, and in the numbers; a start too if it takes a while.

Names, sizes and times are noted; the values of arguments and results never are.
"""

from collections.abc import Callable
from typing import Final, cast

import msgspec

from anyport.gateway.metrics import Call, Metrics, Series, error_type
from anyport.protocol import meta
from anyport.protocol.errors import Situation, error_code
from anyport.protocol.exchange import Answered, Ending, Exchange, Failed, Refused, Session
from anyport.protocol.shape import read_shape
from anyport.record.event import EventType, MetadataValue, Status
from anyport.record.journal import Journal
from anyport.record.trace import RandomBytes, TraceContext, child_of, parse_traceparent
from anyport.wire import members

_SUBJECT: Final = {
    "gateway.tool_call": "tool",
    "gateway.resource_read": "uri",
    "gateway.prompt_get": "prompt",
}
CONTEXT: Final = (meta.TRACEPARENT, meta.TRACESTATE, meta.BAGGAGE)
CONTEXT_BYTES_MAX: Final = 8192
"""W3C Baggage asks nobody to carry more, and it would travel with every call."""
DRAWN_IDS: Final = 256
"""Ids are drawn so many at a time; one by one they would cost more than the rest of a note."""
HABITS_MAX: Final = 256
"""Kinds of call that are remembered for one caller; who uses more tools than that pays for it."""


class Habit(msgspec.Struct, frozen=True, gc=False):
    """What noting a caller's call of one tool takes, worked out once."""

    prepared: bytes
    series: Series


class Ledger:
    """Notes calls and sessions."""

    def __init__(
        self,
        journal: Journal,
        clock: Callable[[], float],
        random_bytes: RandomBytes,
        metrics: Metrics,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._random_bytes = random_bytes
        self._metrics = metrics
        self._drawn = b""
        """Hexadecimal chance; used up to a place."""
        self._at = 0
        self._passed: list[tuple[Habit, float, int, float]] = []
        """Calls that have their result and were not noted yet."""

    def mark(self, exchange: Exchange) -> None:
        """Give an exchange its time and a trace of its own."""
        exchange.started = self._clock()
        trace_id, span_id = self._ids()
        exchange.trace_id, exchange.span_id = trace_id.decode(), span_id.decode()

    def identify(self, exchange: Exchange) -> None:
        """Give an exchange its place in a trace: the client's if it sent one, else a new one."""
        self.mark(exchange)
        params = exchange.params
        # The third: a name may be written in escapes. Most requests have none of them.
        if b"trace" in params or b"baggage" in params or b"\\u" in params:
            self._join(exchange, _sent_context(exchange))

    def begin(self, exchange: Exchange, slug: str, native: str) -> None:
        """Note that a call has started and takes a while."""
        self._note(exchange, "pending", _about(exchange, slug, native, sized=True))

    def end(
        self, exchange: Exchange, slug: str, native: str, ending: Ending, waited: float | None
    ) -> None:
        """Note how a call ended, and how much of its time its server took."""
        seconds = self._clock() - exchange.started
        if not isinstance(ending, Answered):
            self._failed(exchange, slug, native, ending, (seconds, waited))
            return
        failed = (ending.shape or read_shape(ending.result)).failed
        if failed or exchange.parent_span_id or exchange.reused:
            self._answered(exchange, slug, native, ending, (seconds, waited))
            return
        habit = self.habit(exchange, slug, native)
        ids = exchange.trace_id.encode(), exchange.span_id.encode()
        size, moment = len(ending.result), self._journal.moment()
        self._journal.take([habit.prepared % (moment, *ids, size, seconds * 1000)])
        habit.series.add(seconds, waited)

    def passed(self, habit: Habit, started: float, size: int, waited: float) -> None:
        """Note, before the answer goes out, that a call of a known kind has its result."""
        passed = self._passed
        passed.append((habit, started, size, waited))
        if len(passed) == 1:
            self._journal.expect(self._settle)

    def _settle(self) -> None:
        """Note the calls that have passed since the last time, all as of now."""
        passed, self._passed = self._passed, []
        now, moment, ids, lines = self._clock(), self._journal.moment(), self._ids, []
        for habit, started, size, waited in passed:
            seconds = now - started
            lines.append(habit.prepared % (moment, *ids(), size, seconds * 1000))
            habit.series.add(seconds, waited)
        self._journal.take(lines)

    def cancelled(self, exchange: Exchange, slug: str, native: str) -> None:
        """Note that the client no longer wanted the answer."""
        seconds = self._clock() - exchange.started
        about = _about(exchange, slug, native, sized=True)
        self._note(exchange, "cancelled", about, milliseconds=seconds * 1000)
        self._metrics.called(_labels(exchange, slug, native, "cancelled"), seconds, None)

    def opened(self, session: Session, trace_id: str) -> None:
        """Note that a session starts, and whose it is."""
        metadata: dict[str, MetadataValue] = {
            "session": session.id,
            "profile": session.profile,
            "revision": session.revision.name,
            "transport": session.transport,
        }
        client = client_words(session.client)
        if client:
            metadata["client"] = client
        self._journal.note(
            "gateway.session_started", "success", trace_id=trace_id, metadata=metadata
        )
        self._metrics.opened(session.id)

    def closed(self, session: Session, trace_id: str, reason: str) -> None:
        """Note that a session has ended."""
        metadata = {"session": session.id, "profile": session.profile, "reason": reason}
        self._journal.note("gateway.session_ended", "success", trace_id=trace_id, metadata=metadata)
        revision, network = session.revision.name, network_of(session.transport)
        self._metrics.session_closed(session.id, session.profile, revision, network)

    def _ids(self) -> tuple[bytes, bytes]:
        """Of a new trace, and of a new span."""
        at = self._at
        if at >= len(self._drawn):
            self._drawn, at = self._draw(), 0
        self._at = at + 48
        return self._drawn[at : at + 32], self._drawn[at + 32 : at + 48]

    def _draw(self) -> bytes:
        while True:
            drawn = self._random_bytes(DRAWN_IDS * 24).hex().encode()
            if b"0" * 16 not in drawn:  # All zero means "no id".
                return drawn

    def _join(self, exchange: Exchange, sent: dict[str, str]) -> None:
        """Make an exchange part of the client's trace, and the server's work part of ours."""
        if not sent:
            return
        parent = parse_traceparent(sent.get(meta.TRACEPARENT, ""))
        if parent is not None:
            exchange.trace_id, exchange.parent_span_id = parent.trace_id, parent.span_id
        changes: dict[str, bytes | None] = {
            name: None for name, text in sent.items() if len(text.encode()) > CONTEXT_BYTES_MAX
        }
        if meta.TRACEPARENT in sent:
            # The server becomes the child of our span; what is no traceparent goes no further,
            # nor does what vendors noted along with it.
            ours = TraceContext(trace_id=exchange.trace_id, span_id=exchange.span_id)
            own = child_of(parent or ours, exchange.span_id).traceparent
            changes[meta.TRACEPARENT] = members.text(own)
            if parent is None:
                changes[meta.TRACESTATE] = None
        exchange.context = changes

    def habit(self, exchange: Exchange, slug: str, native: str) -> Habit:
        """What noting a good ending of a call like this takes."""
        memory = exchange.caller.memory
        habit = memory.get((slug, native, exchange.name))
        if habit is None:
            about = _about(exchange, slug, native, sized=False)
            event = cast(EventType, exchange.method.event)
            habit = Habit(
                self._journal.prepare(event, about, "result_bytes"),
                self._metrics.series(_labels(exchange, slug, native, "")),
            )
            if len(memory) < HABITS_MAX:
                memory[slug, native, exchange.name] = habit
        return cast(Habit, habit)

    def _answered(
        self,
        exchange: Exchange,
        slug: str,
        native: str,
        ending: Answered,
        times: tuple[float, float | None],
    ) -> None:
        failed = (ending.shape or read_shape(ending.result)).failed
        status: Status = "failure" if failed else "success"
        words = "the tool reported an error" if failed else None
        about = _about(exchange, slug, native, sized=False)
        about["result_bytes"] = len(ending.result)
        self._note(exchange, status, about, milliseconds=times[0] * 1000, words=words)
        self._metrics.called(_labels(exchange, slug, native, error_type(status, None)), *times)

    def _failed(
        self,
        exchange: Exchange,
        slug: str,
        native: str,
        ending: Refused | Failed,
        times: tuple[float, float | None],
    ) -> None:
        status: Status = "failure"
        match ending:
            case Refused(error):
                code = error_code(error)
                words = members.string(members.members(error).get("message")) or ""
            case Failed(fault):
                revision = exchange.caller.revision
                code, words = fault.code(revision), fault.words(revision)
                if fault.situation is Situation.TIMED_OUT:
                    status = "timeout"
        about = _about(exchange, slug, native, sized=True)
        self._note(exchange, status, about, milliseconds=times[0] * 1000, code=code, words=words)
        self._metrics.called(_labels(exchange, slug, native, error_type(status, code)), *times)

    def _note(
        self,
        exchange: Exchange,
        status: Status,
        about: dict[str, MetadataValue],
        *,
        milliseconds: float | None = None,
        code: int | None = None,
        words: str | None = None,
    ) -> None:
        self._journal.note(
            cast(EventType, exchange.method.event),
            status,
            trace_id=exchange.trace_id,
            metadata={"span_id": exchange.span_id, **about},
            duration_ms=milliseconds,
            error_code=code,
            error_message=words,
        )


class _Client(msgspec.Struct, frozen=True):
    """What of a `clientInfo` is worth noting."""

    name: str = ""
    version: str = ""


def client_words(raw: bytes | None) -> str:
    """Name and version of a client, from its raw `clientInfo`; empty if it tells neither."""
    try:
        client = msgspec.json.decode(raw or b"{}", type=_Client)
    except msgspec.DecodeError:  # Whoever it is, it is served.
        return ""
    return f"{client.name} {client.version}".strip()


def _about(exchange: Exchange, slug: str, native: str, *, sized: bool) -> dict[str, MetadataValue]:
    """What is noted of a call besides how it ended."""
    caller = exchange.caller
    metadata: dict[str, MetadataValue] = {"profile": caller.profile}
    if slug:  # Our own tools and unknown names are no server's.
        metadata["server"] = slug
    metadata[_SUBJECT[cast(str, exchange.method.event)]] = native
    if exchange.name and exchange.name != native:
        metadata["public_name"] = exchange.name
    if caller.session is not None:
        metadata["session"] = caller.session.id
    if exchange.parent_span_id:
        metadata["parent_span_id"] = exchange.parent_span_id
    if exchange.reused:
        metadata["cached"] = True
    if sized:
        metadata["params_bytes"] = len(exchange.params)
    return metadata


def _labels(exchange: Exchange, slug: str, native: str, error: str) -> Call:
    caller = exchange.caller
    tool = native if exchange.method.name == "tools/call" else ""
    revision, network = caller.revision.name, network_of(caller.transport)
    return (exchange.method.name, caller.profile, revision, network, slug, tool, error)


def network_of(transport: str) -> str:
    """The conventions' word for what carries a transport."""
    return "pipe" if transport == "stdio" else "tcp"


def _sent_context(exchange: Exchange) -> dict[str, str]:
    """What the client says of its trace; a member that is not text counts as an empty one."""
    raw = exchange.found.get("_meta")
    found = {} if raw is None else members.members(raw)
    return {name: members.string(found[name]) or "" for name in CONTEXT if name in found}
